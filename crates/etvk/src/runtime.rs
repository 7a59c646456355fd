//! The Vulkan device of programs, opened when it is first needed.

use std::sync::{Arc, Mutex, PoisonError};

use etvk_engine::Context;
use etvk_vulkan::{Device, DeviceOptions};

use crate::error::{Error, Result};

/// Where the delegated parts of programs run. Clones share one device with its pipelines and the constants on it; it
/// is opened when the first of those parts is loaded: programs without any need none.
#[derive(Clone, Debug, Default)]
pub struct Runtime(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    options: DeviceOptions,
    context: Mutex<Option<Context>>,
}

impl Runtime {
    /// A runtime that opens a device with `options` when it needs one.
    #[must_use]
    pub fn new(options: DeviceOptions) -> Self {
        Self(Arc::new(Shared { options, context: Mutex::new(None) }))
    }

    /// A runtime on a device that is already open.
    #[must_use]
    pub fn with_device(device: Device) -> Self {
        let context = Mutex::new(Some(Context::new(device)));
        Self(Arc::new(Shared { options: DeviceOptions::default(), context }))
    }

    /// The device, opened if it is not open yet.
    ///
    /// # Errors
    /// [`Error::Device`] without a Vulkan loader or a device that matches the options.
    pub fn device(&self) -> Result<Device> {
        Ok(self.context()?.device().clone())
    }

    /// The device if something opened it.
    #[must_use]
    pub fn opened(&self) -> Option<Device> {
        let context = self.0.context.lock().unwrap_or_else(PoisonError::into_inner);
        context.as_ref().map(|context| context.device().clone())
    }

    /// The device with what its programs share, opened if it is not open yet; for [`payload`](crate::payload).
    ///
    /// # Errors
    /// As [`device`](Self::device).
    pub fn context(&self) -> Result<Context> {
        let mut context = self.0.context.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(context) = &*context {
            return Ok(context.clone());
        }
        let opened = Device::open(&self.0.options).map_err(Error::Device)?;
        Ok(context.insert(Context::new(opened)).clone())
    }
}
