//! `etvk check`

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use etvk::{CheckReport, MethodReport, Problem};

use crate::outcome::Outcome;

/// Say without a device whether this build runs a program, and every reason why not
#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    /// Program (.pte or .bpte)
    model: PathBuf,
    /// External data (.ptd); may be given several times
    #[arg(long, visible_alias = "data-path", value_name = "FILE")]
    data: Vec<PathBuf>,
}

pub(crate) fn run(args: &CheckArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let report = etvk::check_with(&args.model, &args.data)?;
    write(out, &report)?;
    Ok(if report.runs() { Outcome::Ok } else { Outcome::BadInput })
}

fn write(out: &mut dyn Write, report: &CheckReport) -> std::io::Result<()> {
    for method in &report.methods {
        let verdict = if method.problems.is_empty() { "runs" } else { "does not run" };
        writeln!(out, "{}: {verdict}", method.name)?;
        for (index, delegate) in method.delegates.iter().enumerate() {
            writeln!(
                out,
                "  delegate {index}: {}, {}, {} of {}",
                delegate.backend,
                count(delegate.calls, "call"),
                count(delegate.constants, "constant"),
                count(delegate.constant_bytes, "byte")
            )?;
        }
        for (operator, calls) in &method.operators {
            writeln!(out, "  on the CPU: {operator}, {}", count(*calls, "call"))?;
        }
        for reason in reasons(method) {
            writeln!(out, "  - {reason}")?;
        }
    }
    Ok(())
}

/// The problems in words; calls that fail alike are counted and stand where the first of them does.
fn reasons(method: &MethodReport) -> Vec<String> {
    let mut reasons: Vec<(String, String, usize)> = Vec::new();
    for problem in &method.problems {
        let (alike, text) = match problem {
            Problem::Call { delegate, fault } => {
                (format!("delegate {delegate}: {}: {}", fault.name, fault.fault), problem.to_string())
            }
            other => (other.to_string(), other.to_string()),
        };
        match reasons.iter_mut().find(|(known, ..)| *known == alike) {
            Some((.., count)) => *count += 1,
            None => reasons.push((alike, text, 1)),
        }
    }
    let words = |(_, text, times): (String, String, usize)| match times {
        1 => text,
        times => format!("{text} (and {} alike)", count(times - 1, "call")),
    };
    reasons.into_iter().map(words).collect()
}

/// `1 call`, `2 calls`.
fn count(number: impl std::fmt::Display, noun: &str) -> String {
    let number = number.to_string();
    let plural = if number == "1" { "" } else { "s" };
    format!("{number} {noun}{plural}")
}
