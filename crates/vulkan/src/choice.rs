//! Which devices there are, and which one to open.

use ash::vk;

use crate::error::{Error, Result};
use crate::instance::Instance;

/// What kind of device it is, as its driver says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeviceKind {
    /// A GPU with memory of its own.
    Discrete,
    /// A GPU that shares the host's memory.
    Integrated,
    /// A GPU handed to a virtual machine.
    Virtual,
    /// The host's processor.
    Cpu,
    /// None of these.
    Other,
}

impl DeviceKind {
    pub(crate) fn from_raw(kind: vk::PhysicalDeviceType) -> Self {
        match kind {
            vk::PhysicalDeviceType::DISCRETE_GPU => Self::Discrete,
            vk::PhysicalDeviceType::INTEGRATED_GPU => Self::Integrated,
            vk::PhysicalDeviceType::VIRTUAL_GPU => Self::Virtual,
            vk::PhysicalDeviceType::CPU => Self::Cpu,
            _ => Self::Other,
        }
    }

    /// Lower is better.
    fn rank(self) -> u8 {
        match self {
            Self::Discrete => 0,
            Self::Integrated => 1,
            Self::Virtual => 2,
            Self::Cpu => 3,
            Self::Other => 4,
        }
    }
}

/// A Vulkan version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// Patch number.
    pub patch: u32,
}

impl Version {
    pub(crate) fn from_raw(raw: u32) -> Self {
        Self {
            major: vk::api_version_major(raw),
            minor: vk::api_version_minor(raw),
            patch: vk::api_version_patch(raw),
        }
    }

    /// Whether this is `major.minor` or later.
    pub fn at_least(self, major: u32, minor: u32) -> bool {
        (self.major, self.minor) >= (major, minor)
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// A device that is there, before it is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// Place in the driver's list, for [`DeviceChoice::Index`].
    pub index: u32,
    /// The driver's name for it.
    pub name: String,
    /// What kind of device it is.
    pub kind: DeviceKind,
    /// PCI vendor id, or a Khronos one.
    pub vendor_id: u32,
    /// The vendor's id for the device.
    pub device_id: u32,
    /// Highest Vulkan version that it speaks.
    pub api_version: Version,
}

impl DeviceInfo {
    fn usable(&self) -> bool {
        self.api_version.at_least(1, 1)
    }
}

/// Which device to open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// Discrete before integrated before virtual before CPU; the first one of the best kind.
    #[default]
    Best,
    /// Place in the list that [`devices`] gives.
    Index(u32),
    /// The first whose name contains this, in whatever case.
    Name(String),
}

impl std::fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Best => write!(f, "any device with Vulkan 1.1"),
            Self::Index(index) => write!(f, "index {index}"),
            Self::Name(name) => write!(f, "name {name:?}"),
        }
    }
}

/// The devices on this machine, in the driver's order. Opens none of them.
///
/// # Errors
/// [`Error::LoaderMissing`] without a Vulkan loader. A loader without drivers gives an empty list.
pub fn devices() -> Result<Vec<DeviceInfo>> {
    match Instance::new(false) {
        Ok(instance) => Ok(list(&instance)?.into_iter().map(|(_, info)| info).collect()),
        Err(Error::NoDevice { .. }) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The device that a choice means, without opening it.
///
/// # Errors
/// [`Error::LoaderMissing`], [`Error::NoDevice`] or [`Error::VersionTooOld`].
pub fn find(choice: &DeviceChoice) -> Result<DeviceInfo> {
    let found = devices()?;
    let infos: Vec<_> = found.iter().collect();
    let place = choose(&infos, choice)?;
    Ok(found[place].clone())
}

pub(crate) fn list(instance: &Instance) -> Result<Vec<(vk::PhysicalDevice, DeviceInfo)>> {
    // SAFETY: the instance is alive.
    let handles = match unsafe { instance.raw.enumerate_physical_devices() } {
        Ok(handles) => handles,
        // The loader's answer when no driver of its list could be used.
        Err(vk::Result::ERROR_INITIALIZATION_FAILED) => Vec::new(),
        Err(result) => return Err(Error::call("vkEnumeratePhysicalDevices")(result)),
    };
    Ok((0..).zip(handles).map(|(index, handle)| (handle, describe(instance, handle, index))).collect())
}

fn describe(instance: &Instance, handle: vk::PhysicalDevice, index: u32) -> DeviceInfo {
    // SAFETY: the handle came from this instance, which is alive.
    let properties = unsafe { instance.raw.get_physical_device_properties(handle) };
    DeviceInfo {
        index,
        name: text(properties.device_name_as_c_str()),
        kind: DeviceKind::from_raw(properties.device_type),
        vendor_id: properties.vendor_id,
        device_id: properties.device_id,
        api_version: Version::from_raw(properties.api_version),
    }
}

/// A fixed-size string of the driver, empty where it lacks its NUL.
pub(crate) fn text<E>(text: Result<&std::ffi::CStr, E>) -> String {
    text.map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The place in `infos` of the device that `choice` means.
pub(crate) fn choose(infos: &[&DeviceInfo], choice: &DeviceChoice) -> Result<usize> {
    let found = match choice {
        DeviceChoice::Best => (0..infos.len())
            .filter(|&place| infos[place].usable())
            .min_by_key(|&place| (infos[place].kind.rank(), place)),
        DeviceChoice::Index(index) => infos.iter().position(|info| info.index == *index),
        DeviceChoice::Name(name) => {
            let name = name.to_lowercase();
            infos.iter().position(|info| info.name.to_lowercase().contains(&name))
        }
    };
    let place = found.ok_or_else(|| Error::NoDevice {
        wanted: choice.to_string(),
        found: infos.iter().map(|info| info.name.clone()).collect(),
    })?;
    let info = infos[place];
    if !info.usable() {
        return Err(Error::VersionTooOld {
            device: info.name.clone(),
            found: info.api_version.to_string(),
            wanted: "1.1".into(),
        });
    }
    Ok(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(index: u32, name: &str, kind: DeviceKind, minor: u32) -> DeviceInfo {
        let api_version = Version { major: 1, minor, patch: 0 };
        DeviceInfo { index, name: name.into(), kind, vendor_id: 0, device_id: 0, api_version }
    }

    #[test]
    fn best_prefers_discrete_and_skips_old_devices() {
        let cpu = info(0, "llvmpipe", DeviceKind::Cpu, 3);
        let old = info(1, "Old GPU", DeviceKind::Discrete, 0);
        let new = info(2, "New GPU", DeviceKind::Discrete, 1);
        assert_eq!(choose(&[&cpu, &old, &new], &DeviceChoice::Best).unwrap(), 2);
        assert_eq!(choose(&[&cpu, &old], &DeviceChoice::Best).unwrap(), 0);
        assert!(matches!(choose(&[&old], &DeviceChoice::Best), Err(Error::NoDevice { .. })));
    }

    #[test]
    fn names_match_in_any_case() {
        let cpu = info(0, "llvmpipe", DeviceKind::Cpu, 3);
        let old = info(1, "Old GPU", DeviceKind::Discrete, 0);
        let by_name = |name: &str| choose(&[&cpu, &old], &DeviceChoice::Name(name.into()));
        assert_eq!(by_name("LLVM").unwrap(), 0);
        assert!(matches!(by_name("gpu"), Err(Error::VersionTooOld { .. })));
        let Err(Error::NoDevice { found, .. }) = by_name("nothing") else { panic!("found a device") };
        assert_eq!(found, ["llvmpipe", "Old GPU"]);
        assert!(choose(&[&cpu], &DeviceChoice::Index(1)).is_err());
    }
}
