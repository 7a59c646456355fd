//! The Vulkan delegate payload: header, FlatBuffer, typed [`Graph`], validation, and a builder.

mod graph;

pub use graph::{Call, Constant, ConstantId, ConstantSource, DType, Graph, TensorInfo, Value, ValueId};

/// Looks up constants that live outside the payload (`Program.named_data`, `.ptd` files).
pub trait NamedData {
    /// The bytes stored under `key`, or `None`.
    fn get(&self, key: &str) -> Option<&[u8]>;
}
