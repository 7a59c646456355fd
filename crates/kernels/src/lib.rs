//! Typed kernel table, embedded SPIR-V and tile choice. Makes no GPU call.

mod geometry;
mod launch;
#[rustfmt::skip]
pub mod table;

pub use geometry::{Dims, MAX_RANK, Strided};
pub use launch::{
    Family, Kernel, Launch, Limits, MAX_PUSH_WORDS, Shader, Storage, Tier, contiguous_strides, numel,
};
