//! Runs ExecuTorch programs that were exported for the Vulkan delegate.
//!
//! A [`Module`] is an opened program: a `.pte` file, or the one inside a `.bpte`, with its `.ptd` files. A [`Method`]
//! is one of its methods loaded on a device. A [`Value`] is what goes in and comes out.
//!
//! ```no_run
//! use etvk::{Module, Tensor, Value};
//!
//! # fn main() -> Result<(), etvk::Error> {
//! let module = Module::open("model.pte")?;
//! let mut forward = module.load("forward", None)?;
//! let tokens = Tensor::from_slice(&[1, 3], &[2_i64, 17, 5])?;
//! let start = Tensor::from_slice(&[1], &[0_i64])?;
//! let outputs = forward.execute(&[Value::from(tokens), Value::from(start)])?;
//! # Ok(())
//! # }
//! ```
//!
//! Parts of a method that were delegated to `VulkanBackend` run on a Vulkan device, which is opened when the first
//! of them is loaded; what was not delegated runs on the CPU. A program that this build does not run is refused when
//! it is loaded, with every reason at once; [`check`] gives the same reasons without a device.
//!
//! The library prints nothing, reads no environment variable and does not panic on bad input.

mod buffers;
mod bytes;
mod check;
mod delegate;
mod error;
mod external;
#[doc(hidden)]
pub mod foreign;
mod frame;
mod info;
mod interpreter;
mod kernels;
mod method;
mod module;
mod order;
pub mod payload;
mod runtime;
mod tensor;
#[cfg(feature = "text")]
pub mod text;
mod value;

pub use check::{CheckReport, DelegateReport, MethodReport, Problem, check, check_with, reasons};
pub use error::{Error, KernelFault, Result};
pub use etvk_engine::{CallFault, Counters, Error as EngineError, Fault, Passes, Timing};
pub use etvk_pte::Error as FileError;
pub use etvk_pte::ScalarType;
pub use etvk_vulkan::{
    Capabilities, Device, DeviceChoice, DeviceInfo, DeviceKind, DeviceOptions, Error as DeviceError,
    Features, Version, devices, find as find_device,
};
pub use info::{MethodInfo, ValueInfo};
pub use kernels::names as cpu_kernels;
pub use method::Method;
pub use module::{LoadProgress, Module, ModuleOptions};
pub use runtime::Runtime;
pub use tensor::{Element, Tensor};
pub use value::Value;

/// The name of the backend whose parts of a program run on Vulkan.
pub const BACKEND: &str = "VulkanBackend";
