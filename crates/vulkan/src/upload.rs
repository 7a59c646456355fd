//! Streaming data into device buffers through a bounded ring of host memory.

use std::sync::Arc;

use ash::vk;

use crate::commands::record_barrier;
use crate::device::{Device, Shared};
use crate::error::{Error, Result};
use crate::hazards::{Barrier, Stages, Touch, Tracker};
use crate::memory::{Buffer, BufferKind};

/// Chunks start at multiples of this, in bytes.
const CHUNK_ALIGNMENT: u64 = 256;

/// How to upload.
#[derive(Clone, Copy, Debug)]
pub struct UploaderOptions {
    /// Bytes in one slot of the ring, rounded up to a multiple of 256: the most that is filled at once.
    pub slot_bytes: u64,
    /// Slots in the ring, at least 1. With two, one is filled while the other is copied.
    pub slots: usize,
    /// Write straight into buffers that are mapped, without the ring.
    pub direct: bool,
}

impl Default for UploaderOptions {
    fn default() -> Self {
        Self { slot_bytes: 8 << 20, slots: 2, direct: true }
    }
}

/// Streams data into buffers. The host memory it takes is the ring's, however much is uploaded, and none at all where
/// it writes into the buffers directly.
pub struct Uploader {
    shared: Arc<Shared>,
    options: UploaderOptions,
    pool: vk::CommandPool,
    slots: Vec<Slot>,
    /// The slot being filled.
    current: usize,
}

struct Slot {
    staging: Buffer,
    commands: vk::CommandBuffer,
    fence: vk::Fence,
    state: State,
    used: u64,
    tracker: Tracker,
    /// Destinations of the copies.
    destinations: Vec<Buffer>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Recording,
    Submitted,
}

impl Uploader {
    pub(crate) fn new(device: &Device, options: &UploaderOptions) -> Result<Self> {
        let shared = Arc::clone(&device.0);
        let info = vk::CommandPoolCreateInfo::default()
            .queue_family_index(shared.queue_family)
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER);
        // SAFETY: VUID-vkCreateCommandPool-queueFamilyIndex-01937: the family is the one the device was made with.
        let pool = unsafe { shared.raw.create_command_pool(&info, None) }
            .map_err(Error::call("vkCreateCommandPool"))?;
        let slot_bytes =
            options.slot_bytes.max(1).checked_next_multiple_of(CHUNK_ALIGNMENT).unwrap_or(u64::MAX);
        let options = UploaderOptions { slot_bytes, slots: options.slots.max(1), ..*options };
        Ok(Self { shared, options, pool, slots: Vec::new(), current: 0 })
    }

    /// Uploads `bytes` bytes to `dst`, `offset` bytes from its start. `fill` is called for one chunk after the other
    /// with the chunk's distance from the first byte and the place to put it; every chunk but the last is a multiple
    /// of 256 bytes long. What `fill` finds there is undefined.
    ///
    /// The data is in `dst` after [`finish`](Self::finish).
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], [`Error::ForeignObject`], [`Error::Busy`] when `dst` is mapped and a submission uses
    /// it, out of memory for the ring, or what the driver says.
    pub fn upload(
        &mut self,
        dst: &Buffer,
        offset: u64,
        bytes: u64,
        mut fill: impl FnMut(u64, &mut [u8]),
    ) -> Result<()> {
        if !Arc::ptr_eq(&dst.0.shared, &self.shared) {
            return Err(Error::ForeignObject { what: format!("buffer {}", dst.label()) });
        }
        dst.0.check_range("upload", &(offset..offset.saturating_add(bytes)))?;
        let mut done = 0;
        while done < bytes {
            let left = bytes - done;
            let chunk = if self.options.direct && dst.is_mapped() {
                let chunk = left.min(self.options.slot_bytes);
                let start = offset + done;
                dst.with_mapped(start..start + chunk, |data| fill(done, data))?;
                chunk
            } else {
                self.stage(dst, offset + done, left, |data| fill(done, data))?
            };
            done += chunk;
        }
        Ok(())
    }

    /// Waits until everything is in place.
    ///
    /// # Errors
    /// [`Error::DeviceLost`], or what the driver says.
    pub fn finish(&mut self) -> Result<()> {
        for slot in &mut self.slots {
            slot.submit(&self.shared)?;
        }
        for slot in &mut self.slots {
            slot.wait(&self.shared)?;
        }
        Ok(())
    }

    /// Puts one chunk of at most `most` bytes into the ring; gives its length.
    fn stage(&mut self, dst: &Buffer, offset: u64, most: u64, fill: impl FnOnce(&mut [u8])) -> Result<u64> {
        if self.slots.get(self.current).is_some_and(|slot| slot.used == self.options.slot_bytes) {
            self.slots[self.current].submit(&self.shared)?;
            self.current = (self.current + 1) % self.options.slots;
        }
        if self.current == self.slots.len() {
            let slot = Slot::new(&self.shared, self.pool, self.options.slot_bytes)?;
            self.slots.push(slot);
        }
        let slot = &mut self.slots[self.current];
        slot.begin(&self.shared)?;
        let bytes = most.min(self.options.slot_bytes - slot.used);
        slot.staging.with_mapped(slot.used..slot.used + bytes, fill)?;
        slot.copy(&self.shared, dst, offset, bytes);
        Ok(bytes)
    }
}

impl Drop for Uploader {
    fn drop(&mut self) {
        for slot in &mut self.slots {
            if let Err(error) = slot.wait(&self.shared) {
                tracing::warn!(target: "etvk::vulkan", "an upload did not end well: {error}");
            }
            // SAFETY: VUID-vkDestroyFence-fence-01120: the slot's submission has ended (or the device is lost).
            unsafe { self.shared.raw.destroy_fence(slot.fence, None) };
        }
        // SAFETY: VUID-vkDestroyCommandPool-commandPool-00041: no command buffer of it is pending.
        unsafe { self.shared.raw.destroy_command_pool(self.pool, None) };
    }
}

impl Slot {
    fn new(shared: &Arc<Shared>, pool: vk::CommandPool, bytes: u64) -> Result<Self> {
        // Cached memory, since `fill` may read what it wrote.
        let staging = Buffer::new(shared, "upload ring", bytes, BufferKind::Download)?;
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(pool)
            .level(vk::CommandBufferLevel::PRIMARY)
            .command_buffer_count(1);
        // SAFETY: VUID-vkAllocateCommandBuffers-commandPool: the pool is the uploader's alone. Should the fence
        // fail, the command buffer goes with its pool.
        let commands = unsafe { shared.raw.allocate_command_buffers(&info) }
            .map_err(Error::call("vkAllocateCommandBuffers"))?[0];
        // SAFETY: creating a fence has no precondition beyond a live device.
        let fence = unsafe { shared.raw.create_fence(&vk::FenceCreateInfo::default(), None) }
            .map_err(Error::call("vkCreateFence"))?;
        let (tracker, destinations) = (Tracker::default(), Vec::new());
        Ok(Self { staging, commands, fence, state: State::Idle, used: 0, tracker, destinations })
    }

    /// Makes the slot ready for copies, after its last submission has ended.
    fn begin(&mut self, shared: &Shared) -> Result<()> {
        if self.state == State::Recording {
            return Ok(());
        }
        self.wait(shared)?;
        let info = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: VUID-vkBeginCommandBuffer-commandBuffer-00049 and -00050: the buffer is not pending, and its pool
        // allows resetting it.
        unsafe { shared.raw.begin_command_buffer(self.commands, &info) }
            .map_err(Error::call("vkBeginCommandBuffer"))?;
        self.state = State::Recording;
        self.used = 0;
        self.tracker = Tracker::default();
        Ok(())
    }

    /// Records the copy of the `bytes` bytes that were just put behind the used ones.
    fn copy(&mut self, shared: &Shared, dst: &Buffer, dst_offset: u64, bytes: u64) {
        let buffer = vk::Handle::as_raw(dst.0.raw);
        let range = dst_offset..dst_offset + bytes;
        let touch = Touch { buffer, range, writes: true, stage: Stages::TRANSFER };
        if let Some(barrier) = self.tracker.command(&[touch]) {
            record_barrier(shared, self.commands, barrier, false);
        }
        let regions = [vk::BufferCopy { src_offset: self.used, dst_offset, size: bytes }];
        // SAFETY: VUID-vkCmdCopyBuffer-srcOffset-00113 to -size-00116: both ranges lie inside their buffers, which
        // are different ones. The command buffer is recording and ours alone (`&mut self`).
        unsafe { shared.raw.cmd_copy_buffer(self.commands, self.staging.0.raw, dst.0.raw, &regions) };
        // The slot's size is a multiple of the alignment, so this stays within it.
        self.used += bytes.next_multiple_of(CHUNK_ALIGNMENT);
        if !self.destinations.last().is_some_and(|last| last.same_as(dst)) {
            self.destinations.push(dst.clone());
        }
    }

    /// Submits the copies, if there are any.
    fn submit(&mut self, shared: &Shared) -> Result<()> {
        if self.state != State::Recording {
            return Ok(());
        }
        record_barrier(shared, self.commands, Barrier { before: Stages::TRANSFER, after: Stages::ALL }, true);
        // SAFETY: VUID-vkEndCommandBuffer-commandBuffer-00059: the command buffer is recording.
        let ended = unsafe { shared.raw.end_command_buffer(self.commands) };
        // Whatever happens next, these commands are not added to.
        self.state = State::Idle;
        if let Err(result) = ended {
            self.destinations.clear();
            return Err(Error::call("vkEndCommandBuffer")(result));
        }
        let buffers = [self.commands];
        let info = vk::SubmitInfo::default().command_buffers(&buffers);
        self.destinations.iter().for_each(|buffer| buffer.0.begin_use());
        let queue = shared.queue();
        // SAFETY: VUID-vkQueueSubmit-pCommandBuffers-00070 and -00071: the command buffer is executable and not
        // pending. -fence-00063 and -00064: the fence is fresh or was reset. The queue is locked.
        let submitted = unsafe { shared.raw.queue_submit(*queue, &[info], self.fence) };
        drop(queue);
        match submitted {
            Ok(()) => self.state = State::Submitted,
            Err(_) => self.release(),
        }
        submitted.map_err(Error::call("vkQueueSubmit"))
    }

    /// Waits for the submission to end, if there is one.
    fn wait(&mut self, shared: &Shared) -> Result<()> {
        if self.state != State::Submitted {
            return Ok(());
        }
        let fences = [self.fence];
        // SAFETY: the fence is of this device and belongs to the slot's submission.
        unsafe { shared.raw.wait_for_fences(&fences, true, u64::MAX) }
            .map_err(Error::call("vkWaitForFences"))?;
        self.state = State::Idle;
        self.release();
        // SAFETY: VUID-vkResetFences-pFences-01123: the submission that the fence belongs to has ended.
        unsafe { shared.raw.reset_fences(&fences) }.map_err(Error::call("vkResetFences"))
    }

    fn release(&mut self) {
        self.destinations.drain(..).for_each(|buffer| buffer.0.end_use());
    }
}
