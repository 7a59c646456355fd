//! Text after a prompt, token by token.

use std::time::{Duration, Instant};

use crate::error::Result;
use crate::text::{LanguageModel, Sampler, Sampling, TextStream, Tokenizer};

/// How much to generate, and how.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct GenerateOptions {
    /// Most tokens to generate.
    pub max_new_tokens: usize,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// Tokens that end the text; see [`end_tokens`](crate::text::end_tokens).
    pub stop: Vec<u32>,
}

impl Default for GenerateOptions {
    fn default() -> Self {
        Self { max_new_tokens: 128, sampling: Sampling::default(), stop: Vec::new() }
    }
}

/// A token, and the text that it completes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The token.
    pub token: u32,
    /// Its text; empty while the bytes of a character are not all there, and for special tokens.
    pub text: String,
}

/// Why a text came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// The model chose one of the tokens that end a text.
    EndToken(u32),
    /// As many tokens as were asked for.
    MaxNewTokens,
    /// The caches are full.
    Context,
}

/// How long it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Tokens that were generated, the one that ends the text included.
    pub generated_tokens: usize,
    /// Feeding the prompt.
    pub prefill: Duration,
    /// From the beginning of the prompt to the first token.
    pub first_token: Duration,
    /// From the first token to the last one.
    pub decode: Duration,
    /// Choosing tokens; part of the others.
    pub sampling: Duration,
}

impl Statistics {
    /// Tokens of the prompt a second; 0 without a prompt.
    #[must_use]
    pub fn prefill_rate(&self) -> f64 {
        rate(self.prompt_tokens, self.prefill)
    }

    /// Tokens a second after the first one; 0 if that is the only one.
    #[must_use]
    pub fn decode_rate(&self) -> f64 {
        rate(self.generated_tokens.saturating_sub(1), self.decode)
    }
}

/// A second's share of `tokens`.
pub(crate) fn rate(tokens: usize, time: Duration) -> f64 {
    if tokens == 0 || time.is_zero() { 0.0 } else { tokens as f64 / time.as_secs_f64() }
}

/// A text that is being generated: an iterator over its pieces. Whoever has enough stops asking for more.
///
/// The model keeps what it was fed and generated, so another prompt goes on from there; the last token is not fed.
#[derive(Debug)]
pub struct Generation<'a> {
    model: &'a mut LanguageModel,
    stream: TextStream<'a>,
    sampler: Sampler,
    max_new_tokens: usize,
    stop: Vec<u32>,
    /// What to feed next: the prompt, then the last token.
    feed: Vec<u32>,
    stopped: Option<StopReason>,
    failed: bool,
    statistics: Statistics,
}

impl<'a> Generation<'a> {
    /// Begins a text after `prompt`, which is appended to what the model was fed before. Nothing is executed yet.
    ///
    /// # Errors
    /// [`Fault::Sampling`](crate::text::Fault::Sampling).
    pub fn new(
        model: &'a mut LanguageModel,
        tokenizer: &'a Tokenizer,
        prompt: &[u32],
        options: &GenerateOptions,
    ) -> Result<Self> {
        Ok(Self {
            model,
            stream: tokenizer.stream(prompt),
            sampler: Sampler::new(options.sampling)?,
            max_new_tokens: options.max_new_tokens,
            stop: options.stop.clone(),
            feed: prompt.to_vec(),
            stopped: (options.max_new_tokens == 0).then_some(StopReason::MaxNewTokens),
            failed: false,
            statistics: Statistics { prompt_tokens: prompt.len(), ..Statistics::default() },
        })
    }

    /// Why the text came to its end; `None` before it has, or after an error.
    #[must_use]
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.stopped
    }

    /// How long it took so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    fn step(&mut self) -> Result<Piece> {
        let start = Instant::now();
        let logits = self.model.feed(&self.feed)?;
        let fed = start.elapsed();
        let token = self.sampler.sample(logits.last(), logits.position())?;
        let all = start.elapsed();
        let statistics = &mut self.statistics;
        if statistics.generated_tokens == 0 {
            (statistics.prefill, statistics.first_token) = (fed, all);
        } else {
            statistics.decode += all;
        }
        statistics.sampling += all.saturating_sub(fed);
        statistics.generated_tokens += 1;
        self.feed.clear();
        self.feed.push(token);
        self.stopped = self.reason(token);
        let mut text = String::new();
        if !matches!(self.stopped, Some(StopReason::EndToken(_))) {
            text = self.stream.push(token)?;
        }
        if self.stopped.is_some() {
            text += &self.stream.finish()?;
        }
        Ok(Piece { token, text })
    }

    /// Why `token` is the last one, if it is.
    fn reason(&self, token: u32) -> Option<StopReason> {
        if self.stop.contains(&token) {
            Some(StopReason::EndToken(token))
        } else if self.statistics.generated_tokens >= self.max_new_tokens {
            Some(StopReason::MaxNewTokens)
        } else if self.model.context().is_some_and(|limit| self.model.position() >= limit) {
            Some(StopReason::Context)
        } else {
            None
        }
    }
}

impl Iterator for Generation<'_> {
    type Item = Result<Piece>;

    /// The next token, the one that ends the text included; that one has no text of its own, but maybe the rest of what
    /// came before. After an error there is none.
    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.stopped.is_some() {
            return None;
        }
        let piece = self.step();
        self.failed = piece.is_err();
        Some(piece)
    }
}
