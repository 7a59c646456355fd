//! Calls of delegated parts: values of the frame in, outputs of the executor back.

use etvk_engine::{Executor, Input, PortInfo};
use etvk_pte::ScalarType;
use etvk_vkgraph::DType;

use crate::error::KernelFault;
use crate::foreign;
use crate::frame::{Frame, Slot, argument};
use crate::info::ValueInfo;
use crate::value::Value;

/// What executes a delegated part.
pub(crate) enum Delegate {
    Own(Box<Executor>),
    Foreign(Box<dyn foreign::Delegate>),
}

/// Why a call failed: a value of the program, or what executes it.
#[derive(Debug)]
pub(crate) enum CallFault {
    Value(KernelFault),
    Engine(etvk_engine::Error),
    Foreign(foreign::Fault),
}

impl From<KernelFault> for CallFault {
    fn from(fault: KernelFault) -> Self {
        Self::Value(fault)
    }
}

impl From<etvk_engine::Error> for CallFault {
    fn from(error: etvk_engine::Error) -> Self {
        Self::Engine(error)
    }
}

/// The element type as graphs know it; `None` for the types that never cross into a delegate.
pub(crate) fn dtype(scalar_type: ScalarType) -> Option<DType> {
    Some(match scalar_type {
        ScalarType::Bool => DType::Bool,
        ScalarType::UInt8 => DType::UInt8,
        ScalarType::Int8 => DType::Int8,
        ScalarType::Int32 => DType::Int32,
        ScalarType::Int64 => DType::Int64,
        ScalarType::Float16 => DType::Float16,
        ScalarType::Float32 => DType::Float32,
        ScalarType::Float64 => DType::Float64,
        _ => return None,
    })
}

fn known(scalar_type: ScalarType) -> Result<DType, KernelFault> {
    dtype(scalar_type).ok_or(KernelFault::ScalarType { what: "delegate argument", found: scalar_type })
}

/// Executes a delegate on the values `args`: its inputs, then its outputs.
pub(crate) fn call(delegate: &mut Delegate, frame: &mut Frame, args: &[usize]) -> Result<(), CallFault> {
    match delegate {
        Delegate::Own(executor) => call_own(executor, frame, args),
        Delegate::Foreign(delegate) => call_foreign(delegate.as_mut(), frame, args),
    }
}

fn call_foreign(
    delegate: &mut dyn foreign::Delegate,
    frame: &mut Frame,
    args: &[usize],
) -> Result<(), CallFault> {
    let (inputs, outputs) = args.split_at(delegate.inputs().min(args.len()));
    let values = inputs.iter().map(|&id| frame.get(id)).collect::<Result<Vec<Value>, _>>()?;
    let info = |&id: &usize| match frame.slot(id) {
        Slot::Tensor(tensor) => {
            ValueInfo::Tensor { scalar_type: tensor.scalar_type, sizes: tensor.sizes.clone(), dynamic: true }
        }
        Slot::Int(value) => ValueInfo::Int(*value),
        _ => ValueInfo::None,
    };
    let infos: Vec<ValueInfo> = outputs.iter().map(info).collect();
    let results = delegate.execute(&values, &infos).map_err(CallFault::Foreign)?;
    for (index, (&id, result)) in outputs.iter().zip(results).enumerate() {
        let at = inputs.len() + index;
        match result {
            Value::Tensor(tensor) => frame.write(at, id, tensor.sizes(), tensor.data())?,
            Value::Int(value) => put_int(frame, at, id, value)?,
            other => {
                let found = other.kind().to_owned();
                return Err(KernelFault::Argument { at, expected: "Int or Tensor", found }.into());
            }
        }
    }
    Ok(())
}

fn call_own(executor: &mut Executor, frame: &mut Frame, args: &[usize]) -> Result<(), CallFault> {
    let (inputs, outputs) = (executor.inputs().len(), executor.outputs().len());
    // The first outputs are new values of buffers if the call has no value for them.
    let surplus = (inputs + outputs).checked_sub(args.len()).filter(|&surplus| surplus <= outputs);
    let Some(surplus) = surplus else {
        return Err(KernelFault::ArgumentCount { expected: inputs + outputs, found: args.len() }.into());
    };
    executor.carry(surplus)?;
    execute(executor, frame, &args[..inputs])?;
    for (at, &id) in args.iter().enumerate().skip(inputs) {
        let index = surplus + at - inputs;
        match executor.outputs().get(index) {
            Some(PortInfo::Int) => put_int(frame, at, id, executor.output_int(index)?)?,
            _ => {
                let sizes: Vec<usize> =
                    executor.output_sizes(index)?.iter().map(|&size| size as usize).collect();
                let dtype = known(frame.tensor(at, id)?.scalar_type)?;
                frame.write_with(at, id, &sizes, |out| {
                    executor.read_output(index, dtype, out).map_err(CallFault::from)
                })?;
            }
        }
    }
    Ok(())
}

fn execute(executor: &mut Executor, frame: &Frame, args: &[usize]) -> Result<(), CallFault> {
    let mut tensors = Vec::with_capacity(args.len());
    for (at, &id) in args.iter().enumerate() {
        tensors.push(match frame.slot(id) {
            Slot::Tensor(tensor) => {
                let size = |&size: &usize| u32::try_from(size).map_err(|_| KernelFault::Overflow);
                let sizes = tensor.sizes.iter().map(size).collect::<Result<Vec<u32>, _>>()?;
                Some((known(tensor.scalar_type)?, sizes, frame.elements(at, id)?))
            }
            _ => None,
        });
    }
    let mut inputs = Vec::with_capacity(args.len());
    for (at, (&id, tensor)) in args.iter().zip(&tensors).enumerate() {
        inputs.push(match tensor {
            Some((dtype, sizes, data)) => Input::Tensor { dtype: *dtype, sizes, data },
            None => Input::Int(frame.int(at, id)?),
        });
    }
    executor.execute(&inputs)?;
    Ok(())
}

/// Writes an integer into an integer value, or into a tensor of one integer.
fn put_int(frame: &mut Frame, at: usize, id: usize, value: i64) -> Result<(), KernelFault> {
    match frame.slot(id) {
        Slot::Int(_) => frame.set(id, Slot::Int(value)),
        Slot::Tensor(tensor) => {
            let sizes = tensor.sizes.clone();
            let bytes = match tensor.scalar_type {
                ScalarType::Int64 => value.to_le_bytes().to_vec(),
                ScalarType::Int32 => {
                    i32::try_from(value).map_err(|_| KernelFault::Overflow)?.to_le_bytes().to_vec()
                }
                found => return Err(KernelFault::ScalarType { what: "integer output", found }),
            };
            frame.write_with(at, id, &sizes, |out| {
                let found = format!("{sizes:?}");
                let one =
                    KernelFault::Shape { what: "integer output", expected: "one element".to_owned(), found };
                if out.len() != bytes.len() {
                    return Err(one);
                }
                out.copy_from_slice(&bytes);
                Ok(())
            })?;
        }
        other => return Err(argument(at, "Int or Tensor", other)),
    }
    Ok(())
}
