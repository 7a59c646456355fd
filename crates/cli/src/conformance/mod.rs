//! `etvk conformance`

mod bundle;
mod case;
mod compare;
mod goldens;
mod manifest;
mod report;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use etvk::Runtime;
use regex::Regex;

use crate::device::{self, DeviceArgs, describe};
use crate::outcome::Outcome;

pub(crate) use case::{Case, Session, Step};
pub(crate) use compare::compare;
pub(crate) use manifest::find as find_case;

use report::{Report, Row};

/// Run programs with known results and compare
///
/// A PATH is a folder with a manifest.json or with *.goldens.json or .bpte files, or one such file. A row a case: its
/// name, the greatest absolute and relative error, the tolerance, milliseconds of all executions.
#[derive(Args, Debug)]
pub(crate) struct ConformanceArgs {
    /// Fixture folder, manifest.json, NAME.goldens.json or .bpte
    #[arg(required = true)]
    path: Vec<PathBuf>,
    /// Only cases whose `group/name` matches
    #[arg(long, value_name = "REGEX")]
    filter: Option<Regex>,
    /// Write the results as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
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
    writeln!(out, "device: {device}")?;
    let mut report = Report::new(device, &cases);
    for case in &cases {
        let row = run_case(case, &runtime);
        report.row(out, row)?;
    }
    report.summary(out)?;
    if let Some(path) = &args.json {
        let json = serde_json::to_string_pretty(&report.json())?;
        std::fs::write(path, json).with_context(|| path.display().to_string())?;
    }
    device::finish(&runtime)?;
    Ok(if report.failed() == 0 { Outcome::Ok } else { Outcome::Mismatch })
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

/// Runs a case: the same methods for all its steps, so that state carries over.
fn run_case(case: &Case, runtime: &Runtime) -> Row {
    let mut row = Row::new(case);
    if let Err(error) = steps(case, runtime, &mut row) {
        row.error = Some(crate::outcome::chain(&error));
    }
    row
}

fn steps(case: &Case, runtime: &Runtime, row: &mut Row) -> anyhow::Result<()> {
    let mut session = Session::open(case, runtime)?;
    for (run, step) in case.steps(&session)?.iter().enumerate() {
        let (outputs, time) = session.execute(step).with_context(|| format!("run {run}"))?;
        row.time += time;
        if step.expected.is_empty() {
            continue;
        }
        if outputs.len() != step.expected.len() {
            bail!("run {run}: expected {} outputs, found {}", step.expected.len(), outputs.len());
        }
        for (index, (got, want)) in outputs.iter().zip(&step.expected).enumerate() {
            let place = || format!("run {run}, output {index}");
            let difference = compare(got, want, case.tolerance).with_context(place)?;
            row.add(&difference);
            if let Some(worst) = difference.worst
                && row.error.is_none()
            {
                row.error = Some(format!("{}: {worst}", place()));
            }
        }
    }
    Ok(())
}
