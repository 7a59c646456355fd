//! From a checked payload graph to outputs: operators lowered to nodes, nodes planned, planned memory and
//! commands on a Vulkan device. Knows no files.
//!
//! ```text
//! Graph ──lower──▶ Program (nodes) ──plan──▶ placements ──load──▶ Executor ──execute──▶ outputs
//! ```

mod context;
mod convert;
mod error;
mod executor;
mod host;
mod ir;
mod lower;
mod ops;
mod plan;
mod record;
mod weights;

pub use context::Context;
pub use error::{CallFault, Error, Fault};
pub use executor::{Counters, Executor, Input, LoadOptions, PortInfo, Timing};
pub use ir::Program;
pub use lower::lower;
pub use ops::{OPERATORS, Operator};
pub use weights::Progress;
