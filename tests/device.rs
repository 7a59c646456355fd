//! The device under test.

use std::sync::OnceLock;

use anyhow::Context as _;
use etvk_engine::Context;
use etvk_vulkan::{Device, DeviceOptions};

/// The best device there is, under the validation layer, opened once for all tests of a process.
///
/// # Errors
/// No device, or no validation layer.
pub fn context() -> anyhow::Result<&'static Context> {
    static CONTEXT: OnceLock<Result<Context, String>> = OnceLock::new();
    let open = || {
        let options = DeviceOptions { validation: true, ..DeviceOptions::default() };
        Device::open(&options).map(Context::new).map_err(|error| error.to_string())
    };
    CONTEXT.get_or_init(open).as_ref().map_err(|error| anyhow::anyhow!("{error}"))
}

/// Fails when the validation layer has said anything so far.
///
/// # Errors
/// The messages.
pub fn check_validation() -> anyhow::Result<()> {
    context()?.device().validation_log().check().context("the validation layer complains")
}
