//! `etvk inspect`

mod describe;
mod graph;
mod text;

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use etvk_pte::{BundledProgram, Container, FlatTensor, Map, Program};

use crate::outcome::Outcome;
use describe::{Blob, File};

/// Show what is in a file: methods, inputs, delegates, their graphs and constants, sizes
#[derive(Args, Debug)]
pub(crate) struct InspectArgs {
    /// Program (.pte), bundled program (.bpte) or external data (.ptd)
    file: PathBuf,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &InspectArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let path = || args.file.display().to_string();
    let map = Map::open(&args.file)?;
    let file = describe(&map).with_context(path)?;
    if args.json {
        serde_json::to_writer_pretty(&mut *out, &file)?;
        writeln!(out)?;
    } else {
        text::write(out, &file)?;
    }
    Ok(Outcome::Ok)
}

fn describe(file: &[u8]) -> anyhow::Result<File> {
    let mut described = File { bytes: file.len(), ..File::default() };
    match Container::detect(file) {
        Container::Program => {
            described.kind = "program";
            described.add_program(&Program::parse(file)?)?;
        }
        Container::BundledProgram => {
            let bundle = BundledProgram::parse(file)?;
            described.kind = "bundled program";
            described.add_program(&bundle.program()?)?;
            described.add_test_cases(&bundle);
        }
        Container::FlatTensor => {
            described.kind = "external data";
            let blobs = FlatTensor::parse(file)?;
            described.named_data.extend(blobs.blobs().iter().map(|(key, blob)| Blob {
                key: key.to_owned(),
                bytes: blob.bytes.len(),
                layout: blob.layout.map(|layout| format!("{layout:?}")),
            }));
        }
        _ => bail!("it is no program, bundled program or external data"),
    }
    Ok(described)
}
