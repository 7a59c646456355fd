//! `etvk check`

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use etvk::CheckReport;

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
        for reason in etvk::reasons(&method.problems) {
            writeln!(out, "  - {reason}")?;
        }
    }
    Ok(())
}

/// `1 call`, `2 calls`.
fn count(number: impl std::fmt::Display, noun: &str) -> String {
    let number = number.to_string();
    let plural = if number == "1" { "" } else { "s" };
    format!("{number} {noun}{plural}")
}
