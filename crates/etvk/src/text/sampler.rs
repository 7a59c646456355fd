//! Which token comes next.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::error::Result;
use crate::text::Fault;
use crate::text::logits::greatest;

/// How tokens are chosen. All tokens with probabilities as the model tells them is `temperature` 1 and the rest of the
/// default; the default is the most probable token, always.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Sampling {
    /// What logits are divided by; 0 takes the greatest.
    pub temperature: f32,
    /// Only so many of the most probable tokens; 0 for all.
    pub top_k: usize,
    /// Only the most probable tokens that together have this probability, in 0..=1 and at least one of them.
    pub top_p: f32,
    /// Where the random numbers start: the same seed gives the same tokens for the same logits, on every machine.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { temperature: 0.0, top_k: 0, top_p: 1.0, seed: 0 }
    }
}

impl Sampling {
    /// As the default, with a temperature.
    #[must_use]
    pub fn with_temperature(temperature: f32) -> Self {
        Self { temperature, ..Self::default() }
    }
}

/// Chooses tokens by their logits.
#[derive(Clone, Debug)]
pub struct Sampler {
    sampling: Sampling,
    random: ChaCha8Rng,
    /// Tokens to choose from with their logits, later their probabilities; kept for its memory.
    candidates: Vec<(u32, f32)>,
}

impl Sampler {
    /// A sampler at the start of its random numbers.
    ///
    /// # Errors
    /// [`Fault::Sampling`] for a temperature below 0 or a `top_p` outside 0..=1.
    pub fn new(sampling: Sampling) -> Result<Self> {
        let Sampling { temperature, top_p, seed, .. } = sampling;
        if !(temperature >= 0.0 && temperature.is_finite()) {
            return Err(
                Fault::Sampling { what: "temperature", expected: "0 or more", found: temperature }.into()
            );
        }
        if !(0.0..=1.0).contains(&top_p) {
            return Err(Fault::Sampling { what: "top-p", expected: "in 0..=1", found: top_p }.into());
        }
        Ok(Self { sampling, random: ChaCha8Rng::seed_from_u64(seed), candidates: Vec::new() })
    }

    /// The next token by the logits of the token at `position`. First `top_k` restricts the tokens, then `top_p`, by the
    /// probabilities among those that are left. Tokens of the same logit come in the order of their ids.
    ///
    /// # Errors
    /// [`Fault::NotANumber`] if a logit is none.
    pub fn sample(&mut self, logits: &[f32], position: usize) -> Result<u32> {
        let (best, most) = greatest(logits, position)?;
        let best = u32::try_from(best).unwrap_or(u32::MAX);
        // All else than numbers has been refused: the greatest is infinite where there is no other.
        if self.sampling.temperature == 0.0 || self.sampling.top_k == 1 || !most.is_finite() {
            return Ok(best);
        }
        self.candidates.clear();
        self.candidates.extend((0..).zip(logits.iter().copied()));
        self.keep_top_k();
        let mut sum = 0.0;
        for (_, value) in &mut self.candidates {
            *value = ((*value - most) / self.sampling.temperature).exp();
            sum += f64::from(*value);
        }
        let sum = self.keep_top_p(sum);
        Ok(self.draw(sum).unwrap_or(best))
    }

    fn keep_top_k(&mut self) {
        let keep = self.sampling.top_k;
        if keep > 0 && keep < self.candidates.len() {
            self.candidates.select_nth_unstable_by(keep, descending);
            self.candidates.truncate(keep);
            // The draw below goes through them in an order that the selection does not decide.
            self.candidates.sort_unstable_by_key(|&(token, _)| token);
        }
    }

    /// Drops what is beyond `top_p` of the weights, which sum up to `sum`; returns the sum of those that are left.
    fn keep_top_p(&mut self, sum: f64) -> f64 {
        let top_p = f64::from(self.sampling.top_p);
        if top_p >= 1.0 || self.candidates.len() < 2 {
            return sum;
        }
        // Weights below this one add up to less than what is dropped, all of them together: they need no sorting.
        let least = (1.0 - top_p) * sum / self.candidates.len() as f64;
        self.candidates.retain(|&(_, weight)| f64::from(weight) >= least);
        self.candidates.sort_unstable_by(descending);
        let mut kept = 0.0;
        let enough = self.candidates.iter().position(|&(_, weight)| {
            kept += f64::from(weight);
            kept >= top_p * sum
        });
        if let Some(last) = enough {
            self.candidates.truncate(last + 1);
        }
        kept
    }

    fn draw(&mut self, sum: f64) -> Option<u32> {
        // 53 bits: every such multiple of 2^-53 is a number of double precision.
        let unit = (self.random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let mut rest = unit * sum;
        let found = self.candidates.iter().find(|&&(_, weight)| {
            rest -= f64::from(weight);
            rest < 0.0
        });
        // Rounding can leave a little after the last one.
        found.or(self.candidates.last()).map(|&(token, _)| token)
    }
}

/// Greatest value first, then by token.
fn descending(a: &(u32, f32), b: &(u32, f32)) -> std::cmp::Ordering {
    b.1.total_cmp(&a.1).then(a.0.cmp(&b.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    fn shares(sampling: Sampling, logits: &[f32]) -> Vec<f64> {
        let mut sampler = Sampler::new(sampling).unwrap();
        let mut counts = vec![0_u32; logits.len()];
        let draws = 20_000;
        for _ in 0..draws {
            counts[sampler.sample(logits, 0).unwrap() as usize] += 1;
        }
        counts.into_iter().map(|count| f64::from(count) / f64::from(draws)).collect()
    }

    fn softmax(logits: &[f32], temperature: f64) -> Vec<f64> {
        let exps: Vec<f64> = logits.iter().map(|&x| (f64::from(x) / temperature).exp()).collect();
        let sum: f64 = exps.iter().sum();
        exps.into_iter().map(|x| x / sum).collect()
    }

    fn close(got: &[f64], want: &[f64]) {
        // Four standard deviations of a share of 20 000 draws at most.
        assert!(got.iter().zip(want).all(|(got, want)| (got - want).abs() < 0.015), "{got:?} {want:?}");
    }

    const LOGITS: [f32; 5] = [1.0, 3.0, 2.0, -1.0, 2.5];

    #[test]
    fn without_a_temperature_the_greatest_is_taken() {
        let mut sampler = Sampler::new(Sampling::default()).unwrap();
        assert_eq!(sampler.sample(&LOGITS, 0).unwrap(), 1);
        assert_eq!(sampler.sample(&[2.0, 5.0, 5.0], 0).unwrap(), 1);
        assert_eq!(sampler.sample(&[f32::NEG_INFINITY; 3], 0).unwrap(), 0);
    }

    #[test]
    fn shares_are_those_of_the_softmax() {
        for temperature in [0.5, 1.0, 2.0] {
            let got = shares(Sampling::with_temperature(temperature), &LOGITS);
            close(&got, &softmax(&LOGITS, f64::from(temperature)));
        }
        let masked = [0.0, f32::NEG_INFINITY, 0.0];
        close(&shares(Sampling::with_temperature(1.0), &masked), &[0.5, 0.0, 0.5]);
    }

    #[test]
    fn top_k_keeps_the_most_probable_ones() {
        let got = shares(Sampling { top_k: 2, ..Sampling::with_temperature(1.0) }, &LOGITS);
        let two = softmax(&[3.0, 2.5], 1.0);
        close(&got, &[0.0, two[0], 0.0, 0.0, two[1]]);
        let one = shares(Sampling { top_k: 1, ..Sampling::with_temperature(9.0) }, &LOGITS);
        assert_eq!(one, [0.0, 1.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn top_p_keeps_as_few_as_have_the_probability() {
        // Softmax: 0.064, 0.470, 0.173, 0.009, 0.285.
        let keep = |top_p| shares(Sampling { top_p, ..Sampling::with_temperature(1.0) }, &LOGITS);
        assert_eq!(keep(0.0), [0.0, 1.0, 0.0, 0.0, 0.0]);
        assert_eq!(keep(0.46), [0.0, 1.0, 0.0, 0.0, 0.0]);
        let two = softmax(&[3.0, 2.5], 1.0);
        close(&keep(0.7), &[0.0, two[0], 0.0, 0.0, two[1]]);
        let three = softmax(&[3.0, 2.0, 2.5], 1.0);
        close(&keep(0.9), &[0.0, three[0], three[1], 0.0, three[2]]);
        let both = Sampling { top_k: 2, top_p: 0.5, ..Sampling::with_temperature(1.0) };
        assert_eq!(shares(both, &LOGITS), [0.0, 1.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn a_seed_gives_the_same_tokens() {
        let draw = |seed| {
            let mut sampler = Sampler::new(Sampling { seed, ..Sampling::with_temperature(2.0) }).unwrap();
            (0..64).map(|_| sampler.sample(&LOGITS, 0).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        // These very tokens on every machine.
        assert_eq!(draw(1)[..8], [1, 0, 2, 1, 1, 3, 1, 1]);
    }

    #[test]
    fn bad_parameters_and_logits_are_told() {
        let fault = |sampling| match Sampler::new(sampling) {
            Err(Error::Text(fault)) => fault.to_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(fault(Sampling::with_temperature(-1.0)), "temperature is -1, must be 0 or more");
        assert_eq!(fault(Sampling::with_temperature(f32::NAN)), "temperature is NaN, must be 0 or more");
        assert_eq!(fault(Sampling { top_p: 1.5, ..Sampling::default() }), "top-p is 1.5, must be in 0..=1");
        for sampling in [Sampling::default(), Sampling::with_temperature(1.0)] {
            let Err(Error::Text(fault)) = Sampler::new(sampling).unwrap().sample(&[0.0, f32::NAN], 3) else {
                panic!()
            };
            assert_eq!(fault, Fault::NotANumber { token: 1, position: 3 });
        }
    }
}
