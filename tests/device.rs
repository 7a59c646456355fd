//! The device under test.

use std::sync::OnceLock;

use anyhow::Context as _;
use etvk_engine::Context;
use etvk_vulkan::{Device, DeviceOptions, Error};

/// A context of its own on the best device there is, under the validation layer where that is installed (`make test`
/// installs it, and fails when it is not in use).
///
/// # Errors
/// No device.
pub fn open() -> anyhow::Result<Context> {
    let options = DeviceOptions { validation: true, ..DeviceOptions::default() };
    let device = match Device::open(&options) {
        Err(Error::LayerMissing { .. }) => Device::open(&DeviceOptions::default()),
        outcome => outcome,
    };
    Ok(Context::new(device?))
}

/// The context that the tests of a process share.
///
/// # Errors
/// As [`open`].
pub fn context() -> anyhow::Result<&'static Context> {
    static CONTEXT: OnceLock<Result<Context, String>> = OnceLock::new();
    let context = CONTEXT.get_or_init(|| open().map_err(|error| format!("{error:#}")));
    context.as_ref().map_err(|error| anyhow::anyhow!("{error}"))
}

/// Fails when the validation layer has said anything about the shared context so far.
///
/// # Errors
/// The messages.
pub fn check_validation() -> anyhow::Result<()> {
    context()?.device().validation_log().check().context("the validation layer complains")
}
