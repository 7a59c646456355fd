//! Typed kernel table, embedded SPIR-V and tile choice. Makes no GPU call.

pub mod embedding_q4;
pub mod gather;
mod geometry;
mod launch;
pub mod linear_q;
pub mod matmul;
mod push;
pub mod qparams;
pub mod rope;
pub mod sdpa;
#[rustfmt::skip]
pub mod table;

pub use geometry::{Dims, MAX_RANK, Strided};
pub use launch::{
    Family, Kernel, Launch, Limits, MAX_PUSH_WORDS, Shader, Storage, Tier, contiguous_strides, numel,
};
