//! Walks a graph.

use std::sync::Arc;

use etvk_vkgraph::{Call, DType, Graph, NamedData, Payload, Value, ValueId};

use crate::frame::{Frame, Held, within};
use crate::operators;
use crate::{Error, Fault, Tensor};

/// A delegate input or output.
#[derive(Clone, Debug, PartialEq)]
pub enum Arg {
    /// Of a tensor value.
    Tensor(Tensor),
    /// Of a symbolic integer.
    Int(i64),
}

/// Executes a graph, call by call, at the sizes of the current inputs.
///
/// Constants that calls mutate (caches) keep their contents from one execution to the next. Every value has
/// contents of its own, whatever constant bytes it shares with others.
#[derive(Clone, Debug)]
pub struct Interpreter {
    graph: Graph,
    held: Vec<Held>,
    /// Ids whose contents outlive an execution: constants, and what they are prepacked into.
    kept: Vec<bool>,
}

impl Interpreter {
    /// An interpreter with its own copy of the graph and of all constants.
    ///
    /// # Errors
    /// [`Error::Constant`] where a constant cannot be read.
    pub fn new(payload: &Payload<'_>, named: Option<&dyn NamedData>) -> Result<Self, Error> {
        let graph = payload.graph().clone();
        let mut held = vec![Held::Nothing; graph.values.len()];
        let mut kept = vec![false; graph.values.len()];
        for (index, value) in graph.values.iter().enumerate() {
            if let Value::Tensor(info) = value
                && info.constant.is_some()
            {
                let dims: Vec<usize> = info.dims.iter().map(|&dim| dim as usize).collect();
                let bytes = payload.tensor_constant(info, named)?;
                held[index] = Held::Tensor(Arc::new(Tensor::from_le_bytes(info.dtype, &dims, &bytes)?));
                kept[index] = true;
            }
        }
        for call in graph.calls.iter().filter(|call| call.name == operators::PREPACK) {
            if let Some(kept) = call.args.last().and_then(|id| kept.get_mut(id.index())) {
                *kept = true;
            }
        }
        Ok(Self { graph, held, kept })
    }

    /// The graph.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Replaces the contents of a constant, for all calls that read it.
    pub fn set_constant(&mut self, constant: ValueId, tensor: Tensor) {
        let prepacked =
            |call: &&Call| call.name == operators::PREPACK && call.args.first() == Some(&constant);
        let outputs = self.graph.calls.iter().filter(prepacked).filter_map(|call| call.args.last());
        let tensor = Arc::new(tensor);
        for id in outputs.chain([&constant]) {
            if let Some(held) = self.held.get_mut(id.index()) {
                *held = Held::Tensor(Arc::clone(&tensor));
            }
        }
    }

    /// Executes all calls. Inputs are one [`Arg`] for each of the graph's; tensors may be smaller than declared
    /// and of any element type. Outputs have the element types that the host sees.
    ///
    /// # Errors
    /// The first fault found. Caches written by earlier calls of the same execution stay written.
    pub fn execute(&mut self, inputs: &[Arg]) -> Result<Vec<Arg>, Error> {
        let Self { graph, held, kept } = self;
        if inputs.len() != graph.inputs.len() {
            return Err(Error::InputCount { expected: graph.inputs.len(), found: inputs.len() });
        }
        for (held, _) in held.iter_mut().zip(kept.iter()).filter(|(_, kept)| !**kept) {
            *held = Held::Nothing;
        }
        for (slot, (&id, arg)) in graph.inputs.iter().zip(inputs).enumerate() {
            let set = input(graph, slot, id, arg).map_err(|fault| Error::Input { slot, fault })?;
            held[id.index()] = set;
        }
        for (index, call) in graph.calls.iter().enumerate() {
            run(graph, call, held).map_err(|fault| Error::Call { index, name: call.name.clone(), fault })?;
        }
        let read = |(slot, &id): (usize, &ValueId)| {
            output(graph, held, id).map_err(|fault| Error::Output { slot, fault })
        };
        graph.outputs.iter().enumerate().map(read).collect()
    }
}

fn run(graph: &Graph, call: &Call, held: &mut [Held]) -> Result<(), Fault> {
    let function = operators::find(&call.name).ok_or(Fault::Operator)?;
    function(&mut Frame::new(graph, &call.args, held))
}

fn input(graph: &Graph, slot: usize, id: ValueId, arg: &Arg) -> Result<Held, Fault> {
    match (graph.value(id), arg) {
        (Some(Value::Tensor(info)), Arg::Tensor(tensor)) => {
            if !within(tensor.dims(), &info.dims) {
                let (bounds, found) = (info.dims.clone(), tensor.dims().to_vec());
                return Err(Fault::Bounds { id, bounds, found });
            }
            Ok(Held::Tensor(Arc::new(tensor.clone().to(info.dtype))))
        }
        (Some(Value::SymInt), Arg::Int(int)) => Ok(Held::Int(*int)),
        (Some(Value::SymInt), Arg::Tensor(tensor)) => match tensor.integers()[..] {
            [int] => Ok(Held::Int(int)),
            _ => Err(Fault::Dims { slot, expected: vec![1], found: tensor.dims().to_vec() }),
        },
        (Some(_), Arg::Int(_)) => Err(Fault::Kind { slot, expected: "Tensor", found: "Int" }),
        _ => Err(Fault::Unset { id }),
    }
}

fn output(graph: &Graph, held: &[Held], id: ValueId) -> Result<Arg, Fault> {
    match (held.get(id.index()), graph.tensor(id)) {
        (Some(Held::Tensor(tensor)), Some(info)) => {
            let tensor = Tensor::clone(tensor).to(info.staging_dtype);
            Ok(Arg::Tensor(if info.staging_dtype == DType::Float16 { tensor.halved() } else { tensor }))
        }
        (Some(Held::Int(int)), _) => Ok(Arg::Int(*int)),
        _ => Err(Fault::Unset { id }),
    }
}
