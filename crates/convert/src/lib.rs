//! Makes ExecuTorch programs for the Vulkan delegate out of GGUF files, without PyTorch.
//!
//! [`convert`] writes a program of the operators that upstream's exporter writes for a decoder. Its method `forward` takes
//! tokens `int64[1, S]` and the position of the first of them `int64[1]`, and gives the logits of the last one; other methods
//! give what upstream's runners of language models ask for. Weights are read, quantised and written row by row.

mod config;
mod constants;
mod decoder;
mod error;
mod graph;
mod options;
mod quantise;
mod weights;

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use etvk_gguf::{Gguf, Metadata};
use etvk_pte::{BodySpec, ConstantSpec, DelegateSpec, MethodSpec, ProgramSpec, ScalarType, TensorSpec};

pub use error::{Error, Result};
pub use options::{Options, Quantisation};

use config::Config;
use constants::Constants;
use weights::Weights;

/// How far a conversion is: bytes of tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Those that are converted.
    pub done: u64,
    /// Those of the file.
    pub total: u64,
}

/// A program that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Tokens that caches hold.
    pub max_context: u32,
    /// Most tokens of one execution.
    pub max_seq: u32,
    /// Number of kinds of tokens.
    pub vocabulary: u32,
    /// Bytes of constants, each distinct one once.
    pub constants: u64,
}

/// Writes the program of a model. A file beside it, of the same name and `.part`, holds constants meanwhile.
///
/// # Errors
/// [`Error`] for a model that cannot be converted, naming what stands against it, and for files that cannot be written; then
/// there is no program.
pub fn convert(
    gguf: &Gguf,
    options: &Options,
    out: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report> {
    let config = Config::read(gguf.metadata(), options)?;
    let part = beside(out);
    let failed = |source| Error::Write { path: part.clone(), source };
    let constants = Constants::create(&part).map_err(failed)?;
    let mut weights = Weights::new(gguf, options, constants, progress, Box::new(failed));
    let (payload, vocabulary) = decoder::build(&config, options, &mut weights)?;
    let unused = weights.unused();
    if !unused.is_empty() {
        return Err(Error::Unused { names: unused });
    }
    let constants = weights.constants;
    let named_data = constants.named_data();
    let total = named_data.iter().map(|(_, length)| length).sum();
    let methods = methods(&config, options, gguf.metadata(), payload, vocabulary)?;
    let program = ProgramSpec { methods, named_data };
    let write = || {
        let mut file = BufWriter::new(File::create(out)?);
        program.write(&mut file, |index, out| constants.copy(index, out))?;
        file.flush()
    };
    write().map_err(|source| {
        // Half a program is of no use; that it cannot be removed, either, says less than what is reported.
        let _ = std::fs::remove_file(out);
        Error::Write { path: out.to_owned(), source }
    })?;
    Ok(Report { max_context: config.max_context, max_seq: config.max_seq, vocabulary, constants: total })
}

fn beside(out: &Path) -> PathBuf {
    let mut name = out.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

/// `forward`, and the methods that upstream's runners of language models read.
fn methods(
    config: &Config,
    options: &Options,
    metadata: &Metadata,
    payload: Vec<u8>,
    vocabulary: u32,
) -> Result<Vec<MethodSpec>> {
    let size = |size: u32| i32::try_from(size).unwrap_or(i32::MAX);
    let tensor = |scalar_type, sizes, dynamic| TensorSpec { scalar_type, sizes, dynamic };
    let forward = DelegateSpec {
        id: "VulkanBackend".to_owned(),
        payload,
        compile_specs: vec![
            ("require_dynamic_shapes".to_owned(), vec![1]),
            ("force_fp16".to_owned(), vec![options.half.into()]),
        ],
        inputs: vec![
            tensor(ScalarType::Int64, vec![1, size(config.max_seq)], true),
            tensor(ScalarType::Int64, vec![1], false),
        ],
        outputs: vec![tensor(ScalarType::Float32, vec![1, size(vocabulary)], false)],
    };
    let int = |value: u64| ConstantSpec::Int(i64::try_from(value).unwrap_or(i64::MAX));
    let bos = metadata.u64("tokenizer.ggml.bos_token_id")?;
    let constants = [
        bos.map(|bos| ("get_bos_id", int(bos))),
        Some(("get_eos_ids", ConstantSpec::Ints(end_ids(metadata)?))),
        Some(("get_vocab_size", int(vocabulary.into()))),
        Some(("get_n_layers", int(config.layers.len() as u64))),
        Some(("get_max_seq_len", int(config.max_seq.into()))),
        Some(("get_max_context_len", int(config.max_context.into()))),
        Some(("use_kv_cache", ConstantSpec::Bool(true))),
        Some(("use_sdpa_with_kv_cache", ConstantSpec::Bool(true))),
        Some(("enable_dynamic_shape", ConstantSpec::Bool(true))),
    ];
    let method = |name: &str, body| MethodSpec { name: name.to_owned(), body };
    let constants = constants.into_iter().flatten();
    Ok(std::iter::once(method("forward", BodySpec::Delegate(forward)))
        .chain(constants.map(|(name, constant)| method(name, BodySpec::Constant(constant))))
        .collect())
}

/// Tokens that end a text or a turn.
fn end_ids(metadata: &Metadata) -> Result<Vec<i64>> {
    let mut ids = Vec::new();
    for key in ["tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"] {
        ids.extend(metadata.u64(key)?.and_then(|id| i64::try_from(id).ok()));
    }
    for (id, token) in (0..).zip(metadata.strings("tokenizer.ggml.tokens")?.unwrap_or_default()) {
        if ["<end_of_turn>", "<turn|>", "<|eot_id|>", "<|im_end|>"].contains(&token.as_str()) {
            ids.push(id);
        }
    }
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}
