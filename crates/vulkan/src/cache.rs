//! The pipeline cache and its file.
//!
//! The file is a header of this crate (magic, length and checksum of what follows) and the driver's data, which starts
//! with a header of its own. Drivers are known to trust their data, so a file that is damaged or of another device or
//! driver never reaches them.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;

use ash::vk;

use crate::error::{Error, Result};

const MAGIC: [u8; 8] = *b"ETVKPC01";
const HEADER: usize = 24;
/// Larger files are not ours.
const MAX_BYTES: u64 = 256 << 20;

pub(crate) struct PipelineCache {
    pub(crate) raw: vk::PipelineCache,
    path: Option<PathBuf>,
    /// Held while the file is written, so that two threads do not share the temporary file.
    writing: Mutex<()>,
}

impl PipelineCache {
    pub(crate) fn open(
        device: &ash::Device,
        properties: &vk::PhysicalDeviceProperties,
        path: Option<PathBuf>,
    ) -> Result<Self> {
        let data = path.as_deref().map(|path| load(path, properties)).unwrap_or_default();
        let info = vk::PipelineCacheCreateInfo::default().initial_data(&data);
        // SAFETY: VUID-VkPipelineCacheCreateInfo-initialDataSize-00768 and -00769: the data is what
        // vkGetPipelineCacheData gave for this device and driver (checksum and header were compared), or empty.
        let raw = match unsafe { device.create_pipeline_cache(&info, None) } {
            Err(result) if !data.is_empty() => {
                tracing::warn!(target: "etvk::vulkan", "the driver refuses the pipeline cache: {result}");
                // SAFETY: without initial data there is no precondition.
                unsafe { device.create_pipeline_cache(&vk::PipelineCacheCreateInfo::default(), None) }
            }
            outcome => outcome,
        }
        .map_err(Error::call("vkCreatePipelineCache"))?;
        Ok(Self { raw, path, writing: Mutex::new(()) })
    }

    pub(crate) fn save(&self, device: &ash::Device) -> bool {
        let Some(path) = &self.path else { return false };
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the cache was made from this device; vkGetPipelineCacheData needs no external synchronisation.
        let data = match unsafe { device.get_pipeline_cache_data(self.raw) } {
            Ok(data) => data,
            Err(result) => {
                tracing::warn!(target: "etvk::vulkan", "vkGetPipelineCacheData failed: {result}");
                return false;
            }
        };
        match store(path, &data) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(target: "etvk::vulkan", "pipeline cache {} not written: {error}", path.display());
                false
            }
        }
    }

    /// # Safety
    /// `device` made the cache, and nothing uses it any more.
    pub(crate) unsafe fn destroy(&self, device: &ash::Device) {
        // SAFETY: VUID-vkDestroyPipelineCache: the caller says that nothing uses the cache.
        unsafe { device.destroy_pipeline_cache(self.raw, None) };
    }
}

/// The driver's data in the file, or nothing.
fn load(path: &Path, properties: &vk::PhysicalDeviceProperties) -> Vec<u8> {
    let file = match read(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            tracing::warn!(target: "etvk::vulkan", "pipeline cache {} not read: {error}", path.display());
            return Vec::new();
        }
    };
    match unwrap(&file).and_then(|data| check_device(data, properties).map(|()| data)) {
        Ok(data) => data.to_vec(),
        Err(reason) => {
            tracing::warn!(target: "etvk::vulkan", "pipeline cache {} ignored: {reason}", path.display());
            Vec::new()
        }
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = Vec::new();
    File::open(path)?.take(MAX_BYTES).read_to_end(&mut file)?;
    Ok(file)
}

/// Writes a file beside the wanted one and renames it, so that readers see the old file or the new one.
fn store(path: &Path, data: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = File::create(&temporary).and_then(|mut file| {
        file.write_all(&wrap(data))?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    });
    if written.is_err() {
        // The failure itself is what gets reported; a leftover file is the lesser evil.
        fs::remove_file(&temporary).ok();
    }
    written
}

fn wrap(data: &[u8]) -> Vec<u8> {
    let mut file = Vec::with_capacity(HEADER + data.len());
    file.extend_from_slice(&MAGIC);
    file.extend_from_slice(&(data.len() as u64).to_le_bytes());
    file.extend_from_slice(&checksum(data).to_le_bytes());
    file.extend_from_slice(data);
    file
}

fn unwrap(file: &[u8]) -> Result<&[u8], &'static str> {
    if field(file, 0) != Some(MAGIC) {
        return Err("not a pipeline cache");
    }
    let data = file.get(HEADER..).ok_or("its header is cut off")?;
    if field(file, 8).map(u64::from_le_bytes) != Some(data.len() as u64) {
        return Err("its length is wrong");
    }
    if field(file, 16).map(u64::from_le_bytes) != Some(checksum(data)) {
        return Err("its checksum is wrong");
    }
    Ok(data)
}

/// Compares `VkPipelineCacheHeaderVersionOne` with the device.
fn check_device(data: &[u8], properties: &vk::PhysicalDeviceProperties) -> Result<(), &'static str> {
    let word = |offset| field(data, offset).map(u32::from_le_bytes);
    if word(0).is_none_or(|bytes| bytes < 32) || word(4) != Some(1) {
        return Err("its Vulkan header is of an unknown version");
    }
    if word(8) != Some(properties.vendor_id) || word(12) != Some(properties.device_id) {
        return Err("it belongs to another device");
    }
    if field::<16>(data, 16) != Some(properties.pipeline_cache_uuid) {
        return Err("it belongs to another driver version");
    }
    Ok(())
}

fn field<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..)?.first_chunk().copied()
}

/// FNV-1a: finds damage, not malice.
fn checksum(data: &[u8]) -> u64 {
    data.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn properties() -> vk::PhysicalDeviceProperties {
        vk::PhysicalDeviceProperties {
            vendor_id: 7,
            device_id: 9,
            pipeline_cache_uuid: [3; 16],
            ..Default::default()
        }
    }

    fn driver_data() -> Vec<u8> {
        let mut data = Vec::new();
        for word in [32u32, 1, 7, 9] {
            data.extend_from_slice(&word.to_le_bytes());
        }
        data.extend_from_slice(&[3; 16]);
        data.extend_from_slice(b"compiled");
        data
    }

    #[test]
    fn any_damage_is_noticed() {
        let file = wrap(&driver_data());
        assert_eq!(unwrap(&file), Ok(&*driver_data()));
        for place in 0..file.len() {
            let mut damaged = file.clone();
            damaged[place] ^= 0x10;
            assert!(unwrap(&damaged).is_err(), "byte {place}");
            assert!(unwrap(&file[..place]).is_err(), "cut at {place}");
        }
    }

    #[test]
    fn other_devices_are_refused() {
        let data = driver_data();
        assert_eq!(check_device(&data, &properties()), Ok(()));
        let other = vk::PhysicalDeviceProperties { device_id: 8, ..properties() };
        assert_eq!(check_device(&data, &other), Err("it belongs to another device"));
        let other = vk::PhysicalDeviceProperties { pipeline_cache_uuid: [4; 16], ..properties() };
        assert_eq!(check_device(&data, &other), Err("it belongs to another driver version"));
        assert!(check_device(&data[..20], &properties()).is_err());
    }
}
