//! A method that is ready to be executed.

use etvk_engine::{Counters, Timing};

use crate::delegate::Delegate;
use crate::error::{Error, KernelFault, Result};
use crate::frame::{Frame, Slot};
use crate::info::MethodInfo;
use crate::interpreter::Code;
use crate::value::Value;

/// A method with its constants and state on the device. It keeps its mutable buffers (KV caches) from one execution
/// to the next, for as long as it lives; two methods share none of them.
pub struct Method {
    pub(crate) info: MethodInfo,
    pub(crate) code: Code,
    pub(crate) frame: Frame,
    pub(crate) delegates: Vec<Delegate>,
    pub(crate) inputs: Vec<usize>,
    pub(crate) outputs: Vec<usize>,
}

impl std::fmt::Debug for Method {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Method({:?})", self.info)
    }
}

impl Method {
    /// What it takes and gives.
    #[must_use]
    pub fn info(&self) -> &MethodInfo {
        &self.info
    }

    /// What each delegate's executor did so far.
    #[must_use]
    pub fn counters(&self) -> Vec<Counters> {
        let own = |delegate: &Delegate| match delegate {
            Delegate::Own(executor) => Some(executor.counters()),
            Delegate::Foreign(_) => None,
        };
        self.delegates.iter().filter_map(own).collect()
    }

    /// GPU time of every dispatch of each delegate's last execution, one delegate after the other; empty unless the
    /// module was opened with [`ModuleOptions::timestamps`](crate::ModuleOptions::timestamps).
    ///
    /// # Errors
    /// [`Error::Delegate`] if the device fails.
    pub fn timings(&self) -> Result<Vec<Timing>> {
        let mut all = Vec::new();
        for (delegate, executor) in self.delegates.iter().enumerate() {
            if let Delegate::Own(executor) = executor {
                all.extend(executor.timings().map_err(|source| Error::Delegate { delegate, source })?);
            }
        }
        Ok(all)
    }

    /// Executes the method once.
    ///
    /// Inputs are of the kinds that [`info`](Self::info) gives. Tensors have its element types, and its sizes where they
    /// are not dynamic. A number may differ from the one that the program was exported with.
    ///
    /// # Errors
    /// [`Error::InputCount`], [`Error::Input`], [`Error::Instruction`] and [`Error::Delegate`] say what went wrong;
    /// [`Error::InstructionLimit`] ends a program that loops for ever.
    pub fn execute(&mut self, inputs: &[Value]) -> Result<Vec<Value>> {
        if inputs.len() != self.inputs.len() {
            let (expected, found) = (self.inputs.len(), inputs.len());
            return Err(Error::InputCount { method: self.info.name.clone(), expected, found });
        }
        for (index, (&id, value)) in self.inputs.iter().zip(inputs).enumerate() {
            set_input(&mut self.frame, index, id, value)?;
        }
        self.code.run(&mut self.frame, &mut self.delegates)?;
        let output = |(index, &id): (usize, &usize)| {
            self.frame.get(id).map_err(|source| Error::Output { index, source })
        };
        self.outputs.iter().enumerate().map(output).collect()
    }
}

fn set_input(frame: &mut Frame, index: usize, id: usize, value: &Value) -> Result<()> {
    let slot = match (frame.slot(id), value) {
        (Slot::Tensor(tensor), Value::Tensor(given)) => {
            if tensor.scalar_type != given.scalar_type() {
                let (expected, found) = (tensor.scalar_type.to_string(), given.scalar_type().to_string());
                return Err(Error::Input { index, what: "element type", expected, found });
            }
            return frame.write(index, id, given.sizes(), given.data()).map_err(|fault| sizes(index, &fault));
        }
        (Slot::Null, Value::None) => Slot::Null,
        (Slot::Int(_), Value::Int(value)) => Slot::Int(*value),
        (Slot::Double(_), Value::Double(value)) => Slot::Double(*value),
        (Slot::Bool(_), Value::Bool(value)) => Slot::Bool(*value),
        (Slot::String(_), Value::String(text)) => Slot::String(text.clone()),
        (slot, value) => {
            let (expected, found) = (slot.kind().to_owned(), value.kind().to_owned());
            return Err(Error::Input { index, what: "kind", expected, found });
        }
    };
    frame.set(id, slot);
    Ok(())
}

fn sizes(index: usize, fault: &KernelFault) -> Error {
    let (what, expected, found) = match fault {
        KernelFault::Shape { expected, found, .. } => ("sizes", expected.clone(), found.clone()),
        KernelFault::Capacity { capacity, found, .. } => {
            ("sizes", format!("at most {capacity} elements"), format!("{found:?}"))
        }
        fault => ("tensor", "one that can be written".to_owned(), fault.to_string()),
    };
    Error::Input { index, what, expected, found }
}
