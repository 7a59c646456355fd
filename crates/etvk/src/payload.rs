//! Delegates by their payloads alone, for hosts that read programs themselves, as ExecuTorch does.
//!
//! ```no_run
//! use etvk::Runtime;
//! use etvk::payload::{Executor, LoadOptions, Payload};
//!
//! # fn load(bytes: &[u8]) -> Result<Executor, Box<dyn std::error::Error>> {
//! let payload = Payload::parse(bytes)?;
//! let context = Runtime::default().context()?;
//! Ok(Executor::load(&context, &payload, LoadOptions::default())?)
//! # }
//! ```

pub use etvk_engine::{Context, Executor, Input, LoadOptions, Mark, Phase, PortInfo, Surplus, Timing};
pub use etvk_vkgraph::{
    Call, Constant, ConstantFault, ConstantId, ConstantSource, DType, Error as PayloadError, Graph,
    NamedData, Payload, TensorInfo, Value, ValueId,
};
