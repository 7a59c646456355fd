//! The CPU twin of every operator: slow, obvious, in double precision.
//!
//! [`Interpreter`] executes a payload's graph the way PyTorch would. Every result is computed in `f64` (integers
//! in `i64`) and rounded once, when it is stored; `Float16` tensors are stored in single precision, for a half in
//! a payload is a storage hint. Families of operators are files, named as in the engine.

mod error;
mod frame;
mod interpreter;
mod operators;
mod tensor;

mod conv;
mod copy;
mod fill;
mod gather;
mod linear_q;
mod map;
mod matmul;
mod norm;
mod pool;
mod qparams;
mod reduce;
mod resample;
mod rope;
mod sdpa;
mod softmax;
mod symbolic;
mod training;
mod view;

pub use error::{Error, Fault};
pub use frame::Frame;
pub use interpreter::{Arg, Interpreter};
pub use operators::{Function, OPERATORS};
pub use tensor::{Data, Tensor};
