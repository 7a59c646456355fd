//! Finding, opening and closing devices.

mod support;

use std::path::PathBuf;
use std::process::Command;

use etvk_vulkan::{BufferKind, Device, DeviceChoice, DeviceOptions, Error, devices};
use support::{TestDevice, device_words, record, scale_add, words_of};

fn open(choice: DeviceChoice) -> Result<Device, Error> {
    Device::open(&DeviceOptions { choice, ..DeviceOptions::default() })
}

#[test]
fn a_choice_without_a_match_names_what_is_there() {
    let names: Vec<_> = devices().unwrap().into_iter().map(|info| info.name).collect();
    for choice in [DeviceChoice::Name("no such device".into()), DeviceChoice::Index(1000)] {
        let Err(Error::NoDevice { wanted, found }) = open(choice.clone()) else { panic!("opened {choice}") };
        assert_eq!(found, names);
        assert_eq!(wanted, choice.to_string());
    }
}

#[test]
fn devices_open_by_index_and_by_name() {
    for info in devices().unwrap() {
        let device = open(DeviceChoice::Index(info.index)).unwrap();
        assert_eq!(device.capabilities().name, info.name);
        let device = open(DeviceChoice::Name(info.name.to_uppercase())).unwrap();
        assert_eq!(device.capabilities().name, info.name);
    }
}

/// The environment of this process must not change, so a child of it is run without drivers.
#[test]
fn a_machine_without_drivers_is_an_error_value() {
    if std::env::var_os("ETVK_TEST_NO_DRIVERS").is_some() {
        assert_eq!(devices().unwrap(), []);
        let Err(Error::NoDevice { found, .. }) = open(DeviceChoice::Best) else { panic!("opened a device") };
        assert!(found.is_empty());
        return;
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_machine_without_drivers_is_an_error_value"])
        .envs([("VK_ICD_FILENAMES", "none"), ("VK_DRIVER_FILES", "none"), ("ETVK_TEST_NO_DRIVERS", "1")])
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
}

#[test]
fn capabilities_keep_to_what_vulkan_promises() {
    let device = TestDevice::open();
    let capabilities = device.capabilities();
    println!("{capabilities:#?}");
    assert!(capabilities.api_version.at_least(1, 1));
    assert!(capabilities.max_storage_buffer_range >= 1 << 27);
    assert!(capabilities.min_storage_buffer_offset_alignment.is_power_of_two());
    assert!(capabilities.min_storage_buffer_offset_alignment <= 256);
    assert!(capabilities.max_workgroup_invocations >= 128);
    assert!(capabilities.max_workgroup_count.iter().all(|&count| count >= 65535));
    assert!(capabilities.max_shared_memory >= 16 << 10);
    assert!(capabilities.max_push_constants >= 128);
    assert!(capabilities.max_storage_buffers >= 4);
    assert!(capabilities.max_allocation_size >= 1 << 30);
    assert!(capabilities.subgroup_size.is_power_of_two());
    assert!(capabilities.heaps.iter().any(|heap| heap.device_local && heap.bytes > 0));
    assert_eq!(capabilities.features.cooperative_matrix, !capabilities.cooperative_matrix.is_empty());
    assert_eq!(device.enabled_features(), &capabilities.features);
}

#[test]
fn opening_and_closing_leaks_nothing() {
    let cycle = || {
        let device = open(DeviceChoice::Best).unwrap();
        let pipeline = scale_add(&device, 1);
        let a = device_words(&device, &[1, 2, 3]);
        let out = device.buffer("out", 12, BufferKind::Device).unwrap();
        let mut recorder = device.recorder().unwrap();
        record(&mut recorder, &pipeline, &a, &out, 10, 3, 0);
        recorder.finish().unwrap().submit_and_wait().unwrap();
        assert_eq!(words_of(&device, &out), [11, 21, 31]);
    };
    // The first cycles fill caches of the driver.
    (0..20).for_each(|_| cycle());
    let before = open_files();
    (0..180).for_each(|_| cycle());
    // Other tests of this process come and go meanwhile.
    let after = open_files();
    assert!(after < before + 90, "{before} open files became {after}");
}

/// Open files and threads: each device holds at least one of them on most drivers, so a leaked device shows here.
fn open_files() -> usize {
    // SwiftShader leaves a file behind whenever its library is unloaded.
    let known = |path: &PathBuf| path.to_string_lossy().contains("swiftshader_jit");
    let files = list("/proc/self/fd").filter_map(|path| std::fs::read_link(path).ok());
    files.filter(|path| !known(path)).count() + list("/proc/self/task").count()
}

fn list(folder: &str) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()))
}

#[test]
fn threads_share_a_device() {
    let device = TestDevice::open();
    let words: Vec<u32> = (0..4096).collect();
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let (device, words) = (&*device, &words);
            scope.spawn(move || {
                let pipeline = scale_add(device, thread);
                let a = device_words(device, words);
                let out = device.buffer("out", a.bytes(), BufferKind::Device).unwrap();
                let mut recorder = device.recorder().unwrap();
                record(&mut recorder, &pipeline, &a, &out, 3, 4096, 0);
                let mut recording = recorder.finish().unwrap();
                for _ in 0..20 {
                    recording.submit_and_wait().unwrap();
                }
                let expected: Vec<u32> = words.iter().map(|word| word * 3 + thread).collect();
                assert_eq!(words_of(device, &out), expected);
            });
        }
    });
}

#[test]
fn objects_may_be_dropped_in_any_order() {
    let device = TestDevice::open();
    let clone = Device::clone(&device);
    let pipeline = scale_add(&device, 0);
    let a = device_words(&device, &[5]);
    let mut recorder = device.recorder().unwrap();
    let out = device.buffer("out", 4, BufferKind::Device).unwrap();
    record(&mut recorder, &pipeline, &a, &out, 2, 1, 0);
    let mut recording = recorder.finish().unwrap();
    drop((a, pipeline, clone));
    recording.submit_and_wait().unwrap();
    assert_eq!(words_of(&device, &out), [10]);
    drop(device);
    recording.submit_and_wait().unwrap();
    drop(out);
    drop(recording);
}

#[test]
fn copies_have_a_bandwidth() {
    let bandwidth = TestDevice::open().copy_bandwidth().unwrap();
    assert!(bandwidth.is_finite() && bandwidth > 1e6, "{bandwidth}");
}
