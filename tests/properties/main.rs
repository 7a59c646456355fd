//! Every operator of the engine against its CPU twin, on random shapes: odd sizes, broadcasting, empty tensors, sizes
//! that change between executions, and every execution twice.

mod broadcast;
mod channel_norm;
mod conv;
mod conv_int8;
mod copy;
mod coverage;
mod extremes;
mod fill;
mod fused;
mod gather;
mod index;
mod linear_q;
mod map;
mod matmul;
mod norm;
mod passes;
mod pool;
mod qparams;
mod quantize;
mod reduce;
mod repeat;
mod resample;
mod rope;
mod sdpa;
mod softmax;
mod source;
mod symbolic;
mod training;
mod window;
