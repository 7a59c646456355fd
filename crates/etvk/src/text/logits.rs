//! What a model says about the next token.

use etvk_pte::ScalarType;
use half::{bf16, f16};

use crate::error::Result;
use crate::tensor::Tensor;
use crate::text::Fault;

/// Logits of the last token of an execution, or of each: rows of one value a token of the vocabulary.
#[derive(Clone, Debug, PartialEq)]
pub struct Logits {
    values: Vec<f32>,
    vocabulary: usize,
    /// Position of the token that the first row is of.
    first: usize,
}

impl Logits {
    /// Takes the logits of an execution of `tokens` tokens, the first of which stood at position `start`.
    ///
    /// # Errors
    /// [`Fault::Logits`] if there is neither one row nor one a token.
    pub(crate) fn new(tensor: &Tensor, vocabulary: usize, tokens: usize, start: usize) -> Result<Self> {
        let values = floats(tensor)?;
        let each = vocabulary.checked_mul(tokens);
        let first = match values.len() {
            found if found == vocabulary => start.saturating_add(tokens.saturating_sub(1)),
            found if Some(found) == each => start,
            found => return Err(Fault::Logits { tokens, vocabulary, found }.into()),
        };
        Ok(Self { values, vocabulary, first })
    }

    /// Rows, each with the position of the token that it follows.
    pub fn rows(&self) -> impl Iterator<Item = (usize, &[f32])> {
        (self.first..).zip(self.values.chunks_exact(self.vocabulary))
    }

    /// The logits of the last token.
    #[must_use]
    pub fn last(&self) -> &[f32] {
        let start = self.values.len().saturating_sub(self.vocabulary);
        self.values.get(start..).unwrap_or_default()
    }

    /// Position of the last token.
    #[must_use]
    pub fn position(&self) -> usize {
        let rows = self.values.len().checked_div(self.vocabulary).unwrap_or(0);
        self.first.saturating_add(rows.saturating_sub(1))
    }
}

fn floats(tensor: &Tensor) -> Result<Vec<f32>> {
    Ok(match tensor.scalar_type() {
        ScalarType::Float16 => tensor.to_vec::<f16>()?.into_iter().map(f32::from).collect(),
        ScalarType::BFloat16 => tensor.to_vec::<bf16>()?.into_iter().map(f32::from).collect(),
        #[expect(
            clippy::cast_possible_truncation,
            reason = "logits of double precision are sampled in single"
        )]
        ScalarType::Float64 => tensor.to_vec::<f64>()?.into_iter().map(|logit| logit as f32).collect(),
        _ => tensor.to_vec::<f32>()?,
    })
}

/// The natural logarithm of the probability of `token`: its logit less the logarithm of the sum of all exponentials, in
/// double precision. `position` is for the message alone.
///
/// # Errors
/// [`Fault::NotANumber`], and [`Fault::Token`] for a token that has no logit.
pub(crate) fn log_probability(logits: &[f32], token: u32, position: usize) -> Result<f64, Fault> {
    let logit = usize::try_from(token).ok().and_then(|token| logits.get(token));
    let Some(&logit) = logit else { return Err(Fault::Token { token, vocabulary: logits.len() }) };
    let greatest = greatest(logits, position)?.1;
    if greatest == f32::INFINITY {
        // Of several infinite ones each is as likely as the others.
        let count = logits.iter().filter(|&&logit| logit == f32::INFINITY).count();
        return Ok(if logit == greatest { -(count as f64).ln() } else { f64::NEG_INFINITY });
    }
    let sum: f64 = logits.iter().map(|&logit| (f64::from(logit) - f64::from(greatest)).exp()).sum();
    Ok(f64::from(logit) - f64::from(greatest) - sum.ln())
}

/// The first of the greatest logits, and where it is.
///
/// # Errors
/// [`Fault::NotANumber`] if one is none, [`Fault::TooFewTokens`] without any.
pub(crate) fn greatest(logits: &[f32], position: usize) -> Result<(usize, f32), Fault> {
    let mut best: Option<(usize, f32)> = None;
    for (token, &logit) in logits.iter().enumerate() {
        if logit.is_nan() {
            return Err(Fault::NotANumber { token, position });
        }
        if best.is_none_or(|(_, least)| logit > least) {
            best = Some((token, logit));
        }
    }
    best.ok_or(Fault::TooFewTokens { what: "the vocabulary", least: 1, found: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn one_row_or_one_a_token() {
        let tensor = Tensor::from_slice(&[1, 2, 3], &[0.0_f32, 1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        let each = Logits::new(&tensor, 3, 2, 7).unwrap();
        let rows: Vec<_> = each.rows().collect();
        assert_eq!(rows, [(7, &[0.0, 1.0, 2.0][..]), (8, &[3.0, 4.0, 5.0])]);
        assert_eq!((each.last(), each.position()), (&[3.0, 4.0, 5.0][..], 8));
        let last = Logits::new(&tensor, 6, 2, 7).unwrap();
        assert_eq!((last.rows().count(), last.position(), last.last().len()), (1, 8, 6));
        let Err(Error::Text(fault)) = Logits::new(&tensor, 2, 2, 0) else { panic!() };
        assert_eq!(fault, Fault::Logits { tokens: 2, vocabulary: 2, found: 6 });
    }

    #[test]
    fn logits_of_every_float_type_are_read() {
        let want = [1.5_f32, -2.0];
        let tensors = [
            Tensor::from_slice(&[2], &want.map(f16::from_f32)),
            Tensor::from_slice(&[2], &want.map(bf16::from_f32)),
            Tensor::from_slice(&[2], &want),
            Tensor::from_slice(&[2], &want.map(f64::from)),
        ];
        for tensor in tensors {
            assert_eq!(Logits::new(&tensor.unwrap(), 2, 1, 0).unwrap().last(), want);
        }
    }

    #[test]
    fn probabilities_are_those_of_a_softmax() {
        let logits = [1.0_f32, 2.0, 4.0];
        let sum: f64 = logits.iter().map(|&x| f64::from(x).exp()).sum();
        for (token, &logit) in (0..).zip(&logits) {
            let got = log_probability(&logits, token, 0).unwrap();
            assert!((got - (f64::from(logit).exp() / sum).ln()).abs() < 1e-12);
        }
        assert_eq!(log_probability(&[1e30, 0.0], 0, 0), Ok(0.0));
        let infinite = [f32::INFINITY, 0.0, f32::INFINITY];
        assert_eq!(log_probability(&infinite, 2, 0), Ok(-2.0_f64.ln()));
        assert_eq!(log_probability(&infinite, 1, 0), Ok(f64::NEG_INFINITY));
    }

    #[test]
    fn what_is_no_number_is_told() {
        let fault = Fault::NotANumber { token: 1, position: 9 };
        assert_eq!(greatest(&[0.0, f32::NAN], 9), Err(fault.clone()));
        assert_eq!(log_probability(&[0.0, f32::NAN], 0, 9), Err(fault));
        assert_eq!(log_probability(&[0.0], 1, 9), Err(Fault::Token { token: 1, vocabulary: 1 }));
        assert_eq!(greatest(&[2.0, 3.0, 3.0], 0), Ok((1, 3.0)));
    }
}
