//! What can be wrong with a conversion.

use std::io;
use std::path::PathBuf;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A model that cannot be converted, and why.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file is damaged, or lacks a key or a tensor.
    #[error(transparent)]
    Gguf(#[from] etvk_gguf::Error),
    /// A file could not be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A model of another make.
    #[error("architecture \"{found}\" cannot be converted; gemma3, gemma4, llama and qwen3 can")]
    Architecture {
        /// `general.architecture`.
        found: String,
    },
    /// The metadata lacks a key.
    #[error("the file has no key \"{key}\"")]
    MissingKey {
        /// The key.
        key: String,
    },
    /// A number that no such model has, or that this version does not convert.
    #[error("{key} is {found}, {expected} expected")]
    Value {
        /// The key.
        key: String,
        /// Its value.
        found: String,
        /// What can be converted.
        expected: String,
    },
    /// The file lacks a tensor.
    #[error("the file has no tensor \"{name}\"")]
    MissingTensor {
        /// The tensor.
        name: String,
    },
    /// A tensor of other sizes than the metadata says.
    #[error("tensor \"{name}\" has sizes {found:?}, {expected:?} expected")]
    Sizes {
        /// The tensor.
        name: String,
        /// Its sizes, outermost first.
        found: Vec<u64>,
        /// Those that follow from the metadata.
        expected: Vec<u64>,
    },
    /// A matrix whose rows are no multiple of the group.
    #[error("tensor \"{name}\" has rows of {columns} weights, which groups of {group} do not divide")]
    Group {
        /// The tensor.
        name: String,
        /// Weights of a row.
        columns: u64,
        /// Weights of a group.
        group: u32,
    },
    /// Tensors of the file that no part of a model of this architecture is made of.
    #[error("{} tensors of the file would be left out, so this is a model of another kind: {}", names.len(), names.join(", "))]
    Unused {
        /// The tensors.
        names: Vec<String>,
    },
    /// An option that does not fit the model.
    #[error("{option} is {found}, {expected} expected")]
    Option {
        /// The option.
        option: &'static str,
        /// Its value.
        found: String,
        /// What fits.
        expected: String,
    },
}
