//! Recorded commands, ready to run again and again.

use ash::vk;

use crate::commands::{Commands, QUERIES_PER_POOL};
use crate::error::{Error, Result};

/// Counts of what was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordingStats {
    /// Runs of kernels.
    pub dispatches: u32,
    /// Copies and fills.
    pub transfers: u32,
    /// Barriers between commands; the one at the end is not counted.
    pub barriers: u32,
    /// Command buffers.
    pub command_buffers: usize,
}

/// Recorded commands with everything that they use. They can run any number of times.
pub struct Recording {
    commands: Commands,
    stats: RecordingStats,
    marks: Option<Vec<Option<u32>>>,
    /// It has run to its end at least once.
    ran: bool,
}

impl Recording {
    pub(crate) fn new(commands: Commands, stats: RecordingStats, marks: Option<Vec<Option<u32>>>) -> Self {
        Self { commands, stats, marks, ran: false }
    }

    /// Counts of what was recorded.
    pub fn stats(&self) -> RecordingStats {
        self.stats
    }

    /// Runs the commands and waits for their end. Other threads may use the device meanwhile; this one's mapped
    /// buffers are out of bounds for the host ([`Error::Busy`]) until it returns.
    ///
    /// # Errors
    /// [`Error::DeviceLost`], or what the driver says. In both cases the device is done with the recording.
    pub fn submit_and_wait(&mut self) -> Result<()> {
        for buffer in &self.commands.mapped {
            buffer.0.begin_use();
        }
        let outcome = self.submit().and_then(|()| self.wait());
        if outcome.is_err() {
            self.drain();
        }
        for buffer in &self.commands.mapped {
            buffer.0.end_use();
        }
        self.ran |= outcome.is_ok();
        outcome
    }

    fn submit(&self) -> Result<()> {
        let Commands { shared, buffers, fence, .. } = &self.commands;
        // SAFETY: VUID-vkResetFences-pFences-01123: the last submission with it was waited for.
        unsafe { shared.raw.reset_fences(&[*fence]) }.map_err(Error::call("vkResetFences"))?;
        let per_submission = if shared.max_dispatches_per_submit.is_some() { 1 } else { buffers.len() };
        let submissions = buffers.len().div_ceil(per_submission);
        let queue = shared.queue();
        for (place, chunk) in buffers.chunks(per_submission).enumerate() {
            let info = vk::SubmitInfo::default().command_buffers(chunk);
            let fence = if place + 1 == submissions { *fence } else { vk::Fence::null() };
            // SAFETY: VUID-vkQueueSubmit-pCommandBuffers-00071 and -00070: the command buffers are executable, and
            // not pending since `&mut self` of `submit_and_wait` is held until they are done. -fence-00063: the
            // fence was reset. The queue is locked.
            unsafe { shared.raw.queue_submit(*queue, &[info], fence) }
                .map_err(Error::call("vkQueueSubmit"))?;
        }
        Ok(())
    }

    fn wait(&self) -> Result<()> {
        let Commands { shared, fence, .. } = &self.commands;
        // SAFETY: the fence is of this device. It is signalled after all submissions in front of it on the queue.
        unsafe { shared.raw.wait_for_fences(&[*fence], true, u64::MAX) }
            .map_err(Error::call("vkWaitForFences"))
    }

    /// After a failure: waits for whatever was submitted in spite of it.
    fn drain(&self) {
        let shared = &self.commands.shared;
        let queue = shared.queue();
        // SAFETY: VUID-vkQueueWaitIdle: the queue is locked.
        if let Err(result) = unsafe { shared.raw.queue_wait_idle(*queue) } {
            // The only errors left are lost devices and lack of memory in a call that allocates nothing.
            tracing::warn!(target: "etvk::vulkan", "vkQueueWaitIdle failed: {result}");
        }
    }

    /// Tag and nanoseconds of every dispatch of the last run, in order of recording. The time of a dispatch is the
    /// time from the end of all commands in front of it to its own end; overlapping dispatches share it.
    ///
    /// # Errors
    /// [`Error::NoTimings`] when it was recorded without timestamps or has not run.
    pub fn timings(&self) -> Result<Vec<(u32, u64)>> {
        let marks = self.marks.as_ref().ok_or(Error::NoTimings { reason: "recorded without timestamps" })?;
        if !self.ran {
            return Err(Error::NoTimings { reason: "the recording has not run" });
        }
        let shared = &self.commands.shared;
        let mut ticks = vec![0u64; marks.len()];
        for (pool, ticks) in self.commands.query_pools.iter().zip(ticks.chunks_mut(QUERIES_PER_POOL as usize))
        {
            let flags = vk::QueryResultFlags::TYPE_64 | vk::QueryResultFlags::WAIT;
            // SAFETY: VUID-vkGetQueryPoolResults-firstQuery-09436, -09437 and -None-09401: as many queries were
            // written in every run, and a run has ended.
            unsafe { shared.raw.get_query_pool_results(*pool, 0, ticks, flags) }
                .map_err(Error::call("vkGetQueryPoolResults"))?;
        }
        let valid = u64::MAX >> (64 - shared.capabilities.timestamp_valid_bits.clamp(1, 64));
        let period = shared.capabilities.timestamp_period_ns;
        Ok(ticks
            .windows(2)
            .zip(&marks[1..])
            .filter_map(|(pair, tag)| {
                Some(((*tag)?, nanoseconds(pair[1].wrapping_sub(pair[0]) & valid, period)))
            })
            .collect())
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates; both factors are positive"
)]
fn nanoseconds(ticks: u64, period: f64) -> u64 {
    (ticks as f64 * period) as u64
}
