//! The Vulkan instance: loader, layers and the validation messages.

use std::ffi::{CStr, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use ash::{ext, khr, vk};

use crate::error::{Error, Result};

const VALIDATION_LAYER: &CStr = c"VK_LAYER_KHRONOS_validation";

/// Messages of the validation layer, kept for as long as anyone holds a clone: the log of a device outlives it, so
/// that complaints about its closing can be read too.
#[derive(Clone, Debug, Default)]
pub struct ValidationLog(Arc<Mutex<Vec<String>>>);

impl ValidationLog {
    /// The messages so far, oldest first.
    pub fn messages(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// An error that holds the messages, if there are any.
    ///
    /// # Errors
    /// [`Error::Validation`] when the layer complained.
    pub fn check(&self) -> Result<()> {
        let messages = self.messages();
        if messages.is_empty() { Ok(()) } else { Err(Error::Validation { messages }) }
    }

    fn push(&self, message: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(message);
    }
}

/// A Vulkan instance, destroyed when the last object made from it is gone.
pub(crate) struct Instance {
    /// Keeps the library open that `raw` calls into.
    pub(crate) entry: ash::Entry,
    pub(crate) raw: ash::Instance,
    messenger: Option<(ext::debug_utils::Instance, vk::DebugUtilsMessengerEXT)>,
    /// Boxed because the messenger holds its address.
    log: Box<ValidationLog>,
}

impl Instance {
    /// The Vulkan version that is asked for; devices may have less, down to 1.1.
    pub(crate) const API_VERSION: u32 = vk::API_VERSION_1_3;

    pub(crate) fn new(validation: bool) -> Result<Arc<Self>> {
        // SAFETY: the loader is the system's own Vulkan loader, whose initialisers have no preconditions.
        let entry = unsafe { ash::Entry::load() }
            .map_err(|error| Error::LoaderMissing { reason: error.to_string() })?;
        check_loader_version(&entry)?;

        let extensions = instance_extensions(&entry, None)?;
        let mut enabled: Vec<&CStr> = Vec::new();
        let mut flags = vk::InstanceCreateFlags::empty();
        if extensions.iter().any(|name| name == khr::portability_enumeration::NAME.to_bytes()) {
            enabled.push(khr::portability_enumeration::NAME);
            flags |= vk::InstanceCreateFlags::ENUMERATE_PORTABILITY_KHR;
        }
        let mut layers = Vec::new();
        let mut synchronization = false;
        if validation {
            require_validation_layer(&entry)?;
            layers.push(VALIDATION_LAYER.as_ptr());
            enabled.push(ext::debug_utils::NAME);
            let of_layer = instance_extensions(&entry, Some(VALIDATION_LAYER))?;
            synchronization = of_layer.iter().any(|name| name == ext::validation_features::NAME.to_bytes());
            if synchronization {
                enabled.push(ext::validation_features::NAME);
            }
        }

        let log = Box::new(ValidationLog::default());
        let names: Vec<_> = enabled.iter().map(|name| name.as_ptr()).collect();
        let application = vk::ApplicationInfo::default().engine_name(c"etvk").api_version(Self::API_VERSION);
        let sync_features = [vk::ValidationFeatureEnableEXT::SYNCHRONIZATION_VALIDATION];
        let mut features = vk::ValidationFeaturesEXT::default().enabled_validation_features(&sync_features);
        let mut early_messages = messenger_info(&log);
        let mut info = vk::InstanceCreateInfo::default()
            .flags(flags)
            .application_info(&application)
            .enabled_layer_names(&layers)
            .enabled_extension_names(&names);
        if validation {
            info = info.push_next(&mut early_messages);
        }
        if synchronization {
            info = info.push_next(&mut features);
        }
        // SAFETY: VUID-vkCreateInstance-ppEnabledExtensionNames-01388 and the layer twin: every name was listed by
        // the loader just now; all pointers in `info` are to locals that outlive the call, and the log's box
        // outlives the instance.
        let raw = unsafe { entry.create_instance(&info, None) }.map_err(|result| match result {
            vk::Result::ERROR_INCOMPATIBLE_DRIVER => {
                Error::NoDevice { wanted: "any driver".into(), found: Vec::new() }
            }
            result => Error::call("vkCreateInstance")(result),
        })?;
        let mut instance = Self { entry, raw, messenger: None, log };
        if validation {
            instance.install_messenger()?;
        }
        Ok(Arc::new(instance))
    }

    fn install_messenger(&mut self) -> Result<()> {
        let debug_utils = ext::debug_utils::Instance::new(&self.entry, &self.raw);
        let info = messenger_info(&self.log);
        // SAFETY: VK_EXT_debug_utils was enabled on this instance; the callback is a static function and its user
        // data, the boxed log, is dropped after the messenger is destroyed (see `Drop`).
        let messenger = unsafe { debug_utils.create_debug_utils_messenger(&info, None) }
            .map_err(Error::call("vkCreateDebugUtilsMessengerEXT"))?;
        self.messenger = Some((debug_utils, messenger));
        Ok(())
    }

    /// Whether the validation layer is on.
    pub(crate) fn validates(&self) -> bool {
        self.messenger.is_some()
    }

    pub(crate) fn log(&self) -> &ValidationLog {
        &self.log
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: VUID-vkDestroyInstance-instance-00629: every child holds an `Arc` of this instance, so none is
        // left; the messenger was made from this instance and goes first.
        unsafe {
            if let Some((debug_utils, messenger)) = self.messenger.take() {
                debug_utils.destroy_debug_utils_messenger(messenger, None);
            }
            self.raw.destroy_instance(None);
        }
    }
}

fn check_loader_version(entry: &ash::Entry) -> Result<()> {
    // SAFETY: vkEnumerateInstanceVersion has no preconditions beyond a valid out pointer, which ash gives.
    let version = unsafe { entry.try_enumerate_instance_version() }
        .map_err(Error::call("vkEnumerateInstanceVersion"))?
        .unwrap_or(vk::API_VERSION_1_0);
    // A 1.0 loader refuses an application that asks for more.
    if version < vk::API_VERSION_1_1 {
        return Err(Error::LoaderMissing {
            reason: "the loader speaks Vulkan 1.0 only; 1.1 is needed".into(),
        });
    }
    Ok(())
}

fn instance_extensions(entry: &ash::Entry, layer: Option<&CStr>) -> Result<Vec<Vec<u8>>> {
    // SAFETY: VUID-vkEnumerateInstanceExtensionProperties-pLayerName-parameter: the name is NUL-terminated UTF-8.
    let list = unsafe { entry.enumerate_instance_extension_properties(layer) }
        .map_err(Error::call("vkEnumerateInstanceExtensionProperties"))?;
    Ok(list
        .iter()
        .filter_map(|item| Some(item.extension_name_as_c_str().ok()?.to_bytes().to_vec()))
        .collect())
}

fn require_validation_layer(entry: &ash::Entry) -> Result<()> {
    // SAFETY: vkEnumerateInstanceLayerProperties has no preconditions beyond valid out pointers, which ash gives.
    let layers = unsafe { entry.enumerate_instance_layer_properties() }
        .map_err(Error::call("vkEnumerateInstanceLayerProperties"))?;
    if layers.iter().any(|layer| layer.layer_name_as_c_str() == Ok(VALIDATION_LAYER)) {
        Ok(())
    } else {
        Err(Error::LayerMissing { layer: "VK_LAYER_KHRONOS_validation" })
    }
}

fn messenger_info(log: &ValidationLog) -> vk::DebugUtilsMessengerCreateInfoEXT<'static> {
    vk::DebugUtilsMessengerCreateInfoEXT::default()
        .message_severity(
            vk::DebugUtilsMessageSeverityFlagsEXT::WARNING | vk::DebugUtilsMessageSeverityFlagsEXT::ERROR,
        )
        // Messages of the loader are of the general type: they are about other drivers on the machine.
        .message_type(vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION)
        .pfn_user_callback(Some(on_message))
        .user_data(std::ptr::from_ref(log).cast_mut().cast())
}

unsafe extern "system" fn on_message(
    _severity: vk::DebugUtilsMessageSeverityFlagsEXT,
    _kind: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    log: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: VUID-PFN_vkDebugUtilsMessengerCallbackEXT: the layer passes valid callback data (or null, handled by
    // `as_ref`), and `log` is the boxed log given in `messenger_info`, which outlives the messenger. The log is
    // only read through a shared reference; its list is behind a mutex.
    let (data, log) = unsafe { (data.as_ref(), log.cast::<ValidationLog>().as_ref()) };
    if let (Some(data), Some(log)) = (data, log) {
        // SAFETY: VUID-VkDebugUtilsMessengerCallbackDataEXT-pMessage-parameter: the message is a NUL-terminated
        // string that lives as long as the callback; null is handled by `message_as_c_str`.
        let message = unsafe { data.message_as_c_str() };
        let message = message.map(|text| text.to_string_lossy().into_owned()).unwrap_or_default();
        tracing::error!(target: "etvk::vulkan", "validation: {message}");
        log.push(message);
    }
    vk::FALSE
}
