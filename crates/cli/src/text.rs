//! What commands that read or write text have in common: a language model and its tokenizer.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use etvk::text::{LanguageModel, Tokenizer};
use etvk::{Module, ModuleOptions, Runtime};

use crate::device::DeviceArgs;
use crate::passes::PassArgs;
use crate::run;

/// Options of every command that reads or writes text.
#[derive(Args, Debug)]
pub(crate) struct TextArgs {
    /// Program (.pte or .bpte)
    #[arg(required_unless_present = "model_path")]
    model: Option<PathBuf>,
    /// The program, as llama_main spells it
    #[arg(long, hide = true, conflicts_with = "model")]
    model_path: Option<PathBuf>,
    /// External data (.ptd); may be given several times
    #[arg(long, aliases = ["data-path", "data-paths"], value_name = "FILE", value_delimiter = ',')]
    data: Vec<PathBuf>,
    /// Method; `forward` by default, or the only one that takes inputs
    #[arg(long, alias = "method-name", value_name = "NAME")]
    method: Option<String>,
    /// Tokenizer; tokenizer.json beside the program by default
    #[arg(long, visible_alias = "tokenizer-path", value_name = "FILE")]
    tokenizer: Option<PathBuf>,
    #[command(flatten)]
    passes: PassArgs,
    #[command(flatten)]
    device: DeviceArgs,
}

/// A loaded language model with its tokenizer.
pub(crate) struct Opened {
    pub(crate) model: LanguageModel,
    pub(crate) tokenizer: Tokenizer,
    pub(crate) runtime: Runtime,
    /// From opening the program to a method that can be executed; opening the device is part of it.
    pub(crate) load: Duration,
}

impl TextArgs {
    /// Opens the tokenizer, and loads the program with a progress bar.
    pub(crate) fn open(&self) -> anyhow::Result<Opened> {
        let path = self.model.as_ref().or(self.model_path.as_ref()).context("no program was given")?;
        let tokenizer = self.tokenizer.clone().unwrap_or_else(|| path.with_file_name("tokenizer.json"));
        if self.tokenizer.is_none() && !tokenizer.exists() {
            bail!("{}: there is no such file; --tokenizer names another", tokenizer.display());
        }
        let tokenizer = Tokenizer::open(tokenizer)?;
        let runtime = self.device.runtime();
        let start = Instant::now();
        let options = ModuleOptions {
            data: self.data.clone(),
            runtime: runtime.clone(),
            passes: self.passes.passes()?,
            ..ModuleOptions::default()
        };
        let module = Module::open_with(path, options)?;
        let method = method_name(&module, self.method.as_deref())?;
        let model = run::with_progress(|progress| LanguageModel::load(&module, &method, Some(progress)))?;
        Ok(Opened { model, tokenizer, runtime, load: start.elapsed() })
    }
}

/// The method that is meant: the asked one, `forward`, or the only one that takes inputs.
fn method_name(module: &Module, asked: Option<&str>) -> anyhow::Result<String> {
    let names = module.method_names();
    if asked.is_none() && !names.iter().any(|name| name == "forward") {
        let mut taking = Vec::new();
        for name in names {
            if !module.method_info(name)?.inputs.is_empty() {
                taking.push(name);
            }
        }
        if let [only] = taking.as_slice() {
            return Ok((*only).clone());
        }
    }
    run::method_name(module, asked)
}
