//! The one error type of this crate.

use ash::vk;

/// What every fallible function of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, with the numbers that were expected and found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No Vulkan loader library could be opened, or it is too old to be used.
    #[error(
        "no usable Vulkan loader on this machine: {reason}; install libvulkan (or a driver that brings it)"
    )]
    LoaderMissing {
        /// What the attempt to load it said.
        reason: String,
    },
    /// No device matches the choice.
    #[error("no Vulkan device matches {wanted}; found: {found:?}")]
    NoDevice {
        /// The choice, in words.
        wanted: String,
        /// Names of the devices that are there; empty when there are none.
        found: Vec<String>,
    },
    /// The device's Vulkan version is below the one that this crate needs.
    #[error("device {device} speaks Vulkan {found}; {wanted} is needed")]
    VersionTooOld {
        /// Name of the device.
        device: String,
        /// Version that the device has.
        found: String,
        /// Lowest version that works.
        wanted: String,
    },
    /// Validation was asked for and its layer is not installed.
    #[error("the Vulkan layer {layer} is not installed; install it or open the device without validation")]
    LayerMissing {
        /// Name of the layer.
        layer: &'static str,
    },
    /// The device has not enough memory left.
    #[error("out of device memory for {what} ({bytes} bytes)")]
    OutOfDeviceMemory {
        /// What the memory was for.
        what: String,
        /// Bytes asked for; 0 where the call names no size.
        bytes: u64,
    },
    /// The host has not enough memory left.
    #[error("out of host memory for {what} ({bytes} bytes)")]
    OutOfHostMemory {
        /// What the memory was for.
        what: String,
        /// Bytes asked for; 0 where the call names no size.
        bytes: u64,
    },
    /// A limit of the device is exceeded.
    #[error("{what}: {asked} is over the device's limit of {limit}")]
    LimitExceeded {
        /// What was limited.
        what: String,
        /// The device's limit.
        limit: u64,
        /// What was asked for.
        asked: u64,
    },
    /// The device lacks something that was asked for.
    #[error("the device does not support {what}")]
    Unsupported {
        /// What it lacks.
        what: String,
    },
    /// A byte range does not lie inside a buffer.
    #[error("{what}: bytes {offset}+{bytes} lie outside the {size} bytes of buffer {buffer}")]
    OutOfBounds {
        /// The operation.
        what: &'static str,
        /// Label of the buffer.
        buffer: String,
        /// First byte of the range.
        offset: u64,
        /// Length of the range.
        bytes: u64,
        /// Size of the buffer.
        size: u64,
    },
    /// A number is not a multiple of what it has to be.
    #[error("{what}: {found} is not a multiple of {alignment}")]
    Misaligned {
        /// What was misaligned.
        what: String,
        /// What it must be a multiple of.
        alignment: u64,
        /// What it is.
        found: u64,
    },
    /// A number differs from the one that it has to be.
    #[error("{what}: expected {expected}, found {found}")]
    Mismatch {
        /// What differs.
        what: String,
        /// What it must be.
        expected: u64,
        /// What it is.
        found: u64,
    },
    /// Source and destination of a copy overlap.
    #[error(
        "copy within buffer {buffer}: source {src_offset} and destination {dst_offset} overlap over {bytes} bytes"
    )]
    Overlap {
        /// Label of the buffer.
        buffer: String,
        /// First byte of the source.
        src_offset: u64,
        /// First byte of the destination.
        dst_offset: u64,
        /// Bytes to copy.
        bytes: u64,
    },
    /// The host wants to touch a buffer that it cannot see.
    #[error("buffer {buffer} is not mapped: it lives in device memory that the host cannot reach")]
    NotMapped {
        /// Label of the buffer.
        buffer: String,
    },
    /// The host wants to touch a buffer while a submission that uses it runs.
    #[error("buffer {buffer} is in use by a submission that has not finished")]
    Busy {
        /// Label of the buffer.
        buffer: String,
    },
    /// Objects of two devices were mixed.
    #[error("{what} belongs to another device")]
    ForeignObject {
        /// What came from elsewhere.
        what: String,
    },
    /// Something that is not SPIR-V was given as a kernel.
    #[error("kernel {label} is not SPIR-V: {reason}")]
    BadSpirv {
        /// Label of the kernel.
        label: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Times were asked of a recording that has none.
    #[error("no timestamps: {reason}")]
    NoTimings {
        /// Why there are none.
        reason: &'static str,
    },
    /// The device stopped working. Every later use of it fails too.
    #[error("the Vulkan device was lost; open it again")]
    DeviceLost,
    /// The validation layer complained.
    #[error("{} Vulkan validation message(s): {}", messages.len(), messages.join(" | "))]
    Validation {
        /// What it said.
        messages: Vec<String>,
    },
    /// A Vulkan call failed in a way that has no variant of its own.
    #[error("{call} failed: {result}")]
    Vulkan {
        /// Name of the Vulkan call.
        call: &'static str,
        /// Its result.
        result: vk::Result,
    },
}

impl Error {
    /// For a failed Vulkan call that allocates nothing of a size worth naming.
    pub(crate) fn call(call: &'static str) -> impl Fn(vk::Result) -> Self {
        move |result| Self::sized(call, call, 0, result)
    }

    /// For a failed Vulkan call that allocates `bytes` bytes for `what`.
    pub(crate) fn sized(call: &'static str, what: &str, bytes: u64, result: vk::Result) -> Self {
        match result {
            vk::Result::ERROR_OUT_OF_DEVICE_MEMORY => Self::OutOfDeviceMemory { what: what.into(), bytes },
            vk::Result::ERROR_OUT_OF_HOST_MEMORY => Self::OutOfHostMemory { what: what.into(), bytes },
            vk::Result::ERROR_DEVICE_LOST => Self::DeviceLost,
            result => Self::Vulkan { call, result },
        }
    }
}

/// Fails when `asked` is over `limit`.
pub(crate) fn check_limit(what: impl FnOnce() -> String, limit: u64, asked: u64) -> Result<()> {
    if asked > limit { Err(Error::LimitExceeded { what: what(), limit, asked }) } else { Ok(()) }
}

/// Fails when `found` is no multiple of `alignment`.
pub(crate) fn check_aligned(what: impl FnOnce() -> String, alignment: u64, found: u64) -> Result<()> {
    if found.is_multiple_of(alignment.max(1)) {
        Ok(())
    } else {
        Err(Error::Misaligned { what: what(), alignment, found })
    }
}
