//! Delegates of another make, for comparing them with this library's own: a program runs as it always does, but its
//! delegated parts go elsewhere. Not part of the promised interface.

use etvk_vkgraph::NamedData;

use crate::info::ValueInfo;
use crate::value::Value;

/// Why a delegate of another make failed, in words.
pub type Fault = Box<dyn std::error::Error + Send + Sync>;

/// Where the delegated parts of a program go.
pub trait Backend {
    /// Makes a delegate ready.
    ///
    /// # Errors
    /// Whatever the backend says.
    fn load(&self, source: &Source<'_>) -> Result<Box<dyn Delegate>, Fault>;
}

/// What a program holds for a delegate.
pub struct Source<'a> {
    /// The method it belongs to.
    pub method: &'a str,
    /// Its payload.
    pub payload: &'a [u8],
    /// Its compile specs, keys and bytes.
    pub compile_specs: Vec<(&'a str, &'a [u8])>,
    /// Constants by name.
    pub named: &'a dyn NamedData,
}

/// A delegate that is ready.
pub trait Delegate {
    /// Number of its inputs.
    fn inputs(&self) -> usize;

    /// Executes it. `inputs` are tensors and integers; `outputs` say what each output is before the execution, and the
    /// result has a value of that kind for each of them.
    ///
    /// # Errors
    /// Whatever the delegate says.
    fn execute(&mut self, inputs: &[Value], outputs: &[ValueInfo]) -> Result<Vec<Value>, Fault>;
}
