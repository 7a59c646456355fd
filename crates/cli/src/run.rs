//! `etvk run`

use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use etvk::{LoadProgress, Method, MethodInfo, Module, ModuleOptions, Tensor, Value, ValueInfo};
use indicatif::{ProgressBar, ProgressStyle};

use crate::device::{self, DeviceArgs, describe};
use crate::outcome::Outcome;
use crate::random::Random;
use crate::tensors::{self, Numbers};

/// Execute a method on inputs from files, or on made-up ones
#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// Program (.pte or .bpte)
    #[arg(required_unless_present = "model_path")]
    model: Option<PathBuf>,
    /// The program, as executor_runner spells it
    #[arg(long, hide = true, conflicts_with = "model")]
    model_path: Option<PathBuf>,
    /// External data (.ptd); may be given several times
    #[arg(long, visible_alias = "data-path", value_name = "FILE")]
    data: Vec<PathBuf>,
    /// Method; `forward` by default, or the only one there is
    #[arg(long, visible_alias = "method-name", value_name = "NAME")]
    method: Option<String>,
    /// Inputs: files of raw bytes in the method's order and sizes, or one .safetensors with in0, in1, …
    #[arg(long, value_name = "FILE,…", value_delimiter = ',')]
    inputs: Vec<PathBuf>,
    /// Seed of the made-up inputs that are used without --inputs
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Where outputs go: a .safetensors with out0, out1, …, or the beginning of names of files of raw bytes
    #[arg(long, visible_alias = "output-file", value_name = "FILE")]
    output: Option<PathBuf>,
    /// How often to execute; state carries over from one execution to the next
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    num_executions: u32,
    /// What to print of the outputs
    #[arg(long, visible_alias = "print-output", value_enum, default_value_t = Print::Summary)]
    print: Print,
    #[command(flatten)]
    device: DeviceArgs,
}

/// What to print of the outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Print {
    /// Nothing
    None,
    /// Type, sizes, range and the first elements
    Summary,
    /// Every element
    All,
}

/// Made-up inputs may take as many bytes as the program and these.
const RANDOM_BYTES: usize = 64 << 20;

pub(crate) fn run(args: &RunArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let path = args.model.as_ref().or(args.model_path.as_ref()).context("no program was given")?;
    let runtime = args.device.runtime();
    let options =
        ModuleOptions { data: args.data.clone(), runtime: runtime.clone(), ..ModuleOptions::default() };
    let module = Module::open_with(path, options)?;
    let name = method_name(&module, args.method.as_deref())?;
    let info = module.method_info(&name)?;
    let inputs = match args.inputs.as_slice() {
        [] => made_up(&info, args.seed, path)?,
        files => from_files(&info, files)?,
    };
    let mut method = load(&module, &name)?;
    let (outputs, times) = execute(&mut method, &inputs, args.num_executions)?;
    if args.print != Print::None {
        let device = runtime.opened().map_or_else(|| "CPU only".to_owned(), |d| describe(d.capabilities()));
        writeln!(out, "{name} on {device}: {}", timing(&times))?;
        for (index, output) in outputs.iter().enumerate() {
            writeln!(out, "out{index}  {}", text(output, args.print)?)?;
        }
    }
    if let Some(path) = &args.output {
        save(path, outputs)?;
    }
    device::finish(&runtime)?;
    Ok(Outcome::Ok)
}

/// The method that is meant: the asked one, `forward`, or the only one there is.
pub(crate) fn method_name(module: &Module, asked: Option<&str>) -> anyhow::Result<String> {
    match (asked, module.method_names()) {
        (Some(name), _) => Ok(name.to_owned()),
        (None, [only]) => Ok(only.clone()),
        (None, names) if names.iter().any(|name| name == "forward") => Ok("forward".to_owned()),
        (None, names) => bail!("which method? --method {}", names.join(" or --method ")),
    }
}

/// Inputs for a method, made up from a seed.
pub(crate) fn made_up(info: &MethodInfo, seed: u64, path: &Path) -> anyhow::Result<Vec<Value>> {
    let file = std::fs::metadata(path).map(|meta| meta.len()).unwrap_or(0);
    let mut budget = usize::try_from(file).unwrap_or(usize::MAX).saturating_add(RANDOM_BYTES);
    let mut random = Random::new(seed);
    let value = |(index, info)| random.value(info, &mut budget).with_context(|| format!("input {index}"));
    info.inputs.iter().enumerate().map(value).collect()
}

fn from_files(info: &MethodInfo, files: &[PathBuf]) -> anyhow::Result<Vec<Value>> {
    if let [file] = files
        && file.extension().is_some_and(|extension| extension == "safetensors")
    {
        let mut named = tensors::read(file)?;
        let value = |(index, info): (usize, &ValueInfo)| {
            let tensor =
                [format!("in{index}"), format!("r0.in{index}")].iter().find_map(|name| named.remove(name));
            let missing = || format!("{}: there is no tensor in{index} (or r0.in{index})", file.display());
            tensors::to_input(tensor.with_context(missing)?, info).with_context(|| format!("input {index}"))
        };
        return info.inputs.iter().enumerate().map(value).collect();
    }
    if files.len() != info.inputs.len() {
        bail!("{} takes {} inputs, found {} files", info.name, info.inputs.len(), files.len());
    }
    let value = |(info, file): (&ValueInfo, &PathBuf)| {
        let bytes = std::fs::read(file).with_context(|| file.display().to_string())?;
        let ValueInfo::Tensor { scalar_type, sizes, .. } = info else {
            bail!("{}: raw bytes cannot stand for {info}, use a .safetensors", file.display());
        };
        Ok(Value::Tensor(
            Tensor::new(*scalar_type, sizes, bytes).with_context(|| file.display().to_string())?,
        ))
    };
    info.inputs.iter().zip(files).map(value).collect()
}

/// Loads a method with a progress bar on standard error, which only a terminal shows.
pub(crate) fn load(module: &Module, name: &str) -> anyhow::Result<Method> {
    with_progress(|progress| module.load(name, Some(progress)))
}

/// Loads something with a progress bar on standard error, which only a terminal shows.
pub(crate) fn with_progress<T>(
    load: impl FnOnce(&mut dyn FnMut(LoadProgress)) -> etvk::Result<T>,
) -> anyhow::Result<T> {
    let bar = ProgressBar::new(0).with_style(
        ProgressStyle::with_template("loading {msg}[{bar:40}] {bytes}/{total_bytes} {bytes_per_sec}")?
            .progress_chars("=> "),
    );
    let loaded = load(&mut |progress: LoadProgress| {
        if progress.delegates > 1 {
            bar.set_message(format!("{}/{} ", progress.delegate + 1, progress.delegates));
        }
        bar.set_length(progress.total);
        bar.set_position(progress.done);
    });
    bar.finish_and_clear();
    Ok(loaded?)
}

fn execute(method: &mut Method, inputs: &[Value], count: u32) -> anyhow::Result<(Vec<Value>, Vec<Duration>)> {
    let (mut outputs, mut times) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let start = Instant::now();
        outputs = method.execute(inputs)?;
        times.push(start.elapsed());
    }
    Ok((outputs, times))
}

fn timing(times: &[Duration]) -> String {
    let ms = |time: &Duration| time.as_secs_f64() * 1e3;
    let mut sorted = times.to_vec();
    sorted.sort();
    match sorted.as_slice() {
        [] => String::new(),
        [one] => format!("1 execution, {:.2} ms", ms(one)),
        [fastest, .., slowest] => {
            let (median, first) = (&sorted[sorted.len() / 2], &times[0]);
            format!(
                "{} executions, median {:.2} ms (first {:.2}, fastest {:.2}, slowest {:.2})",
                times.len(),
                ms(median),
                ms(first),
                ms(fastest),
                ms(slowest)
            )
        }
    }
}

/// An output in words.
fn text(value: &Value, print: Print) -> anyhow::Result<String> {
    let Value::Tensor(tensor) = value else { return Ok(format!("{value:?}")) };
    let numbers = Numbers::of(tensor)?;
    let limit = if print == Print::All { usize::MAX } else { 8 };
    let mut text = format!("{tensor:?}");
    let elements: Vec<String> = match &numbers {
        Numbers::Floats(values) => {
            if let Some(first) = values.first() {
                let range = values.iter().fold((*first, *first), |(low, high), &x| (low.min(x), high.max(x)));
                let odd = values.iter().filter(|x| !x.is_finite()).count();
                write!(text, "  {:.6}..{:.6}", range.0, range.1)?;
                if odd > 0 {
                    write!(text, ", {odd} not finite")?;
                }
            }
            values.iter().take(limit).map(|x| format!("{x:.6}")).collect()
        }
        Numbers::Ints(values) => values.iter().take(limit).map(ToString::to_string).collect(),
    };
    let more = if tensor.numel() > elements.len() { ", …" } else { "" };
    write!(text, "  [{}{more}]", elements.join(", "))?;
    Ok(text)
}

fn save(path: &Path, outputs: Vec<Value>) -> anyhow::Result<()> {
    let tensors = outputs.into_iter().enumerate().filter_map(|(index, output)| {
        let tensor = match output {
            Value::Tensor(tensor) => tensor,
            Value::Int(value) => Tensor::scalar(value),
            Value::Double(value) => Tensor::scalar(value),
            Value::Bool(value) => Tensor::scalar(value),
            _ => return None,
        };
        Some((format!("out{index}"), tensor))
    });
    if path.extension().is_some_and(|extension| extension == "safetensors") {
        return tensors::write(path, &tensors.collect::<Vec<_>>());
    }
    for (name, tensor) in tensors {
        let mut file = path.as_os_str().to_owned();
        file.push(format!("-{}.bin", name.trim_start_matches("out")));
        std::fs::write(&file, tensor.data()).with_context(|| Path::new(&file).display().to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_shown_short_or_whole() {
        let tensor = Tensor::from_slice(&[10], &(0_i64..10).collect::<Vec<_>>()).unwrap();
        assert_eq!(
            text(&tensor.clone().into(), Print::Summary).unwrap(),
            "int64[10]  [0, 1, 2, 3, 4, 5, 6, 7, …]"
        );
        assert!(text(&tensor.into(), Print::All).unwrap().ends_with("8, 9]"));
        let tensor = Tensor::from_slice(&[2], &[-1.0_f32, f32::NAN]).unwrap();
        assert_eq!(
            text(&tensor.into(), Print::Summary).unwrap(),
            "float32[2]  -1.000000..-1.000000, 1 not finite  [-1.000000, NaN]"
        );
    }

    #[test]
    fn several_executions_are_summed_up() {
        let times = [30, 10, 20].map(Duration::from_millis);
        assert_eq!(timing(&times[..1]), "1 execution, 30.00 ms");
        assert_eq!(
            timing(&times),
            "3 executions, median 20.00 ms (first 30.00, fastest 10.00, slowest 30.00)"
        );
    }
}
