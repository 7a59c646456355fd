//! Which device a command runs on.

use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::Args;
use etvk::{Capabilities, DeviceChoice, DeviceOptions, Runtime};

/// Options of every command that uses a device.
#[derive(Args, Debug)]
pub(crate) struct DeviceArgs {
    /// Device by its place in `etvk devices`, or by a part of its name; the best one by default
    #[arg(long, value_name = "NAME|INDEX", value_parser = choice)]
    device: Option<DeviceChoice>,
    /// File that compiled pipelines are kept in from one run to the next
    #[arg(long, value_name = "FILE")]
    pipeline_cache: Option<PathBuf>,
    /// Turn on Vulkan's validation layer; a message of it is an error
    #[arg(long)]
    validation: bool,
}

#[expect(clippy::unnecessary_wraps, reason = "clap's parsers may fail")]
fn choice(text: &str) -> Result<DeviceChoice, String> {
    Ok(text.parse().map_or_else(|_| DeviceChoice::Name(text.to_owned()), DeviceChoice::Index))
}

impl DeviceArgs {
    /// The runtime that these options ask for; it opens the device when one is needed.
    pub(crate) fn runtime(&self) -> Runtime {
        Runtime::new(DeviceOptions {
            choice: self.device.clone().unwrap_or_default(),
            validation: self.validation,
            pipeline_cache: self.pipeline_cache.clone(),
            ..DeviceOptions::default()
        })
    }
}

impl DeviceArgs {
    /// The file that compiled pipelines are kept in.
    pub(crate) fn pipeline_cache(&self) -> Option<&Path> {
        self.pipeline_cache.as_deref()
    }

    /// The same as options of the C interface and of ExecuTorch's backends.
    pub(crate) fn options(&self) -> Vec<(&'static str, String)> {
        let mut options = Vec::new();
        match &self.device {
            Some(DeviceChoice::Index(index)) => options.push(("device", index.to_string())),
            Some(DeviceChoice::Name(name)) => options.push(("device", name.clone())),
            _ => {}
        }
        if let Some(path) = &self.pipeline_cache {
            options.push(("pipeline_cache_path", path.display().to_string()));
        }
        options
    }
}

/// Keeps compiled pipelines, and passes on what the validation layer said.
pub(crate) fn finish(runtime: &Runtime) -> anyhow::Result<()> {
    let Some(device) = runtime.opened() else { return Ok(()) };
    device.save_pipeline_cache();
    match device.validation_messages().as_slice() {
        [] => Ok(()),
        [only] => bail!("the validation layer said: {only}"),
        [first, others @ ..] => bail!("the validation layer said: {first} (and {} more)", others.len()),
    }
}

/// A device in words.
pub(crate) fn describe(caps: &Capabilities) -> String {
    let driver = format!("{} {}", caps.driver_name, caps.driver_info);
    match driver.trim() {
        "" => format!("{}, Vulkan {}", caps.name, caps.api_version),
        driver => format!("{}, Vulkan {}, {driver}", caps.name, caps.api_version),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_places_and_words_are_names() {
        assert_eq!(choice("1"), Ok(DeviceChoice::Index(1)));
        assert_eq!(choice("llvmpipe"), Ok(DeviceChoice::Name("llvmpipe".into())));
        assert_eq!(choice("-1"), Ok(DeviceChoice::Name("-1".into())));
    }
}
