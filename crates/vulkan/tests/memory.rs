//! Buffers and uploads.

mod support;

use etvk_vulkan::{BufferKind, Error, UploaderOptions};
use support::{TestDevice, device_words, to_bytes, words_of};

#[test]
fn mapped_buffers_keep_what_is_written() {
    let device = TestDevice::open();
    for kind in [BufferKind::Upload, BufferKind::Download] {
        let buffer = device.buffer("round trip", 1001, kind).unwrap();
        assert_eq!(buffer.bytes(), 1004, "sizes are whole words");
        let data: Vec<u8> = (0..=255).cycle().take(777).collect();
        buffer.write(13, &data).unwrap();
        let mut back = vec![0; 777];
        buffer.read(13, &mut back).unwrap();
        assert_eq!(back, data);
        let first = buffer
            .with_mapped(13..16, |bytes| {
                bytes.reverse();
                bytes[0]
            })
            .unwrap();
        assert_eq!(first, 2);
        buffer.read(13, &mut back[..3]).unwrap();
        assert_eq!(back[..3], [2, 1, 0]);
    }
}

#[test]
fn device_memory_keeps_what_is_copied() {
    let device = TestDevice::open();
    let words: Vec<u32> = (0..100_000).map(|i| i ^ 0x5555).collect();
    let buffer = device_words(&device, &words);
    assert_eq!(words_of(&device, &buffer), words);
    assert_eq!(buffer.is_mapped(), device.capabilities().device_is_mapped);
    if !buffer.is_mapped() {
        assert!(matches!(buffer.write(0, &[1]), Err(Error::NotMapped { .. })));
    }
}

#[test]
fn empty_buffers_have_one_word() {
    let device = TestDevice::open();
    let buffer = device.buffer("empty", 0, BufferKind::Upload).unwrap();
    assert_eq!(buffer.bytes(), 4);
    buffer.write(4, &[]).unwrap();
}

#[test]
fn ranges_outside_a_buffer_are_refused() {
    let device = TestDevice::open();
    let buffer = device.buffer("short", 8, BufferKind::Upload).unwrap();
    let Err(Error::OutOfBounds { offset, bytes, size, .. }) = buffer.write(6, &[0; 3]) else {
        panic!("written past the end")
    };
    assert_eq!((offset, bytes, size), (6, 3, 8));
    assert!(matches!(buffer.read(u64::MAX, &mut [0]), Err(Error::OutOfBounds { .. })));
    assert!(matches!(buffer.with_mapped(0..9, |_| ()), Err(Error::OutOfBounds { .. })));
    let (start, end) = (5, 4);
    assert!(matches!(buffer.with_mapped(start..end, |_| ()), Err(Error::OutOfBounds { .. })));
}

#[test]
fn buffers_over_the_limit_are_refused() {
    let device = TestDevice::open();
    let limit = device.capabilities().max_allocation_size;
    for bytes in [limit.saturating_add(4), u64::MAX] {
        let Err(error) = device.buffer("huge", bytes, BufferKind::Device) else {
            panic!("got {bytes} bytes")
        };
        let is_limit = matches!(error, Error::LimitExceeded { limit: found, .. } if found == limit);
        assert!(is_limit || limit >= bytes, "{error}");
    }
}

#[test]
fn memory_ends_with_an_error_value() {
    let device = TestDevice::open();
    let heap = device.capabilities().heaps.iter().map(|heap| heap.bytes).max().unwrap();
    let each = device.capabilities().max_allocation_size.min(heap);
    if each == heap {
        return; // One buffer may take all of it: nothing to find out without hogging the machine.
    }
    let refused = device.buffer("more than a heap", heap + 4, BufferKind::Device);
    assert!(matches!(refused, Err(Error::LimitExceeded { .. } | Error::OutOfDeviceMemory { .. })));
}

#[test]
fn uploads_larger_than_the_ring_arrive() {
    let device = TestDevice::open();
    for (slots, direct) in [(1, false), (2, false), (3, false), (2, true)] {
        let options = UploaderOptions { slot_bytes: 1000, slots, direct };
        let mut uploader = device.uploader(&options).unwrap();
        let words: Vec<u32> = (0..25_001).collect();
        let data = to_bytes(&words);
        let buffer = device.buffer("target", data.len() as u64 + 8, BufferKind::Device).unwrap();
        let mut largest = 0;
        let mut next = 0;
        uploader
            .upload(&buffer, 8, data.len() as u64, |offset, chunk| {
                assert_eq!(offset, next, "chunks come in order");
                next += chunk.len() as u64;
                largest = largest.max(chunk.len());
                let offset = usize::try_from(offset).unwrap();
                chunk.copy_from_slice(&data[offset..offset + chunk.len()]);
            })
            .unwrap();
        // The first words, twice: the later upload wins.
        for first in [7u32, 9] {
            uploader.upload(&buffer, 0, 8, |_, chunk| chunk.copy_from_slice(&to_bytes(&[first; 2]))).unwrap();
        }
        uploader.finish().unwrap();
        assert_eq!(next, data.len() as u64);
        assert!(largest <= 1024, "{largest} bytes at once");
        let back = words_of(&device, &buffer);
        assert_eq!(back[..2], [9, 9]);
        assert_eq!(back[2..], words);
    }
}

#[test]
fn many_small_uploads_share_a_slot() {
    let device = TestDevice::open();
    let options = UploaderOptions { slot_bytes: 4096, slots: 2, direct: false };
    let mut uploader = device.uploader(&options).unwrap();
    let buffers: Vec<_> = (0..100).map(|_| device.buffer("small", 40, BufferKind::Device).unwrap()).collect();
    for (i, buffer) in (0u32..).zip(&buffers) {
        uploader.upload(buffer, 0, 40, |_, chunk| chunk.copy_from_slice(&to_bytes(&[i; 10]))).unwrap();
    }
    uploader.finish().unwrap();
    for (i, buffer) in (0u32..).zip(&buffers) {
        assert_eq!(words_of(&device, buffer), [i; 10]);
    }
    assert!(matches!(uploader.upload(&buffers[0], 1, 40, |_, _| ()), Err(Error::OutOfBounds { .. })));
}

#[test]
fn an_unfinished_uploader_may_be_dropped() {
    let device = TestDevice::open();
    let options = UploaderOptions { slot_bytes: 256, slots: 2, direct: false };
    let mut uploader = device.uploader(&options).unwrap();
    let buffer = device.buffer("target", 1 << 12, BufferKind::Device).unwrap();
    uploader.upload(&buffer, 0, 1 << 12, |_, chunk| chunk.fill(1)).unwrap();
    drop(uploader);
    words_of(&device, &buffer);
}
