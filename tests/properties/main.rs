//! Every operator of the engine against its CPU twin, on random shapes: odd sizes, broadcasting, empty tensors, sizes
//! that change between executions, and every execution twice.

mod broadcast;
mod copy;
mod coverage;
mod fill;
mod gather;
mod linear_q;
mod map;
mod matmul;
mod norm;
mod qparams;
mod reduce;
mod rope;
mod sdpa;
mod softmax;
mod source;
mod symbolic;
