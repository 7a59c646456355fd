//! Optional features: what is supported, and the chain that asks for it and turns it on.

use std::ffi::CStr;

use ash::{ext, khr, vk};

use crate::capabilities::Support;
use crate::instance::Instance;

/// Optional features that kernels may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Features {
    /// Storage buffers may hold 16-bit values.
    pub storage_16bit: bool,
    /// Storage buffers may hold 8-bit values.
    pub storage_8bit: bool,
    /// Arithmetic on 16-bit floats.
    pub shader_float16: bool,
    /// Arithmetic on 8-bit integers.
    pub shader_int8: bool,
    /// Arithmetic on 16-bit integers.
    pub shader_int16: bool,
    /// Arithmetic on 64-bit integers.
    pub shader_int64: bool,
    /// Arithmetic on 64-bit floats.
    pub shader_float64: bool,
    /// Subgroup operations on 8-, 16- and 64-bit integers and 16-bit floats.
    pub subgroup_extended_types: bool,
    /// Integer dot products.
    pub integer_dot_product: bool,
    /// The Vulkan memory model, with device scope.
    pub vulkan_memory_model: bool,
    /// Cooperative matrices (KHR).
    pub cooperative_matrix: bool,
    /// A pipeline may ask for its subgroup size.
    pub subgroup_size_control: bool,
}

impl Features {
    /// The features that the device supports.
    pub(crate) fn query(instance: &Instance, device: vk::PhysicalDevice, support: &Support) -> Self {
        let mut links = Links::default();
        let mut chain = links.chain(support);
        // SAFETY: VUID-VkPhysicalDeviceFeatures2-pNext-pNext: `Links::chain` links only what the device's version
        // or extensions know; the device is of this instance and speaks at least 1.1.
        unsafe { instance.raw.get_physical_device_features2(device, &mut chain) };
        let core = chain.features;
        Self {
            storage_16bit: links.storage_16bit.storage_buffer16_bit_access == vk::TRUE,
            storage_8bit: links.storage_8bit.storage_buffer8_bit_access == vk::TRUE,
            shader_float16: links.float16_int8.shader_float16 == vk::TRUE,
            shader_int8: links.float16_int8.shader_int8 == vk::TRUE,
            shader_int16: core.shader_int16 == vk::TRUE,
            shader_int64: core.shader_int64 == vk::TRUE,
            shader_float64: core.shader_float64 == vk::TRUE,
            subgroup_extended_types: links.extended_types.shader_subgroup_extended_types == vk::TRUE,
            integer_dot_product: links.dot_product.shader_integer_dot_product == vk::TRUE,
            vulkan_memory_model: links.memory_model.vulkan_memory_model == vk::TRUE
                && links.memory_model.vulkan_memory_model_device_scope == vk::TRUE,
            cooperative_matrix: links.cooperative_matrix.cooperative_matrix == vk::TRUE,
            subgroup_size_control: links.size_control.subgroup_size_control == vk::TRUE,
        }
    }

    /// The links that turn these features on.
    pub(crate) fn links(&self) -> Links {
        let mut links = Links::default();
        links.core = links
            .core
            .shader_int16(self.shader_int16)
            .shader_int64(self.shader_int64)
            .shader_float64(self.shader_float64);
        links.storage_16bit = links.storage_16bit.storage_buffer16_bit_access(self.storage_16bit);
        links.storage_8bit = links.storage_8bit.storage_buffer8_bit_access(self.storage_8bit);
        links.float16_int8 =
            links.float16_int8.shader_float16(self.shader_float16).shader_int8(self.shader_int8);
        links.extended_types =
            links.extended_types.shader_subgroup_extended_types(self.subgroup_extended_types);
        links.dot_product = links.dot_product.shader_integer_dot_product(self.integer_dot_product);
        links.memory_model = links
            .memory_model
            .vulkan_memory_model(self.vulkan_memory_model)
            .vulkan_memory_model_device_scope(self.vulkan_memory_model);
        links.cooperative_matrix = links.cooperative_matrix.cooperative_matrix(self.cooperative_matrix);
        links.size_control = links.size_control.subgroup_size_control(self.subgroup_size_control);
        links
    }

    /// Device extensions that these features need (those that the version in use took in need none).
    pub(crate) fn extensions(&self, support: &Support) -> Vec<&'static CStr> {
        let float16_int8 = self.shader_float16 || self.shader_int8;
        let core_since: [(bool, &CStr, u32); 6] = [
            (self.storage_8bit, khr::_8bit_storage::NAME, 2),
            (float16_int8, khr::shader_float16_int8::NAME, 2),
            (self.subgroup_extended_types, khr::shader_subgroup_extended_types::NAME, 2),
            (self.vulkan_memory_model, khr::vulkan_memory_model::NAME, 2),
            (self.integer_dot_product, khr::shader_integer_dot_product::NAME, 3),
            (self.subgroup_size_control, ext::subgroup_size_control::NAME, 3),
        ];
        let mut names: Vec<_> = core_since
            .into_iter()
            .filter(|&(on, _, minor)| on && !support.version.at_least(1, minor))
            .map(|(_, name, _)| name)
            .collect();
        if self.cooperative_matrix {
            names.push(khr::cooperative_matrix::NAME);
        }
        // VUID-VkDeviceCreateInfo-pProperties-04451: a device that has it must be opened with it.
        if support.has(khr::portability_subset::NAME) {
            names.push(khr::portability_subset::NAME);
        }
        names
    }
}

/// The structures of the feature chain.
#[derive(Default)]
pub(crate) struct Links {
    core: vk::PhysicalDeviceFeatures,
    storage_16bit: vk::PhysicalDevice16BitStorageFeatures<'static>,
    storage_8bit: vk::PhysicalDevice8BitStorageFeatures<'static>,
    float16_int8: vk::PhysicalDeviceShaderFloat16Int8Features<'static>,
    extended_types: vk::PhysicalDeviceShaderSubgroupExtendedTypesFeatures<'static>,
    dot_product: vk::PhysicalDeviceShaderIntegerDotProductFeatures<'static>,
    memory_model: vk::PhysicalDeviceVulkanMemoryModelFeatures<'static>,
    cooperative_matrix: vk::PhysicalDeviceCooperativeMatrixFeaturesKHR<'static>,
    size_control: vk::PhysicalDeviceSubgroupSizeControlFeatures<'static>,
}

impl Links {
    /// Chains those structures that the device knows.
    pub(crate) fn chain(&mut self, support: &Support) -> vk::PhysicalDeviceFeatures2<'_> {
        let mut chain =
            vk::PhysicalDeviceFeatures2::default().features(self.core).push_next(&mut self.storage_16bit);
        if support.has_or_core(khr::_8bit_storage::NAME, 2) {
            chain = chain.push_next(&mut self.storage_8bit);
        }
        if support.has_or_core(khr::shader_float16_int8::NAME, 2) {
            chain = chain.push_next(&mut self.float16_int8);
        }
        if support.has_or_core(khr::shader_subgroup_extended_types::NAME, 2) {
            chain = chain.push_next(&mut self.extended_types);
        }
        if support.has_or_core(khr::vulkan_memory_model::NAME, 2) {
            chain = chain.push_next(&mut self.memory_model);
        }
        if support.has_or_core(khr::shader_integer_dot_product::NAME, 3) {
            chain = chain.push_next(&mut self.dot_product);
        }
        if support.has_or_core(ext::subgroup_size_control::NAME, 3) {
            chain = chain.push_next(&mut self.size_control);
        }
        if support.has(khr::cooperative_matrix::NAME) {
            chain = chain.push_next(&mut self.cooperative_matrix);
        }
        chain
    }
}
