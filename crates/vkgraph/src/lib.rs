//! The Vulkan delegate payload: header, FlatBuffer, typed [`Graph`], validation, and a builder.
//!
//! [`Payload::parse`] turns the bytes of a delegate into a [`Graph`] in which every id, rank and constant has
//! been checked, or into the first [`Error`] found. [`GraphBuilder`] goes the other way.

#![deny(unsafe_code)]
#![deny(clippy::indexing_slicing)]

mod builder;
mod error;
#[rustfmt::skip]
#[path = "generated/vkgraph_generated.rs"]
#[allow(
    missing_docs, mismatched_lifetime_syntaxes, unreachable_pub, unsafe_code, unsafe_op_in_unsafe_fn, unused,
    clippy::all, clippy::indexing_slicing, clippy::undocumented_unsafe_blocks, clippy::unwrap_used,
    reason = "written by flatc, which decides what of this occurs"
)]
mod generated;
mod graph;
mod header;
#[cfg(test)]
mod malformed;
mod payload;
mod read;
mod write;

pub use builder::{GraphBuilder, constant_key};
pub use error::{CallFault, ConstantFault, Error, HeaderFault, PortFault, ValueFault};
pub use graph::{Call, Constant, ConstantId, ConstantSource, DType, Graph, TensorInfo, Value, ValueId};
pub use payload::Payload;

/// The highest tensor rank a payload may use.
pub const MAX_RANK: usize = 8;

/// The longest operator name accepted, in bytes; the longest in use has 60.
pub const MAX_NAME: usize = 255;

/// Looks up constants that live outside the payload (`Program.named_data`, `.ptd` files).
pub trait NamedData {
    /// The bytes stored under `key`, or `None`.
    fn get(&self, key: &str) -> Option<&[u8]>;
}
