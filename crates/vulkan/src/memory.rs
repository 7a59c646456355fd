//! Buffers, each with a memory allocation of its own.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ash::vk;

use crate::capabilities::Heap;
use crate::device::Shared;
use crate::error::{Error, Result, check_limit};
use crate::instance::Instance;

/// Where a buffer lives and who touches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BufferKind {
    /// Device memory. The host reaches it only where host and device share memory.
    Device,
    /// Written by the host, read by the device. Always mapped and coherent.
    Upload,
    /// Written by the device, read by the host. Always mapped, cached where there is such memory.
    Download,
}

/// Least size of a host-visible heap of device memory that is more than a small window (which is 256 MiB).
const WHOLE_HEAP: u64 = 1 << 30;

const DEVICE: vk::MemoryPropertyFlags = vk::MemoryPropertyFlags::DEVICE_LOCAL;
const VISIBLE: vk::MemoryPropertyFlags = vk::MemoryPropertyFlags::HOST_VISIBLE;
const COHERENT: vk::MemoryPropertyFlags = vk::MemoryPropertyFlags::HOST_COHERENT;
const CACHED: vk::MemoryPropertyFlags = vk::MemoryPropertyFlags::HOST_CACHED;

/// The memory types of a device and which of them serves which kind of buffer.
pub(crate) struct MemoryTypes {
    raw: vk::PhysicalDeviceMemoryProperties,
    shared_memory: bool,
    /// What ranges of non-coherent memory must be multiples of when flushed or invalidated, in bytes.
    atom: u64,
}

impl MemoryTypes {
    pub(crate) fn query(instance: &Instance, device: vk::PhysicalDevice) -> Self {
        // SAFETY: the device is of this instance, which is alive.
        let (raw, properties) = unsafe {
            (
                instance.raw.get_physical_device_memory_properties(device),
                instance.raw.get_physical_device_properties(device),
            )
        };
        let shared_memory = matches!(
            properties.device_type,
            vk::PhysicalDeviceType::CPU | vk::PhysicalDeviceType::INTEGRATED_GPU
        );
        Self { raw, shared_memory, atom: properties.limits.non_coherent_atom_size.max(1) }
    }

    pub(crate) fn heaps(&self) -> Vec<Heap> {
        self.raw
            .memory_heaps_as_slice()
            .iter()
            .map(|heap| Heap {
                bytes: heap.size,
                device_local: heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL),
            })
            .collect()
    }

    pub(crate) fn upload_is_device_local(&self) -> bool {
        self.first_choice(BufferKind::Upload).is_some_and(|flags| flags.contains(DEVICE))
    }

    pub(crate) fn device_is_mapped(&self) -> bool {
        self.first_choice(BufferKind::Device).is_some_and(|flags| flags.contains(VISIBLE | COHERENT))
    }

    fn first_choice(&self, kind: BufferKind) -> Option<vk::MemoryPropertyFlags> {
        self.candidates(kind, u32::MAX).first().map(|&place| self.flags(place))
    }

    fn flags(&self, place: u32) -> vk::MemoryPropertyFlags {
        self.raw.memory_types[place as usize].property_flags
    }

    fn heap_bytes(&self, place: u32) -> u64 {
        self.raw.memory_heaps[self.raw.memory_types[place as usize].heap_index as usize].size
    }

    /// Memory types for a buffer of this kind among the `allowed` ones (a bit each), best first.
    fn candidates(&self, kind: BufferKind, allowed: u32) -> Vec<u32> {
        // Exact flags, so that exotic types (protected, lazily allocated, uncached) are never taken.
        let cached = VISIBLE | COHERENT | CACHED;
        let uncached = VISIBLE | COHERENT;
        let wanted = match kind {
            BufferKind::Device if self.shared_memory => vec![DEVICE | cached, DEVICE | uncached, DEVICE],
            BufferKind::Device => {
                vec![DEVICE, DEVICE | uncached, DEVICE | cached, vk::MemoryPropertyFlags::empty()]
            }
            BufferKind::Upload => vec![DEVICE | uncached, DEVICE | cached, uncached, cached],
            BufferKind::Download => {
                vec![cached, DEVICE | cached, VISIBLE | CACHED, uncached, DEVICE | uncached]
            }
        };
        let window = |place| {
            kind == BufferKind::Upload
                && self.flags(place).contains(DEVICE)
                && !self.shared_memory
                && self.heap_bytes(place) < WHOLE_HEAP
        };
        wanted
            .into_iter()
            .flat_map(|flags| {
                (0..self.raw.memory_type_count)
                    .filter(move |&place| allowed & (1 << place) != 0 && self.flags(place) == flags)
            })
            .filter(|&place| !window(place))
            .collect()
    }
}

/// A buffer of device or host memory, freed when its last clone (and the last recording that uses it) is dropped.
#[derive(Clone)]
pub struct Buffer(pub(crate) Arc<BufferInner>);

pub(crate) struct BufferInner {
    pub(crate) shared: Arc<Shared>,
    pub(crate) raw: vk::Buffer,
    memory: vk::DeviceMemory,
    mapped: Option<Mapped>,
    pub(crate) label: String,
    pub(crate) bytes: u64,
    kind: BufferKind,
    /// Submissions that use the mapped buffer and have not finished. Locked while the host touches the bytes, so
    /// that neither side sees the other's half-done work.
    in_flight: Mutex<u32>,
}

struct Mapped {
    start: NonNull<u8>,
    coherent: bool,
    allocated: u64,
}

// SAFETY: `start` points to the mapping of memory that `BufferInner` owns; it is dereferenced only under the lock of
// `in_flight`, so at most one thread has a reference to the bytes.
unsafe impl Send for Mapped {}
// SAFETY: as for `Send`.
unsafe impl Sync for Mapped {}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({:?}, {} bytes, {:?})", self.0.label, self.0.bytes, self.0.kind)
    }
}

impl Buffer {
    pub(crate) fn new(shared: &Arc<Shared>, label: &str, bytes: u64, kind: BufferKind) -> Result<Self> {
        let bytes = bytes.checked_next_multiple_of(4).unwrap_or(u64::MAX).max(4);
        let limit = shared.capabilities.max_allocation_size;
        check_limit(|| format!("bytes of buffer {label}"), limit, bytes)?;
        let usage = vk::BufferUsageFlags::STORAGE_BUFFER
            | vk::BufferUsageFlags::TRANSFER_SRC
            | vk::BufferUsageFlags::TRANSFER_DST
            | vk::BufferUsageFlags::INDIRECT_BUFFER;
        let info = vk::BufferCreateInfo::default().size(bytes).usage(usage);
        // SAFETY: VUID-VkBufferCreateInfo-size-00912 and -06409: the size is at least 4 and at most maxBufferSize.
        let raw = unsafe { shared.raw.create_buffer(&info, None) }
            .map_err(|result| Error::sized("vkCreateBuffer", label, bytes, result))?;
        shared.name(raw, label);
        shared.allocated.fetch_add(bytes, Ordering::Relaxed);
        // From here on the drop of `inner` cleans up.
        let mut inner = BufferInner {
            shared: Arc::clone(shared),
            raw,
            memory: vk::DeviceMemory::null(),
            mapped: None,
            label: label.into(),
            bytes,
            kind,
            in_flight: Mutex::new(0),
        };
        inner.allocate()?;
        Ok(Self(Arc::new(inner)))
    }

    /// The name that it was given.
    pub fn label(&self) -> &str {
        &self.0.label
    }

    /// Its size in bytes: what was asked for, rounded up to a multiple of 4.
    pub fn bytes(&self) -> u64 {
        self.0.bytes
    }

    /// Where it lives.
    pub fn kind(&self) -> BufferKind {
        self.0.kind
    }

    /// Whether the host can reach its bytes.
    pub fn is_mapped(&self) -> bool {
        self.0.mapped.is_some()
    }

    /// Whether both are clones of one buffer.
    pub fn same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Copies `data` into the buffer, `offset` bytes from its start.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], [`Error::NotMapped`], and [`Error::Busy`] while a submission that uses it runs.
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        let end = offset.saturating_add(data.len() as u64);
        self.access("write", offset..end, true, |bytes| bytes.copy_from_slice(data))
    }

    /// Fills `data` from the buffer, `offset` bytes from its start.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    pub fn read(&self, offset: u64, data: &mut [u8]) -> Result<()> {
        let end = offset.saturating_add(data.len() as u64);
        self.access("read", offset..end, false, |bytes| data.copy_from_slice(bytes))
    }

    /// Calls `with` with the bytes of `range`, which it may read and write in place.
    ///
    /// The buffer is locked meanwhile, and other threads that want it wait; `with` itself must neither touch the same
    /// buffer nor submit work that uses it, since it would wait for its own end.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    pub fn with_mapped<R>(&self, range: Range<u64>, with: impl FnOnce(&mut [u8]) -> R) -> Result<R> {
        self.access("map", range, true, with)
    }

    fn access<R>(
        &self,
        what: &'static str,
        range: Range<u64>,
        writes: bool,
        with: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R> {
        let inner = &*self.0;
        let length = inner.check_range(what, &range)?;
        let mapped = inner.mapped.as_ref().ok_or_else(|| Error::NotMapped { buffer: inner.label.clone() })?;
        let in_flight = lock(&inner.in_flight);
        if *in_flight > 0 {
            return Err(Error::Busy { buffer: inner.label.clone() });
        }
        if !mapped.coherent {
            inner.make_visible(mapped, &range)?;
        }
        let start = usize::try_from(range.start).map_err(|_| inner.out_of_bounds(what, &range))?;
        // SAFETY: `check_range` put the range inside the mapping, which lives as long as `inner`; the lock on
        // `in_flight` keeps other references to these bytes away, and its zero keeps the device away. The bytes are
        // plain memory that a driver mapped, valid for any bit pattern.
        let bytes = unsafe { std::slice::from_raw_parts_mut(mapped.start.as_ptr().add(start), length) };
        let result = with(bytes);
        if writes && !mapped.coherent {
            inner.make_available(mapped, &range)?;
        }
        drop(in_flight);
        Ok(result)
    }
}

fn lock(mutex: &Mutex<u32>) -> MutexGuard<'_, u32> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl BufferInner {
    fn allocate(&mut self) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        // SAFETY: the buffer was made from this device.
        let needs = unsafe { shared.raw.get_buffer_memory_requirements(self.raw) };
        let limit = shared.capabilities.max_allocation_size;
        check_limit(|| format!("bytes of memory for buffer {}", self.label), limit, needs.size)?;
        let mut outcome = Error::OutOfDeviceMemory { what: self.label.clone(), bytes: needs.size };
        for place in shared.memory.candidates(self.kind, needs.memory_type_bits) {
            // VUID-vkAllocateMemory-pAllocateInfo-01713: never more than the heap holds.
            if needs.size > shared.memory.heap_bytes(place) {
                continue;
            }
            match self.allocate_in(place, needs.size) {
                Ok(()) => return Ok(()),
                Err(error @ (Error::OutOfDeviceMemory { .. } | Error::OutOfHostMemory { .. })) => {
                    outcome = error
                }
                Err(error) => return Err(error),
            }
        }
        Err(outcome)
    }

    fn allocate_in(&mut self, place: u32, bytes: u64) -> Result<()> {
        let device = &self.shared.raw;
        let flags = self.shared.memory.flags(place);
        let sized = |call| {
            let label = &self.label;
            move |result| Error::sized(call, label, bytes, result)
        };
        let info = vk::MemoryAllocateInfo::default().allocation_size(bytes).memory_type_index(place);
        // SAFETY: VUID-vkAllocateMemory-pAllocateInfo-01713 and -01714: the type index is one of the device's, the
        // size at most its heap's.
        let memory = unsafe { device.allocate_memory(&info, None) }.map_err(sized("vkAllocateMemory"))?;
        let mapped = if flags.contains(VISIBLE) {
            // SAFETY: VUID-vkMapMemory-memory-00678 and -00682: the memory is host visible and not mapped yet.
            match unsafe { device.map_memory(memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty()) } {
                Ok(start) => NonNull::new(start.cast::<u8>()).map(|start| Mapped {
                    start,
                    coherent: flags.contains(COHERENT),
                    allocated: bytes,
                }),
                Err(result) => {
                    // SAFETY: the memory is bound to nothing yet.
                    unsafe { device.free_memory(memory, None) };
                    return Err(sized("vkMapMemory")(result));
                }
            }
        } else {
            None
        };
        // SAFETY: VUID-vkBindBufferMemory-buffer-07459 and -memory-01035: the buffer is bound to nothing yet, and
        // the memory is of an allowed type, large enough and aligned (offset 0).
        if let Err(result) = unsafe { device.bind_buffer_memory(self.raw, memory, 0) } {
            // SAFETY: the binding failed, so nothing uses the memory; freeing unmaps it.
            unsafe { device.free_memory(memory, None) };
            return Err(sized("vkBindBufferMemory")(result));
        }
        self.memory = memory;
        self.mapped = mapped;
        Ok(())
    }

    /// Checks that `range` lies inside the buffer and gives its length.
    pub(crate) fn check_range(&self, what: &'static str, range: &Range<u64>) -> Result<usize> {
        if range.start > range.end || range.end > self.bytes {
            return Err(self.out_of_bounds(what, range));
        }
        usize::try_from(range.end - range.start).map_err(|_| self.out_of_bounds(what, range))
    }

    fn out_of_bounds(&self, what: &'static str, range: &Range<u64>) -> Error {
        Error::OutOfBounds {
            what,
            buffer: self.label.clone(),
            offset: range.start,
            bytes: range.end.saturating_sub(range.start),
            size: self.bytes,
        }
    }

    /// The range in whole atoms, as flushing and invalidating want it.
    fn atoms(&self, mapped: &Mapped, range: &Range<u64>) -> vk::MappedMemoryRange<'static> {
        let atom = self.shared.memory.atom;
        let start = range.start / atom * atom;
        let end = range.end.next_multiple_of(atom).min(mapped.allocated);
        vk::MappedMemoryRange::default().memory(self.memory).offset(start).size(end - start)
    }

    fn make_visible(&self, mapped: &Mapped, range: &Range<u64>) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        // SAFETY: VUID-VkMappedMemoryRange-offset-00687, -size-01390: `atoms` rounds to atoms or the end of the
        // memory, which is mapped.
        unsafe { self.shared.raw.invalidate_mapped_memory_ranges(&[self.atoms(mapped, range)]) }
            .map_err(Error::call("vkInvalidateMappedMemoryRanges"))
    }

    fn make_available(&self, mapped: &Mapped, range: &Range<u64>) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        // SAFETY: as in `make_visible`.
        unsafe { self.shared.raw.flush_mapped_memory_ranges(&[self.atoms(mapped, range)]) }
            .map_err(Error::call("vkFlushMappedMemoryRanges"))
    }

    /// Tells that a submission that uses the buffer begins; waits for the host to leave its bytes alone.
    pub(crate) fn begin_use(&self) {
        if self.mapped.is_some() {
            *lock(&self.in_flight) += 1;
        }
    }

    /// Tells that such a submission has ended.
    pub(crate) fn end_use(&self) {
        if self.mapped.is_some() {
            *lock(&self.in_flight) -= 1;
        }
    }
}

impl Drop for BufferInner {
    fn drop(&mut self) {
        self.shared.allocated.fetch_sub(self.bytes, Ordering::Relaxed);
        // SAFETY: VUID-vkDestroyBuffer-buffer-00922 and VUID-vkFreeMemory-memory-00677: recordings and uploaders
        // hold clones until their submissions have finished, so the device uses neither. Freeing unmaps; null memory
        // (after a failed allocation) is allowed.
        unsafe {
            self.shared.raw.destroy_buffer(self.raw, None);
            self.shared.raw.free_memory(self.memory, None);
        }
    }
}
