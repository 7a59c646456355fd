//! How fast a device moves memory.

use std::time::{Duration, Instant};

use crate::choice::DeviceKind;
use crate::device::Device;
use crate::error::Result;
use crate::memory::{Buffer, BufferKind};

/// Copies timed against a single one, so that what a submission costs cancels out.
const COPIES: u32 = 9;
const TRIALS: u32 = 3;

impl Device {
    /// Measures the device's memory: bytes read and written in a second by copies between two buffers too large for its
    /// caches. Takes a fraction of a second, and 512 MiB of device memory where there is as much.
    ///
    /// # Errors
    /// Out of memory, or what the driver says.
    pub fn copy_bandwidth(&self) -> Result<f64> {
        let capabilities = self.capabilities();
        let wanted = if capabilities.kind == DeviceKind::Cpu { 64 << 20 } else { 256 << 20 };
        let heap = capabilities.heaps.iter().filter(|heap| heap.device_local).map(|heap| heap.bytes).max();
        let most = heap.map_or(wanted, |bytes| bytes / 8).min(capabilities.max_allocation_size);
        let bytes = wanted.min(most) & !0xff;
        let buffers = [
            self.buffer("copied from", bytes, BufferKind::Device)?,
            self.buffer("copied to", bytes, BufferKind::Device)?,
        ];
        let mut recorder = self.recorder()?;
        recorder.fill(&buffers[0], 0, bytes, 0x5bd1_e995)?;
        recorder.finish()?.submit_and_wait()?;
        let one = self.copies(&buffers, bytes, 1)?;
        let many = self.copies(&buffers, bytes, COPIES)?;
        let seconds = many.saturating_sub(one).max(Duration::from_nanos(1)).as_secs_f64();
        Ok(2.0 * bytes as f64 * f64::from(COPIES - 1) / seconds)
    }

    /// The shortest time of `count` copies.
    fn copies(&self, [from, to]: &[Buffer; 2], bytes: u64, count: u32) -> Result<Duration> {
        let mut recorder = self.recorder()?;
        for _ in 0..count {
            recorder.copy(from, 0, to, 0, bytes)?;
        }
        let mut recording = recorder.finish()?;
        // The first run brings the memory in.
        recording.submit_and_wait()?;
        let mut least = Duration::MAX;
        for _ in 0..TRIALS {
            let start = Instant::now();
            recording.submit_and_wait()?;
            least = least.min(start.elapsed());
        }
        Ok(least)
    }
}
