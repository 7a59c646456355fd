//! What can be wrong with a file.

use std::io;
use std::path::PathBuf;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A file that cannot be used, and why.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be opened or mapped.
    #[error("cannot map {}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Another kind of file.
    #[error("the file begins with \"{}\", expected \"GGUF\"", found.escape_ascii())]
    Magic {
        /// Its first bytes.
        found: [u8; 4],
    },
    /// A version this reader does not know, or bytes in the other order.
    #[error("GGUF version {found} is not supported, expected 2 or 3, little-endian")]
    Version {
        /// The version.
        found: u32,
    },
    /// The file ends too early.
    #[error("the file ends in {what}: {needed} bytes from byte {offset} on are needed, the file has {size}")]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// Where it begins.
        offset: u64,
        /// Its length.
        needed: u64,
        /// Length of the file.
        size: u64,
    },
    /// More items than the rest of the file has room for.
    #[error("{found} {what} cannot be in the {left} bytes from byte {offset} on")]
    Count {
        /// What there would be so many of.
        what: &'static str,
        /// Their number.
        found: u64,
        /// Where they begin.
        offset: u64,
        /// Bytes of the file from there on.
        left: u64,
    },
    /// Text that is not UTF-8.
    #[error("{what} at byte {offset} is not UTF-8")]
    Utf8 {
        /// The kind of text.
        what: &'static str,
        /// Where it begins.
        offset: u64,
    },
    /// A number for the type of a value that none has.
    #[error("key \"{key}\" has a value of type {found}, which does not exist")]
    ValueType {
        /// The key.
        key: String,
        /// The number.
        found: u32,
    },
    /// Arrays of arrays.
    #[error("key \"{key}\" is an array of arrays, which no tool writes")]
    Nested {
        /// The key.
        key: String,
    },
    /// Two values for a key, or two tensors of one name.
    #[error("{what} \"{name}\" occurs twice")]
    Duplicate {
        /// Key or tensor.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A value of another type than its key has.
    #[error("key \"{key}\" is {found}, expected {expected}")]
    Type {
        /// The key.
        key: String,
        /// What it is.
        found: &'static str,
        /// What it has to be.
        expected: &'static str,
    },
    /// An alignment that is no power of two below 2^20.
    #[error("general.alignment is {found}, expected a power of two of at most 1048576")]
    Alignment {
        /// The alignment.
        found: u64,
    },
    /// A number for the type of a tensor that this version does not know.
    #[error("tensor \"{name}\" has type {found}, which is not known")]
    TensorType {
        /// The tensor.
        name: String,
        /// The number.
        found: u32,
    },
    /// More dimensions than tensors have.
    #[error("tensor \"{name}\" has {found} dimensions, at most 4 are possible")]
    Rank {
        /// The tensor.
        name: String,
        /// Their number.
        found: u32,
    },
    /// Sizes whose product is too large, or rows that are no whole blocks.
    #[error("tensor \"{name}\" cannot have sizes {dims:?} in blocks of {block}")]
    Sizes {
        /// The tensor.
        name: String,
        /// Its sizes, outermost first.
        dims: Vec<u64>,
        /// Elements of a block.
        block: u64,
    },
    /// A tensor that lies beyond the end, or off the alignment.
    #[error(
        "tensor \"{name}\" lies at bytes {offset} to {end} of the data, which has {size}, aligned to {alignment}"
    )]
    Place {
        /// The tensor.
        name: String,
        /// Where it begins.
        offset: u64,
        /// Where it would end.
        end: u64,
        /// Bytes of data.
        size: u64,
        /// What offsets are multiples of.
        alignment: u64,
    },
    /// Codes that this version does not decode.
    #[error(
        "tensor \"{name}\" is {kind}, whose codes cannot be read; F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1 and Q2_K to Q6_K can"
    )]
    Codes {
        /// The tensor.
        name: String,
        /// Name of its type.
        kind: &'static str,
    },
    /// Rows that a tensor does not have.
    #[error(
        "tensor \"{name}\" has {rows} rows of {columns}; {count} elements from row {first} on are no rows of it"
    )]
    Rows {
        /// The tensor.
        name: String,
        /// Its rows.
        rows: u64,
        /// Elements of a row.
        columns: u64,
        /// First row asked for.
        first: u64,
        /// Elements asked for.
        count: usize,
    },
}
