//! The Vulkan device of a program, opened when it is first needed.

use std::sync::{Arc, Mutex, PoisonError};

use etvk_vulkan::{Device, DeviceOptions};

use crate::error::{Error, Result};

/// Where the delegated parts of programs run. Clones share one device, which is opened when the first of those parts
/// is loaded: programs without any need none.
#[derive(Clone, Debug, Default)]
pub struct Runtime(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    options: DeviceOptions,
    device: Mutex<Option<Device>>,
}

impl Runtime {
    /// A runtime that opens a device with `options` when it needs one.
    #[must_use]
    pub fn new(options: DeviceOptions) -> Self {
        Self(Arc::new(Shared { options, device: Mutex::new(None) }))
    }

    /// A runtime on a device that is already open.
    #[must_use]
    pub fn with_device(device: Device) -> Self {
        Self(Arc::new(Shared { options: DeviceOptions::default(), device: Mutex::new(Some(device)) }))
    }

    /// The device, opened if it is not open yet.
    ///
    /// # Errors
    /// [`Error::Device`] without a Vulkan loader or a device that matches the options.
    pub fn device(&self) -> Result<Device> {
        let mut device = self.0.device.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = &*device {
            return Ok(device.clone());
        }
        let opened = Device::open(&self.0.options).map_err(Error::Device)?;
        Ok(device.insert(opened).clone())
    }

    /// The device if something opened it.
    #[must_use]
    pub fn opened(&self) -> Option<Device> {
        self.0.device.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
