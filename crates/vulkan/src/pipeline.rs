//! Compute pipelines and their layouts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use ash::vk;

use crate::device::Shared;
use crate::error::{Error, Result, check_aligned, check_limit};

const SPIRV_MAGIC: u32 = 0x0723_0203;

/// What a compute pipeline is made from. The entry point is `main`; bindings are storage buffers of set 0.
#[derive(Clone, Copy, Debug)]
pub struct PipelineDesc<'a> {
    /// Name for messages and timings.
    pub label: &'a str,
    /// The kernel.
    pub spirv: &'a [u8],
    /// Storage buffers, at bindings 0 up to this.
    pub bindings: u32,
    /// Bytes of push constants, a multiple of 4.
    pub push_bytes: u32,
    /// Values of the specialisation constants 0, 1, 2 and so on.
    pub specialization: &'a [u32],
    /// Invocations a subgroup, where it matters.
    pub subgroup_size: Option<u32>,
}

/// A compiled kernel. Clones are cheap and share it.
#[derive(Clone)]
pub struct Pipeline(pub(crate) Arc<PipelineInner>);

pub(crate) struct PipelineInner {
    pub(crate) shared: Arc<Shared>,
    pub(crate) raw: vk::Pipeline,
    pub(crate) layout: Layout,
    pub(crate) label: String,
    pub(crate) bindings: u32,
    pub(crate) push_bytes: u32,
}

/// The layouts of all kernels with as many bindings and push constants. Owned by [`Layouts`].
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) set: vk::DescriptorSetLayout,
    pub(crate) pipeline: vk::PipelineLayout,
}

/// Layouts by number of bindings and bytes of push constants.
#[derive(Default)]
pub(crate) struct Layouts(Mutex<HashMap<(u32, u32), Layout>>);

impl std::fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pipeline({:?})", self.0.label)
    }
}

impl Pipeline {
    pub(crate) fn new(shared: &Arc<Shared>, desc: &PipelineDesc<'_>) -> Result<Self> {
        let capabilities = &shared.capabilities;
        let label = desc.label;
        check_limit(
            || format!("storage buffers of kernel {label}"),
            capabilities.max_storage_buffers.into(),
            desc.bindings.into(),
        )?;
        check_limit(
            || format!("bytes of push constants of kernel {label}"),
            capabilities.max_push_constants.into(),
            desc.push_bytes.into(),
        )?;
        check_aligned(|| format!("bytes of push constants of kernel {label}"), 4, desc.push_bytes.into())?;
        let required_size = required_subgroup_size(shared, desc)?;
        let words = words(desc)?;
        let layout = shared.layouts.get(shared, desc.bindings, desc.push_bytes)?;

        let info = vk::ShaderModuleCreateInfo::default().code(&words);
        // SAFETY: VUID-VkShaderModuleCreateInfo-pCode-08736 and later: the code is SPIR-V as far as its magic and
        // length tell; kernels are part of the program that calls this, not read from models.
        let module = unsafe { shared.raw.create_shader_module(&info, None) }
            .map_err(Error::call("vkCreateShaderModule"))?;
        let compiled = compile(shared, module, layout, desc.specialization, required_size);
        // SAFETY: VUID-vkDestroyShaderModule: the module may go once the pipeline exists.
        unsafe { shared.raw.destroy_shader_module(module, None) };
        let raw = compiled?;
        shared.name(raw, label);
        Ok(Self(Arc::new(PipelineInner {
            shared: Arc::clone(shared),
            raw,
            layout,
            label: label.into(),
            bindings: desc.bindings,
            push_bytes: desc.push_bytes,
        })))
    }

    /// The name that it was given.
    pub fn label(&self) -> &str {
        &self.0.label
    }

    /// Number of storage buffers that it binds.
    pub fn bindings(&self) -> u32 {
        self.0.bindings
    }

    /// Bytes of push constants that it takes.
    pub fn push_bytes(&self) -> u32 {
        self.0.push_bytes
    }
}

impl Drop for PipelineInner {
    fn drop(&mut self) {
        // SAFETY: VUID-vkDestroyPipeline-pipeline-00765: recordings hold clones until their submissions have
        // finished, so the device does not use the pipeline.
        unsafe { self.shared.raw.destroy_pipeline(self.raw, None) };
    }
}

fn required_subgroup_size(shared: &Shared, desc: &PipelineDesc<'_>) -> Result<Option<u32>> {
    let Some(size) = desc.subgroup_size else { return Ok(None) };
    let capabilities = &shared.capabilities;
    match capabilities.subgroup_sizes {
        Some((least, greatest)) if size.is_power_of_two() && (least..=greatest).contains(&size) => {
            Ok(Some(size))
        }
        None if size == capabilities.subgroup_size => Ok(None),
        _ => Err(Error::Unsupported { what: format!("subgroup size {size} (kernel {})", desc.label) }),
    }
}

fn words(desc: &PipelineDesc<'_>) -> Result<Vec<u32>> {
    let bad = |reason: String| Error::BadSpirv { label: desc.label.into(), reason };
    if desc.spirv.len() < 20 || !desc.spirv.len().is_multiple_of(4) {
        return Err(bad(format!("{} bytes are no whole module", desc.spirv.len())));
    }
    let words: Vec<u32> = bytemuck::pod_collect_to_vec(desc.spirv);
    match words[0] {
        SPIRV_MAGIC => Ok(words),
        other => Err(bad(format!("it starts with {other:#010x}"))),
    }
}

fn compile(
    shared: &Shared,
    module: vk::ShaderModule,
    layout: Layout,
    specialization: &[u32],
    required_size: Option<u32>,
) -> Result<vk::Pipeline> {
    let entries: Vec<_> = (0..)
        .zip(specialization)
        .map(|(id, _)| vk::SpecializationMapEntry { constant_id: id, offset: 4 * id, size: 4 })
        .collect();
    let constants =
        vk::SpecializationInfo::default().map_entries(&entries).data(bytemuck::cast_slice(specialization));
    let mut stage = vk::PipelineShaderStageCreateInfo::default()
        .stage(vk::ShaderStageFlags::COMPUTE)
        .module(module)
        .name(c"main")
        .specialization_info(&constants);
    let mut size_info = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo::default();
    if let Some(size) = required_size {
        size_info = size_info.required_subgroup_size(size);
        stage = stage.push_next(&mut size_info);
    }
    let infos = [vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout.pipeline)];
    // SAFETY: VUID-VkSpecializationInfo-offset-00773 and -pMapEntries-00774: each entry lies inside the data.
    // VUID-VkPipelineShaderStageRequiredSubgroupSizeCreateInfo-requiredSubgroupSize-02760 to -02762: the size was
    // checked. The cache is internally synchronised. All pointers are to locals that outlive the call.
    let made = unsafe { shared.raw.create_compute_pipelines(shared.cache.raw, &infos, None) };
    match made {
        Ok(pipelines) => Ok(pipelines[0]),
        // A failed call leaves null handles, which need no destroying.
        Err((_, result)) => Err(Error::call("vkCreateComputePipelines")(result)),
    }
}

impl Layouts {
    fn get(&self, shared: &Shared, bindings: u32, push_bytes: u32) -> Result<Layout> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(layout) = known.get(&(bindings, push_bytes)) {
            return Ok(*layout);
        }
        let layout = create_layout(&shared.raw, bindings, push_bytes)?;
        known.insert((bindings, push_bytes), layout);
        Ok(layout)
    }

    /// # Safety
    /// `device` made the layouts, and nothing uses them any more.
    pub(crate) unsafe fn destroy(&self, device: &ash::Device) {
        for (_, layout) in self.0.lock().unwrap_or_else(PoisonError::into_inner).drain() {
            // SAFETY: VUID-vkDestroyPipelineLayout-pipelineLayout-02004 and VUID-vkDestroyDescriptorSetLayout: the
            // caller says that nothing uses them.
            unsafe {
                device.destroy_pipeline_layout(layout.pipeline, None);
                device.destroy_descriptor_set_layout(layout.set, None);
            }
        }
    }
}

fn create_layout(device: &ash::Device, bindings: u32, push_bytes: u32) -> Result<Layout> {
    let bindings: Vec<_> = (0..bindings)
        .map(|binding| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(binding)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .descriptor_count(1)
                .stage_flags(vk::ShaderStageFlags::COMPUTE)
        })
        .collect();
    let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
    // SAFETY: VUID-VkDescriptorSetLayoutCreateInfo-binding-00279: the binding numbers differ.
    let set = unsafe { device.create_descriptor_set_layout(&info, None) }
        .map_err(Error::call("vkCreateDescriptorSetLayout"))?;
    let sets = [set];
    let ranges =
        [vk::PushConstantRange { stage_flags: vk::ShaderStageFlags::COMPUTE, offset: 0, size: push_bytes }];
    let mut info = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets);
    if push_bytes > 0 {
        info = info.push_constant_ranges(&ranges);
    }
    // SAFETY: VUID-VkPushConstantRange-size-00296 to -00298 and the descriptor limits: the caller compared both with
    // the device's limits; the size is a multiple of 4 and not 0.
    match unsafe { device.create_pipeline_layout(&info, None) } {
        Ok(pipeline) => Ok(Layout { set, pipeline }),
        Err(result) => {
            // SAFETY: nothing was made with the set layout yet.
            unsafe { device.destroy_descriptor_set_layout(set, None) };
            Err(Error::call("vkCreatePipelineLayout")(result))
        }
    }
}
