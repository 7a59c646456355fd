//! Buffers that ordinary operators change. Unless exported with `alias_buffer_mutations`, the new value of such a buffer
//! leads the graph's outputs, and calls of the delegate have no value for it.
//!
//! Nothing in a payload names the buffer. Its old value is among the constants, because the exporter writes such an output
//! only for a buffer that the graph takes as well; and an assignment keeps type and sizes. So it is known if one constant
//! alone has them. How the new value is computed is no evidence: `a += x; b *= x` and the same two results exchanged, to
//! `b` and `a`, are one payload.

use std::fmt::Write as _;

use etvk_vkgraph::{Graph, TensorInfo, Value, ValueId};

use crate::lower::PREPACK;

/// How many outputs, from the first on, calls have no value for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surplus {
    /// So many.
    Known(usize),
    /// [`Executor::carry`](crate::Executor::carry) tells later.
    Unknown,
}

impl Default for Surplus {
    fn default() -> Self {
        Self::Known(0)
    }
}

/// An output that is the new value of a buffer, which cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "output {index} (value %{value}) is the new value of a buffer, but {fault}; export again with alias_buffer_mutations"
)]
pub struct BufferError {
    /// Which output.
    pub index: usize,
    /// Its value id.
    pub value: u32,
    /// Why it cannot be kept.
    pub fault: BufferFault,
}

/// Why the new value of a buffer cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BufferFault {
    /// It is no tensor.
    #[error("it is no tensor")]
    Kind,
    /// There is no constant like it.
    #[error("no constant has its type and sizes")]
    Missing,
    /// There are several constants like it.
    #[error("{} have its type and sizes, and nothing says which it is", list(.0))]
    Ambiguous(Vec<ValueId>),
    /// An earlier output is the new value of the one constant like it.
    #[error("the one constant of its type and sizes, {constant}, belongs to output {output}")]
    Taken {
        /// The constant's value.
        constant: ValueId,
        /// The output that it belongs to.
        output: usize,
    },
    /// Calls read the one constant like it in several forms, which would have to change together.
    #[error("calls read its constant {0} in several forms")]
    Forms(ValueId),
}

fn list(ids: &[ValueId]) -> String {
    ids.iter().enumerate().fold(String::new(), |mut text, (index, id)| {
        let separator = if index == 0 { "" } else { ", " };
        let _ = write!(text, "{separator}{id}");
        text
    })
}

/// A constant whose new value is an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replaced {
    /// The constant.
    pub(crate) constant: ValueId,
    /// The value that calls read it through: what it is prepacked into, or itself.
    pub(crate) read_as: ValueId,
}

/// The constants that the first `count` outputs replace; as many as can be told, and what is wrong with the next output.
pub(crate) fn replaced(graph: &Graph, count: usize) -> (Vec<Replaced>, Option<BufferError>) {
    let mut known = Vec::new();
    for (index, &output) in graph.outputs.iter().enumerate().take(count) {
        match replaced_by(graph, output, &known) {
            Ok(replaced) => known.push(replaced),
            Err(fault) => return (known, Some(BufferError { index, value: output.0, fault })),
        }
    }
    (known, None)
}

fn replaced_by(graph: &Graph, output: ValueId, known: &[Replaced]) -> Result<Replaced, BufferFault> {
    let new = graph.tensor(output).ok_or(BufferFault::Kind)?;
    let alike = |old: &TensorInfo| old.constant.is_some() && (old.dtype, &old.dims) == (new.dtype, &new.dims);
    let ids = (0..).map(ValueId).zip(&graph.values);
    let candidates: Vec<ValueId> = ids
        .filter(|(_, value)| matches!(value, Value::Tensor(old) if alike(old)))
        .map(|(id, _)| id)
        .collect();
    match candidates[..] {
        [] => Err(BufferFault::Missing),
        [constant] => match known.iter().position(|other| other.constant == constant) {
            Some(output) => Err(BufferFault::Taken { constant, output }),
            None => Ok(Replaced { constant, read_as: read_as(graph, constant)? }),
        },
        _ => Err(BufferFault::Ambiguous(candidates)),
    }
}

fn read_as(graph: &Graph, constant: ValueId) -> Result<ValueId, BufferFault> {
    let holds = |id: &ValueId| {
        *id == constant
            || matches!(graph.value(*id), Some(Value::ValueList(items)) if items.contains(&constant))
    };
    let mut through =
        graph.calls.iter().filter(|call| call.args.iter().any(holds)).map(|call| match call.args[..] {
            [_, packed] if call.name == PREPACK => packed,
            _ => constant,
        });
    let first = through.next().unwrap_or(constant);
    if through.all(|other| other == first) { Ok(first) } else { Err(BufferFault::Forms(constant)) }
}
