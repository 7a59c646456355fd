//! Element-wise operators: unary, binary, comparisons, select.

use std::cmp::Ordering;
use std::f64::consts::{FRAC_2_SQRT_PI, PI, SQRT_2};

use etvk_vkgraph::DType;

use crate::Fault;
use crate::frame::{Frame, Number};
use crate::tensor::{Tensor, broadcast, broadcast_flat, collect, single};

/// `output = f(x)`.
pub(crate) fn unary(frame: &mut Frame<'_>, f: impl Fn(f64) -> f64) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let items = x.floats().iter().map(|&x| f(x)).collect();
    frame.set(Tensor::wide(x.dims().to_vec(), items))
}

/// `output = float(x)`, or `int(x)` of an integer, which wraps.
pub(crate) fn unary_any(
    frame: &mut Frame<'_>,
    float: impl Fn(f64) -> f64,
    int: impl Fn(i64) -> i64,
) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    if !x.is_integer() {
        return unary(frame, float);
    }
    frame.set(Tensor::whole(x.dims().to_vec(), x.integers().iter().map(|&x| int(x)).collect()))
}

/// Bounds applied in turn, the upper one last; NaN stays.
pub(crate) fn clamped(x: f64, low: Option<f64>, high: Option<f64>) -> f64 {
    let x = low.map_or(x, |low| if x < low { low } else { x });
    high.map_or(x, |high| if x > high { high } else { x })
}

pub(crate) fn relu(x: f64) -> f64 {
    clamped(x, Some(0.0), None)
}

pub(crate) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

pub(crate) fn hardsigmoid(x: f64) -> f64 {
    clamped(x + 3.0, Some(0.0), Some(6.0)) / 6.0
}

pub(crate) fn hardswish(x: f64) -> f64 {
    x * clamped(x + 3.0, Some(0.0), Some(6.0)) / 6.0
}

pub(crate) fn gelu(frame: &mut Frame<'_>) -> Result<(), Fault> {
    match frame.text(1)? {
        "none" => unary(frame, |x| 0.5 * x * (1.0 + erf(x / SQRT_2))),
        "tanh" => {
            unary(frame, |x| 0.5 * x * (1.0 + ((2.0 / PI).sqrt() * (x + 0.044_715 * x * x * x)).tanh()))
        }
        found => Err(Fault::Value { slot: 1, expected: "\"none\" or \"tanh\"", found: format!("{found:?}") }),
    }
}

/// The error function, by its power series scaled with exp(-x²), whose terms are all positive.
pub(crate) fn erf(x: f64) -> f64 {
    if x.is_nan() || x.abs() > 6.0 {
        return if x.is_nan() { x } else { x.signum() };
    }
    let (mut term, mut sum, mut n) = (x, x, 0.0);
    while term.abs() > f64::EPSILON * sum.abs() {
        n += 1.0;
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        sum += term;
    }
    FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

pub(crate) fn hardshrink(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let lambda = single(frame.float(1)?);
    unary(frame, |x| if (-lambda..=lambda).contains(&x) { 0.0 } else { x })
}

pub(crate) fn leaky_relu(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let slope = frame.float(1)?;
    unary(frame, |x| if x > 0.0 { x } else { slope * x })
}

pub(crate) fn hardtanh(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let (low, high) = (frame.float(1)?, frame.float(2)?);
    unary(frame, |x| clamped(x, Some(low), Some(high)))
}

pub(crate) fn clamp(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let (low, high) = (frame.optional_number(1)?, frame.optional_number(2)?);
    let int = |bound: Option<Number>| bound.map_or(Some(None), |bound| bound.int().map(Some));
    if let (true, Some(low), Some(high)) = (x.is_integer(), int(low), int(high)) {
        let at_least = |x: i64| low.map_or(x, |low| x.max(low));
        let clamped = |&x: &i64| high.map_or(at_least(x), |high| at_least(x).min(high));
        let items = x.integers().iter().map(clamped).collect();
        return frame.set(Tensor::whole(x.dims().to_vec(), items));
    }
    let (low, high) = (low.map(Number::float), high.map(Number::float));
    unary(frame, |x| clamped(x, low, high))
}

/// Not, of truth values and of numbers.
pub(crate) fn logical_not(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let items = x.floats().iter().map(|&x| i64::from(x == 0.0)).collect();
    frame.set(Tensor::whole(x.dims().to_vec(), items))
}

/// Every bit of an integer, or the opposite of a truth value.
pub(crate) fn bitwise_not(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    if x.dtype() == DType::Bool {
        return logical_not(frame);
    }
    frame.set(Tensor::whole(x.dims().to_vec(), x.integers().iter().map(|&x| !x).collect()))
}

/// `output = float(a, b)`, or `int(a, b)` between integers, with broadcasting.
pub(crate) fn binary(
    frame: &mut Frame<'_>,
    float: impl Fn(f64, f64) -> f64,
    int: impl Fn(i64, i64) -> i64,
) -> Result<(), Fault> {
    let (a, b) = (frame.tensor(0)?, frame.tensor(1)?);
    let result = zip(&a, &b, float, int)?;
    frame.set(result)
}

fn zip(
    a: &Tensor,
    b: &Tensor,
    float: impl Fn(f64, f64) -> f64,
    int: impl Fn(i64, i64) -> i64,
) -> Result<Tensor, Fault> {
    let dims = broadcast(&[a.dims(), b.dims()])?;
    if a.is_integer() && b.is_integer() {
        let (x, y) = (a.integers(), b.integers());
        let items =
            collect(&dims, |at| Ok(int(x[broadcast_flat(at, a.dims())], y[broadcast_flat(at, b.dims())])))?;
        return Ok(Tensor::whole(dims, items));
    }
    let (x, y) = (a.floats(), b.floats());
    let items =
        collect(&dims, |at| Ok(float(x[broadcast_flat(at, a.dims())], y[broadcast_flat(at, b.dims())])))?;
    Ok(Tensor::wide(dims, items))
}

/// `a + sign · alpha · b`.
pub(crate) fn add(frame: &mut Frame<'_>, sign: i64) -> Result<(), Fault> {
    let alpha = frame.number(2)?;
    let whole = alpha.int().unwrap_or_default().wrapping_mul(sign);
    let alpha = alpha.float() * sign as f64;
    binary(frame, |a, b| a + alpha * b, |a, b| a.wrapping_add(whole.wrapping_mul(b)))
}

pub(crate) fn mul(frame: &mut Frame<'_>) -> Result<(), Fault> {
    binary(frame, |a, b| a * b, i64::wrapping_mul)
}

pub(crate) fn minimum(frame: &mut Frame<'_>) -> Result<(), Fault> {
    binary(frame, |a, b| if a.is_nan() || a < b { a } else { b }, i64::min)
}

pub(crate) fn maximum(frame: &mut Frame<'_>) -> Result<(), Fault> {
    binary(frame, |a, b| if a.is_nan() || a > b { a } else { b }, i64::max)
}

/// True division; integers are divided as floats.
pub(crate) fn div(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let (a, b) = (floating(&*frame.tensor(0)?), frame.tensor(1)?);
    let result = zip(&a, &b, |a, b| a / b, |_, _| 0)?;
    frame.set(result)
}

pub(crate) fn div_mode(frame: &mut Frame<'_>) -> Result<(), Fault> {
    if frame.is_null(2)? {
        return div(frame);
    }
    match frame.text(2)? {
        // Integer division by zero is undefined; it must only not trap.
        "trunc" => binary(frame, |a, b| (a / b).trunc(), |a, b| if b == 0 { 0 } else { a.wrapping_div(b) }),
        "floor" => binary(frame, floor_div, |a, b| if b == 0 { 0 } else { int_floor_div(a, b) }),
        found => {
            Err(Fault::Value { slot: 2, expected: "\"floor\" or \"trunc\"", found: format!("{found:?}") })
        }
    }
}

/// Quotient rounded down, for a divisor that is not 0.
pub(crate) fn int_floor_div(a: i64, b: i64) -> i64 {
    let quotient = a.wrapping_div(b);
    if a.wrapping_rem(b) != 0 && (a < 0) != (b < 0) { quotient - 1 } else { quotient }
}

/// Floor division as PyTorch defines it: by way of the remainder.
fn floor_div(a: f64, b: f64) -> f64 {
    if b == 0.0 {
        return a / b;
    }
    let remainder = a % b;
    let mut quotient = (a - remainder) / b;
    if remainder != 0.0 && (b < 0.0) != (remainder < 0.0) {
        quotient -= 1.0;
    }
    if quotient == 0.0 {
        return 0.0_f64.copysign(a / b);
    }
    let floor = quotient.floor();
    if quotient - floor > 0.5 { floor + 1.0 } else { floor }
}

pub(crate) fn pow(frame: &mut Frame<'_>) -> Result<(), Fault> {
    binary(frame, f64::powf, int_pow)
}

fn int_pow(base: i64, exponent: i64) -> i64 {
    match (u32::try_from(exponent), base) {
        (Ok(exponent), _) => base.wrapping_pow(exponent),
        (Err(_), 1) => 1,
        (Err(_), -1) => 1 - 2 * (exponent & 1),
        (Err(_), _) => 0,
    }
}

pub(crate) fn pow_scalar(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let exponent = frame.float(1)?;
    // PyTorch takes roots, of −0 and −∞ as well.
    unary(frame, |x| match exponent {
        0.5 => x.sqrt(),
        -0.5 => 1.0 / x.sqrt(),
        _ => x.powf(exponent),
    })
}

/// `output = test(a <=> b)`, where unordered operands compare as `None`.
pub(crate) fn compare(frame: &mut Frame<'_>, test: fn(Option<Ordering>) -> bool) -> Result<(), Fault> {
    let float = |a: f64, b: f64| f64::from(u8::from(test(a.partial_cmp(&b))));
    binary(frame, float, |a, b| i64::from(test(Some(a.cmp(&b)))))
}

pub(crate) fn compare_scalar(frame: &mut Frame<'_>, test: fn(Option<Ordering>) -> bool) -> Result<(), Fault> {
    let (x, scalar) = (frame.tensor(0)?, frame.number(1)?);
    let items = match scalar {
        Number::Int(scalar) if x.is_integer() => {
            x.integers().iter().map(|x| i64::from(test(Some(x.cmp(&scalar))))).collect()
        }
        // A scalar takes the precision of the comparison, which is single.
        _ => {
            let scalar = single(scalar.float());
            x.floats().iter().map(|&x| i64::from(test(single(x).partial_cmp(&scalar)))).collect()
        }
    };
    frame.set(Tensor::whole(x.dims().to_vec(), items))
}

pub(crate) fn is_eq(ordering: Option<Ordering>) -> bool {
    ordering == Some(Ordering::Equal)
}

pub(crate) fn is_ne(ordering: Option<Ordering>) -> bool {
    ordering != Some(Ordering::Equal)
}

pub(crate) fn is_lt(ordering: Option<Ordering>) -> bool {
    ordering == Some(Ordering::Less)
}

pub(crate) fn is_le(ordering: Option<Ordering>) -> bool {
    ordering.is_some_and(Ordering::is_le)
}

pub(crate) fn is_gt(ordering: Option<Ordering>) -> bool {
    ordering == Some(Ordering::Greater)
}

pub(crate) fn is_ge(ordering: Option<Ordering>) -> bool {
    ordering.is_some_and(Ordering::is_ge)
}

/// And or or, of truth values.
pub(crate) fn logical(frame: &mut Frame<'_>, f: fn(bool, bool) -> bool) -> Result<(), Fault> {
    let float = |a: f64, b: f64| f64::from(u8::from(f(a != 0.0, b != 0.0)));
    binary(frame, float, |a, b| i64::from(f(a != 0, b != 0)))
}

/// And or or, bit by bit.
pub(crate) fn bitwise(frame: &mut Frame<'_>, f: fn(i64, i64) -> i64) -> Result<(), Fault> {
    binary(frame, |a, b| f(i64::from(a != 0.0), i64::from(b != 0.0)) as f64, f)
}

pub(crate) fn select(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let (condition, a, b) = (frame.tensor(0)?, frame.tensor(1)?, frame.tensor(2)?);
    let dims = broadcast(&[condition.dims(), a.dims(), b.dims()])?;
    let truths = condition.floats();
    let chosen = |at: &[usize]| truths[broadcast_flat(at, condition.dims())] != 0.0;
    let result = if a.is_integer() && b.is_integer() {
        let (x, y) = (a.integers(), b.integers());
        let item = |at: &[usize]| match chosen(at) {
            true => Ok(x[broadcast_flat(at, a.dims())]),
            false => Ok(y[broadcast_flat(at, b.dims())]),
        };
        Tensor::whole(dims.clone(), collect(&dims, item)?)
    } else {
        let (x, y) = (a.floats(), b.floats());
        let item = |at: &[usize]| match chosen(at) {
            true => Ok(x[broadcast_flat(at, a.dims())]),
            false => Ok(y[broadcast_flat(at, b.dims())]),
        };
        Tensor::wide(dims.clone(), collect(&dims, item)?)
    };
    frame.set(result)
}

/// `(a, b, low?, high?)`: a binary operator, then bounds.
pub(crate) fn binary_with_clamp(frame: &mut Frame<'_>, f: fn(f64, f64) -> f64) -> Result<(), Fault> {
    let (low, high) = (frame.optional_float(2)?, frame.optional_float(3)?);
    let (a, b) = (floating(&*frame.tensor(0)?), frame.tensor(1)?);
    let result = zip(&a, &b, |a, b| clamped(f(a, b), low, high), |_, _| 0)?;
    frame.set(result)
}

/// `(a, low?, high?, b)`: bounds, then a binary operator.
pub(crate) fn clamp_with_binary(frame: &mut Frame<'_>, f: fn(f64, f64) -> f64) -> Result<(), Fault> {
    let (low, high) = (frame.optional_float(1)?, frame.optional_float(2)?);
    let (a, b) = (floating(&*frame.tensor(0)?), frame.tensor(3)?);
    let result = zip(&a, &b, |a, b| f(clamped(a, low, high), b), |_, _| 0)?;
    frame.set(result)
}

/// The tensor with its elements as floats.
fn floating(x: &Tensor) -> Tensor {
    Tensor::wide(x.dims().to_vec(), x.floats().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erf_matches_tables() {
        for (x, expected) in
            [(0.0, 0.0), (0.5, 0.520_499_877_813_046_5), (2.0, 0.995_322_265_018_952_7), (7.0, 1.0)]
        {
            assert!((erf(x) - expected).abs() < 1e-14, "erf({x}) = {}", erf(x));
            assert!((erf(-x) + expected).abs() < 1e-14, "erf(-{x}) = {}", erf(-x));
        }
        assert!(erf(f64::NAN).is_nan());
    }

    #[test]
    fn floor_division_follows_the_remainder() {
        assert_eq!(floor_div(1.0, f64::from(0.1_f32)), 9.0);
        assert_eq!(floor_div(-7.0, 2.0), -4.0);
        assert_eq!(floor_div(7.0, -2.0), -4.0);
        assert!(floor_div(-1e-9, 1e9) == -1.0);
        assert_eq!(int_floor_div(-7, 2), -4);
        assert_eq!(int_floor_div(6, -2), -3);
    }

    #[test]
    fn integer_powers() {
        assert_eq!(int_pow(-3, 3), -27);
        assert_eq!(int_pow(-1, -3), -1);
        assert_eq!(int_pow(-1, -2), 1);
        assert_eq!(int_pow(2, -1), 0);
    }
}
