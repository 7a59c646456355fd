//! The ways into the delegate: this library's Rust API, its C interface, and ExecuTorch's own runtime.

mod capi;
mod executorch;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use etvk::{Passes, Runtime, Value};

use crate::conformance::case::{Case, Session, Step};

pub(crate) use capi::CApi;
pub(crate) use executorch::{ExecuTorch, Runner};

/// Which door to go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Via {
    /// The Rust API
    Rust,
    /// The C interface, from its shared library
    Capi,
    /// ExecuTorch's C++ runtime, with the backend's shared library
    Executorch,
}

/// A way in.
pub(crate) trait Door {
    /// What reports call it.
    fn name(&self) -> &str;

    /// Puts the program of a case behind it.
    fn open(&self, case: &Case) -> anyhow::Result<Box<dyn Seat + '_>>;
}

/// A program behind a door. Every method has one instance, so that its state carries over.
pub(crate) trait Seat {
    /// Executes a step, and says how long that took.
    fn execute(&mut self, step: &Step) -> anyhow::Result<(Vec<Value>, Duration)>;
}

/// The Rust API, with some passes switched off.
pub(crate) struct Rust(pub(crate) Runtime, pub(crate) Passes);

impl Door for Rust {
    fn name(&self) -> &str {
        "rust"
    }

    fn open(&self, case: &Case) -> anyhow::Result<Box<dyn Seat + '_>> {
        Ok(Box::new(Session::open(case, &self.0, self.1)?))
    }
}

impl Seat for Session {
    fn execute(&mut self, step: &Step) -> anyhow::Result<(Vec<Value>, Duration)> {
        Session::execute(self, step)
    }
}

/// ExecuTorch's runtime with the delegate of the library `delegate`.
pub(crate) fn executorch(
    name: String,
    runner: Option<&Path>,
    delegate: PathBuf,
    specs: Vec<(&'static str, String)>,
) -> ExecuTorch {
    let runner = runner.map_or_else(|| beside("etvk-executorch-runner"), Path::to_owned);
    ExecuTorch { name, runner, delegate, specs, etdump: None }
}

/// What reports call the delegate of a library other than this project's.
pub(crate) fn other_name(library: &Path) -> String {
    let stem = library.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    format!("executorch:{stem}")
}

/// A file beside this program.
pub(crate) fn beside(name: &str) -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    program.with_file_name(name)
}

/// Name of one of ExecuTorch's error codes.
fn status_name(status: u32) -> &'static str {
    match status {
        0x00 => "Ok",
        0x01 => "Internal",
        0x02 => "InvalidState",
        0x03 => "EndOfMethod",
        0x04 => "AlreadyLoaded",
        0x10 => "NotSupported",
        0x11 => "NotImplemented",
        0x12 => "InvalidArgument",
        0x13 => "InvalidType",
        0x14 => "OperatorMissing",
        0x15 => "RegistrationExceedingMaxKernels",
        0x16 => "RegistrationAlreadyRegistered",
        0x20 => "NotFound",
        0x21 => "MemoryAllocationFailed",
        0x22 => "AccessFailed",
        0x23 => "InvalidProgram",
        0x24 => "InvalidExternalData",
        0x25 => "OutOfResources",
        0x30 => "DelegateInvalidCompatibility",
        0x31 => "DelegateMemoryAllocationFailed",
        0x32 => "DelegateInvalidHandle",
        _ => "Unknown",
    }
}
