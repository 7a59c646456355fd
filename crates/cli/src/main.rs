//! The `etvk` command.

mod args;
mod bench;
mod check;
mod conformance;
mod convert;
mod demo;
mod device;
mod devices;
mod eval;
mod extract;
mod generate;
mod inspect;
mod outcome;
mod passes;
mod random;
mod run;
mod tensors;
mod text;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::outcome::Outcome;

/// Runs ExecuTorch programs that were exported for the Vulkan delegate.
///
/// Exit codes: 0 all is well, 1 a result differs, 2 the input is bad or not supported, 3 there is no usable device,
/// 130 interrupted while writing text.
#[derive(Debug, Parser)]
#[command(name = "etvk", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::RunArgs),
    Generate(generate::GenerateArgs),
    Eval(eval::EvalArgs),
    Check(check::CheckArgs),
    Inspect(inspect::InspectArgs),
    Extract(extract::ExtractArgs),
    Convert(convert::ConvertArgs),
    Bench(bench::BenchArgs),
    Conformance(conformance::ConformanceArgs),
    Demo(demo::DemoArgs),
    Devices(devices::DevicesArgs),
}

impl Command {
    fn execute(&self, out: &mut dyn Write) -> anyhow::Result<Outcome> {
        match self {
            Self::Run(args) => run::run(args, out),
            Self::Generate(args) => generate::run(args, out),
            Self::Eval(args) => eval::run(args, out),
            Self::Check(args) => check::run(args, out),
            Self::Inspect(args) => inspect::run(args, out),
            Self::Extract(args) => extract::run(args, out),
            Self::Convert(args) => convert::run(args, out),
            Self::Bench(args) => bench::run(args, out),
            Self::Conformance(args) => conformance::run(args, out),
            Self::Demo(args) => demo::run(args, out),
            Self::Devices(args) => devices::run(args, out),
        }
    }
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse_from(args::with_hyphens(std::env::args_os())) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no errors; if they cannot be printed there is nobody to tell.
            let _ = error.print();
            return if error.use_stderr() { Outcome::BadInput } else { Outcome::Ok }.into();
        }
    };
    let mut out = std::io::stdout().lock();
    let result = cli.command.execute(&mut out).and_then(|outcome| {
        out.flush()?;
        Ok(outcome)
    });
    match result {
        Ok(outcome) => outcome.into(),
        // Whoever read the output has seen enough.
        Err(error) if outcome::is_broken_pipe(&error) => Outcome::Ok.into(),
        Err(error) => {
            eprintln!("error: {}", outcome::chain(&error));
            Outcome::of(&error).into()
        }
    }
}
