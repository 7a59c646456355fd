//! GGUF files: metadata, tensors, and what their blocks of codes stand for.
//!
//! [`Gguf::open`] maps a file and checks all of it but the codes: what it hands out lies within the file. Versions 2 and 3,
//! little-endian, are read. [`GgufWriter`] writes them, for tests and tools.
//!
//! Numbers are as in the format's description: dimensions are outermost first here, innermost first in files.
#![deny(clippy::indexing_slicing, unsafe_code)]

mod blocks;
mod error;
mod file;
mod map;
mod metadata;
mod parse;
mod tensor_type;
#[cfg(test)]
mod tests;
mod write;

pub use error::{Error, Result};
pub use file::{Gguf, Tensor};
pub use metadata::{Array, Metadata, Value};
pub use tensor_type::TensorType;
pub use write::GgufWriter;
