//! Typed kernel table, embedded SPIR-V and tile choice. Makes no GPU call.

mod geometry;

pub use geometry::{Dims, MAX_RANK, Strided};
