//! `etvk devices`

use std::io::Write;

use clap::Args;
use etvk::{Device, DeviceChoice, DeviceOptions};

use crate::device::describe;
use crate::outcome::Outcome;

/// List the Vulkan devices of this machine and what they offer
#[derive(Args, Debug)]
pub(crate) struct DevicesArgs {}

pub(crate) fn run(_: &DevicesArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let infos = etvk::devices()?;
    if infos.is_empty() {
        return Err(etvk::DeviceError::NoDevice { wanted: "anything".to_owned(), found: Vec::new() }.into());
    }
    for info in &infos {
        let choice = DeviceChoice::Index(info.index);
        let device = match Device::open(&DeviceOptions { choice, ..DeviceOptions::default() }) {
            Ok(device) => device,
            Err(error) => {
                writeln!(out, "{}  {}: cannot be used: {error}", info.index, info.name)?;
                continue;
            }
        };
        let caps = device.capabilities();
        writeln!(out, "{}  {}", info.index, describe(caps))?;
        writeln!(out, "   {:?}, subgroups of {}", caps.kind, caps.subgroup_size)?;
        let have = features(&device);
        writeln!(out, "   {}", if have.is_empty() { "plain".to_owned() } else { have.join(", ") })?;
        writeln!(
            out,
            "   storage buffers of {} MiB, workgroups of {}, {} KiB shared",
            caps.max_storage_buffer_range >> 20,
            caps.max_workgroup_invocations,
            caps.max_shared_memory >> 10
        )?;
    }
    Ok(Outcome::Ok)
}

/// What decides which kernels a device gets.
fn features(device: &Device) -> Vec<&'static str> {
    let (caps, on) = (device.capabilities(), device.enabled_features());
    let named = [
        (on.storage_16bit, "16-bit storage"),
        (on.storage_8bit, "8-bit storage"),
        (on.shader_float16, "fp16 arithmetic"),
        (on.shader_int8, "int8 arithmetic"),
        (on.integer_dot_product, "integer dot product"),
        (caps.subgroup_arithmetic, "subgroup arithmetic"),
        (caps.subgroup_shuffle, "subgroup shuffle"),
        (on.cooperative_matrix, "cooperative matrix"),
    ];
    named.into_iter().filter(|(has, _)| *has).map(|(_, name)| name).collect()
}
