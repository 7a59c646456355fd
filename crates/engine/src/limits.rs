//! Device limits that shape memory.

use etvk_vulkan::Capabilities;

use crate::error::Error;

/// Limits on where tensors may lie and how large they may be, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceLimits {
    /// Alignment of every tensor.
    pub(crate) alignment: u64,
    /// Largest range one binding may cover.
    pub(crate) max_range: u64,
    /// Largest single allocation.
    pub(crate) max_block: u64,
}

impl DeviceLimits {
    pub(crate) fn of(caps: &Capabilities) -> Self {
        Self {
            alignment: caps.min_storage_buffer_offset_alignment.max(16),
            max_range: caps.max_storage_buffer_range,
            max_block: caps.max_allocation_size,
        }
    }

    /// Refuses what no single binding can hold.
    pub(crate) fn check(&self, bytes: u64, what: impl FnOnce() -> String) -> Result<(), Error> {
        let limit = self.max_range.min(self.max_block);
        if bytes <= limit { Ok(()) } else { Err(Error::TooLarge { what: what(), bytes, limit }) }
    }
}
