//! Cases that are known to fail on given hardware: a TOML file with a `[[failure]]` each.
//!
//! ```toml
//! [[failure]]
//! device = "^NVIDIA"              # matches the device's name; every device if absent
//! via = "executorch"              # rust, capi or executorch; every door if absent
//! case = "^ops/conv2d_.*_fp16$"   # matches `group/name`
//! reason = "why"
//! ```
//!
//! A case that fails as expected is no failure; one that passes although it should fail is.

use std::path::Path;

use anyhow::Context;
use regex::Regex;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    failure: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    device: Option<String>,
    via: Option<String>,
    case: String,
    reason: String,
}

/// The failures that are expected on one device.
#[derive(Debug, Default)]
pub(crate) struct Expected(Vec<Failure>);

#[derive(Debug)]
struct Failure {
    via: Option<String>,
    case: Regex,
    reason: String,
}

impl Expected {
    /// Reads a file, for a device of that name.
    pub(crate) fn read(path: &Path, device: &str) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        Self::parse(&text, device).with_context(|| path.display().to_string())
    }

    fn parse(text: &str, device: &str) -> anyhow::Result<Self> {
        let file: File = toml::from_str(text)?;
        let mut failures = Vec::new();
        for entry in file.failure {
            if entry.device.map_or(Ok(true), |pattern| Regex::new(&pattern).map(|it| it.is_match(device)))? {
                failures.push(Failure {
                    via: entry.via,
                    case: Regex::new(&entry.case)?,
                    reason: entry.reason,
                });
            }
        }
        Ok(Self(failures))
    }

    /// Why a case is expected to fail behind a door, if it is.
    pub(crate) fn reason(&self, via: &str, case: &str) -> Option<&str> {
        let applies = |failure: &&Failure| {
            failure.via.as_deref().is_none_or(|only| only == via) && failure.case.is_match(case)
        };
        self.0.iter().find(applies).map(|failure| failure.reason.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        [[failure]]
        device = "^NVIDIA"
        case = "^ops/"
        reason = "one"
        [[failure]]
        via = "executorch"
        case = "sum$"
        reason = "two"
    "#;

    #[test]
    fn failures_are_of_a_device_and_a_door() {
        let nvidia = Expected::parse(TEXT, "NVIDIA H200").unwrap();
        assert_eq!(nvidia.reason("rust", "ops/add"), Some("one"));
        assert_eq!(nvidia.reason("executorch", "llm/sum"), Some("two"));
        assert_eq!(nvidia.reason("rust", "llm/sum"), None);
        let other = Expected::parse(TEXT, "llvmpipe").unwrap();
        assert_eq!(other.reason("rust", "ops/add"), None);
        assert!(Expected::parse("[[failure]]\ncase = \"a\"", "any").is_err(), "a reason is needed");
    }
}
