//! A device for tests, and small kernels.

#![allow(dead_code, reason = "each test file uses a part")]
#![expect(clippy::unwrap_used, reason = "these are tests")]

use etvk_vulkan::{
    Access, Binding, Buffer, BufferKind, Device, DeviceOptions, Error, Pipeline, PipelineDesc, Recorder,
    ValidationLog,
};

pub(crate) const SCALE_ADD: &[u8] = include_bytes!("../shaders/scale_add.spv");
pub(crate) const SUBGROUP_SIZE: &[u8] = include_bytes!("../shaders/subgroup_size.spv");

/// A device whose validation messages fail the test, also those about its closing.
pub(crate) struct TestDevice {
    device: Option<Device>,
    log: ValidationLog,
}

impl TestDevice {
    pub(crate) fn open() -> Self {
        Self::with(DeviceOptions::default())
    }

    /// With validation where its layer is installed.
    pub(crate) fn with(mut options: DeviceOptions) -> Self {
        options.validation = true;
        let device = match Device::open(&options) {
            Err(Error::LayerMissing { layer }) => {
                eprintln!("{layer} is not installed: testing without it");
                options.validation = false;
                Device::open(&options)
            }
            outcome => outcome,
        }
        .unwrap();
        Self { log: device.validation_log(), device: Some(device) }
    }
}

impl std::ops::Deref for TestDevice {
    type Target = Device;

    fn deref(&self) -> &Device {
        self.device.as_ref().unwrap()
    }
}

impl Drop for TestDevice {
    fn drop(&mut self) {
        self.device = None;
        if !std::thread::panicking() {
            self.log.check().unwrap();
        }
    }
}

/// `out[i] = a[i] * k + constant` for `i < n`.
pub(crate) fn scale_add(device: &Device, constant: u32) -> Pipeline {
    let desc = PipelineDesc {
        label: "scale_add",
        spirv: SCALE_ADD,
        bindings: 2,
        push_bytes: 8,
        specialization: &[constant],
        subgroup_size: None,
    };
    device.pipeline(&desc).unwrap()
}

pub(crate) fn push(k: u32, n: u32) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&k.to_ne_bytes());
    bytes[4..].copy_from_slice(&n.to_ne_bytes());
    bytes
}

pub(crate) fn bind(buffer: &Buffer, access: Access) -> Binding<'_> {
    Binding { buffer, offset: 0, bytes: buffer.bytes(), access }
}

/// Records `out = a * k + constant` over whole buffers of `n` words.
pub(crate) fn record(
    recorder: &mut Recorder,
    pipeline: &Pipeline,
    a: &Buffer,
    out: &Buffer,
    k: u32,
    n: u32,
    tag: u32,
) {
    let bindings = [bind(a, Access::Read), bind(out, Access::Write)];
    recorder.dispatch(pipeline, &bindings, &push(k, n), [n.div_ceil(64), 1, 1], tag).unwrap();
}

/// Puts words into a buffer of device memory.
pub(crate) fn device_words(device: &Device, words: &[u32]) -> Buffer {
    let bytes = 4 * words.len() as u64;
    let buffer = device.buffer("words", bytes, BufferKind::Device).unwrap();
    let upload = device.buffer("words to upload", bytes, BufferKind::Upload).unwrap();
    upload.write(0, &to_bytes(words)).unwrap();
    let mut recorder = device.recorder().unwrap();
    recorder.copy(&upload, 0, &buffer, 0, bytes).unwrap();
    recorder.finish().unwrap().submit_and_wait().unwrap();
    buffer
}

/// Gets the words of a buffer of device memory.
pub(crate) fn words_of(device: &Device, buffer: &Buffer) -> Vec<u32> {
    let download = device.buffer("words to download", buffer.bytes(), BufferKind::Download).unwrap();
    let mut recorder = device.recorder().unwrap();
    recorder.copy(buffer, 0, &download, 0, buffer.bytes()).unwrap();
    recorder.finish().unwrap().submit_and_wait().unwrap();
    let mut bytes = vec![0; usize::try_from(buffer.bytes()).unwrap()];
    download.read(0, &mut bytes).unwrap();
    bytes.chunks_exact(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap())).collect()
}

pub(crate) fn to_bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}
