//! `etvk eval`

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use crate::device::{self, describe};
use crate::outcome::Outcome;
use crate::text::TextArgs;

/// Measure how well a language model foresees a text
///
/// Perplexity is e to the mean over the text's tokens of −ln of the probability that the model gives each after those
/// before it. The tokenizer's beginning of a text is put before it. Texts longer than the program's context are cut.
#[derive(Args, Debug)]
pub(crate) struct EvalArgs {
    #[command(flatten)]
    text: TextArgs,
    /// Perplexity of the text in this file, as it is
    #[arg(long, value_name = "FILE", required = true)]
    perplexity: PathBuf,
}

pub(crate) fn run(args: &EvalArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let path = &args.perplexity;
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let mut opened = args.text.open()?;
    let tokens = opened.tokenizer.encode(&text, true)?;
    let bar = ProgressBar::new(tokens.len() as u64).with_style(
        ProgressStyle::with_template("reading [{bar:40}] {pos}/{len} tokens")?.progress_chars("=> "),
    );
    let result = opened.model.perplexity(&tokens, &mut |done| bar.set_position(done as u64));
    bar.finish_and_clear();
    let result = result?;
    let device =
        opened.runtime.opened().map_or_else(|| "CPU only".to_owned(), |d| describe(d.capabilities()));
    writeln!(out, "device      {device}")?;
    writeln!(out, "tokens      {}, {} of them predicted", tokens.len(), result.predicted)?;
    writeln!(out, "perplexity  {:.4}", result.value())?;
    writeln!(out, "speed       {:.2} tokens a second", result.rate())?;
    device::finish(&opened.runtime)?;
    Ok(Outcome::Ok)
}
