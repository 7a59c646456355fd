//! Everything that can go wrong between a file and its results.

use std::path::PathBuf;

use etvk_pte::{Container, ScalarType};

use crate::check::{Problem, reasons};

/// What every fallible function of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Every failure of this crate. Causes are in [`source`](std::error::Error::source), not in the text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file that cannot be opened or parsed.
    #[error("{}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: etvk_pte::Error,
    },
    /// A file of another kind than is needed.
    #[error("{} is no {expected}: found {found:?}", path.display())]
    FileKind {
        /// The file.
        path: PathBuf,
        /// What is needed.
        expected: &'static str,
        /// What it is.
        found: Container,
    },
    /// Two external data files have a key in common.
    #[error("{} and {} both hold \"{key}\"", first.display(), second.display())]
    DuplicateKey {
        /// The key.
        key: String,
        /// The file that was given first.
        first: PathBuf,
        /// The other file.
        second: PathBuf,
    },
    /// A method that does not exist, or one with something wrong in it.
    #[error("program")]
    Program(#[source] etvk_pte::Error),
    /// A method that this build does not run; every reason.
    #[error("method {method} cannot run: {}", reasons(problems).join("; "))]
    Unsupported {
        /// The method.
        method: String,
        /// Why not.
        problems: Vec<Problem>,
    },
    /// No device, or one that failed.
    #[error("Vulkan")]
    Device(#[source] etvk_vulkan::Error),
    /// A delegated part that could not be loaded or executed.
    #[error("delegate {delegate}")]
    Delegate {
        /// Its index in the method.
        delegate: usize,
        /// What is wrong.
        source: etvk_engine::Error,
    },
    /// A delegate of another make that could not be loaded or executed.
    #[error("delegate {delegate}")]
    Foreign {
        /// Its index in the method.
        delegate: usize,
        /// What it says.
        source: crate::foreign::Fault,
    },
    /// Too few or too many arguments.
    #[error("method {method} takes {expected} inputs, found {found}")]
    InputCount {
        /// The method.
        method: String,
        /// What it takes.
        expected: usize,
        /// What was given.
        found: usize,
    },
    /// An argument that does not fit the method.
    #[error("input {index}: {what}: expected {expected}, found {found}")]
    Input {
        /// Which input.
        index: usize,
        /// What about it.
        what: &'static str,
        /// What the method takes.
        expected: String,
        /// What was given.
        found: String,
    },
    /// An instruction that failed.
    #[error("instruction {instruction} of chain {chain} ({name})")]
    Instruction {
        /// The chain.
        chain: usize,
        /// Its place in the chain.
        instruction: usize,
        /// What it calls.
        name: String,
        /// What is wrong.
        source: KernelFault,
    },
    /// A result that was never computed.
    #[error("output {index}")]
    Output {
        /// Which output.
        index: usize,
        /// What is wrong.
        source: KernelFault,
    },
    /// Text that could not be made or read.
    #[cfg(feature = "text")]
    #[error(transparent)]
    Text(#[from] crate::text::Fault),
    /// A method that executes more instructions than any real one.
    #[error("method {method} was stopped after {limit} instructions")]
    InstructionLimit {
        /// The method.
        method: String,
        /// Most instructions that one execution may take.
        limit: u64,
    },
    /// Data of a tensor that is not as long as its elements.
    #[error("{scalar_type}{sizes:?} takes {expected} bytes, found {found}")]
    TensorBytes {
        /// Element type.
        scalar_type: ScalarType,
        /// Sizes.
        sizes: Vec<usize>,
        /// Bytes of the elements.
        expected: usize,
        /// Bytes given.
        found: usize,
    },
    /// Elements read as another type.
    #[error("expected elements of type {expected}, found {found}")]
    ElementType {
        /// What was asked for.
        expected: ScalarType,
        /// What the tensor holds.
        found: ScalarType,
    },
}

impl Error {
    /// Whether the cause is the device or the lack of one, rather than the program or its arguments.
    #[must_use]
    pub fn is_device(&self) -> bool {
        matches!(self, Self::Device(_) | Self::Delegate { source: etvk_engine::Error::Device(_), .. })
    }
}

/// Why a CPU kernel could not do its work.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum KernelFault {
    /// A call with another number of arguments.
    #[error("takes {expected} arguments, found {found}")]
    ArgumentCount {
        /// What the operator takes.
        expected: usize,
        /// What the call has.
        found: usize,
    },
    /// An argument of another kind.
    #[error("argument {at}: expected {expected}, found {found}")]
    Argument {
        /// Its place.
        at: usize,
        /// What the operator takes.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// A tensor that has no data, as nothing wrote it yet.
    #[error("value {value} has no data yet")]
    NoData {
        /// Index of the value.
        value: usize,
    },
    /// An element type that is not supported.
    #[error("{what}: element type {found} is not supported")]
    ScalarType {
        /// Which tensor.
        what: &'static str,
        /// Its element type.
        found: ScalarType,
    },
    /// Sizes that do not fit.
    #[error("{what}: expected {expected}, found {found}")]
    Shape {
        /// Which sizes.
        what: &'static str,
        /// What they must be.
        expected: String,
        /// What they are.
        found: String,
    },
    /// A tensor whose memory has no room for its new sizes.
    #[error("value {value}: sizes {found:?} exceed its {capacity} elements")]
    Capacity {
        /// Index of the value.
        value: usize,
        /// Elements that it has room for.
        capacity: usize,
        /// The new sizes.
        found: Vec<usize>,
    },
    /// A number out of range.
    #[error("{what} is {found}, must be in {low}..={high}")]
    Range {
        /// Which number.
        what: &'static str,
        /// The least one.
        low: i64,
        /// The greatest one.
        high: i64,
        /// What it is.
        found: i64,
    },
    /// A division of integers by zero.
    #[error("integer division by zero")]
    DivisionByZero,
    /// An integer that does not fit in 64 bits.
    #[error("the result does not fit in 64 bits")]
    Overflow,
    /// No memory for a tensor.
    #[error("out of memory for {bytes} bytes")]
    OutOfMemory {
        /// What was needed.
        bytes: usize,
    },
}
