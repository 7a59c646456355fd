//! Everything that can go wrong in this crate.

use crate::abi::EtvkStatus;

/// Why a function failed. Its status is in the table of `status.rs`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A null pointer where something has to be.
    #[error("{what} is null")]
    Null {
        /// Which pointer.
        what: &'static str,
    },
    /// A text that is none.
    #[error("{what} is not UTF-8")]
    Utf8 {
        /// Which text.
        what: &'static str,
    },
    /// A structure of another version.
    #[error("EtvkCreateInfo.struct_size is {found}, expected at least {expected}; was it set to its sizeof?")]
    StructSize {
        /// Size of the first version.
        expected: usize,
        /// Size given.
        found: usize,
    },
    /// No delegate.
    #[error("{found:#x} is no delegate of this process, or was destroyed")]
    Handle {
        /// The handle.
        found: usize,
    },
    /// A delegate that is executing on this very thread.
    #[error("the delegate is executing on this thread; a callback must leave it alone")]
    Reentered,
    /// A delegate that a fault of this library has stopped.
    #[error("a fault of this library stopped an earlier execution of the delegate; create it again")]
    Broken,
    /// Not as many arguments as inputs and outputs.
    #[error(
        "{found} arguments, the graph has {inputs} inputs and {outputs} outputs{}",
        if *found > inputs + outputs { ": an input that nothing uses was probably dropped from the graph" } else { "" }
    )]
    ArgumentCount {
        /// Inputs of the graph.
        inputs: usize,
        /// Outputs of the graph.
        outputs: usize,
        /// Arguments given.
        found: usize,
    },
    /// A buffer that would change in one delegate and not in another.
    #[error(
        "the delegate changes a buffer, and another delegate of the method may hold a copy that would not change"
    )]
    SharedBuffer,
    /// An argument that does not fit.
    #[error("argument {at}: {what}: expected {expected}, found {found}")]
    Argument {
        /// Its place.
        at: usize,
        /// What about it.
        what: &'static str,
        /// What it must be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// A double beyond the range of single precision.
    #[error("argument {at}, element {element}: {value:e} does not fit in single precision")]
    DoubleRange {
        /// The argument's place.
        at: usize,
        /// Row-major place of the element.
        element: usize,
        /// The element.
        value: f64,
    },
    /// An integer output that does not fit the caller's tensor.
    #[error("argument {at}: {value} does not fit in 32 bits")]
    IntRange {
        /// The argument's place.
        at: usize,
        /// The value.
        value: i64,
    },
    /// An option that there is not.
    #[error("no option \"{key}\"; there are device, pipeline_cache_path, profile and submit_budget_us")]
    OptionKey {
        /// Its key.
        key: String,
    },
    /// An option with a value that it does not take.
    #[error("option {key}: expected {expected}, found {found}")]
    OptionValue {
        /// Its key.
        key: &'static str,
        /// What it takes.
        expected: &'static str,
        /// What was given.
        found: String,
    },
    /// Too little room for a text.
    #[error("option {key} takes {expected} bytes, found room for {found}")]
    OptionRoom {
        /// Its key.
        key: &'static str,
        /// Bytes with the NUL.
        expected: usize,
        /// Bytes given.
        found: usize,
    },
    /// A compile spec of the wrong size.
    #[error("compile spec {key}: expected {expected} bytes, found {found}")]
    CompileSpec {
        /// Its key.
        key: String,
        /// Bytes it has in every program.
        expected: usize,
        /// Bytes given.
        found: usize,
    },
    /// A callback that failed.
    #[error("{what} failed with {found:#x}")]
    Callback {
        /// Which callback, for what.
        what: String,
        /// What it returned.
        found: u32,
    },
    /// A program that this library does not run.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Problems(Vec<etvk::Problem>),
    /// A delegate that could not be loaded.
    #[error("{}the delegate cannot be loaded", of(method))]
    Load {
        /// Its method, where known.
        method: Option<String>,
        /// What is wrong.
        source: Box<etvk::EngineError>,
    },
    /// An execution that failed.
    #[error("the execution failed")]
    Execute(#[source] Box<etvk::EngineError>),
    /// The Rust interface: files and devices.
    #[error(transparent)]
    Library(Box<etvk::Error>),
    /// The device.
    #[error("Vulkan")]
    Device(#[from] etvk::DeviceError),
    /// A panic.
    #[error("a fault of this library: {0}")]
    Panic(String),
}

impl From<etvk::Error> for Error {
    fn from(error: etvk::Error) -> Self {
        Self::Library(error.into())
    }
}

impl Error {
    /// An execution that failed.
    pub(crate) fn execute(source: etvk::EngineError) -> Self {
        Self::Execute(source.into())
    }

    /// The status that tells the caller.
    pub(crate) fn status(&self) -> EtvkStatus {
        crate::status::of(self)
    }
}

fn of(method: &Option<String>) -> String {
    method.as_ref().map(|method| format!("method {method}: ")).unwrap_or_default()
}

/// The error and its causes on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        // A transparent error says what its cause says.
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}
