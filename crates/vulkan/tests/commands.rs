//! Dispatches, copies, fills, barriers, timestamps, and what is refused.

mod support;

use std::num::NonZeroU32;

use etvk_vulkan::{Access, Binding, BufferKind, DeviceOptions, Error, PipelineDesc, RecorderOptions};
use support::{
    SCALE_ADD, SUBGROUP_SIZE, TestDevice, bind, device_words, push, record, scale_add, to_bytes, words_of,
};

#[test]
fn a_kernel_sees_push_and_specialisation_constants() {
    let device = TestDevice::open();
    let a = device_words(&device, &(0..1000).collect::<Vec<_>>());
    let out = device_words(&device, &[77; 1000]);
    let mut recorder = device.recorder().unwrap();
    record(&mut recorder, &scale_add(&device, 5), &a, &out, 3, 999, 0);
    let mut recording = recorder.finish().unwrap();
    recording.submit_and_wait().unwrap();
    let back = words_of(&device, &out);
    assert!((0..999).all(|i| back[i as usize] == 3 * i + 5));
    assert_eq!(back[999], 77, "past n nothing is written");
    assert_eq!(recording.stats().dispatches, 1);
    assert_eq!(recording.stats().barriers, 0);
}

#[test]
fn dependent_dispatches_wait_for_each_other() {
    const N: u32 = 1 << 14;
    for max_dispatches_per_submit in [None, NonZeroU32::new(1), NonZeroU32::new(7)] {
        let device = TestDevice::with(DeviceOptions { max_dispatches_per_submit, ..Default::default() });
        let pipeline = scale_add(&device, 1);
        let start: Vec<u32> = (0..N).collect();
        let buffers = [device_words(&device, &start), device_words(&device, &vec![0; N as usize])];
        let mut recorder = device.recorder().unwrap();
        for step in 0..60 {
            record(&mut recorder, &pipeline, &buffers[step % 2], &buffers[(step + 1) % 2], 3, N, 0);
        }
        let mut recording = recorder.finish().unwrap();
        recording.submit_and_wait().unwrap();
        let step = |x: u32| x.wrapping_mul(3).wrapping_add(1);
        let expected: Vec<u32> = start.iter().map(|&x| (0..60).fold(x, |x, _| step(x))).collect();
        assert_eq!(words_of(&device, &buffers[0]), expected);
        let stats = recording.stats();
        assert_eq!((stats.dispatches, stats.barriers), (60, 59));
        let split = max_dispatches_per_submit.map_or(1, |most| 60usize.div_ceil(most.get() as usize));
        assert_eq!(stats.command_buffers, split);

        // Another run goes on from where the last ended.
        recording.submit_and_wait().unwrap();
        let expected: Vec<u32> = expected.iter().map(|&x| (0..60).fold(x, |x, _| step(x))).collect();
        assert_eq!(words_of(&device, &buffers[0]), expected);
    }
}

#[test]
fn independent_dispatches_need_no_barrier() {
    let device = TestDevice::open();
    let pipeline = scale_add(&device, 0);
    let alignment = device.capabilities().min_storage_buffer_offset_alignment.max(4);
    let part = u32::try_from(alignment / 4).unwrap();
    let a = device_words(&device, &(0..part).collect::<Vec<_>>());
    let out = device_words(&device, &vec![0; part as usize * 8]);
    let mut recorder = device.recorder().unwrap();
    for place in 0..8u32 {
        let offset = alignment * u64::from(place);
        let target = Binding { buffer: &out, offset, bytes: alignment, access: Access::Write };
        let bindings = [bind(&a, Access::Read), target];
        recorder.dispatch(&pipeline, &bindings, &push(place, part), [part.div_ceil(64), 1, 1], 0).unwrap();
    }
    assert_eq!(recorder.stats().barriers, 0);
    recorder.finish().unwrap().submit_and_wait().unwrap();
    let back = words_of(&device, &out);
    assert!((0..8 * part).all(|i| back[i as usize] == (i / part) * (i % part)));
}

#[test]
fn copies_fills_and_dispatches_mix() {
    let device = TestDevice::open();
    let pipeline = scale_add(&device, 1);
    let (a, b) = (device_words(&device, &[0; 256]), device_words(&device, &[0; 256]));
    let download = device.buffer("download", 1024, BufferKind::Download).unwrap();
    let mut recorder = device.recorder().unwrap();
    recorder.fill(&a, 0, 1024, 4).unwrap();
    recorder.fill(&a, 512, 256, 6).unwrap();
    record(&mut recorder, &pipeline, &a, &b, 10, 256, 0);
    recorder.copy(&b, 512, &b, 0, 256).unwrap();
    record(&mut recorder, &pipeline, &b, &a, 1, 256, 0);
    recorder.copy(&a, 0, &download, 0, 1024).unwrap();
    recorder.copy(&a, 0, &download, 0, 0).unwrap();
    recorder.fill(&a, 0, 0, 0).unwrap();
    let stats = recorder.stats();
    assert_eq!((stats.dispatches, stats.transfers, stats.barriers), (2, 4, 5));
    recorder.finish().unwrap().submit_and_wait().unwrap();
    let mut bytes = vec![0; 1024];
    download.read(0, &mut bytes).unwrap();
    let mut expected = vec![42; 256];
    expected[..64].fill(62);
    expected[128..192].fill(62);
    assert_eq!(bytes, to_bytes(&expected));
}

#[test]
fn sizes_of_indirect_dispatches_come_from_a_buffer() {
    let device = TestDevice::open();
    let pipeline = scale_add(&device, 0);
    let a = device_words(&device, &[1; 256]);
    let out = device_words(&device, &[0; 256]);
    let sizes = device.buffer("sizes", 16, BufferKind::Upload).unwrap();
    let mut recorder = device.recorder().unwrap();
    let bindings = [bind(&a, Access::Read), bind(&out, Access::Write)];
    recorder.dispatch_indirect(&pipeline, &bindings, &push(9, 256), &sizes, 4, 0).unwrap();
    let refused = recorder.dispatch_indirect(&pipeline, &bindings, &push(9, 256), &sizes, 8, 0);
    assert!(matches!(refused, Err(Error::OutOfBounds { .. })));
    let refused = recorder.dispatch_indirect(&pipeline, &bindings, &push(9, 256), &sizes, 2, 0);
    assert!(matches!(refused, Err(Error::Misaligned { .. })));
    let mut recording = recorder.finish().unwrap();
    for groups in [0u32, 2, 4] {
        sizes.write(0, &to_bytes(&[99, groups, 1, 1])).unwrap();
        recording.submit_and_wait().unwrap();
        let written = words_of(&device, &out).iter().filter(|&&word| word == 9).count();
        assert_eq!(written, 64 * groups as usize);
    }
}

#[test]
fn sizes_written_by_a_kernel_are_waited_for() {
    let device = TestDevice::open();
    let pipeline = scale_add(&device, 0);
    let a = device_words(&device, &[1; 256]);
    let out = device_words(&device, &[0; 256]);
    let sizes = device_words(&device, &[0; 4]);
    let mut recorder = device.recorder().unwrap();
    record(&mut recorder, &pipeline, &a, &sizes, 1, 3, 0);
    let bindings = [bind(&a, Access::Read), bind(&out, Access::Write)];
    recorder.dispatch_indirect(&pipeline, &bindings, &push(9, 256), &sizes, 0, 0).unwrap();
    assert_eq!(recorder.stats().barriers, 1);
    recorder.finish().unwrap().submit_and_wait().unwrap();
    assert_eq!(words_of(&device, &out)[..64], [9; 64]);
}

#[test]
fn every_dispatch_has_a_time() {
    let device = TestDevice::open();
    let pipeline = scale_add(&device, 0);
    let a = device_words(&device, &vec![1; 1 << 16]);
    let out = device_words(&device, &vec![1; 1 << 16]);
    let mut recorder = device.recorder_with(&RecorderOptions { timestamps: true }).unwrap();
    // More than fit in one query pool.
    for tag in 0..1500 {
        let n = if tag == 1400 { 1 << 16 } else { 64 };
        record(&mut recorder, &pipeline, &a, &out, 1, n, tag);
        if tag % 500 == 0 {
            recorder.fill(&a, 0, 4, 1).unwrap();
        }
    }
    let mut recording = recorder.finish().unwrap();
    assert!(matches!(recording.timings(), Err(Error::NoTimings { .. })));
    for _ in 0..2 {
        recording.submit_and_wait().unwrap();
        let timings = recording.timings().unwrap();
        assert!(timings.iter().map(|&(tag, _)| tag).eq(0..1500));
        let total: u64 = timings.iter().map(|&(_, ns)| ns).sum();
        assert!((1..60_000_000_000).contains(&total), "{total} ns");
        assert!(timings[1400].1 > 0);
    }
    let recording = device.recorder().unwrap().finish().unwrap();
    assert!(matches!(recording.timings(), Err(Error::NoTimings { .. })));
}

#[test]
fn an_empty_recording_runs() {
    let device = TestDevice::open();
    let pipeline = scale_add(&device, 0);
    let a = device_words(&device, &[1; 64]);
    let mut recorder = device.recorder().unwrap();
    let bindings = [bind(&a, Access::Read), bind(&a, Access::Write)];
    recorder.dispatch(&pipeline, &bindings, &push(1, 64), [1, 0, 1], 0).unwrap();
    assert_eq!(recorder.stats().dispatches, 0, "no groups, no dispatch");
    recorder.finish().unwrap().submit_and_wait().unwrap();
}

#[test]
fn dispatches_over_the_limits_are_refused() {
    let device = TestDevice::open();
    let capabilities = device.capabilities();
    let pipeline = scale_add(&device, 0);
    let a = device_words(&device, &[1; 256]);
    let out = device_words(&device, &[1; 256]);
    let mut recorder = device.recorder().unwrap();
    let good = [bind(&a, Access::Read), bind(&out, Access::Write)];
    let words = push(1, 1);

    let Err(Error::Mismatch { expected: 2, found: 1, .. }) =
        recorder.dispatch(&pipeline, &good[..1], &words, [1; 3], 0)
    else {
        panic!("too few bindings")
    };
    let Err(Error::Mismatch { expected: 8, found: 4, .. }) =
        recorder.dispatch(&pipeline, &good, &words[..4], [1; 3], 0)
    else {
        panic!("too few push constants")
    };
    if let Some(over) = capabilities.max_workgroup_count[1].checked_add(1) {
        let refused = recorder.dispatch(&pipeline, &good, &words, [1, over, 1], 0);
        assert!(matches!(refused, Err(Error::LimitExceeded { asked, .. }) if asked == over.into()));
    }
    let mut try_binding = |offset, bytes| {
        let bad = Binding { buffer: &a, offset, bytes, access: Access::Read };
        recorder.dispatch(&pipeline, &[bad, good[1]], &words, [1; 3], 0)
    };
    assert!(matches!(try_binding(0, 1025), Err(Error::OutOfBounds { .. })));
    assert!(matches!(try_binding(u64::MAX, 4), Err(Error::OutOfBounds { .. })));
    assert!(matches!(try_binding(0, 0), Err(Error::Mismatch { .. })));
    if capabilities.min_storage_buffer_offset_alignment > 2 {
        assert!(matches!(try_binding(2, 4), Err(Error::Misaligned { .. })));
    }

    assert!(matches!(recorder.fill(&a, 0, 3, 0), Err(Error::Misaligned { .. })));
    assert!(matches!(recorder.fill(&a, 2, 4, 0), Err(Error::Misaligned { .. })));
    assert!(matches!(recorder.fill(&a, 1024, 4, 0), Err(Error::OutOfBounds { .. })));
    assert!(matches!(recorder.copy(&a, 0, &out, 4, 1024), Err(Error::OutOfBounds { .. })));
    assert!(matches!(recorder.copy(&a, 0, &a, 4, 8), Err(Error::Overlap { .. })));
    // What was refused left no trace.
    recorder.dispatch(&pipeline, &good, &words, [1; 3], 0).unwrap();
    recorder.finish().unwrap().submit_and_wait().unwrap();
}

#[test]
fn pipelines_over_the_limits_are_refused() {
    let device = TestDevice::open();
    let capabilities = device.capabilities();
    let good = PipelineDesc {
        label: "bad",
        spirv: SCALE_ADD,
        bindings: 2,
        push_bytes: 8,
        specialization: &[],
        subgroup_size: None,
    };
    let refuse = |desc: PipelineDesc<'_>| device.pipeline(&desc).err();
    let over = capabilities.max_push_constants + 4;
    assert!(matches!(refuse(PipelineDesc { push_bytes: over, ..good }), Some(Error::LimitExceeded { .. })));
    assert!(matches!(refuse(PipelineDesc { push_bytes: 6, ..good }), Some(Error::Misaligned { .. })));
    if let Some(over) = capabilities.max_storage_buffers.checked_add(1) {
        let refused = refuse(PipelineDesc { bindings: over, ..good });
        assert!(matches!(refused, Some(Error::LimitExceeded { .. })));
    }
    for spirv in [&[][..], &SCALE_ADD[..21], &[0; 40]] {
        assert!(matches!(refuse(PipelineDesc { spirv, ..good }), Some(Error::BadSpirv { .. })));
    }
    for size in [0, 3, 1 << 20] {
        let refused = refuse(PipelineDesc { subgroup_size: Some(size), ..good });
        assert!(matches!(refused, Some(Error::Unsupported { .. })), "subgroup size {size}");
    }
}

#[test]
fn a_pipeline_gets_the_subgroup_size_that_it_asks_for() {
    let device = TestDevice::open();
    let capabilities = device.capabilities();
    let (least, greatest) =
        capabilities.subgroup_sizes.unwrap_or((capabilities.subgroup_size, capabilities.subgroup_size));
    for size in [least, greatest] {
        let desc = PipelineDesc {
            label: "subgroup_size",
            spirv: SUBGROUP_SIZE,
            bindings: 1,
            push_bytes: 0,
            specialization: &[],
            subgroup_size: Some(size),
        };
        let pipeline = device.pipeline(&desc).unwrap();
        let out = device_words(&device, &[0]);
        let mut recorder = device.recorder().unwrap();
        recorder.dispatch(&pipeline, &[bind(&out, Access::Write)], &[], [1; 3], 0).unwrap();
        recorder.finish().unwrap().submit_and_wait().unwrap();
        assert_eq!(words_of(&device, &out), [size]);
    }
}

#[test]
fn objects_of_another_device_are_refused() {
    let (one, two) = (TestDevice::open(), TestDevice::open());
    let (a, b) = (device_words(&one, &[1]), device_words(&two, &[1]));
    let mut recorder = one.recorder().unwrap();
    assert!(matches!(recorder.copy(&a, 0, &b, 0, 4), Err(Error::ForeignObject { .. })));
    assert!(matches!(recorder.fill(&b, 0, 4, 0), Err(Error::ForeignObject { .. })));
    let bindings = [bind(&a, Access::Read), bind(&b, Access::Write)];
    let refused = recorder.dispatch(&scale_add(&one, 0), &bindings, &push(1, 1), [1; 3], 0);
    assert!(matches!(refused, Err(Error::ForeignObject { .. })));
    let refused = recorder.dispatch(&scale_add(&two, 0), &bindings, &push(1, 1), [1; 3], 0);
    assert!(matches!(refused, Err(Error::ForeignObject { .. })));
}

#[test]
fn many_descriptor_sets_fit() {
    let device = TestDevice::open();
    let pipeline = scale_add(&device, 0);
    let a = device_words(&device, &[3; 64]);
    let out = device_words(&device, &[0; 64]);
    let mut recorder = device.recorder().unwrap();
    for _ in 0..2000 {
        record(&mut recorder, &pipeline, &a, &out, 2, 64, 0);
    }
    recorder.finish().unwrap().submit_and_wait().unwrap();
    assert_eq!(words_of(&device, &out), [6; 64]);
}
