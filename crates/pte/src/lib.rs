//! Containers of ExecuTorch programs: `.pte`, `.ptd` and `.bpte` files.
//!
//! A file is mapped ([`Map`]) or already in memory; [`Container::detect`] says what it is. [`Program`],
//! [`FlatTensor`] and [`BundledProgram`] parse it and borrow from it: nothing is copied, and nothing in it is
//! trusted. What they hand out is checked, so that later code needs no checks of its own. [`ProgramSpec`] writes programs.
#![deny(clippy::indexing_slicing, unsafe_code)]

mod bundled;
mod container;
mod error;
mod flat_tensor;
mod generated;
mod instruction;
mod layout;
mod list;
mod map;
mod method;
mod named_data;
mod program;
mod scalar_type;
mod segments;
#[cfg(test)]
mod tests;
mod value;
mod write;

pub use bundled::{BundledProgram, BundledValue, TestCase, TestSuite};
pub use container::{Container, ExtendedHeader};
pub use error::{
    BundledFault, DelegateFault, Error, InstructionFault, LayoutFault, MethodFault, Result, ValueFault,
};
pub use flat_tensor::{Blob, FlatTensor};
pub use instruction::{Chain, Instruction};
pub use layout::{Layout, MAX_RANK};
pub use list::{Element, List, OptionalValueIds, ValueId, ValueIds};
pub use map::Map;
pub use method::{CompileSpec, Delegate, Method, Operator};
pub use named_data::NamedData;
pub use program::Program;
pub use scalar_type::ScalarType;
pub use value::{Region, Storage, Tensor, Value};
pub use write::{BodySpec, ConstantSpec, DelegateSpec, MethodSpec, ProgramSpec, TensorSpec};
