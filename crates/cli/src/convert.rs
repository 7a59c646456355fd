//! `etvk convert`

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use etvk_convert::{Options, Quantisation};
use etvk_gguf::Gguf;
use indicatif::{ProgressBar, ProgressStyle};

use crate::outcome::Outcome;

/// Make a program out of a GGUF file, without PyTorch
///
/// Models of the architectures gemma3, gemma4 (text), llama and qwen3. The program's `forward` takes tokens int64 [1, S] and the
/// position of the first one int64 [1], and gives the logits of the last one. What cannot be converted is refused by name.
#[derive(Args, Debug)]
pub(crate) struct ConvertArgs {
    /// Model (.gguf)
    model: PathBuf,
    /// Program to write (.pte); FILE.part beside it holds constants meanwhile
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// How matrices are stored
    #[arg(long, value_enum, default_value = "4w")]
    quant: Quant,
    /// How the table of the vocabulary is stored, as --quant unless given
    #[arg(long, value_enum)]
    vocabulary: Option<Quant>,
    /// Weights that share a scale, in 4-bit codes
    #[arg(long, default_value_t = 32, value_name = "N")]
    group: u32,
    /// How the scales of 4-bit codes are chosen
    #[arg(long, value_enum, default_value = "search")]
    scales: Scales,
    /// How floats are stored, and what the delegate is told to compute in
    #[arg(long, value_enum, default_value = "fp16")]
    dtype: Dtype,
    /// Tokens that caches hold; what the model was trained for, but at most 2048, unless given
    #[arg(long, value_name = "N")]
    max_context: Option<u32>,
    /// Most tokens of one execution; at most 512 unless given
    #[arg(long, value_name = "N")]
    max_seq: Option<u32>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Quant {
    /// 4-bit codes in groups
    #[value(name = "4w")]
    Bits4,
    /// 8-bit codes, one scale an output
    #[value(name = "8w")]
    Bits8,
    /// 4-bit codes in groups, activations in 8 bits
    #[value(name = "8da4w")]
    Dynamic8Bits4,
    /// The file's own 4-bit codes (`Q4_0`) and floats as they are, all else in 8 bits
    Keep,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Scales {
    /// Those that make errors small
    Search,
    /// Those that clamp no code
    Minmax,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Dtype {
    Fp16,
    Fp32,
}

impl From<Quant> for Quantisation {
    fn from(quant: Quant) -> Self {
        match quant {
            Quant::Bits4 => Self::Bits4,
            Quant::Bits8 => Self::Bits8,
            Quant::Dynamic8Bits4 => Self::Dynamic8Bits4,
            Quant::Keep => Self::Keep,
        }
    }
}

pub(crate) fn run(args: &ConvertArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let gguf = Gguf::open(&args.model).with_context(|| args.model.display().to_string())?;
    let options = Options {
        quantisation: args.quant.into(),
        vocabulary: args.vocabulary.map(Into::into),
        group: args.group,
        search: matches!(args.scales, Scales::Search),
        half: matches!(args.dtype, Dtype::Fp16),
        max_context: args.max_context,
        max_seq: args.max_seq,
    };
    let style = ProgressStyle::with_template("converting {wide_bar} {bytes}/{total_bytes}")?;
    let bar = ProgressBar::new(0).with_style(style);
    let report = etvk_convert::convert(&gguf, &options, &args.output, &mut |progress| {
        bar.set_length(progress.total);
        bar.set_position(progress.done);
    });
    bar.finish_and_clear();
    let report = report.with_context(|| args.model.display().to_string())?;
    writeln!(
        out,
        "{}: {}, {} tokens of {} kinds, {} at a time, {:.1} MB of constants",
        args.output.display(),
        options.quantisation,
        report.max_context,
        report.vocabulary,
        report.max_seq,
        report.constants as f64 / 1e6,
    )?;
    Ok(Outcome::Ok)
}
