//! `etvk conformance`

mod bundle;
mod case;
mod compare;
pub(crate) mod door;
mod expected;
mod goldens;
mod junit;
mod manifest;
mod report;
mod suite;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use etvk::Runtime;
use regex::Regex;

use crate::device::{self, DeviceArgs, describe};
use crate::outcome::Outcome;
use crate::passes::PassArgs;

pub(crate) use case::{Case, Session, Step};
pub(crate) use compare::compare;
pub(crate) use manifest::find as find_case;

use door::{CApi, Door, ExecuTorch, Rust, Via, beside};
use expected::Expected;
use report::Report;
use suite::Suite;

/// Run programs with known results and compare
///
/// A PATH is a folder with a manifest.json or with *.goldens.json or .bpte files, or one such file. A row a case: its
/// name, the greatest absolute and relative error, the tolerance, milliseconds of all executions. With several doors, a
/// case has a row for each, and they are compared with the first one as well.
#[derive(Args, Debug)]
pub(crate) struct ConformanceArgs {
    /// Fixture folder, manifest.json, NAME.goldens.json or .bpte
    #[arg(required = true)]
    path: Vec<PathBuf>,
    /// Only cases whose `group/name` matches
    #[arg(long, value_name = "REGEX")]
    filter: Option<Regex>,
    /// Ways into the delegate, separated by commas
    #[arg(long, value_name = "DOOR", value_enum, value_delimiter = ',', default_value = "rust")]
    via: Vec<Via>,
    /// Library with the C interface, for `--via capi`; libetvk.so beside this program by default
    #[arg(long, value_name = "FILE")]
    capi: Option<PathBuf>,
    /// Library that registers the delegate, for `--via executorch`; libexecutorch_backend_vulkan.so beside this program by
    /// default
    #[arg(long, value_name = "FILE")]
    delegate: Option<PathBuf>,
    /// Another such library to put beside it
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    /// The program that runs ExecuTorch; etvk-executorch-runner beside this program by default
    #[arg(long, value_name = "FILE")]
    runner: Option<PathBuf>,
    /// Write what ExecuTorch's event tracer saw of each case to `GROUP.NAME.etdp` in this folder
    #[arg(long, value_name = "FOLDER")]
    etdump: Option<PathBuf>,
    /// Run every case so many times, and demand the same outputs each time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    replay: u32,
    /// Failures that are expected, by device, with a reason (TOML); a case that passes all the same is a failure
    #[arg(long, value_name = "FILE")]
    expected: Option<PathBuf>,
    /// Write the results as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the results as JUnit's XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    #[command(flatten)]
    passes: PassArgs,
    #[command(flatten)]
    device: DeviceArgs,
}

pub(crate) fn run(args: &ConformanceArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let mut cases = Vec::new();
    for path in &args.path {
        cases.extend(collect(path)?);
    }
    if let Some(filter) = &args.filter {
        cases.retain(|case| filter.is_match(&case.full_name()));
    }
    if cases.is_empty() {
        bail!("no case matches");
    }
    let runtime = args.device.runtime();
    let device = describe(runtime.device()?.capabilities());
    let expected = args.expected.as_ref().map(|path| Expected::read(path, &device)).transpose()?;
    let doors = doors(args, &runtime)?;
    let names: Vec<&str> = doors.iter().map(|door| door.name()).collect();
    writeln!(out, "device: {device}")?;
    let mut report = Report::new(device.clone(), &cases, &names);
    let suite = Suite { doors: &doors, replays: args.replay, expected: expected.unwrap_or_default() };
    for case in &cases {
        for row in suite.run(case) {
            report.row(out, row)?;
        }
    }
    report.summary(out)?;
    let write =
        |path: &PathBuf, text: String| std::fs::write(path, text).with_context(|| path.display().to_string());
    if let Some(path) = &args.json {
        write(path, serde_json::to_string_pretty(&report.json())?)?;
    }
    if let Some(path) = &args.junit {
        write(path, junit::write(&device, report.rows()))?;
    }
    device::finish(&runtime)?;
    Ok(if report.failed() == 0 { Outcome::Ok } else { Outcome::Mismatch })
}

/// The doors that the arguments ask for.
fn doors(args: &ConformanceArgs, runtime: &Runtime) -> anyhow::Result<Vec<Box<dyn Door>>> {
    let file = |given: &Option<PathBuf>, name: &str| given.clone().unwrap_or_else(|| beside(name));
    let executorch = |name: String, delegate: PathBuf| ExecuTorch {
        etdump: args.etdump.clone(),
        ..door::executorch(name, args.runner.as_deref(), delegate, args.device.options())
    };
    if let Some(folder) = &args.etdump {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let mut doors: Vec<Box<dyn Door>> = Vec::new();
    for via in &args.via {
        doors.push(match via {
            Via::Rust => Box::new(Rust(runtime.clone(), args.passes.passes()?)),
            Via::Capi => Box::new(CApi::open(&file(&args.capi, "libetvk.so"), &args.device.options())?),
            Via::Executorch => {
                let delegate = file(&args.delegate, "libexecutorch_backend_vulkan.so");
                Box::new(executorch("executorch".to_owned(), delegate))
            }
        });
    }
    if let Some(other) = &args.compare {
        if !args.via.contains(&Via::Executorch) {
            bail!("--compare needs --via executorch");
        }
        doors.push(Box::new(executorch(door::other_name(other), other.clone())));
    }
    Ok(doors)
}

/// The cases behind a path.
fn collect(path: &Path) -> anyhow::Result<Vec<Case>> {
    if !path.is_dir() {
        return match path.file_name().and_then(|name| name.to_str()) {
            Some(name) if name.ends_with(goldens::ENDING) => goldens::cases(path),
            Some(name) if name.ends_with(".bpte") => bundle::cases(path),
            Some(name) if name.ends_with(".json") => manifest::cases(path),
            _ => bail!("{}: expected a folder, manifest.json, NAME.goldens.json or .bpte", path.display()),
        };
    }
    let mut cases = match path.join(manifest::NAME) {
        manifest if manifest.exists() => manifest::cases(&manifest)?,
        _ => Vec::new(),
    };
    let with_manifest = !cases.is_empty();
    let mut files = std::fs::read_dir(path)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>())
        .with_context(|| path.display().to_string())?;
    files.sort();
    for file in files {
        match file.file_name().and_then(|name| name.to_str()) {
            Some(name) if name.ends_with(goldens::ENDING) => cases.extend(goldens::cases(&file)?),
            // A manifest knows its own bundles.
            Some(name) if name.ends_with(".bpte") && !with_manifest => cases.extend(bundle::cases(&file)?),
            _ => {}
        }
    }
    if cases.is_empty() {
        bail!("{}: found no {}, *{} or *.bpte", path.display(), manifest::NAME, goldens::ENDING);
    }
    Ok(cases)
}
