//! What a device can do, as plain data.

use std::collections::HashSet;
use std::ffi::CStr;

use ash::{khr, vk};

use crate::choice::{DeviceKind, Version, text};
use crate::features::Features;
use crate::instance::Instance;
use crate::memory::MemoryTypes;

/// What a device can do. Which of its features are on is told by
/// [`Device::enabled_features`](crate::Device::enabled_features).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Capabilities {
    /// The driver's name for the device.
    pub name: String,
    /// What kind of device it is.
    pub kind: DeviceKind,
    /// PCI vendor id, or a Khronos one.
    pub vendor_id: u32,
    /// The vendor's id for the device.
    pub device_id: u32,
    /// Name of the driver; empty where it does not tell.
    pub driver_name: String,
    /// The driver's own words on its version; empty where it does not tell.
    pub driver_info: String,
    /// Version of the driver, in the vendor's encoding.
    pub driver_version: u32,
    /// Vulkan version in use: the device's, or the newest that this crate asks for.
    pub api_version: Version,
    /// Most bytes that one storage buffer binding may cover.
    pub max_storage_buffer_range: u64,
    /// What the offset of a storage buffer binding must be a multiple of, in bytes.
    pub min_storage_buffer_offset_alignment: u64,
    /// Most storage buffers that one kernel may bind.
    pub max_storage_buffers: u32,
    /// Most invocations in one workgroup.
    pub max_workgroup_invocations: u32,
    /// Most invocations in one workgroup along x, y and z.
    pub max_workgroup_size: [u32; 3],
    /// Most workgroups in one dispatch along x, y and z.
    pub max_workgroup_count: [u32; 3],
    /// Most shared memory of one workgroup, in bytes.
    pub max_shared_memory: u32,
    /// Most push constants, in bytes.
    pub max_push_constants: u32,
    /// Invocations in a subgroup, unless a pipeline asks for another size.
    pub subgroup_size: u32,
    /// Least and greatest subgroup size that a compute pipeline may ask for; `None` when it may not ask.
    pub subgroup_sizes: Option<(u32, u32)>,
    /// Compute kernels may reduce and scan over a subgroup.
    pub subgroup_arithmetic: bool,
    /// Compute kernels may shuffle within a subgroup.
    pub subgroup_shuffle: bool,
    /// Features that the device supports.
    pub features: Features,
    /// Shapes and types of cooperative matrices; empty without `VK_KHR_cooperative_matrix`.
    pub cooperative_matrix: Vec<CooperativeMatrix>,
    /// Nanoseconds in one tick of a timestamp.
    pub timestamp_period_ns: f64,
    /// Bits of a timestamp that count; 0 when the device has no timestamps.
    pub timestamp_valid_bits: u32,
    /// The memory heaps.
    pub heaps: Vec<Heap>,
    /// Most bytes in one buffer.
    pub max_allocation_size: u64,
    /// Upload buffers live in device memory (a heap large enough to hold whole models is visible to the host).
    pub upload_is_device_local: bool,
    /// Device buffers are mapped: host and device share their memory.
    pub device_is_mapped: bool,
}

/// One memory heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heap {
    /// Its size.
    pub bytes: u64,
    /// Whether it is the device's own memory.
    pub device_local: bool,
}

/// One supported product of cooperative matrices: an `m`×`k` matrix of `a` times a `k`×`n` matrix of `b`, plus an
/// `m`×`n` matrix of `c`, gives an `m`×`n` matrix of `result`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CooperativeMatrix {
    /// Rows of the product.
    pub m: u32,
    /// Columns of the product.
    pub n: u32,
    /// Length of the sums.
    pub k: u32,
    /// Type of the left factor.
    pub a: ComponentType,
    /// Type of the right factor.
    pub b: ComponentType,
    /// Type of what is added.
    pub c: ComponentType,
    /// Type of the result.
    pub result: ComponentType,
    /// Integer sums may saturate.
    pub saturating: bool,
    /// Which invocations share a matrix.
    pub scope: MatrixScope,
}

/// Type of the elements of a cooperative matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it all")]
#[non_exhaustive]
pub enum ComponentType {
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    /// A type newer than this crate.
    Other,
}

impl ComponentType {
    fn from_raw(raw: vk::ComponentTypeKHR) -> Self {
        match raw {
            vk::ComponentTypeKHR::FLOAT16 => Self::F16,
            vk::ComponentTypeKHR::FLOAT32 => Self::F32,
            vk::ComponentTypeKHR::FLOAT64 => Self::F64,
            vk::ComponentTypeKHR::SINT8 => Self::I8,
            vk::ComponentTypeKHR::SINT16 => Self::I16,
            vk::ComponentTypeKHR::SINT32 => Self::I32,
            vk::ComponentTypeKHR::SINT64 => Self::I64,
            vk::ComponentTypeKHR::UINT8 => Self::U8,
            vk::ComponentTypeKHR::UINT16 => Self::U16,
            vk::ComponentTypeKHR::UINT32 => Self::U32,
            vk::ComponentTypeKHR::UINT64 => Self::U64,
            _ => Self::Other,
        }
    }
}

/// Which invocations share a cooperative matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MatrixScope {
    /// Those of a subgroup.
    Subgroup,
    /// Those of a workgroup.
    Workgroup,
    /// Something wider.
    Other,
}

/// The extensions of a device and the version that it is used with.
pub(crate) struct Support {
    extensions: HashSet<Vec<u8>>,
    pub(crate) version: Version,
}

impl Support {
    pub(crate) fn query(instance: &Instance, device: vk::PhysicalDevice) -> crate::Result<Self> {
        // SAFETY: the handle came from this instance, which is alive.
        let (listed, properties) = unsafe {
            (
                instance.raw.enumerate_device_extension_properties(device),
                instance.raw.get_physical_device_properties(device),
            )
        };
        let extensions = listed
            .map_err(crate::Error::call("vkEnumerateDeviceExtensionProperties"))?
            .iter()
            .filter_map(|item| Some(item.extension_name_as_c_str().ok()?.to_bytes().to_vec()))
            .collect();
        let version = Version::from_raw(properties.api_version.min(Instance::API_VERSION));
        Ok(Self { extensions, version })
    }

    /// Whether the device has the extension.
    pub(crate) fn has(&self, name: &CStr) -> bool {
        self.extensions.contains(name.to_bytes())
    }

    /// Whether the device has the extension, or a version of Vulkan that took it in.
    pub(crate) fn has_or_core(&self, name: &CStr, minor: u32) -> bool {
        self.version.at_least(1, minor) || self.has(name)
    }
}

pub(crate) fn query(
    instance: &Instance,
    device: vk::PhysicalDevice,
    support: &Support,
    features: Features,
    memory: &MemoryTypes,
    timestamp_valid_bits: u32,
) -> Capabilities {
    let mut subgroup = vk::PhysicalDeviceSubgroupProperties::default();
    let mut maintenance3 = vk::PhysicalDeviceMaintenance3Properties::default();
    let mut maintenance4 = vk::PhysicalDeviceMaintenance4Properties::default();
    let mut driver = vk::PhysicalDeviceDriverProperties::default();
    let mut sizes = vk::PhysicalDeviceSubgroupSizeControlProperties::default();
    let mut chain =
        vk::PhysicalDeviceProperties2::default().push_next(&mut subgroup).push_next(&mut maintenance3);
    if support.has_or_core(khr::maintenance4::NAME, 3) {
        chain = chain.push_next(&mut maintenance4);
    }
    if support.has_or_core(khr::driver_properties::NAME, 2) {
        chain = chain.push_next(&mut driver);
    }
    if features.subgroup_size_control {
        chain = chain.push_next(&mut sizes);
    }
    // SAFETY: VUID-VkPhysicalDeviceProperties2-pNext-pNext: every chained structure is core in the device's version
    // or belongs to one of its extensions; the device is of this instance and speaks at least 1.1.
    unsafe { instance.raw.get_physical_device_properties2(device, &mut chain) };
    let properties = chain.properties;
    let limits = properties.limits;

    let in_compute = subgroup.supported_stages.contains(vk::ShaderStageFlags::COMPUTE);
    let subgroup_can = |operation| in_compute && subgroup.supported_operations.contains(operation);
    let sizes_in_compute = features.subgroup_size_control
        && sizes.required_subgroup_size_stages.contains(vk::ShaderStageFlags::COMPUTE);
    let max_buffer = match maintenance4.max_buffer_size {
        0 => u64::MAX,
        bytes => bytes,
    };
    Capabilities {
        name: text(properties.device_name_as_c_str()),
        kind: DeviceKind::from_raw(properties.device_type),
        vendor_id: properties.vendor_id,
        device_id: properties.device_id,
        driver_name: text(driver.driver_name_as_c_str()),
        driver_info: text(driver.driver_info_as_c_str()),
        driver_version: properties.driver_version,
        api_version: support.version,
        max_storage_buffer_range: limits.max_storage_buffer_range.into(),
        min_storage_buffer_offset_alignment: limits.min_storage_buffer_offset_alignment,
        max_storage_buffers: limits
            .max_per_stage_descriptor_storage_buffers
            .min(limits.max_descriptor_set_storage_buffers)
            .min(limits.max_per_stage_resources),
        max_workgroup_invocations: limits.max_compute_work_group_invocations,
        max_workgroup_size: limits.max_compute_work_group_size,
        max_workgroup_count: limits.max_compute_work_group_count,
        max_shared_memory: limits.max_compute_shared_memory_size,
        max_push_constants: limits.max_push_constants_size,
        subgroup_size: subgroup.subgroup_size,
        subgroup_sizes: sizes_in_compute.then_some((sizes.min_subgroup_size, sizes.max_subgroup_size)),
        subgroup_arithmetic: subgroup_can(vk::SubgroupFeatureFlags::ARITHMETIC),
        subgroup_shuffle: subgroup_can(vk::SubgroupFeatureFlags::SHUFFLE),
        features,
        cooperative_matrix: cooperative_matrices(instance, device, features),
        timestamp_period_ns: limits.timestamp_period.into(),
        timestamp_valid_bits,
        heaps: memory.heaps(),
        max_allocation_size: maintenance3.max_memory_allocation_size.min(max_buffer),
        upload_is_device_local: memory.upload_is_device_local(),
        device_is_mapped: memory.device_is_mapped(),
    }
}

fn cooperative_matrices(
    instance: &Instance,
    device: vk::PhysicalDevice,
    features: Features,
) -> Vec<CooperativeMatrix> {
    if !features.cooperative_matrix {
        return Vec::new();
    }
    let functions = khr::cooperative_matrix::Instance::new(&instance.entry, &instance.raw);
    // SAFETY: the device is of this instance and has VK_KHR_cooperative_matrix, as `features` says.
    let list = match unsafe { functions.get_physical_device_cooperative_matrix_properties(device) } {
        Ok(list) => list,
        Err(result) => {
            tracing::warn!(target: "etvk::vulkan", "cooperative matrices cannot be listed: {result}");
            return Vec::new();
        }
    };
    list.iter()
        .map(|item| CooperativeMatrix {
            m: item.m_size,
            n: item.n_size,
            k: item.k_size,
            a: ComponentType::from_raw(item.a_type),
            b: ComponentType::from_raw(item.b_type),
            c: ComponentType::from_raw(item.c_type),
            result: ComponentType::from_raw(item.result_type),
            saturating: item.saturating_accumulation == vk::TRUE,
            scope: match item.scope {
                vk::ScopeKHR::SUBGROUP => MatrixScope::Subgroup,
                vk::ScopeKHR::WORKGROUP => MatrixScope::Workgroup,
                _ => MatrixScope::Other,
            },
        })
        .collect()
}
