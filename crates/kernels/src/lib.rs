//! Typed kernel table, embedded SPIR-V and tile choice. Makes no GPU call.

pub mod conv;
pub mod copy;
pub mod embedding_q4;
pub mod fill;
pub mod gather;
mod geometry;
pub mod grid_priors;
pub mod heads;
mod launch;
pub mod linear_q;
pub mod map;
pub mod matmul;
pub mod norm;
mod operations;
pub mod pool;
mod push;
pub mod qparams;
pub mod reduce;
pub mod resample;
pub mod residual;
pub mod rope;
pub mod sdpa;
pub mod softmax;
#[rustfmt::skip]
pub mod table;

pub use geometry::{Dims, MAX_RANK, Strided, Unsupported};
pub use launch::{
    Family, Kernel, Launch, Limits, MAX_PUSH_WORDS, Shader, Storage, Tier, contiguous_strides, numel,
};
