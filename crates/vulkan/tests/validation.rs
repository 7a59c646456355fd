//! The validation layer is really on: it notices what is wrong. Without the layer there is nothing to test.

mod support;

use std::process::Command;

use etvk_vulkan::{Access, Device, DeviceOptions, Error, PipelineDesc};
use support::{SCALE_ADD, bind, device_words, push, scale_add};

#[expect(clippy::unwrap_used, reason = "this is a test")]
fn open() -> Option<Device> {
    match Device::open(&DeviceOptions { validation: true, ..DeviceOptions::default() }) {
        Err(Error::LayerMissing { .. }) => None,
        outcome => Some(outcome.unwrap()),
    }
}

/// Whether this process may run the body of `test`: a process of its own does, whose output is kept back, since what
/// the layer prints about a deliberate mistake must not look like a message about the suite.
#[expect(clippy::unwrap_used, reason = "this is a test")]
fn alone(test: &str) -> bool {
    const MARK: &str = "ETVK_DELIBERATE_MISTAKE";
    if std::env::var_os(MARK).is_some() {
        return true;
    }
    let program = std::env::current_exe().unwrap();
    let child = Command::new(program).args([test, "--exact"]).env(MARK, "1").output().unwrap();
    assert!(child.status.success(), "{test} failed in a process of its own");
    false
}

#[test]
fn a_kernel_without_room_for_its_push_constants_is_noticed() {
    if !alone("a_kernel_without_room_for_its_push_constants_is_noticed") {
        return;
    }
    let Some(device) = open() else { return };
    let desc = PipelineDesc {
        label: "no push constants",
        spirv: SCALE_ADD,
        bindings: 2,
        push_bytes: 0,
        specialization: &[],
        subgroup_size: None,
    };
    assert_eq!(device.validation_messages(), Vec::<String>::new());
    drop(device.pipeline(&desc));
    let messages = device.validation_messages();
    assert!(
        messages.iter().any(|message| message.contains("VUID-VkComputePipelineCreateInfo-layout")),
        "{messages:?}"
    );
    assert!(matches!(device.validation_log().check(), Err(Error::Validation { .. })));
}

#[test]
fn a_kernel_that_writes_what_it_says_it_reads_is_noticed() {
    if !alone("a_kernel_that_writes_what_it_says_it_reads_is_noticed") {
        return;
    }
    let Some(device) = open() else { return };
    let (a, out) = (device_words(&device, &[1; 64]), device_words(&device, &[1; 64]));
    let pipeline = scale_add(&device, 0);
    let mut recorder = device.recorder().unwrap();
    for (from, to) in [(&a, &out), (&out, &a)] {
        let lie = [bind(from, Access::Read), bind(to, Access::Read)];
        recorder.dispatch(&pipeline, &lie, &push(1, 64), [1; 3], 0).unwrap();
    }
    recorder.finish().unwrap().submit_and_wait().unwrap();
    let messages = device.validation_messages();
    assert!(messages.iter().any(|message| message.contains("SYNC-HAZARD-READ-AFTER-WRITE")), "{messages:?}");
}
