//! An open device.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ash::{ext, vk};

use crate::cache::PipelineCache;
use crate::capabilities::{self, Capabilities, Support};
use crate::choice::{self, DeviceChoice};
use crate::error::{Error, Result};
use crate::features::Features;
use crate::instance::{Instance, ValidationLog};
use crate::memory::{Buffer, BufferKind, MemoryTypes};
use crate::pipeline::{Layouts, Pipeline, PipelineDesc};
use crate::record::{Recorder, RecorderOptions};
use crate::upload::{Uploader, UploaderOptions};

/// How to open a device.
#[derive(Clone, Debug, Default)]
pub struct DeviceOptions {
    /// Which device.
    pub choice: DeviceChoice,
    /// Turn on the Khronos validation layer, with synchronisation validation where the layer has it. Slow.
    pub validation: bool,
    /// File that compiled pipelines are kept in between runs; see [`Device::save_pipeline_cache`].
    pub pipeline_cache: Option<PathBuf>,
    /// Split a recording's submission after so many dispatches, for drivers that stop long submissions.
    pub max_dispatches_per_submit: Option<NonZeroU32>,
}

/// Detours around faults of drivers, each with the condition that turns it on. None is known yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Workarounds {}

/// An open device with one queue. Clones are cheap and share it; everything made from it keeps it open.
#[derive(Clone)]
pub struct Device(pub(crate) Arc<Shared>);

/// What a device and everything made from it share. Fields drop in the order given, after `Drop` has closed the
/// device; the instance goes last.
pub(crate) struct Shared {
    pub(crate) raw: ash::Device,
    pub(crate) capabilities: Capabilities,
    pub(crate) enabled: Features,
    workarounds: Workarounds,
    pub(crate) memory: MemoryTypes,
    pub(crate) queue_family: u32,
    queue: Mutex<vk::Queue>,
    pub(crate) layouts: Layouts,
    pub(crate) cache: PipelineCache,
    pub(crate) max_dispatches_per_submit: Option<NonZeroU32>,
    pub(crate) allocated: AtomicU64,
    debug_names: Option<ext::debug_utils::Device>,
    instance: Arc<Instance>,
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Device({:?})", self.0.capabilities.name)
    }
}

impl Device {
    /// Opens a device and enables every optional feature that [`Features`] names and the device has.
    ///
    /// # Errors
    /// [`Error::LoaderMissing`], [`Error::LayerMissing`], [`Error::NoDevice`], [`Error::VersionTooOld`], or what
    /// the driver says. An unreadable pipeline cache is only warned about.
    pub fn open(options: &DeviceOptions) -> Result<Self> {
        let instance = Instance::new(options.validation).map_err(|error| match error {
            Error::NoDevice { found, .. } => Error::NoDevice { wanted: options.choice.to_string(), found },
            error => error,
        })?;
        let devices = choice::list(&instance)?;
        let infos: Vec<_> = devices.iter().map(|(_, info)| info).collect();
        let (physical, _) = devices[choice::choose(&infos, &options.choice)?];

        let support = Support::query(&instance, physical)?;
        let features = Features::query(&instance, physical, &support);
        let memory = MemoryTypes::query(&instance, physical);
        let (queue_family, timestamp_bits) = queue_family(&instance, physical)?;
        let capabilities =
            capabilities::query(&instance, physical, &support, features, &memory, timestamp_bits);
        let enabled = features;
        let raw = create(&instance, physical, &support, enabled, queue_family)?;
        // SAFETY: VUID-vkGetDeviceQueue-queueFamilyIndex-00384: the device was made with one queue of this family.
        let queue = unsafe { raw.get_device_queue(queue_family, 0) };
        let debug_names = instance.validates().then(|| ext::debug_utils::Device::new(&instance.raw, &raw));
        // SAFETY: the device is of this instance.
        let properties = unsafe { instance.raw.get_physical_device_properties(physical) };
        let cache = match PipelineCache::open(&raw, &properties, options.pipeline_cache.clone()) {
            Ok(cache) => cache,
            Err(error) => {
                // SAFETY: VUID-vkDestroyDevice-device-05137: nothing was made from the device.
                unsafe { raw.destroy_device(None) };
                return Err(error);
            }
        };
        tracing::debug!(target: "etvk::vulkan", name = capabilities.name, driver = capabilities.driver_name, "device opened");
        Ok(Self(Arc::new(Shared {
            raw,
            capabilities,
            enabled,
            workarounds: Workarounds::default(),
            memory,
            queue_family,
            queue: Mutex::new(queue),
            layouts: Layouts::default(),
            cache,
            max_dispatches_per_submit: options.max_dispatches_per_submit,
            allocated: AtomicU64::new(0),
            debug_names,
            instance,
        })))
    }

    /// What the device can do.
    pub fn capabilities(&self) -> &Capabilities {
        &self.0.capabilities
    }

    /// Which optional features are on.
    pub fn enabled_features(&self) -> &Features {
        &self.0.enabled
    }

    /// Which detours around driver faults are on.
    pub fn workarounds(&self) -> &Workarounds {
        &self.0.workarounds
    }

    /// What the validation layer said so far; empty without validation.
    pub fn validation_messages(&self) -> Vec<String> {
        self.0.instance.log().messages()
    }

    /// The log that the validation layer writes to. It outlives the device.
    pub fn validation_log(&self) -> ValidationLog {
        self.0.instance.log().clone()
    }

    /// Bytes of all buffers of this device that are alive.
    pub fn allocated_bytes(&self) -> u64 {
        self.0.allocated.load(Ordering::Relaxed)
    }

    /// A new buffer of `bytes` bytes, rounded up to a multiple of 4 and at least 4. What it holds is undefined.
    ///
    /// # Errors
    /// [`Error::LimitExceeded`] over [`max_allocation_size`](Capabilities::max_allocation_size),
    /// [`Error::OutOfDeviceMemory`] or [`Error::OutOfHostMemory`].
    pub fn buffer(&self, label: &str, bytes: u64, kind: BufferKind) -> Result<Buffer> {
        Buffer::new(&self.0, label, bytes, kind)
    }

    /// A new uploader with a ring of its own.
    ///
    /// # Errors
    /// Out of memory for its ring, or what the driver says.
    pub fn uploader(&self, options: &UploaderOptions) -> Result<Uploader> {
        Uploader::new(self, options)
    }

    /// Compiles a kernel.
    ///
    /// # Errors
    /// [`Error::LimitExceeded`], [`Error::Misaligned`], [`Error::BadSpirv`], [`Error::Unsupported`], or what the
    /// driver says.
    pub fn pipeline(&self, desc: &PipelineDesc<'_>) -> Result<Pipeline> {
        Pipeline::new(&self.0, desc)
    }

    /// Writes the compiled pipelines to the file of [`DeviceOptions::pipeline_cache`], replacing it at once. Tells
    /// whether it did: without such a file it does nothing, and a failure is only warned about.
    pub fn save_pipeline_cache(&self) -> bool {
        self.0.cache.save(&self.0.raw)
    }

    /// Starts recording commands, without timestamps.
    ///
    /// # Errors
    /// What the driver says.
    pub fn recorder(&self) -> Result<Recorder> {
        self.recorder_with(&RecorderOptions::default())
    }

    /// Starts recording commands.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for timestamps on a device that has none, or what the driver says.
    pub fn recorder_with(&self, options: &RecorderOptions) -> Result<Recorder> {
        Recorder::new(&self.0, options)
    }
}

impl Shared {
    /// The queue, for one thread at a time.
    pub(crate) fn queue(&self) -> MutexGuard<'_, vk::Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Names an object in validation messages.
    pub(crate) fn name<T: vk::Handle>(&self, object: T, name: &str) {
        let Some(functions) = &self.debug_names else { return };
        let Ok(name) = std::ffi::CString::new(name) else { return };
        let info = vk::DebugUtilsObjectNameInfoEXT::default().object_handle(object).object_name(&name);
        // SAFETY: VUID-vkSetDebugUtilsObjectNameEXT-pNameInfo-02587: the handle is of a live object of this device,
        // which its caller has just made and nobody else uses yet.
        if let Err(result) = unsafe { functions.set_debug_utils_object_name(&info) } {
            tracing::debug!(target: "etvk::vulkan", "an object could not be named: {result}");
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: VUID-vkDestroyDevice-device-05137: everything made from the device holds an `Arc` of `self`, so
        // only the layouts and the cache are left, which go first. No submission runs: each is waited for.
        unsafe {
            self.layouts.destroy(&self.raw);
            self.cache.destroy(&self.raw);
            self.raw.destroy_device(None);
        }
    }
}

/// The queue family to use and the valid bits of its timestamps: a family that also draws if there is one (it is the
/// main queue of every driver that has several), else any that computes.
fn queue_family(instance: &Instance, device: vk::PhysicalDevice) -> Result<(u32, u32)> {
    // SAFETY: the device is of this instance.
    let families = unsafe { instance.raw.get_physical_device_queue_family_properties(device) };
    let computing = || {
        (0..).zip(&families).filter(|(_, family)| {
            family.queue_flags.contains(vk::QueueFlags::COMPUTE) && family.queue_count > 0
        })
    };
    computing()
        .find(|(_, family)| family.queue_flags.contains(vk::QueueFlags::GRAPHICS))
        .or_else(|| computing().next())
        .map(|(index, family)| (index, family.timestamp_valid_bits))
        .ok_or_else(|| Error::Unsupported { what: "compute queues".into() })
}

fn create(
    instance: &Instance,
    physical: vk::PhysicalDevice,
    support: &Support,
    enabled: Features,
    queue_family: u32,
) -> Result<ash::Device> {
    let priorities = [1.0];
    let queues =
        [vk::DeviceQueueCreateInfo::default().queue_family_index(queue_family).queue_priorities(&priorities)];
    let names: Vec<_> = enabled.extensions(support).iter().map(|name| name.as_ptr()).collect();
    let mut links = enabled.links();
    let mut chain = links.chain(support);
    let info = vk::DeviceCreateInfo::default()
        .queue_create_infos(&queues)
        .enabled_extension_names(&names)
        .push_next(&mut chain);
    // SAFETY: VUID-vkCreateDevice-ppEnabledExtensionNames-01387 and VUID-VkDeviceCreateInfo-pNext-pNext: extensions
    // and feature structures are those that the device listed, and only supported features are on; all pointers
    // are to locals that outlive the call.
    unsafe { instance.raw.create_device(physical, &info, None) }.map_err(Error::call("vkCreateDevice"))
}
