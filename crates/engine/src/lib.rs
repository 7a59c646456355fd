//! From a checked payload graph to outputs: operators lowered to nodes, nodes planned, planned memory and
//! commands on a Vulkan device. Knows no files.
//!
//! ```text
//! Graph ──lower──▶ Program (nodes) ──plan──▶ placements ──load──▶ Executor ──execute──▶ outputs
//! ```

mod buffers;
mod context;
mod convert;
mod error;
mod executor;
mod forecast;
mod host;
mod inputs;
mod ir;
mod limits;
mod lower;
mod ops;
mod passes;
mod pipelines;
mod plan;
mod ports;
mod record;
mod weights;

pub use buffers::{BufferError, BufferFault, Surplus};
pub use context::Context;
pub use error::{CallFault, Error, Fault};
pub use etvk_kernels::Tier;
pub use executor::{Counters, Executor, LoadOptions, Mark, Phase, Timing};
pub use inputs::{Input, PortInfo};
pub use ir::Program;
pub use lower::{lower, lower_with};
pub use ops::{OPERATORS, Operator, Release};
pub use passes::Passes;
pub use weights::Progress;
