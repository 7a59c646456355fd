//! What can go wrong between a graph and its outputs.

use etvk_vkgraph::DType;

use crate::buffers::BufferError;

/// A fault of one call, found while lowering or when its shapes are worked out.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// No operator of this name is known.
    #[error("operator not known")]
    UnknownOperator,
    /// The call has another number of values than the operator takes.
    #[error("takes {expected} values with its output, found {found}")]
    Arity {
        /// What the operator takes.
        expected: &'static str,
        /// What the call has.
        found: usize,
    },
    /// An argument is of a kind the operator does not take.
    #[error("argument {slot}: expected {expected}, found {found}")]
    Kind {
        /// Position in the call.
        slot: usize,
        /// What the operator takes there.
        expected: &'static str,
        /// What is there.
        found: &'static str,
    },
    /// An argument names a value that no earlier call produced.
    #[error("argument {slot}: value %{value} is read before anything writes it")]
    Unwritten {
        /// Position in the call.
        slot: usize,
        /// The value's id.
        value: u32,
    },
    /// An argument is of the right kind but its value is not supported.
    #[error("argument {slot}: {what} = {found} is not supported, expected {expected}")]
    Argument {
        /// Position in the call.
        slot: usize,
        /// The argument's name.
        what: &'static str,
        /// What would be supported.
        expected: &'static str,
        /// Its value.
        found: String,
    },
    /// A tensor has an element type the operator does not take.
    #[error("{what}: {found:?} is not supported")]
    Dtype {
        /// Which tensor.
        what: &'static str,
        /// Its type.
        found: DType,
    },
    /// Sizes that do not fit each other.
    #[error("{what}: expected {expected}, found {found}")]
    Shape {
        /// Which sizes.
        what: &'static str,
        /// What the operator needs.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A size larger than the payload's upper bound.
    #[error("output of {found} elements exceeds its upper bound of {bound}")]
    Bound {
        /// The payload's bound.
        bound: u32,
        /// What the inputs lead to.
        found: u64,
    },
    /// An index or position out of range.
    #[error("{what} {found} is out of range, must be in {low}..={high}")]
    Range {
        /// Which number.
        what: &'static str,
        /// Lowest permitted.
        low: i64,
        /// Highest permitted.
        high: i64,
        /// What was given.
        found: i64,
    },
    /// A division of symbolic integers by zero.
    #[error("symbolic division by zero")]
    DivisionByZero,
    /// A symbolic integer left the 32-bit range.
    #[error("symbolic integer {0} does not fit in 32 bits")]
    SymOverflow(i64),
}

/// A fault and the call it belongs to.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("call {call} {name}: {fault}")]
pub struct CallFault {
    /// Index in the payload's chain.
    pub call: u32,
    /// The operator's serialised name.
    pub name: String,
    /// What is wrong.
    pub fault: Fault,
}

/// Every failure of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Calls that this engine does not run; all of them.
    #[error("{} call(s) cannot run: {}", .0.len(), list(.0))]
    Unsupported(Vec<CallFault>),
    /// A graph output that no call writes.
    #[error("output {index} (value %{value}): {reason}")]
    Output {
        /// Which output.
        index: usize,
        /// Its value id.
        value: u32,
        /// What is wrong.
        reason: &'static str,
    },
    /// The new value of a buffer, which cannot be kept.
    #[error(transparent)]
    Buffer(#[from] BufferError),
    /// Outputs that calls have no value for, another number than before.
    #[error("calls have no value for {found} outputs, had none for {expected} before")]
    Surplus {
        /// Before.
        expected: usize,
        /// Now.
        found: usize,
    },
    /// Shapes, positions or sizes that do not fit at execution.
    #[error(transparent)]
    Call(#[from] CallFault),
    /// The payload or one of its constants.
    #[error(transparent)]
    Payload(#[from] etvk_vkgraph::Error),
    /// The device.
    #[error(transparent)]
    Device(#[from] etvk_vulkan::Error),
    /// An input of the wrong number, kind, type or shape.
    #[error("input {index}: {what}: expected {expected}, found {found}")]
    Input {
        /// Which input.
        index: usize,
        /// What about it.
        what: &'static str,
        /// What the graph takes.
        expected: String,
        /// What was given.
        found: String,
    },
    /// A 64-bit input element that does not fit the 32-bit graph tensor.
    #[error("input {index}, element {element}: {value} does not fit in 32 bits")]
    InputRange {
        /// Which input.
        index: usize,
        /// Which element.
        element: usize,
        /// Its value.
        value: i64,
    },
    /// A 64-bit constant element that does not fit the 32-bit graph tensor.
    #[error("constant {constant}, element {element}: {value} does not fit in 32 bits")]
    ConstantRange {
        /// Which constant.
        constant: usize,
        /// Which element.
        element: usize,
        /// Its value.
        value: i64,
    },
    /// An output asked for in a way it does not have.
    #[error("output {index}: {what}: expected {expected}, found {found}")]
    OutputRequest {
        /// Which output.
        index: usize,
        /// What about it.
        what: &'static str,
        /// What the graph gives.
        expected: String,
        /// What was asked for.
        found: String,
    },
    /// A kernel met an index out of range.
    #[error("call {call} {name}: index {index} is out of range for size {limit}")]
    IndexOutOfRange {
        /// Index in the payload's chain.
        call: u32,
        /// The operator's serialised name.
        name: String,
        /// The offending index.
        index: i32,
        /// The size it indexes.
        limit: u32,
    },
    /// A tensor larger than the device can bind.
    #[error("{what} takes {bytes} bytes, the device binds at most {limit}")]
    TooLarge {
        /// Which tensor.
        what: String,
        /// Its size.
        bytes: u64,
        /// The device's storage-buffer range.
        limit: u64,
    },
}

fn list(faults: &[CallFault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
