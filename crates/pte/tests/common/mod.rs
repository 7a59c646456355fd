//! The checked-in fixtures.
#![expect(clippy::unwrap_used, reason = "test code")]

pub(crate) mod walk;

use std::path::{Path, PathBuf};

/// The fixture directory of the workspace.
pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures")
}

/// Every fixture file with one of `extensions`, by path.
pub(crate) fn files(extensions: &[&str]) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for group in std::fs::read_dir(fixtures()).unwrap() {
        let group = group.unwrap().path();
        if group.is_dir() {
            found.extend(std::fs::read_dir(group).unwrap().map(|file| file.unwrap().path()));
        }
    }
    found.retain(|path| path.extension().is_some_and(|found| extensions.iter().any(|e| found == *e)));
    found.sort();
    assert!(!found.is_empty(), "no fixtures with extension {extensions:?}");
    found
}
