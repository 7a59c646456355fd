//! `etvk extract`

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use etvk_pte::{BundledProgram, Container, FlatTensor, Instruction, Map, Method, Program, Value};
use etvk_vkgraph::{ConstantSource, Payload};

use crate::outcome::Outcome;

/// Write the payloads of a program's delegates into a folder, for programs that use the C interface
///
/// Delegate 0 of a method `forward` becomes `forward.0.vk`; `forward.0.args` has a line for each argument of its call:
/// `in` or `out`, then `tensor`, the number of its scalar type and its sizes, or `int` and its value. Each constant that is
/// not in a payload becomes a file named as its key.
#[derive(Args, Debug)]
pub(crate) struct ExtractArgs {
    /// Program (.pte or .bpte)
    model: PathBuf,
    /// Folder to write to; made if it is not there
    folder: PathBuf,
    /// External data (.ptd); may be given several times
    #[arg(long, visible_alias = "data-path", value_name = "FILE")]
    data: Vec<PathBuf>,
}

pub(crate) fn run(args: &ExtractArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let model = || args.model.display().to_string();
    let map = Map::open(&args.model)?;
    let program = match Container::detect(&map) {
        Container::BundledProgram => BundledProgram::parse(&map).with_context(model)?.program(),
        _ => Program::parse(&map),
    };
    let program = program.with_context(model)?;
    let files = args.data.iter().map(Map::open).collect::<Result<Vec<_>, _>>()?;
    let files = files.iter().map(|file| FlatTensor::parse(file)).collect::<Result<Vec<_>, _>>()?;
    let named = |key: &str| {
        let external = files.iter().find_map(|file| file.get(key)).map(|blob| blob.bytes);
        external.or_else(|| program.named_data().get(key))
    };
    std::fs::create_dir_all(&args.folder).with_context(|| args.folder.display().to_string())?;
    for method in program.methods() {
        let method = method.with_context(model)?;
        for (index, delegate) in method.delegates().iter().enumerate() {
            if delegate.id != etvk::BACKEND {
                continue;
            }
            let stem = format!("{}.{index}", method.name());
            let payload = Payload::parse(delegate.payload).with_context(|| stem.clone())?;
            write(&args.folder, &format!("{stem}.vk"), delegate.payload, out)?;
            let lines = arguments(&method, index, payload.graph().inputs.len());
            write(&args.folder, &format!("{stem}.args"), lines.as_bytes(), out)?;
            for constant in &payload.graph().constants {
                if let ConstantSource::Named(key) = &constant.source {
                    let bytes = named(key).with_context(|| format!("{stem}: no data for {key}"))?;
                    write(&args.folder, key, bytes, out)?;
                }
            }
        }
    }
    Ok(Outcome::Ok)
}

/// The arguments of the first call of a delegate.
fn arguments(method: &Method<'_>, delegate: usize, inputs: usize) -> String {
    let calls = method.chains().iter().flat_map(|chain| &chain.instructions);
    let args = calls.into_iter().find_map(|instruction| match instruction {
        Instruction::DelegateCall { delegate: called, args } if *called == delegate => Some(args),
        _ => None,
    });
    let line = |(at, id)| {
        let direction = if at < inputs { "in" } else { "out" };
        match method.value(id) {
            Some(Value::Tensor(tensor)) => {
                let sizes: String = tensor.layout.sizes().map(|size| format!(" {size}")).collect();
                format!("{direction} tensor {}{sizes}\n", tensor.layout.scalar_type() as i8)
            }
            Some(Value::Int(value)) => format!("{direction} int {value}\n"),
            other => format!("{direction} {}\n", other.map_or("none", Value::kind)),
        }
    };
    args.into_iter().flat_map(|args| args.iter()).enumerate().map(line).collect()
}

/// Writes a file, once: constants are shared.
fn write(folder: &Path, name: &str, bytes: &[u8], out: &mut dyn Write) -> anyhow::Result<()> {
    // Names of methods and keys come from the file, which must not choose where to write.
    if name.starts_with('.')
        || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    {
        bail!("\"{}\" is no name for a file", name.escape_debug());
    }
    let path = folder.join(name);
    std::fs::write(&path, bytes).with_context(|| path.display().to_string())?;
    writeln!(out, "{} ({} bytes)", path.display(), bytes.len())?;
    Ok(())
}
