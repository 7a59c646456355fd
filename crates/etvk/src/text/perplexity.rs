//! How well a model foresees a text.

use std::time::{Duration, Instant};

use crate::error::Result;
use crate::text::generate::rate;
use crate::text::logits::log_probability;
use crate::text::{Fault, LanguageModel};

/// How well a model foresees a text.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Perplexity {
    /// Tokens that were fed.
    pub tokens: usize,
    /// Tokens that were predicted: all but the first of each window.
    pub predicted: usize,
    /// Sum over the predicted tokens of −ln of their probability.
    pub cross_entropy: f64,
    /// How long that took.
    pub time: Duration,
}

impl Perplexity {
    /// e to the mean of −ln of the probability of each token after those before it.
    #[must_use]
    pub fn value(&self) -> f64 {
        (self.cross_entropy / self.predicted as f64).exp()
    }

    /// Tokens a second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        rate(self.tokens, self.time)
    }
}

impl LanguageModel {
    /// Perplexity of a text by tokens. If the program gives logits of the last token alone, which most do, the tokens are
    /// fed one by one. A text longer than the context is cut into windows, each from position 0; if its first token is the
    /// one that texts begin with, each window begins with that one. `progress` is told how many tokens are done.
    ///
    /// # Errors
    /// [`Fault::TooFewTokens`] for less than two tokens, [`Fault::NotANumber`]; as [`feed`](Self::feed).
    pub fn perplexity(&mut self, tokens: &[u32], progress: &mut dyn FnMut(usize)) -> Result<Perplexity> {
        let start = Instant::now();
        let mut sum = Perplexity { tokens: 0, predicted: 0, cross_entropy: 0.0, time: Duration::ZERO };
        for window in windows(tokens, self.metadata().bos, self.context())? {
            self.reset();
            let mut at = 0;
            while at < window.len() {
                let count = if self.interface().gives_each() { window.len() } else { 1 };
                let end = at.saturating_add(count).min(window.len());
                let fed = window.get(at..end).unwrap_or_default();
                self.feed_each(fed, |logits| {
                    for (position, row) in logits.rows() {
                        let Some(&next) = window.get(position + 1) else { continue };
                        sum.cross_entropy -= log_probability(row, next, position)?;
                        sum.predicted += 1;
                    }
                    Ok(())
                })?;
                sum.tokens += fed.len();
                at = end;
                progress(sum.tokens);
            }
        }
        sum.time = start.elapsed();
        Ok(sum)
    }
}

/// The text in windows of at most `context` tokens.
fn windows(tokens: &[u32], bos: Option<u32>, context: Option<usize>) -> Result<Vec<Vec<u32>>> {
    let limit = context.unwrap_or(usize::MAX);
    if tokens.len() < 2 || limit < 2 {
        let (what, found) = if limit < 2 { ("the context", limit) } else { ("the text", tokens.len()) };
        return Err(Fault::TooFewTokens { what, least: 2, found }.into());
    }
    let lead = tokens.first().copied().filter(|&first| Some(first) == bos);
    if tokens.len() <= limit {
        return Ok(vec![tokens.to_vec()]);
    }
    let Some(lead) = lead else { return Ok(tokens.chunks(limit).map(<[u32]>::to_vec).collect()) };
    let rest = tokens.get(1..).unwrap_or_default();
    Ok(rest.chunks(limit - 1).map(|chunk| [&[lead], chunk].concat()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn long_texts_are_cut() {
        let text = [9, 1, 2, 3, 4, 5];
        assert_eq!(windows(&text, None, None).unwrap(), [text]);
        assert_eq!(windows(&text, Some(9), Some(6)).unwrap(), [text]);
        assert_eq!(windows(&text, None, Some(4)).unwrap(), [vec![9, 1, 2, 3], vec![4, 5]]);
        assert_eq!(windows(&text, Some(9), Some(4)).unwrap(), [vec![9, 1, 2, 3], vec![9, 4, 5]]);
    }

    #[test]
    fn one_token_is_no_text() {
        let fault = |tokens: &[u32], context| match windows(tokens, None, context) {
            Err(Error::Text(fault)) => fault.to_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(fault(&[1], None), "the text has 1 tokens, must have 2 or more");
        assert_eq!(fault(&[1, 2], Some(1)), "the context has 1 tokens, must have 2 or more");
    }

    #[test]
    fn the_value_is_that_of_the_mean() {
        let time = Duration::from_secs(2);
        let sum = Perplexity { tokens: 5, predicted: 4, cross_entropy: 4.0 * 3.0_f64.ln(), time };
        assert!((sum.value() - 3.0).abs() < 1e-12);
        assert!((sum.rate() - 2.5).abs() < 1e-12);
    }
}
