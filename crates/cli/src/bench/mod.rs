//! `etvk bench`

mod kernels;
mod language;
mod measure;
mod memory;
mod report;
mod seat;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use etvk::{Module, ModuleOptions, Runtime};

use crate::conformance::door;
use crate::device::{self, DeviceArgs, describe};
use crate::outcome::Outcome;
use crate::passes::PassArgs;
use crate::run::method_name;

use kernels::Kernels;
use language::Language;
use measure::{Script, Test, measure};
use report::Result as Row;
use seat::{Seat, Subject, cache_state};

/// Measure how fast a program runs
///
/// Language models that take (tokens int64[1, S], start int64[1]) or (tokens int64[1, S], positions int64[S]) are timed on
/// prompts (`pp512`) and on decoding one token after the other from a position on (`tg128@1024`); other programs with
/// --runs. What is timed is a whole execution as an application sees it, from inputs in host memory to outputs in host
/// memory. A row a test: tokens a second as mean and standard deviation over the repetitions, milliseconds of a prompt, a
/// decode step or an execution, and the first execution, which compiles and records.
#[derive(Args, Debug)]
pub(crate) struct BenchArgs {
    /// Program (.pte or .bpte)
    model: PathBuf,
    /// External data (.ptd); may be given several times
    #[arg(long, value_name = "FILE")]
    data: Vec<PathBuf>,
    /// Method; `forward` by default, or the only one there is
    #[arg(long, value_name = "NAME")]
    method: Option<String>,
    /// Prompts of so many tokens [default: 512, unless --tg is given]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = count)]
    pp: Vec<usize>,
    /// Decode so many tokens [default: 128, unless --pp is given]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = count)]
    tg: Vec<usize>,
    /// Positions that decoding starts at; the caches are filled up to there beforehand
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "0")]
    depth: Vec<usize>,
    /// Time so many executions on made-up inputs of the greatest sizes instead, for any program
    #[arg(long, value_name = "N", value_parser = count, conflicts_with_all = ["pp", "tg", "depth"])]
    runs: Option<usize>,
    /// How often to repeat each test
    #[arg(long, value_name = "N", default_value = "5", value_parser = count)]
    reps: usize,
    /// Show the GPU time of each kernel as well, beside the bandwidth of copies on the device
    #[arg(long)]
    kernels: bool,
    /// Write the results as lines of JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Commit that this command was built from, for the JSON
    #[arg(long, value_name = "TEXT")]
    commit: Option<String>,
    /// Time this and another library with a delegate in ExecuTorch's runtime, one repetition of each in turn
    #[arg(long, value_name = "FILE", conflicts_with = "kernels")]
    compare_delegate: Option<PathBuf>,
    /// This project's library for --compare-delegate; libexecutorch_backend_vulkan.so beside this program by default
    #[arg(long, value_name = "FILE", requires = "compare_delegate")]
    delegate: Option<PathBuf>,
    /// The program that runs ExecuTorch; etvk-executorch-runner beside this program by default
    #[arg(long, value_name = "FILE", requires = "compare_delegate")]
    runner: Option<PathBuf>,
    #[command(flatten)]
    passes: PassArgs,
    #[command(flatten)]
    device: DeviceArgs,
}

fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be 1 or more".to_owned()),
        Ok(count) => Ok(count),
        Err(error) => Err(format!("{error}")),
    }
}

pub(crate) fn run(args: &BenchArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let cache = cache_state(args.device.pipeline_cache());
    let (subject, scripts) = scripts(args)?;
    let runtime = args.device.runtime();
    let mut seats = seats(args, &subject, &runtime)?;
    // Other seats open a device of their own: the one of the same options says what it is.
    let device = if seats.iter().any(|seat| seat.device.is_some()) || args.compare_delegate.is_some() {
        Some(runtime.device()?)
    } else {
        None
    };
    let name = device.as_ref().map_or_else(|| "CPU only".to_owned(), |d| describe(d.capabilities()));
    writeln!(out, "device  {name}")?;
    writeln!(out, "file    {}, method {}", subject.file.display(), subject.method)?;
    for seat in &mut seats {
        Row::write_seat(seat, out)?;
    }
    writeln!(out)?;
    Row::header(out)?;
    let mut rows = Vec::new();
    for script in &scripts {
        let times = measure(script, &mut seats)?;
        for (seat, times) in seats.iter_mut().zip(times) {
            let row = Row::new(script.test, seat, times);
            row.write(out)?;
            rows.push(row);
        }
    }
    if let (true, Some(device)) = (args.kernels, &device) {
        let bandwidth = device.copy_bandwidth()?;
        let mut seat = Seat::own(&subject, &runtime, true)?;
        for (script, row) in scripts.iter().zip(&mut rows) {
            let kernels = Kernels::measure(script, &mut seat, bandwidth)?;
            kernels.write(out, &script.test.name())?;
            row.kernels = Some(kernels);
        }
    }
    if let Some(path) = &args.json {
        let caps = device.as_ref().map(|device| device.capabilities());
        let about = report::about(&subject, caps, args.commit.as_deref(), cache)?;
        let lines: String = rows.iter().map(|row| format!("{}\n", row.json(&about))).collect();
        std::fs::write(path, lines).with_context(|| path.display().to_string())?;
    }
    device::finish(&runtime)?;
    Ok(Outcome::Ok)
}

/// The program and the tests that the arguments ask for.
fn scripts(args: &BenchArgs) -> anyhow::Result<(Subject, Vec<Script>)> {
    let file = args.model.clone();
    // Opened without a device, to be opened once more where that is timed.
    let options = ModuleOptions { data: args.data.clone(), ..ModuleOptions::default() };
    let module = Module::open_with(&file, options)?;
    let method = method_name(&module, args.method.as_deref())?;
    let info = module.method_info(&method)?;
    let scripts = match args.runs {
        Some(runs) => vec![Script::whole(&info, &file, runs)?],
        None => {
            let model = Language::infer(&info)?;
            let script = |test| Script::of(test, &model, args.reps);
            tests(args).into_iter().map(script).collect::<anyhow::Result<_>>()?
        }
    };
    let passes = args.passes.passes()?;
    Ok((Subject { file, data: args.data.clone(), method, passes }, scripts))
}

/// The tests of a language model.
fn tests(args: &BenchArgs) -> Vec<Test> {
    let neither = args.pp.is_empty() && args.tg.is_empty();
    let (pp, tg): (&[usize], &[usize]) = if neither { (&[512], &[128]) } else { (&args.pp, &args.tg) };
    let prompts = pp.iter().map(|&tokens| Test::Prompt { tokens });
    let decodes =
        tg.iter().flat_map(|&tokens| args.depth.iter().map(move |&depth| Test::Decode { tokens, depth }));
    prompts.chain(decodes).collect()
}

/// The program, loaded wherever the arguments want it.
fn seats(args: &BenchArgs, subject: &Subject, runtime: &Runtime) -> anyhow::Result<Vec<Seat>> {
    let Some(other) = &args.compare_delegate else {
        return Ok(vec![Seat::own(subject, runtime, false)?]);
    };
    let own = args.delegate.clone().unwrap_or_else(|| door::beside("libexecutorch_backend_vulkan.so"));
    let seat = |name: String, library: &Path| {
        let door = door::executorch(name, args.runner.as_deref(), library.to_owned(), args.device.options());
        Seat::executorch(subject, &door)
    };
    if !own.exists() {
        bail!("{}: there is no such library; --delegate names it", own.display());
    }
    Ok(vec![seat("executorch".to_owned(), &own)?, seat(door::other_name(other), other)?])
}
