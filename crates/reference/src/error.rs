//! Everything that can be wrong with an execution.

use etvk_vkgraph::{DType, ValueId};

/// Why the interpreter stopped.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A constant could not be read.
    #[error(transparent)]
    Constant(#[from] etvk_vkgraph::Error),
    /// Elements and sizes disagree.
    #[error("{dtype:?} tensor of sizes {dims:?} needs {expected} {unit}, found {found}")]
    Elements {
        /// Element type.
        dtype: DType,
        /// Sizes.
        dims: Vec<usize>,
        /// `elements` or `bytes`.
        unit: &'static str,
        /// Number the sizes need; saturated.
        expected: usize,
        /// Number given.
        found: usize,
    },
    /// Another number of inputs than the graph has.
    #[error("{found} inputs, expected {expected}")]
    InputCount {
        /// Inputs of the graph.
        expected: usize,
        /// Inputs given.
        found: usize,
    },
    /// An input does not fit the graph.
    #[error("input {slot}: {fault}")]
    Input {
        /// Place in the input list, from 0.
        slot: usize,
        /// What is wrong with it.
        fault: Fault,
    },
    /// A call failed.
    #[error("call {index} ({name}): {fault}")]
    Call {
        /// Place in execution order, from 0.
        index: usize,
        /// Operator name.
        name: String,
        /// What is wrong with it.
        fault: Fault,
    },
    /// An output has no value.
    #[error("output {slot}: {fault}")]
    Output {
        /// Place in the output list, from 0.
        slot: usize,
        /// What is wrong with it.
        fault: Fault,
    },
}

/// What is wrong with a call, an input or an output. `slot` counts the call's arguments from 0.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// No such operator.
    #[error("operator is not known")]
    Operator,
    /// The call has too few arguments.
    #[error("argument {slot} is missing, the call has {found}")]
    Missing {
        /// The argument.
        slot: usize,
        /// Number of arguments, outputs included.
        found: usize,
    },
    /// An argument of the wrong kind.
    #[error("argument {slot} is a {found}, expected {expected}")]
    Kind {
        /// The argument.
        slot: usize,
        /// Kinds accepted.
        expected: &'static str,
        /// Kind found.
        found: &'static str,
    },
    /// A value is read that nothing has written.
    #[error("value {id} is read before it is written")]
    Unset {
        /// The value.
        id: ValueId,
    },
    /// A tensor of the wrong rank.
    #[error("argument {slot} has rank {found}, expected {expected}")]
    Rank {
        /// The argument.
        slot: usize,
        /// Rank needed.
        expected: usize,
        /// Rank found.
        found: usize,
    },
    /// A tensor of the wrong sizes.
    #[error("argument {slot} has sizes {found:?}, expected {expected:?}")]
    Dims {
        /// The argument.
        slot: usize,
        /// Sizes needed.
        expected: Vec<usize>,
        /// Sizes found.
        found: Vec<usize>,
    },
    /// A tensor or list with too few elements.
    #[error("argument {slot} has {found} elements, expected at least {expected}")]
    Length {
        /// The argument.
        slot: usize,
        /// Number needed.
        expected: usize,
        /// Number found.
        found: usize,
    },
    /// Sizes that do not broadcast together.
    #[error("sizes {dims:?} do not broadcast together")]
    Broadcast {
        /// Sizes of every operand.
        dims: Vec<Vec<usize>>,
    },
    /// A dimension that the tensor lacks.
    #[error("argument {slot} names dimension {found} of {rank}")]
    Dimension {
        /// The argument.
        slot: usize,
        /// Dimension found.
        found: i64,
        /// Number of dimensions.
        rank: usize,
    },
    /// An index out of range.
    #[error("argument {slot} has index {found}, out of range for size {size}")]
    Index {
        /// The argument.
        slot: usize,
        /// Index found.
        found: i64,
        /// Size of the indexed dimension.
        size: usize,
    },
    /// Cache or table rows out of range.
    #[error("argument {slot}: start position {found} and {rows} rows do not fit in {capacity}")]
    StartPosition {
        /// The argument.
        slot: usize,
        /// Start position.
        found: i64,
        /// Rows from there.
        rows: usize,
        /// Rows there are.
        capacity: usize,
    },
    /// An argument whose value makes no sense.
    #[error("argument {slot} is {found}, expected {expected}")]
    Value {
        /// The argument.
        slot: usize,
        /// What is accepted.
        expected: &'static str,
        /// The value.
        found: String,
    },
    /// A result larger than the graph declares it.
    #[error("value {id} gets sizes {found:?}, declared are at most {bounds:?}")]
    Bounds {
        /// The value.
        id: ValueId,
        /// Declared sizes.
        bounds: Vec<u32>,
        /// Sizes found.
        found: Vec<usize>,
    },
    /// Too many elements.
    #[error("sizes {dims:?} are too large")]
    TooLarge {
        /// The sizes.
        dims: Vec<usize>,
    },
    /// Another number of results than the call has outputs.
    #[error("{found} outputs, expected {expected}")]
    Outputs {
        /// Results of the operator.
        expected: usize,
        /// Outputs of the call.
        found: usize,
    },
    /// Integer division by zero.
    #[error("integer division by zero")]
    DivisionByZero,
}
