//! Whether a value is what it should be.

use anyhow::bail;
use etvk::Value;

use crate::tensors::Numbers;

/// How far a number may be from the expected one: `|got - want| <= atol + rtol * |want|`. Integers and truth values are
/// exact, NaN matches NaN and an infinity the same infinity.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize)]
pub(crate) struct Tolerance {
    pub(crate) atol: f64,
    pub(crate) rtol: f64,
    /// `|got|` in the place of `|want|`, as upstream compares the outputs of bundles.
    #[serde(default)]
    pub(crate) of_output: bool,
}

/// How far a value is from the expected one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Difference {
    /// Greatest absolute error.
    pub(crate) max_abs: f64,
    /// Greatest relative error: absolute error over the greater magnitude, which counts as 1e-8 at least.
    pub(crate) max_rel: f64,
    /// The worst element beyond the tolerance in words, if there is one.
    pub(crate) worst: Option<String>,
}

/// Compares values of the same kind, element type and sizes.
pub(crate) fn compare(got: &Value, want: &Value, tolerance: Tolerance) -> anyhow::Result<Difference> {
    match (got, want) {
        (Value::Tensor(got), Value::Tensor(want)) => {
            if got.scalar_type() != want.scalar_type() || got.sizes() != want.sizes() {
                bail!("expected {want:?}, found {got:?}");
            }
            Ok(match (Numbers::of(got)?, Numbers::of(want)?) {
                (Numbers::Ints(got), Numbers::Ints(want)) => ints(&got, &want),
                (Numbers::Floats(got), Numbers::Floats(want)) => floats(&got, &want, tolerance),
                _ => bail!("expected {want:?}, found {got:?}"),
            })
        }
        (Value::Int(got), Value::Int(want)) => Ok(ints(&[*got], &[*want])),
        (Value::Bool(got), Value::Bool(want)) => Ok(ints(&[i64::from(*got)], &[i64::from(*want)])),
        (Value::Double(got), Value::Double(want)) => Ok(floats(&[*got], &[*want], tolerance)),
        (got, want) => bail!("expected {}, found {}", want.kind(), got.kind()),
    }
}

#[expect(clippy::cast_precision_loss, reason = "an error that is shown")]
fn ints(got: &[i64], want: &[i64]) -> Difference {
    let errors = got.iter().zip(want).map(|(&got, &want)| got.abs_diff(want) as f64);
    let magnitudes =
        got.iter().zip(want).map(|(got, want)| got.unsigned_abs().max(want.unsigned_abs()) as f64);
    let show = |at: usize| (got[at].to_string(), want[at].to_string());
    summary(errors, magnitudes, |_, error| error, show)
}

fn floats(got: &[f64], want: &[f64], tolerance: Tolerance) -> Difference {
    let errors = got.iter().zip(want).map(|(&got, &want)| match got - want {
        _ if got == want || (got.is_nan() && want.is_nan()) => 0.0,
        error if error.is_finite() => error.abs(),
        _ => f64::INFINITY,
    });
    let magnitudes = got.iter().zip(want).map(|(got, want)| got.abs().max(want.abs()));
    let reference = if tolerance.of_output { got } else { want };
    let excess = |at: usize, error: f64| match reference[at].abs() {
        reference if reference.is_finite() => error - (tolerance.atol + tolerance.rtol * reference),
        _ => error,
    };
    summary(errors, magnitudes, excess, |at| (format!("{:e}", got[at]), format!("{:e}", want[at])))
}

/// Sums up errors; those with an `excess` above 0 are beyond the tolerance.
fn summary(
    errors: impl Iterator<Item = f64>,
    magnitudes: impl Iterator<Item = f64>,
    excess: impl Fn(usize, f64) -> f64,
    show: impl Fn(usize) -> (String, String),
) -> Difference {
    let mut difference = Difference::default();
    let (mut count, mut beyond, mut worst) = (0, 0, (0, 0.0));
    for (at, (error, magnitude)) in errors.zip(magnitudes).enumerate() {
        count += 1;
        difference.max_abs = difference.max_abs.max(error);
        if error > 0.0 {
            let relative = if error.is_finite() { error / magnitude.max(1e-8) } else { error };
            difference.max_rel = difference.max_rel.max(relative);
        }
        let excess = excess(at, error);
        if excess > 0.0 {
            beyond += 1;
            if excess > worst.1 {
                worst = (at, excess);
            }
        }
    }
    if beyond > 0 {
        let (got, want) = show(worst.0);
        difference.worst = Some(format!(
            "{beyond} of {count} elements are beyond the tolerance, worst element {}: expected {want}, found {got}",
            worst.0
        ));
    }
    difference
}

#[cfg(test)]
mod tests {
    use super::*;
    use etvk::Tensor;

    const TOLERANCE: Tolerance = Tolerance { atol: 0.1, rtol: 0.01, of_output: false };

    fn floats_of(got: &[f32], want: &[f32]) -> Difference {
        let tensor = |values: &[f32]| Value::Tensor(Tensor::from_slice(&[values.len()], values).unwrap());
        compare(&tensor(got), &tensor(want), TOLERANCE).unwrap()
    }

    #[test]
    fn errors_within_the_tolerance_pass() {
        let difference = floats_of(&[1.0, 100.75], &[1.0625, 100.0]);
        assert_eq!((difference.max_abs, difference.worst), (0.75, None));
        assert!((difference.max_rel - 0.0625 / 1.0625).abs() < 1e-6);
        let difference = floats_of(&[0.0, 102.0], &[0.25, 100.0]);
        let worst = difference.worst.unwrap();
        assert!(
            worst.starts_with("2 of 2") && worst.ends_with("element 1: expected 1e2, found 1.02e2"),
            "{worst}"
        );
    }

    #[test]
    fn what_is_not_finite_matches_itself() {
        let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
        assert_eq!(floats_of(&odd, &odd), Difference::default());
        for (got, want) in
            [(f32::NAN, 1.0), (1.0, f32::NAN), (f32::INFINITY, f32::NEG_INFINITY), (1.0, f32::INFINITY)]
        {
            let difference = floats_of(&[got], &[want]);
            assert!(difference.max_abs.is_infinite() && difference.worst.is_some(), "{got} {want}");
        }
    }

    #[test]
    fn integers_are_exact() {
        assert_eq!(compare(&Value::Int(3), &Value::Int(3), TOLERANCE).unwrap(), Difference::default());
        let difference = compare(&Value::Int(i64::MIN), &Value::Int(1), TOLERANCE).unwrap();
        assert!(difference.worst.is_some() && difference.max_abs > 9e18);
        assert!(compare(&Value::Int(3), &Value::Bool(true), TOLERANCE).is_err());
    }

    #[test]
    fn other_types_and_sizes_are_errors() {
        let (a, b) = (
            Tensor::from_slice(&[2], &[1_i32, 2]).unwrap(),
            Tensor::from_slice(&[1, 2], &[1_i32, 2]).unwrap(),
        );
        let error = compare(&a.into(), &b.into(), TOLERANCE).unwrap_err();
        assert_eq!(error.to_string(), "expected int32[1, 2], found int32[2]");
    }
}
