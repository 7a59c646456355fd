//! Recording commands, with barriers where data flows.

use std::sync::Arc;

use ash::vk;

use crate::commands::{Commands, QUERIES_PER_POOL, record_barrier};
use crate::device::Shared;
use crate::error::{Error, Result, check_aligned, check_limit};
use crate::hazards::{Barrier, Stages, Touch, Tracker};
use crate::memory::Buffer;
use crate::pipeline::Pipeline;
use crate::recording::{Recording, RecordingStats};

/// How to record.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecorderOptions {
    /// Take the time of every dispatch; see [`Recording::timings`].
    pub timestamps: bool,
}

/// What a kernel does with the bytes of a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Only reads them.
    Read,
    /// Only writes them.
    Write,
    /// Does both.
    ReadWrite,
}

/// A part of a buffer that a kernel sees as one storage buffer.
#[derive(Clone, Copy, Debug)]
pub struct Binding<'a> {
    /// The buffer.
    pub buffer: &'a Buffer,
    /// First byte, a multiple of
    /// [`min_storage_buffer_offset_alignment`](crate::Capabilities::min_storage_buffer_offset_alignment).
    pub offset: u64,
    /// Bytes, at least 1.
    pub bytes: u64,
    /// What the kernel does with them.
    pub access: Access,
}

/// Bytes of the three group counts of an indirect dispatch.
const INDIRECT_BYTES: u64 = 12;

/// Where a dispatch gets its size from.
enum Groups<'a> {
    Fixed([u32; 3]),
    Indirect(&'a Buffer, u64),
}

/// Records commands. They run in the order recorded, as far as data flows between them.
pub struct Recorder {
    commands: Commands,
    current: vk::CommandBuffer,
    bound: Option<vk::Pipeline>,
    dispatches_in_current: u32,
    tracker: Tracker,
    stats: RecordingStats,
    /// The tag of each timestamp: of the dispatch in front of it, or `None` for those in front of other things.
    marks: Option<Vec<Option<u32>>>,
}

impl Recorder {
    pub(crate) fn new(shared: &Arc<Shared>, options: &RecorderOptions) -> Result<Self> {
        if options.timestamps && shared.capabilities.timestamp_valid_bits == 0 {
            return Err(Error::Unsupported { what: "timestamps".into() });
        }
        let mut commands = Commands::new(shared)?;
        let current = commands.begin()?;
        let mut recorder = Self {
            commands,
            current,
            bound: None,
            dispatches_in_current: 0,
            tracker: Tracker::default(),
            stats: RecordingStats::default(),
            marks: options.timestamps.then(Vec::new),
        };
        recorder.mark(None)?;
        Ok(recorder)
    }

    /// Counts of what was recorded so far.
    pub fn stats(&self) -> RecordingStats {
        self.stats
    }

    /// Records the run of a kernel over `groups` workgroups; nothing when a count is 0. `tag` comes back in
    /// [`Recording::timings`].
    ///
    /// # Errors
    /// [`Error::Mismatch`] when the bindings or push constants are not as many as the pipeline takes,
    /// [`Error::OutOfBounds`], [`Error::Misaligned`], [`Error::LimitExceeded`], [`Error::ForeignObject`].
    pub fn dispatch(
        &mut self,
        pipeline: &Pipeline,
        bindings: &[Binding<'_>],
        push: &[u8],
        groups: [u32; 3],
        tag: u32,
    ) -> Result<()> {
        self.check_dispatch(pipeline, bindings, push)?;
        let limits = self.commands.shared.capabilities.max_workgroup_count;
        for (axis, (asked, limit)) in ["x", "y", "z"].into_iter().zip(groups.into_iter().zip(limits)) {
            check_limit(
                || format!("workgroups of {} along {axis}", pipeline.label()),
                limit.into(),
                asked.into(),
            )?;
        }
        if groups.contains(&0) {
            return Ok(());
        }
        self.record_dispatch(pipeline, bindings, push, &Groups::Fixed(groups), tag)
    }

    /// Records the run of a kernel over as many workgroups as three 32-bit words of `sizes` say when it runs. They
    /// must not be over [`max_workgroup_count`](crate::Capabilities::max_workgroup_count), which nobody checks.
    ///
    /// # Errors
    /// As for [`dispatch`](Self::dispatch); `offset` must be a multiple of 4.
    pub fn dispatch_indirect(
        &mut self,
        pipeline: &Pipeline,
        bindings: &[Binding<'_>],
        push: &[u8],
        sizes: &Buffer,
        offset: u64,
        tag: u32,
    ) -> Result<()> {
        self.check_dispatch(pipeline, bindings, push)?;
        self.check_buffer(sizes)?;
        sizes.0.check_range("dispatch sizes", &(offset..offset.saturating_add(INDIRECT_BYTES)))?;
        check_aligned(|| format!("offset of dispatch sizes in {}", sizes.label()), 4, offset)?;
        self.record_dispatch(pipeline, bindings, push, &Groups::Indirect(sizes, offset), tag)
    }

    /// Records a copy of `bytes` bytes; nothing for 0.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], [`Error::Overlap`], [`Error::ForeignObject`].
    pub fn copy(
        &mut self,
        src: &Buffer,
        src_offset: u64,
        dst: &Buffer,
        dst_offset: u64,
        bytes: u64,
    ) -> Result<()> {
        let from = src_offset..src_offset.saturating_add(bytes);
        let to = dst_offset..dst_offset.saturating_add(bytes);
        self.check_buffer(src)?;
        self.check_buffer(dst)?;
        src.0.check_range("copy from", &from)?;
        dst.0.check_range("copy to", &to)?;
        if bytes == 0 {
            return Ok(());
        }
        if src.same_as(dst) && from.start < to.end && to.start < from.end {
            return Err(Error::Overlap { buffer: src.label().into(), src_offset, dst_offset, bytes });
        }
        let stage = Stages::TRANSFER;
        self.barrier_for(&[
            Touch { buffer: id(src), range: from, writes: false, stage },
            Touch { buffer: id(dst), range: to, writes: true, stage },
        ]);
        let regions = [vk::BufferCopy { src_offset, dst_offset, size: bytes }];
        // SAFETY: VUID-vkCmdCopyBuffer-srcOffset-00113 to -size-00116 and -pRegions-00117: both ranges lie inside
        // their buffers and do not overlap. The command buffer is recording and ours alone (`&mut self`).
        unsafe { self.device().cmd_copy_buffer(self.current, src.0.raw, dst.0.raw, &regions) };
        self.commands.keep_buffer(src);
        self.commands.keep_buffer(dst);
        self.stats.transfers += 1;
        self.mark(None)
    }

    /// Records the filling of `bytes` bytes with copies of `word`; nothing for 0 bytes.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], [`Error::Misaligned`] when offset or length is no multiple of 4,
    /// [`Error::ForeignObject`].
    pub fn fill(&mut self, dst: &Buffer, offset: u64, bytes: u64, word: u32) -> Result<()> {
        let range = offset..offset.saturating_add(bytes);
        self.check_buffer(dst)?;
        dst.0.check_range("fill", &range)?;
        check_aligned(|| format!("offset of a fill of {}", dst.label()), 4, offset)?;
        check_aligned(|| format!("bytes of a fill of {}", dst.label()), 4, bytes)?;
        if bytes == 0 {
            return Ok(());
        }
        self.barrier_for(&[Touch { buffer: id(dst), range, writes: true, stage: Stages::TRANSFER }]);
        // SAFETY: VUID-vkCmdFillBuffer-dstOffset-00024, -00025, -size-00026 to -00028: the range lies inside the
        // buffer and is aligned. The command buffer is recording and ours alone (`&mut self`).
        unsafe { self.device().cmd_fill_buffer(self.current, dst.0.raw, offset, bytes, word) };
        self.commands.keep_buffer(dst);
        self.stats.transfers += 1;
        self.mark(None)
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// What the driver says.
    pub fn finish(mut self) -> Result<Recording> {
        // What comes next, on the host or in another submission, sees everything.
        let all = Barrier { before: Stages::ALL, after: Stages::ALL };
        record_barrier(&self.commands.shared, self.current, all, true);
        self.end_current()?;
        self.stats.command_buffers = self.commands.buffers.len();
        Ok(Recording::new(self.commands, self.stats, self.marks))
    }

    fn check_buffer(&self, buffer: &Buffer) -> Result<()> {
        if Arc::ptr_eq(&buffer.0.shared, &self.commands.shared) {
            Ok(())
        } else {
            Err(Error::ForeignObject { what: format!("buffer {}", buffer.label()) })
        }
    }

    fn check_dispatch(&self, pipeline: &Pipeline, bindings: &[Binding<'_>], push: &[u8]) -> Result<()> {
        let label = pipeline.label();
        if !Arc::ptr_eq(&pipeline.0.shared, &self.commands.shared) {
            return Err(Error::ForeignObject { what: format!("pipeline {label}") });
        }
        check_count(|| format!("storage buffers of {label}"), pipeline.bindings(), bindings.len())?;
        check_count(|| format!("bytes of push constants of {label}"), pipeline.push_bytes(), push.len())?;
        let capabilities = &self.commands.shared.capabilities;
        for (place, binding) in bindings.iter().enumerate() {
            let Binding { buffer, offset, bytes, .. } = *binding;
            self.check_buffer(buffer)?;
            buffer.0.check_range("bind", &(offset..offset.saturating_add(bytes.max(1))))?;
            check_aligned(
                || format!("offset of binding {place} of {label}"),
                capabilities.min_storage_buffer_offset_alignment,
                offset,
            )?;
            check_limit(
                || format!("bytes of binding {place} of {label}"),
                capabilities.max_storage_buffer_range,
                bytes,
            )?;
            if bytes == 0 {
                return Err(Error::Mismatch {
                    what: format!("bytes of binding {place} of {label} (least)"),
                    expected: 1,
                    found: 0,
                });
            }
        }
        Ok(())
    }

    fn record_dispatch(
        &mut self,
        pipeline: &Pipeline,
        bindings: &[Binding<'_>],
        push: &[u8],
        groups: &Groups<'_>,
        tag: u32,
    ) -> Result<()> {
        let most = self.commands.shared.max_dispatches_per_submit;
        if most.is_some_and(|most| self.dispatches_in_current >= most.get()) {
            self.end_current()?;
            self.current = self.commands.begin()?;
            self.bound = None;
            self.dispatches_in_current = 0;
        }
        let set = self.write_descriptors(pipeline, bindings)?;

        let mut touches: Vec<_> = bindings
            .iter()
            .map(|binding| Touch {
                buffer: id(binding.buffer),
                range: binding.offset..binding.offset + binding.bytes,
                writes: binding.access != Access::Read,
                stage: Stages::COMPUTE,
            })
            .collect();
        if let Groups::Indirect(sizes, offset) = groups {
            let range = *offset..offset + INDIRECT_BYTES;
            touches.push(Touch { buffer: id(sizes), range, writes: false, stage: Stages::INDIRECT });
        }
        self.barrier_for(&touches);
        self.bind(pipeline, set, push);
        match groups {
            // SAFETY: VUID-vkCmdDispatch-groupCountX-00386 to -00388: the caller compared the counts with the
            // limits; pipeline, set and push constants were bound just now.
            Groups::Fixed([x, y, z]) => unsafe { self.device().cmd_dispatch(self.current, *x, *y, *z) },
            Groups::Indirect(sizes, offset) => {
                // SAFETY: VUID-vkCmdDispatchIndirect-buffer-02709, -offset-02710 and -offset-00407: the words lie
                // inside the buffer, which has the indirect usage, and are aligned. Their values are the caller's
                // promise.
                unsafe { self.device().cmd_dispatch_indirect(self.current, sizes.0.raw, *offset) };
                self.commands.keep_buffer(sizes);
            }
        }
        for binding in bindings {
            self.commands.keep_buffer(binding.buffer);
        }
        self.commands.keep_pipeline(pipeline);
        self.dispatches_in_current += 1;
        self.stats.dispatches += 1;
        self.mark(Some(tag))
    }

    fn write_descriptors(
        &mut self,
        pipeline: &Pipeline,
        bindings: &[Binding<'_>],
    ) -> Result<Option<vk::DescriptorSet>> {
        if bindings.is_empty() {
            return Ok(None);
        }
        let set = self.commands.descriptor_set(pipeline)?;
        let infos: Vec<_> = bindings
            .iter()
            .map(|binding| {
                [vk::DescriptorBufferInfo {
                    buffer: binding.buffer.0.raw,
                    offset: binding.offset,
                    range: binding.bytes,
                }]
            })
            .collect();
        let writes: Vec<_> = (0..)
            .zip(&infos)
            .map(|(place, info)| {
                vk::WriteDescriptorSet::default()
                    .dst_set(set)
                    .dst_binding(place)
                    .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                    .buffer_info(info)
            })
            .collect();
        // SAFETY: VUID-VkWriteDescriptorSet-descriptorType-00328 and -00333, VUID-VkDescriptorBufferInfo-offset-00340
        // to -range-00342: offsets, lengths and limits were checked; the set is fresh and ours alone.
        unsafe { self.device().update_descriptor_sets(&writes, &[]) };
        Ok(Some(set))
    }

    fn bind(&mut self, pipeline: &Pipeline, set: Option<vk::DescriptorSet>, push: &[u8]) {
        let (raw, layout, at) = (pipeline.0.raw, pipeline.0.layout.pipeline, vk::PipelineBindPoint::COMPUTE);
        // SAFETY: VUID-vkCmdBindPipeline-pipelineBindPoint-00779, VUID-vkCmdBindDescriptorSets-pDescriptorSets-00358,
        // VUID-vkCmdPushConstants-offset-01795: the set was made for this layout and the push constants fill its one
        // range, as was checked. The command buffer is recording and ours alone (`&mut self`).
        unsafe {
            if self.bound != Some(raw) {
                self.device().cmd_bind_pipeline(self.current, at, raw);
            }
            if let Some(set) = set {
                self.device().cmd_bind_descriptor_sets(self.current, at, layout, 0, &[set], &[]);
            }
            if !push.is_empty() {
                let stage = vk::ShaderStageFlags::COMPUTE;
                self.device().cmd_push_constants(self.current, layout, stage, 0, push);
            }
        }
        self.bound = Some(raw);
    }

    fn barrier_for(&mut self, touches: &[Touch]) {
        if let Some(barrier) = self.tracker.command(touches) {
            record_barrier(&self.commands.shared, self.current, barrier, false);
            self.stats.barriers += 1;
        }
    }

    /// Takes the time when all commands so far are done, if times are wanted.
    fn mark(&mut self, tag: Option<u32>) -> Result<()> {
        let Some(marks) = &mut self.marks else { return Ok(()) };
        let query = u32::try_from(marks.len() % QUERIES_PER_POOL as usize).unwrap_or(0);
        marks.push(tag);
        if query == 0 {
            let pool = self.commands.add_query_pool()?;
            // SAFETY: VUID-vkCmdResetQueryPool-firstQuery-09436 and -09437: the whole pool is reset, before its
            // first use and outside of a render pass.
            unsafe { self.device().cmd_reset_query_pool(self.current, pool, 0, QUERIES_PER_POOL) };
        }
        let pool = self.commands.query_pools.last().copied().unwrap_or_default();
        // SAFETY: VUID-vkCmdWriteTimestamp-queryPool-01416, -query-04904 and -None-00830: the query is one of the
        // pool's, was reset and not used since; the queue has timestamps, as `new` checked.
        unsafe {
            let stage = vk::PipelineStageFlags::BOTTOM_OF_PIPE;
            self.device().cmd_write_timestamp(self.current, stage, pool, query);
        }
        Ok(())
    }

    fn end_current(&mut self) -> Result<()> {
        // SAFETY: VUID-vkEndCommandBuffer-commandBuffer-00059: the command buffer is recording.
        unsafe { self.device().end_command_buffer(self.current) }.map_err(Error::call("vkEndCommandBuffer"))
    }

    fn device(&self) -> &ash::Device {
        &self.commands.shared.raw
    }
}

fn id(buffer: &Buffer) -> u64 {
    vk::Handle::as_raw(buffer.0.raw)
}

fn check_count(what: impl FnOnce() -> String, expected: u32, found: usize) -> Result<()> {
    let (expected, found) = (u64::from(expected), found as u64);
    if expected == found { Ok(()) } else { Err(Error::Mismatch { what: what(), expected, found }) }
}
