//! The pipeline cache file.

mod support;

use std::fs;
use std::path::PathBuf;

use etvk_vulkan::{BufferKind, DeviceOptions};
use support::{TestDevice, device_words, record, scale_add, words_of};

/// A path of this test's own, removed at its end.
struct TempPath(PathBuf);

impl TempPath {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("etvk-{name}-{}", std::process::id())))
    }

    fn device(&self) -> TestDevice {
        TestDevice::with(DeviceOptions { pipeline_cache: Some(self.0.clone()), ..DeviceOptions::default() })
    }
}

impl Drop for TempPath {
    fn drop(&mut self) {
        fs::remove_file(&self.0).ok();
    }
}

#[expect(clippy::unwrap_used, reason = "this is a test")]
fn check(device: &TestDevice) {
    let a = device_words(device, &[4]);
    let out = device.buffer("out", 4, BufferKind::Device).unwrap();
    let mut recorder = device.recorder().unwrap();
    record(&mut recorder, &scale_add(device, 2), &a, &out, 10, 1, 0);
    recorder.finish().unwrap().submit_and_wait().unwrap();
    assert_eq!(words_of(device, &out), [42]);
}

#[test]
fn the_cache_survives_a_round_trip() {
    let path = TempPath::new("round-trip");
    let device = path.device();
    check(&device);
    assert!(device.save_pipeline_cache());
    drop(device);
    let first = fs::read(&path.0).unwrap();
    assert!(first.len() >= 24 + 32);

    let device = path.device();
    check(&device);
    assert!(device.save_pipeline_cache(), "an old file is replaced");
    drop(device);
    let folder = path.0.parent().unwrap();
    let name = path.0.file_name().unwrap().to_str().unwrap();
    let ours = fs::read_dir(folder)
        .unwrap()
        .filter(|entry| {
            entry.as_ref().unwrap().file_name().to_str().is_some_and(|other| other.starts_with(name))
        })
        .count();
    assert_eq!(ours, 1, "no temporary file is left");
}

#[test]
fn a_damaged_cache_is_ignored() {
    let path = TempPath::new("damaged");
    let device = path.device();
    check(&device);
    assert!(device.save_pipeline_cache());
    drop(device);
    let good = fs::read(&path.0).unwrap();
    let mut flipped = good.clone();
    *flipped.last_mut().unwrap() ^= 1;
    let damaged: [&[u8]; 5] = [&[], b"garbage", &good[..30], &good[..good.len() - 1], &flipped];
    for file in damaged {
        fs::write(&path.0, file).unwrap();
        let device = path.device();
        check(&device);
        assert!(device.save_pipeline_cache(), "it is replaced");
        assert_ne!(fs::read(&path.0).unwrap(), file);
    }
}

#[test]
fn a_cache_that_cannot_be_written_is_only_warned_about() {
    let path = PathBuf::from("no/such/folder/cache");
    let device = TestDevice::with(DeviceOptions { pipeline_cache: Some(path), ..DeviceOptions::default() });
    check(&device);
    assert!(!device.save_pipeline_cache());
    assert!(!TestDevice::open().save_pipeline_cache(), "no file, nothing to save");
}
