//! The Vulkan objects behind a recording.

use std::collections::HashSet;
use std::sync::Arc;

use ash::vk;

use crate::device::Shared;
use crate::error::{Error, Result};
use crate::hazards::{Barrier, Stages};
use crate::memory::Buffer;
use crate::pipeline::Pipeline;

const SETS_PER_POOL: u32 = 256;
const DESCRIPTORS_PER_POOL: u32 = 8 * SETS_PER_POOL;
/// Timestamps in one query pool.
pub(crate) const QUERIES_PER_POOL: u32 = 1024;

/// Command buffers and all that they refer to. Nothing of it is in use by the device when it is dropped.
pub(crate) struct Commands {
    pub(crate) shared: Arc<Shared>,
    pool: vk::CommandPool,
    pub(crate) buffers: Vec<vk::CommandBuffer>,
    pub(crate) fence: vk::Fence,
    descriptor_pools: Vec<vk::DescriptorPool>,
    sets_left: u32,
    descriptors_left: u32,
    pub(crate) query_pools: Vec<vk::QueryPool>,
    known_buffers: HashSet<vk::Buffer>,
    known_pipelines: HashSet<vk::Pipeline>,
    /// Every mapped buffer that the commands touch, once.
    pub(crate) mapped: Vec<Buffer>,
    unmapped: Vec<Buffer>,
    pipelines: Vec<Pipeline>,
}

impl Commands {
    pub(crate) fn new(shared: &Arc<Shared>) -> Result<Self> {
        let info = vk::CommandPoolCreateInfo::default().queue_family_index(shared.queue_family);
        // SAFETY: VUID-vkCreateCommandPool-queueFamilyIndex-01937: the family is the one the device was made with.
        let pool = unsafe { shared.raw.create_command_pool(&info, None) }
            .map_err(Error::call("vkCreateCommandPool"))?;
        // From here on the drop of `commands` cleans up.
        let mut commands = Self {
            shared: Arc::clone(shared),
            pool,
            buffers: Vec::new(),
            fence: vk::Fence::null(),
            descriptor_pools: Vec::new(),
            sets_left: 0,
            descriptors_left: 0,
            query_pools: Vec::new(),
            known_buffers: HashSet::new(),
            known_pipelines: HashSet::new(),
            mapped: Vec::new(),
            unmapped: Vec::new(),
            pipelines: Vec::new(),
        };
        // SAFETY: creating a fence has no precondition beyond a live device.
        commands.fence = unsafe { shared.raw.create_fence(&vk::FenceCreateInfo::default(), None) }
            .map_err(Error::call("vkCreateFence"))?;
        Ok(commands)
    }

    /// Adds a command buffer and begins it.
    pub(crate) fn begin(&mut self) -> Result<vk::CommandBuffer> {
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(self.pool)
            .level(vk::CommandBufferLevel::PRIMARY)
            .command_buffer_count(1);
        // SAFETY: VUID-vkAllocateCommandBuffers-commandPool: the pool is ours alone (`&mut self`).
        let buffer = unsafe { self.shared.raw.allocate_command_buffers(&info) }
            .map_err(Error::call("vkAllocateCommandBuffers"))?[0];
        self.buffers.push(buffer);
        // SAFETY: VUID-vkBeginCommandBuffer-commandBuffer-00049: the buffer is fresh, thus neither recording nor
        // pending.
        unsafe { self.shared.raw.begin_command_buffer(buffer, &vk::CommandBufferBeginInfo::default()) }
            .map_err(Error::call("vkBeginCommandBuffer"))?;
        Ok(buffer)
    }

    /// A descriptor set for kernels with as many bindings.
    pub(crate) fn descriptor_set(&mut self, pipeline: &Pipeline) -> Result<vk::DescriptorSet> {
        let bindings = pipeline.0.bindings;
        if self.sets_left == 0 || self.descriptors_left < bindings {
            self.add_descriptor_pool(bindings)?;
        }
        let pool = self.descriptor_pools.last().copied().unwrap_or_default();
        let layouts = [pipeline.0.layout.set];
        let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&layouts);
        // SAFETY: VUID-VkDescriptorSetAllocateInfo-apiVersion-07895 and -07896: the counts say that the pool has the
        // set and its descriptors left; it is ours alone (`&mut self`).
        let set = unsafe { self.shared.raw.allocate_descriptor_sets(&info) }
            .map_err(Error::call("vkAllocateDescriptorSets"))?[0];
        self.sets_left -= 1;
        self.descriptors_left -= bindings;
        Ok(set)
    }

    fn add_descriptor_pool(&mut self, bindings: u32) -> Result<()> {
        let descriptors = DESCRIPTORS_PER_POOL.max(bindings);
        let sizes = [vk::DescriptorPoolSize {
            ty: vk::DescriptorType::STORAGE_BUFFER,
            descriptor_count: descriptors,
        }];
        let info = vk::DescriptorPoolCreateInfo::default().max_sets(SETS_PER_POOL).pool_sizes(&sizes);
        // SAFETY: VUID-VkDescriptorPoolCreateInfo-descriptorPoolOverallocation-09227: the counts are not 0.
        let pool = unsafe { self.shared.raw.create_descriptor_pool(&info, None) }
            .map_err(Error::call("vkCreateDescriptorPool"))?;
        self.descriptor_pools.push(pool);
        self.sets_left = SETS_PER_POOL;
        self.descriptors_left = descriptors;
        Ok(())
    }

    /// Adds a pool of [`QUERIES_PER_POOL`] timestamps.
    pub(crate) fn add_query_pool(&mut self) -> Result<vk::QueryPool> {
        let info = vk::QueryPoolCreateInfo::default()
            .query_type(vk::QueryType::TIMESTAMP)
            .query_count(QUERIES_PER_POOL);
        // SAFETY: VUID-VkQueryPoolCreateInfo-queryCount-02763: the count is not 0.
        let pool = unsafe { self.shared.raw.create_query_pool(&info, None) }
            .map_err(Error::call("vkCreateQueryPool"))?;
        self.query_pools.push(pool);
        Ok(pool)
    }

    /// Keeps the buffer for as long as the commands.
    pub(crate) fn keep_buffer(&mut self, buffer: &Buffer) {
        if self.known_buffers.insert(buffer.0.raw) {
            let list = if buffer.is_mapped() { &mut self.mapped } else { &mut self.unmapped };
            list.push(buffer.clone());
        }
    }

    /// Keeps the pipeline for as long as the commands.
    pub(crate) fn keep_pipeline(&mut self, pipeline: &Pipeline) {
        if self.known_pipelines.insert(pipeline.0.raw) {
            self.pipelines.push(pipeline.clone());
        }
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        let device = &self.shared.raw;
        // SAFETY: VUID-vkDestroyCommandPool-commandPool-00041, VUID-vkDestroyDescriptorPool-descriptorPool-00303,
        // VUID-vkDestroyQueryPool-queryPool-00793, VUID-vkDestroyFence-fence-01120: every submission is waited for
        // before its function returns, so none of these is in use. Null handles are allowed.
        unsafe {
            device.destroy_command_pool(self.pool, None);
            device.destroy_fence(self.fence, None);
            for &pool in &self.descriptor_pools {
                device.destroy_descriptor_pool(pool, None);
            }
            for &pool in &self.query_pools {
                device.destroy_query_pool(pool, None);
            }
        }
    }
}

/// Records a barrier into a command buffer that is recording and belongs to the caller alone. With `to_host`, the host
/// comes after it too.
pub(crate) fn record_barrier(shared: &Shared, commands: vk::CommandBuffer, barrier: Barrier, to_host: bool) {
    let (src_stages, _, src_access) = masks(barrier.before);
    let (mut dst_stages, dst_reads, dst_writes) = masks(barrier.after);
    let mut dst_access = dst_reads | dst_writes;
    if to_host {
        dst_stages |= vk::PipelineStageFlags::HOST;
        dst_access |= vk::AccessFlags::HOST_READ | vk::AccessFlags::HOST_WRITE;
    }
    let memory = [vk::MemoryBarrier::default().src_access_mask(src_access).dst_access_mask(dst_access)];
    let flags = vk::DependencyFlags::empty();
    // SAFETY: VUID-vkCmdPipelineBarrier-srcAccessMask-02815 and -dstAccessMask-02816: `masks` pairs stages with
    // accesses that they perform, and a barrier is never without stages. The command buffer is recording and the
    // caller's alone, as is asked for above.
    unsafe { shared.raw.cmd_pipeline_barrier(commands, src_stages, dst_stages, flags, &memory, &[], &[]) };
}

/// Vulkan's stages, reads and writes.
fn masks(stages: Stages) -> (vk::PipelineStageFlags, vk::AccessFlags, vk::AccessFlags) {
    let mut flags = vk::PipelineStageFlags::empty();
    let (mut reads, mut writes) = (vk::AccessFlags::empty(), vk::AccessFlags::empty());
    if stages.contains(Stages::COMPUTE) {
        flags |= vk::PipelineStageFlags::COMPUTE_SHADER;
        reads |= vk::AccessFlags::SHADER_READ;
        writes |= vk::AccessFlags::SHADER_WRITE;
    }
    if stages.contains(Stages::TRANSFER) {
        flags |= vk::PipelineStageFlags::TRANSFER;
        reads |= vk::AccessFlags::TRANSFER_READ;
        writes |= vk::AccessFlags::TRANSFER_WRITE;
    }
    if stages.contains(Stages::INDIRECT) {
        flags |= vk::PipelineStageFlags::DRAW_INDIRECT;
        reads |= vk::AccessFlags::INDIRECT_COMMAND_READ;
    }
    (flags, reads, writes)
}
