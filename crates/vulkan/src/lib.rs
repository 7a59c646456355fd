//! The device layer: what a Vulkan device can do, its memory, and the recording of compute work. It knows buffers of
//! bytes and kernels, no tensors.
//!
//! Objects hold on to what they were made from (instance ← device ← everything else), so they may be dropped in any
//! order.

mod bandwidth;
mod cache;
mod capabilities;
mod choice;
mod commands;
mod device;
mod error;
mod features;
mod hazards;
mod instance;
mod memory;
mod pipeline;
mod record;
mod recording;
mod upload;

pub use capabilities::{Capabilities, ComponentType, CooperativeMatrix, Heap, MatrixScope};
pub use choice::{DeviceChoice, DeviceInfo, DeviceKind, Version, devices, find};
pub use device::{Device, DeviceOptions, Workarounds};
pub use error::{Error, Result};
pub use features::Features;
pub use instance::ValidationLog;
pub use memory::{Buffer, BufferKind};
pub use pipeline::{Pipeline, PipelineDesc};
pub use record::{Access, Binding, Recorder, RecorderOptions};
pub use recording::{Recording, RecordingStats};
pub use upload::{Uploader, UploaderOptions};
