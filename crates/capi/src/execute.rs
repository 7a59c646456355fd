//! One execution: arguments in, the graph, outputs back.

use std::borrow::Cow;

use etvk::payload::{DType, Executor, Input, Mark, Phase, PortInfo};
use etvk::{DeviceError, EngineError};

use crate::abi::{EtvkArg, EtvkArgTag, EtvkDelegate, EtvkEvents, EtvkStatus};
use crate::device;
use crate::error::Error;
use crate::events::{COMPUTE, COPY_INPUTS, COPY_OUTPUTS, EXECUTE, Events, RESIZE};
use crate::fault::{self, Point};
use crate::handle::{self, Delegate};
use crate::tensor::{Tensor, Use, check_doubles, dtype, fits, refuse};

const TENSOR: u32 = EtvkArgTag::Tensor as u32;
const INT: u32 = EtvkArgTag::Int as u32;

/// # Safety
/// As `etvk_delegate_execute`.
pub(crate) unsafe fn execute(
    handle: *mut EtvkDelegate,
    args: *mut EtvkArg,
    count: usize,
    events: *const EtvkEvents,
) -> Result<(), Error> {
    handle::with(handle, |delegate, executor| {
        // SAFETY: as this function's.
        let mut call = Call { delegate, args, surplus: 0, events: unsafe { Events::new(events) } };
        let result = call.events.during(EXECUTE, || {
            call.surplus = call.check(executor, count)?;
            // SAFETY: as this function's, and there are as many arguments as ports.
            unsafe { call.run(executor) }
        });
        if let Err(Error::Execute(error)) = &result
            && matches!(**error, EngineError::Device(DeviceError::DeviceLost))
        {
            device::forget(&delegate.place);
        }
        result
    })
}

/// One execution and what it needs. Arguments stay behind a raw pointer, because the resize callback may write there.
#[derive(Clone, Copy)]
struct Call<'a> {
    delegate: &'a Delegate,
    args: *mut EtvkArg,
    /// Outputs, from the first on, without an argument: the new values of buffers.
    surplus: usize,
    events: Events,
}

/// An input as read: it owns what does not lie in row-major order in the caller's memory.
enum Given {
    Int(i64),
    Tensor { tensor: Tensor, sizes: Vec<u32> },
}

impl Call<'_> {
    /// Whether the number of arguments fits; returns for how many outputs there is none.
    fn check(&self, executor: &mut Executor, found: usize) -> Result<usize, Error> {
        let (inputs, outputs) = (self.delegate.inputs.len(), self.delegate.outputs.len());
        let surplus = (inputs + outputs).checked_sub(found).filter(|&surplus| surplus <= outputs);
        let surplus = surplus.ok_or(Error::ArgumentCount { inputs, outputs, found })?;
        if self.args.is_null() && found > 0 {
            return Err(Error::Null { what: "args" });
        }
        executor.carry(surplus).map_err(Error::execute)?;
        if surplus > 0 && handle::is_shared(self.delegate, executor, surplus) {
            return Err(Error::SharedBuffer);
        }
        Ok(surplus)
    }

    /// Place of an output among the arguments.
    fn place(&self, output: usize) -> usize {
        self.delegate.inputs.len() + output - self.surplus
    }

    /// The argument at `at`, as it is now.
    ///
    /// # Safety
    /// There is one.
    unsafe fn arg(&self, at: usize) -> EtvkArg {
        // SAFETY: as this function's.
        unsafe { self.args.add(at).read() }
    }

    /// # Safety
    /// There are as many arguments as ports but for the first outputs, as `etvk_delegate_execute` says they are.
    unsafe fn run(&self, executor: &mut Executor) -> Result<(), Error> {
        for index in self.surplus..self.delegate.outputs.len() {
            // SAFETY: as this function's.
            unsafe { self.check_output(index) }?;
        }
        fault::at(Point::Arguments)?;
        self.events.start(COPY_INPUTS);
        // SAFETY: as this function's.
        let given = (0..self.delegate.inputs.len()).map(|at| unsafe { self.input(at) });
        let given = given.collect::<Result<Vec<_>, _>>().inspect_err(|_| self.events.end(COPY_INPUTS))?;
        // SAFETY: as this function's: nobody writes to inputs during the call.
        let elements = given.iter().enumerate().map(|(at, given)| unsafe { given.elements(at) });
        let elements =
            elements.collect::<Result<Vec<_>, _>>().inspect_err(|_| self.events.end(COPY_INPUTS))?;
        let inputs: Vec<Input<'_>> = given.iter().zip(&elements).map(|(g, e)| g.input(e)).collect();
        let events = self.events;
        let observe = &mut |mark| match mark {
            // It started above, with what this crate does itself.
            Mark::Start(Phase::CopyInputs) => {}
            Mark::End(Phase::CopyInputs) => events.end(COPY_INPUTS),
            Mark::Start(Phase::Resize) => events.start(RESIZE),
            Mark::End(Phase::Resize) => events.end(RESIZE),
            Mark::Start(Phase::Compute) => events.start(COMPUTE),
            Mark::End(Phase::Compute) => events.end(COMPUTE),
        };
        let point = fault::at(Point::Execute).inspect_err(|_| self.events.end(COPY_INPUTS));
        point.and_then(|()| executor.execute_observed(&inputs, observe).map_err(Error::execute))?;
        if let Some(operators) = self.delegate.operators.as_ref().filter(|_| events.wants_dispatches()) {
            events.dispatches(&executor.timings().map_err(Error::execute)?, operators);
        }
        events.during(COPY_OUTPUTS, || {
            fault::at(Point::Outputs)?;
            for index in self.surplus..self.delegate.outputs.len() {
                // SAFETY: as this function's.
                unsafe { self.output(executor, index) }?;
            }
            Ok(())
        })
    }

    /// # Safety
    /// There is an argument `at`.
    unsafe fn input(&self, at: usize) -> Result<Given, Error> {
        // SAFETY: as this function's.
        let arg = unsafe { self.arg(at) };
        match arg.tag {
            INT => Ok(Given::Int(arg.int_value)),
            TENSOR => {
                // SAFETY: as `etvk_delegate_execute`.
                let tensor = unsafe { Tensor::read(at, &arg.tensor, Use::Input) }?;
                let sizes = tensor.sizes();
                Ok(Given::Tensor { tensor, sizes })
            }
            found => refuse(at, "tag", "TENSOR or INT", found.to_string()),
        }
    }

    /// Refuses an output that could never be written, before anything runs.
    ///
    /// # Safety
    /// There is such an argument.
    unsafe fn check_output(&self, index: usize) -> Result<(), Error> {
        let at = self.place(index);
        // SAFETY: as this function's.
        let arg = unsafe { self.arg(at) };
        match (arg.tag, &self.delegate.outputs[index]) {
            (INT, PortInfo::Int) => Ok(()),
            (TENSOR, PortInfo::Int) => match dtype(at, arg.tensor.scalar_type)? {
                DType::Int32 | DType::Int64 => Ok(()),
                found => refuse(at, "element type", "INT or LONG for an integer", format!("{found:?}")),
            },
            (TENSOR, PortInfo::Tensor { dtype: declared, .. }) => match dtype(at, arg.tensor.scalar_type)? {
                found if fits(found, *declared) => Ok(()),
                found => refuse(at, "element type", format!("{declared:?}"), format!("{found:?}")),
            },
            (found, PortInfo::Int) => refuse(at, "tag", "INT or TENSOR", found.to_string()),
            (found, _) => refuse(at, "tag", "TENSOR", found.to_string()),
        }
    }

    /// Writes an output.
    ///
    /// # Safety
    /// There is such an argument, as `etvk_delegate_execute` says it is.
    unsafe fn output(&self, executor: &Executor, index: usize) -> Result<(), Error> {
        let at = self.place(index);
        if matches!(self.delegate.outputs[index], PortInfo::Int) {
            let value = executor.output_int(index).map_err(Error::execute)?;
            // SAFETY: as this function's.
            return unsafe { self.output_int(at, value) };
        }
        let wanted = executor.output_sizes(index).map_err(Error::execute)?;
        // SAFETY: as this function's.
        unsafe { self.resize(at, wanted) }?;
        // SAFETY: as this function's.
        let mut tensor = unsafe { Tensor::read(at, &self.arg(at).tensor, Use::Output) }?;
        if tensor.sizes() != wanted {
            return refuse(at, "sizes", format!("{wanted:?}"), format!("{:?}", tensor.sizes()));
        }
        let dtype = tensor.dtype;
        // SAFETY: as this function's: no two outputs overlap, and nobody else uses them during the call.
        unsafe {
            tensor.write(|elements| executor.read_output(index, dtype, elements).map_err(Error::execute))
        }
    }

    /// # Safety
    /// As [`output`](Self::output).
    unsafe fn resize(&self, at: usize, wanted: &[u32]) -> Result<(), Error> {
        // SAFETY: as this function's.
        let arg = unsafe { self.arg(at) };
        let Some(resize) = arg.tensor.resize else { return Ok(()) };
        let Ok(sizes) = wanted.iter().map(|&size| i32::try_from(size)).collect::<Result<Vec<_>, _>>() else {
            return refuse(at, "sizes", "at most 31 bits", format!("{wanted:?}"));
        };
        // SAFETY: as this function's; a pointer into the argument, to which there is no reference.
        let status = unsafe {
            let tensor = &raw mut (*self.args.add(at)).tensor;
            resize(arg.tensor.resize_context, at, tensor, sizes.as_ptr(), sizes.len())
        };
        if status == EtvkStatus::Ok as u32 {
            return Ok(());
        }
        let what = format!(
            "argument {at}: resizing ({}) to {sizes:?}",
            match arg.tensor.dynamism {
                0 => "a static tensor",
                1 => "a tensor of bounded sizes",
                _ => "a tensor",
            }
        );
        Err(Error::Callback { what, found: status })
    }

    /// # Safety
    /// As [`output`](Self::output).
    unsafe fn output_int(&self, at: usize, value: i64) -> Result<(), Error> {
        // SAFETY: as this function's.
        let arg = unsafe { self.arg(at) };
        if arg.tag == INT {
            // SAFETY: as this function's.
            unsafe { (&raw mut (*self.args.add(at)).int_value).write(value) };
            return Ok(());
        }
        // SAFETY: as this function's.
        let mut tensor = unsafe { Tensor::read(at, &arg.tensor, Use::Output) }?;
        if tensor.layout.count() != Some(1) {
            return refuse(at, "sizes", "one element for an integer", format!("{:?}", tensor.layout.sizes));
        }
        let bytes = match tensor.dtype {
            DType::Int32 => {
                i32::try_from(value).map_err(|_| Error::IntRange { at, value })?.to_le_bytes().to_vec()
            }
            _ => value.to_le_bytes().to_vec(),
        };
        // SAFETY: as this function's: nobody else uses it during the call.
        unsafe {
            tensor.write(|out| {
                out.copy_from_slice(&bytes);
                Ok(())
            })
        }
    }
}

impl Given {
    /// # Safety
    /// Nothing writes to the tensor while the result is used.
    unsafe fn elements(&self, at: usize) -> Result<Cow<'_, [u8]>, Error> {
        let Self::Tensor { tensor, .. } = self else { return Ok(Cow::Borrowed(&[])) };
        // SAFETY: as this function's.
        let elements = unsafe { tensor.elements() };
        if tensor.dtype == DType::Float64 {
            check_doubles(at, &elements)?;
        }
        Ok(elements)
    }

    fn input<'a>(&'a self, elements: &'a [u8]) -> Input<'a> {
        match self {
            Self::Int(value) => Input::Int(*value),
            Self::Tensor { tensor, sizes } => Input::Tensor { dtype: tensor.dtype, sizes, data: elements },
        }
    }
}
