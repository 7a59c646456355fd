//! `etvk generate`

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::Args;
use etvk::text::{
    ChatFormat, GenerateOptions, Generation, Sampling, Statistics, StopReason, Tokenizer, end_tokens,
};

use crate::device::{self, describe};
use crate::outcome::Outcome;
use crate::text::{Opened, TextArgs};

/// Write text after a prompt
///
/// The text goes to standard output as it comes, and nothing else does; how fast that was goes to standard error, in
/// words and as the line that llama_main ends with. The options of llama_main are understood. Ctrl-C ends the text, with
/// exit code 130; a second one ends the command at once.
#[derive(Args, Debug)]
pub(crate) struct GenerateArgs {
    #[command(flatten)]
    text: TextArgs,
    /// What to begin with
    #[arg(long, short, value_name = "TEXT", required_unless_present = "prompt_file")]
    prompt: Option<String>,
    /// File that holds what to begin with
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    prompt_file: Option<PathBuf>,
    /// The prompt is what a user says in a conversation: write the answer
    #[arg(long)]
    chat: bool,
    /// Write the prompt before the text
    #[arg(long)]
    echo: bool,
    /// Most tokens to write [default: 128, unless --seq-len is given]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max_new_tokens: Option<i64>,
    /// Most tokens of prompt and text together
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    seq_len: Option<i64>,
    /// Higher for more surprising text; 0 takes the most probable token, always
    #[arg(long, value_name = "T", default_value_t = 0.0)]
    temperature: f32,
    /// Only the K most probable tokens; 0 for all
    #[arg(long, value_name = "K", default_value_t = 0)]
    top_k: usize,
    /// Only the most probable tokens that together have this probability
    #[arg(long, value_name = "P", default_value_t = 1.0)]
    top_p: f32,
    /// Where random numbers start: the same text for the same seed; another one each time by default
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// So many beginning-of-text tokens before the prompt, instead of those that the tokenizer adds
    #[arg(long, value_name = "N")]
    num_bos: Option<usize>,
    /// So many end-of-text tokens after the prompt
    #[arg(long, value_name = "N", default_value_t = 0)]
    num_eos: usize,
    /// Go on after a token that ends the text
    #[arg(long)]
    ignore_eos: bool,
    /// Write the text once before without showing it, so that everything is compiled when it counts
    #[arg(long, num_args = 0..=1, require_equals = true, value_name = "BOOL", hide_possible_values = true,
          default_value_t = false, default_missing_value = "true")]
    warmup: bool,
    /// Of llama_main; the device computes here
    #[arg(long, hide = true, allow_negative_numbers = true)]
    cpu_threads: Option<i64>,
}

/// What llama_main writes if nothing tells how much.
const MAX_NEW_TOKENS: usize = 128;

/// More of them than a program has caches for would be refused anyhow.
const MOST_SPECIAL: usize = 1 << 20;

/// Whether Ctrl-C was pressed.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

pub(crate) fn run(args: &GenerateArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let text = args.prompt()?;
    let load_start = SystemTime::now();
    let mut opened = args.text.open()?;
    // Before the text there is nothing to end cleanly.
    ctrlc::set_handler(|| {
        if INTERRUPTED.swap(true, Ordering::Relaxed) {
            std::process::exit(i32::from(Outcome::Interrupted as u8));
        }
    })?;
    let device =
        opened.runtime.opened().map_or_else(|| "CPU only".to_owned(), |d| describe(d.capabilities()));
    let encode_start = Instant::now();
    let prompt = args.tokens(&text, &opened)?;
    let encode = encode_start.elapsed();
    let options = args.options(&opened, prompt.len())?;
    if args.warmup {
        write(&mut opened, &prompt, &options, &mut std::io::sink())?;
        opened.model.reset();
    }
    if args.echo {
        write!(out, "{text}")?;
        out.flush()?;
    }
    let start = SystemTime::now();
    let written = write(&mut opened, &prompt, &options, out);
    let end = SystemTime::now();
    // Whatever comes after the text, an error too, is on a line of its own.
    writeln!(out)?;
    out.flush()?;
    let written = written?;
    let reason = written.reason(&opened.tokenizer);
    let seed = options.sampling.seed;
    let drawn = if args.temperature > 0.0 { format!(", seed {seed}") } else { String::new() };
    eprintln!("\n{}", summary(&written.statistics, &reason));
    eprintln!("loaded in {:.2} s on {device}{drawn}", opened.load.as_secs_f64());
    let times = Times { load_start, load: opened.load, start, encode, end };
    eprintln!("PyTorchObserver {}", times.observed(&written.statistics));
    device::finish(&opened.runtime)?;
    Ok(if INTERRUPTED.load(Ordering::Relaxed) { Outcome::Interrupted } else { Outcome::Ok })
}

impl GenerateArgs {
    fn prompt(&self) -> anyhow::Result<String> {
        match (&self.prompt, &self.prompt_file) {
            (Some(text), _) => Ok(text.clone()),
            (None, Some(path)) => std::fs::read_to_string(path).with_context(|| path.display().to_string()),
            (None, None) => anyhow::bail!("no prompt was given"),
        }
    }

    /// The tokens of the prompt, with what belongs around it.
    fn tokens(&self, text: &str, opened: &Opened) -> anyhow::Result<Vec<u32>> {
        let text = if self.chat { ChatFormat::of(&opened.tokenizer)?.turn(text) } else { text.to_owned() };
        let mut tokens = Vec::new();
        if let Some(count) = self.num_bos.filter(|&count| count > 0) {
            let bos =
                opened.model.metadata().bos.context("--num-bos: the program does not tell get_bos_id")?;
            tokens.resize(count.min(MOST_SPECIAL), bos);
        }
        tokens.extend(opened.tokenizer.encode(&text, self.num_bos.is_none())?);
        if self.num_eos > 0 {
            let eos = opened.model.metadata().eos.first().copied();
            let eos = eos.context("--num-eos: the program does not tell get_eos_ids")?;
            tokens.resize(tokens.len() + self.num_eos.min(MOST_SPECIAL), eos);
        }
        Ok(tokens)
    }

    fn options(&self, opened: &Opened, prompt: usize) -> anyhow::Result<GenerateOptions> {
        let mut options = GenerateOptions::default();
        options.max_new_tokens = limit(self.max_new_tokens, self.seq_len, prompt);
        options.sampling = Sampling::with_temperature(self.temperature);
        options.sampling.top_k = self.top_k;
        options.sampling.top_p = self.top_p;
        options.sampling.seed = match self.seed {
            Some(seed) => seed,
            // Any number will do; the low digits of the clock are told with the text.
            None => u64::from(SystemTime::now().duration_since(UNIX_EPOCH)?.subsec_nanos()),
        };
        if !self.ignore_eos {
            options.stop = end_tokens(opened.model.metadata(), &opened.tokenizer);
        }
        Ok(options)
    }
}

/// Most tokens to write; negative numbers set no limit, as in llama_main.
fn limit(max_new_tokens: Option<i64>, seq_len: Option<i64>, prompt: usize) -> usize {
    let count = |limit: Option<i64>| limit.and_then(|limit| usize::try_from(limit).ok());
    let together = count(seq_len).map(|all| all.saturating_sub(prompt));
    match (count(max_new_tokens), together) {
        (Some(new), Some(together)) => new.min(together),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) if max_new_tokens.is_some() => usize::MAX,
        (None, None) => MAX_NEW_TOKENS,
    }
}

/// How a text came about.
struct Written {
    statistics: Statistics,
    stopped: Option<StopReason>,
}

/// Writes the text piece by piece, until it ends or somebody presses Ctrl-C.
fn write(
    opened: &mut Opened,
    prompt: &[u32],
    options: &GenerateOptions,
    out: &mut dyn Write,
) -> anyhow::Result<Written> {
    let mut generation = Generation::new(&mut opened.model, &opened.tokenizer, prompt, options)?;
    while !INTERRUPTED.load(Ordering::Relaxed)
        && let Some(piece) = generation.next()
    {
        write!(out, "{}", piece?.text)?;
        out.flush()?;
    }
    Ok(Written { statistics: generation.statistics(), stopped: generation.stop_reason() })
}

impl Written {
    /// Why the text is at its end, in words.
    fn reason(&self, tokenizer: &Tokenizer) -> String {
        match self.stopped {
            Some(StopReason::EndToken(token)) => {
                let spelling = tokenizer.spelling(token).unwrap_or_else(|| token.to_string());
                format!("ended by {spelling}")
            }
            Some(StopReason::MaxNewTokens) => "as many as asked for".to_owned(),
            Some(StopReason::Context) => "the context is full".to_owned(),
            _ => "interrupted".to_owned(),
        }
    }
}

/// How fast it was, in words.
fn summary(statistics: &Statistics, reason: &str) -> String {
    format!(
        "prompt     {} tokens, {:.2} a second; first token after {:.3} s\n\
         generated  {} tokens, {:.2} a second; {reason}",
        statistics.prompt_tokens,
        statistics.prefill_rate(),
        statistics.first_token.as_secs_f64(),
        statistics.generated_tokens,
        statistics.decode_rate(),
    )
}

/// When it was.
struct Times {
    load_start: SystemTime,
    load: Duration,
    /// Beginning of the prompt's execution; tokens were made of it before.
    start: SystemTime,
    encode: Duration,
    end: SystemTime,
}

impl Times {
    /// What ExecuTorch's runners write at the end: milliseconds since 1970, in their order.
    fn observed(&self, statistics: &Statistics) -> String {
        let ms = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let fields = [
            ("prompt_tokens", statistics.prompt_tokens as u128),
            ("generated_tokens", statistics.generated_tokens as u128),
            ("model_load_start_ms", ms(self.load_start)),
            ("model_load_end_ms", ms(self.load_start + self.load)),
            ("inference_start_ms", ms(self.start - self.encode)),
            ("inference_end_ms", ms(self.end)),
            ("prompt_eval_end_ms", ms(self.start + statistics.prefill)),
            ("first_token_ms", ms(self.start + statistics.first_token)),
            ("aggregate_sampling_time_ms", statistics.sampling.as_millis()),
            ("SCALING_FACTOR_UNITS_PER_SECOND", 1000),
        ];
        let fields: Vec<String> = fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        format!("{{{}}}", fields.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_llama_main() {
        assert_eq!(limit(None, None, 5), 128);
        assert_eq!(limit(Some(3), None, 5), 3);
        assert_eq!((limit(None, Some(8), 5), limit(None, Some(4), 5)), (3, 0));
        assert_eq!((limit(Some(2), Some(8), 5), limit(Some(9), Some(8), 5)), (2, 3));
        assert_eq!(
            (limit(Some(-1), None, 5), limit(Some(-1), Some(8), 5), limit(None, Some(-1), 5)),
            (usize::MAX, 3, 128)
        );
    }

    #[test]
    fn statistics_are_told_as_executorch_does() {
        let at = |ms| UNIX_EPOCH + Duration::from_millis(ms);
        let times = Times {
            load_start: at(1000),
            load: Duration::from_millis(500),
            start: at(1510),
            encode: Duration::from_millis(10),
            end: at(2000),
        };
        let json: serde_json::Value = serde_json::from_str(&times.observed(&Statistics::default())).unwrap();
        assert_eq!(json["model_load_end_ms"], 1500);
        assert_eq!((&json["inference_start_ms"], &json["first_token_ms"]), (&1500.into(), &1510.into()));
        assert_eq!(
            (&json["inference_end_ms"], &json["SCALING_FACTOR_UNITS_PER_SECOND"]),
            (&2000.into(), &1000.into())
        );
        assert_eq!(json.as_object().unwrap().len(), 10);
    }
}
