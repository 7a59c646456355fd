//! Element-wise operators at the ends of single precision: zeros of both signs, subnormals, the largest numbers,
//! infinities, NaN, where functions overflow and underflow, and random bits in between.
//!
//! What is right is `std`'s double precision (or single-precision steps, where PyTorch's steps show), rounded to single
//! precision. A table row says how many units in the last place (ulp) of that a result may be off, with infinity next
//! to the largest number; a subnormal result one more, because it may be rounded twice. NaN and signs of zeros are exact. Vulkan lets devices flush subnormals unless asked for
//! more; on one that does (found out by a multiplication), a subnormal operand may count as 0, and 0 of the right sign
//! may stand for a subnormal result.
//!
//! Graphs of halves are tested with the same numbers: by `force_fp16` they count as singles everywhere; halves of the model
//! are what singles give, rounded once more.

use std::f64::consts::{FRAC_1_SQRT_2, PI};
use std::fmt::Write as _;
use std::sync::OnceLock;

use anyhow::{anyhow, ensure};
use etvk_reference::{Arg, Data, Tensor};
use etvk_tests::{Twin, check_validation, result};
use etvk_vkgraph::{DType, GraphBuilder, ValueId};

/// An argument between the operands and the output.
#[derive(Clone, Copy)]
enum Param {
    Null,
    Number(f64),
    Text(&'static str),
}

use Param::{Null, Number, Text};

/// What a result may be off, beside flushed subnormals.
#[derive(Clone, Copy)]
struct Bound {
    ulps: u32,
    /// Zeros have no sign that PyTorch promises.
    any_zero: bool,
}

/// What a subnormal flushed on the way to a result may cost: the tail of gelu is multiplied by up to 14.
const FLUSHED_INSIDE: f64 = 16.0 * f32::MIN_POSITIVE as f64;

const EXACT: Bound = ulps(0);
const ANY_ZERO: Bound = Bound { any_zero: true, ..EXACT };

const fn ulps(ulps: u32) -> Bound {
    Bound { ulps, any_zero: false }
}

/// What the floats of a graph are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Floats {
    Single,
    /// Halves by `force_fp16`: the host sees singles.
    Forced,
    /// Halves of the model.
    Half,
}

const ALL: [Floats; 3] = [Floats::Single, Floats::Forced, Floats::Half];

impl Floats {
    /// What a call writes: these floats, or another type.
    fn result(self, graph: &mut GraphBuilder, to: DType, dims: &[u32]) -> ValueId {
        match (self, to) {
            (Self::Forced, DType::Float32) => result(graph, DType::Float16, dims),
            (Self::Half, DType::Float32) => graph.tensor(DType::Float16, dims),
            _ => graph.tensor(to, dims),
        }
    }

    fn in_graph(self) -> DType {
        if self == Self::Single { DType::Float32 } else { DType::Float16 }
    }

    /// The nearest number that the host can give.
    fn nearest(self, x: f32) -> f32 {
        if self == Self::Half { half::f16::from_f32(x).to_f32() } else { x }
    }

    fn of_host(self) -> DType {
        if self == Self::Half { DType::Float16 } else { DType::Float32 }
    }
}

/// Position of a number among all singles: neighbours differ by 1, both zeros are 0.
fn ordered(x: f32) -> i64 {
    let magnitude = i64::from(x.to_bits() & 0x7fff_ffff);
    if x.is_sign_negative() { -magnitude } else { magnitude }
}

fn flushed(x: f32) -> f32 {
    if x.is_subnormal() { 0.0_f32.copysign(x) } else { x }
}

#[expect(clippy::cast_possible_truncation, reason = "rounds to single precision, or is a single already")]
fn single(x: f64) -> f32 {
    x as f32
}

impl Bound {
    /// As `allows`, for a result that was rounded to a half.
    fn allows_half(self, got: f32, want: f64) -> bool {
        let near = half::f16::from_f32(single(want));
        if want.is_nan() || got.is_nan() || want.is_infinite() {
            return (want.is_nan() && got.is_nan()) || f64::from(got) == want;
        }
        if got == 0.0 && near.to_f32() == 0.0 {
            return self.any_zero || got.is_sign_negative() == near.is_sign_negative();
        }
        let ordered = |x: half::f16| {
            let magnitude = i32::from(x.to_bits() & 0x7fff);
            if x.is_sign_negative() { -magnitude } else { magnitude }
        };
        (ordered(half::f16::from_f32(got)) - ordered(near)).abs() <= i32::from(self.ulps > 0)
    }

    fn allows(self, got: f32, want: f64, flushes: bool) -> bool {
        let near = single(want);
        if want.is_nan() || got.is_nan() || want.is_infinite() {
            return (want.is_nan() && got.is_nan()) || f64::from(got) == want;
        }
        // Before or after it was rounded.
        let near = if flushes && got == 0.0 && near.abs() <= f32::MIN_POSITIVE { got } else { near };
        if got == 0.0 && near == 0.0 {
            return self.any_zero || got.is_sign_negative() == want.is_sign_negative();
        }
        // A quotient is rounded before it is scaled down to a subnormal.
        let ulps = i64::from(self.ulps) + i64::from(single(want).abs() <= f32::MIN_POSITIVE);
        (ordered(got) - ordered(near)).abs() <= ulps
            || (flushes && self.ulps > 0 && (f64::from(got) - want).abs() <= FLUSHED_INSIDE)
    }
}

/// An operator's results for whole tensors of operands.
fn evaluate(
    floats: Floats,
    (name, params, to): (&str, &[Param], DType),
    operands: &[Vec<f32>],
) -> anyhow::Result<Vec<f32>> {
    let mut graph = GraphBuilder::new();
    let count = operands[0].len();
    let dims = [u32::try_from(count)?];
    let mut args: Vec<_> = operands.iter().map(|_| graph.input(floats.in_graph(), &dims)).collect();
    args.extend(params.iter().map(|param| match *param {
        Null => graph.null(),
        Number(number) => graph.double(number),
        Text(text) => graph.string(text),
    }));
    let out = floats.result(&mut graph, to, &dims);
    args.push(out);
    graph.call(name, &args);
    graph.outputs(&[out]);
    let tensor = |items: &Vec<f32>| {
        Tensor::new(floats.of_host(), &[count], Data::F64(items.iter().copied().map(f64::from).collect()))
    };
    let inputs = operands.iter().map(|items| Ok(Arg::Tensor(tensor(items)?)));
    let inputs = inputs.collect::<anyhow::Result<Vec<Arg>>>()?;
    let mut twin = Twin::new(&graph).map_err(|error| anyhow!("{error}"))?;
    match twin.execute(&inputs)?.as_slice() {
        [Arg::Tensor(out)] => Ok(out.floats().iter().map(|&x| single(x)).collect()),
        other => Err(anyhow!("{} outputs", other.len())),
    }
}

/// Whether the device takes subnormals for zeros, or makes them so.
fn flushes() -> anyhow::Result<bool> {
    static FLUSHES: OnceLock<bool> = OnceLock::new();
    if let Some(&flushes) = FLUSHES.get() {
        return Ok(flushes);
    }
    let operands = [vec![f32::MIN_POSITIVE, f32::from_bits(1)], vec![0.5, 16_777_216.0]];
    let found = evaluate(Floats::Single, ("aten.mul.Tensor", &[], DType::Float32), &operands)?;
    Ok(*FLUSHES.get_or_init(|| found.contains(&0.0)))
}

/// Compares all results of an operator with `want`, for all floats.
fn check(
    call: (&str, &[Param], Bound, DType),
    operands: &[Vec<f32>],
    want: impl Fn(&[f32]) -> f64,
) -> anyhow::Result<()> {
    ALL.iter().try_for_each(|&floats| check_of(floats, call, operands, &want))
}

fn check_of(
    floats: Floats,
    (name, params, bound, to): (&str, &[Param], Bound, DType),
    operands: &[Vec<f32>],
    want: impl Fn(&[f32]) -> f64,
) -> anyhow::Result<()> {
    let nearest = |items: &Vec<f32>| items.iter().map(|&x| floats.nearest(x)).collect();
    let operands: Vec<Vec<f32>> = operands.iter().map(nearest).collect();
    let got = evaluate(floats, (name, params, to), &operands)?;
    let flushes = flushes()?;
    let rounded = floats == Floats::Half && to.is_float();
    let (mut wrong, mut text) = (0, String::new());
    for (at, &got) in got.iter().enumerate() {
        let x: Vec<f32> = operands.iter().map(|items| items[at]).collect();
        // Any of the operands may have been flushed.
        let choices = if flushes { 1 << x.len() } else { 1 };
        let operands = |choice: usize| -> Vec<f32> {
            let flush = |(i, &x): (usize, &f32)| if choice >> i & 1 == 1 { flushed(x) } else { x };
            x.iter().enumerate().map(flush).collect()
        };
        let allows = |want| match rounded {
            true => bound.allows_half(got, want),
            false => bound.allows(got, want, flushes),
        };
        if !(0..choices).any(|choice| allows(want(&operands(choice)))) {
            wrong += 1;
            if wrong <= 8 {
                let want = want(&x);
                let off = ordered(got) - ordered(single(want));
                let _ = writeln!(text, "{x:?} is {got:e}, want {want:e}, {off} ulp");
            }
        }
    }
    let of = got.len();
    ensure!(wrong == 0, "{name}, {floats:?}: {wrong} of {of} wrong (subnormals flushed: {flushes})\n{text}");
    Ok(())
}

/// Magnitudes at which something changes.
const MARKS: &[f32] = &[
    0.0,
    1e-45,
    3e-45,
    1.175_494_2e-38,
    f32::MIN_POSITIVE,
    1.175_494_5e-38,
    2e-38,
    1e-30,
    1e-10,
    f32::EPSILON,
    2.4e-4,
    0.1,
    0.25,
    0.5,
    0.625,
    std::f32::consts::FRAC_PI_4,
    0.999_999_94,
    1.0,
    1.000_000_1,
    1.5,
    std::f32::consts::FRAC_PI_2,
    2.0,
    2.5,
    3.0,
    2.999_999_8,
    std::f32::consts::PI,
    3.5,
    6.0,
    9.1,
    10.0,
    13.1,
    14.2,
    17.4,
    44.4,
    87.336_54,
    87.5,
    88.722_83,
    88.722_84,
    89.0,
    103.27,
    103.972_08,
    103.98,
    104.1,
    1e4,
    1e5,
    8_388_607.5,
    16_777_216.0,
    2_147_483_648.0,
    1.844_674_2e19,
    1e20,
    1.7e38,
    f32::MAX,
    f32::INFINITY,
];

/// The marks with both signs, NaN, and random bits: all exponents alike.
fn numbers() -> Vec<f32> {
    let mut numbers: Vec<f32> = MARKS.iter().flat_map(|&x| [x, -x]).collect();
    numbers.push(f32::NAN);
    let mut state = 1u32;
    numbers.extend((0..4096).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f32::from_bits(state ^ state >> 15)
    }));
    // Where functions bend.
    numbers.extend((-2400_i16..2400).map(|step| f32::from(step) * 0.045_3));
    numbers
}

/// Every pair of some marks, as two tensors.
fn pairs() -> [Vec<f32>; 2] {
    let some = [
        0.0,
        1e-45,
        1.175_494_2e-38,
        f32::MIN_POSITIVE,
        1e-20,
        0.1,
        1.0 / 3.0,
        0.5,
        0.999_999_94,
        1.0,
        1.000_000_1,
        1.5,
        2.0,
        3.0,
        7.0,
        31.0,
        64.5,
        127.0,
        128.0,
        149.0,
        150.0,
        16_777_215.0,
        16_777_216.0,
        1e10,
        1e20,
        f32::MAX,
        f32::INFINITY,
    ];
    let mut signed: Vec<f32> = some.iter().flat_map(|&x| [x, -x]).collect();
    signed.push(f32::NAN);
    let all = signed.iter().flat_map(|&a| signed.iter().map(move |&b| (a, b)));
    let (a, b) = all.unzip();
    [a, b]
}

fn erf(x: f64) -> f64 {
    if x.abs() >= 2.0 {
        return (1.0 - erfc(x.abs())).copysign(x);
    }
    let (mut term, mut sum, mut n) = (x, x, 0.0);
    while term.abs() > 1e-17 * sum.abs() {
        n += 1.0;
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        sum += term;
    }
    2.0 / PI.sqrt() * (-x * x).exp() * sum
}

/// 1 − erf x; from 2 on by its continued fraction.
fn erfc(x: f64) -> f64 {
    if x.is_nan() || x < 2.0 {
        return 1.0 - erf(x);
    }
    let tail = (1..=120).rev().fold(x, |tail, k| x + f64::from(k) / 2.0 / tail);
    (-x * x).exp() / PI.sqrt() / tail
}

fn gelu_erf(x: f64) -> f64 {
    0.5 * x * erfc(-x * FRAC_1_SQRT_2)
}

fn gelu_tanh(x: f64) -> f64 {
    let v = (2.0 / PI).sqrt() * (x + 0.044_715 * x * x * x);
    x / (1.0 + (-2.0 * v).exp())
}

/// Nearest in single precision, as PyTorch's steps are.
fn hardswish(x: f32) -> f32 {
    x * (x + 3.0).clamp(0.0, 6.0) / 6.0
}

fn clamp(x: f32, low: f32, high: f32) -> f32 {
    if x.is_nan() { x } else { x.max(low).min(high) }
}

/// A function of one float: name, arguments, what is right, how far off.
type Unary = (&'static str, &'static [Param], fn(f32) -> f64, Bound);

/// On lavapipe and SwiftShader the worst are half of the bounds; Vulkan allows 2.5 ulp to every division.
const UNARY: &[Unary] = &[
    ("aten.abs.default", &[], |x| x.abs().into(), EXACT),
    ("aten.neg.default", &[], |x| (-x).into(), EXACT),
    ("aten.relu.default", &[], |x| clamp(x, 0.0, f32::INFINITY).into(), ANY_ZERO),
    ("aten.relu6.default", &[], |x| clamp(x, 0.0, 6.0).into(), ANY_ZERO),
    ("aten.clamp.default", &[Number(-1.0), Number(3.0)], |x| clamp(x, -1.0, 3.0).into(), EXACT),
    ("aten.clamp.default", &[Null, Number(2.0)], |x| clamp(x, f32::NEG_INFINITY, 2.0).into(), EXACT),
    // The upper bound wins.
    ("aten.clamp.default", &[Number(2.0), Number(-2.0)], |x| clamp(x, 2.0, -2.0).into(), EXACT),
    ("aten.hardtanh.default", &[Number(-1.0), Number(1.0)], |x| clamp(x, -1.0, 1.0).into(), EXACT),
    ("aten.ceil.default", &[], |x| x.ceil().into(), EXACT),
    ("aten.floor.default", &[], |x| x.floor().into(), EXACT),
    ("aten.round.default", &[], |x| x.round_ties_even().into(), EXACT),
    ("aten.trunc.default", &[], |x| x.trunc().into(), EXACT),
    ("aten.hardshrink.default", &[Number(0.5)], |x| if x.abs() <= 0.5 { 0.0 } else { x.into() }, EXACT),
    ("aten.leaky_relu.default", &[Number(0.5)], |x| (if x > 0.0 { x } else { x * 0.5 }).into(), EXACT),
    ("aten.hardsigmoid.default", &[], |x| f64::from(clamp(x + 3.0, 0.0, 6.0)) / 6.0, ulps(3)),
    ("aten.hardswish.default", &[], |x| hardswish(x).into(), ulps(3)),
    ("aten.sqrt.default", &[], |x| f64::from(x).sqrt(), ulps(1)),
    ("aten.rsqrt.default", &[], |x| 1.0 / f64::from(x).sqrt(), ulps(4)),
    ("aten.reciprocal.default", &[], |x| 1.0 / f64::from(x), ulps(1)),
    ("aten.exp.default", &[], |x| f64::from(x).exp(), ulps(2)),
    ("aten.log.default", &[], |x| f64::from(x).ln(), ulps(2)),
    ("aten.log10.default", &[], |x| f64::from(x).log10(), ulps(2)),
    ("aten.sin.default", &[], |x| f64::from(x).sin(), ulps(2)),
    ("aten.cos.default", &[], |x| f64::from(x).cos(), ulps(2)),
    ("aten.tan.default", &[], |x| f64::from(x).tan(), ulps(4)),
    ("aten.tanh.default", &[], |x| f64::from(x).tanh(), ulps(2)),
    ("aten.sigmoid.default", &[], |x| 1.0 / (1.0 + (-f64::from(x)).exp()), ulps(4)),
    ("aten.erf.default", &[], |x| erf(x.into()), ulps(2)),
    // The argument of the exponential is rounded, and it is up to −104 in the tails.
    ("aten.gelu.default", &[Text("none")], |x| gelu_erf(x.into()), ulps(8)),
    ("aten.gelu.default", &[Text("tanh")], |x| gelu_tanh(x.into()), ulps(128)),
];

#[test]
fn functions_of_extremes() -> anyhow::Result<()> {
    let operands = [numbers()];
    let mut failures = String::new();
    for &(name, params, want, bound) in UNARY {
        if let Err(error) = check((name, params, bound, DType::Float32), &operands, |x| want(x[0])) {
            let _ = writeln!(failures, "{error:#}");
        }
    }
    ensure!(failures.is_empty(), "{failures}");
    check_validation()
}

/// `fmod`, then division in single precision, as PyTorch divides and rounds down.
fn floor_division(a: f32, b: f32) -> f32 {
    if b == 0.0 {
        return a / b;
    }
    let remainder = a % b;
    let mut quotient = (a - remainder) / b;
    if remainder != 0.0 && (b < 0.0) != (remainder < 0.0) {
        quotient -= 1.0;
    }
    if quotient == 0.0 {
        return 0.0_f32.copysign(a / b);
    }
    let floor = quotient.floor();
    if quotient - floor > 0.5 { floor + 1.0 } else { floor }
}

fn minimum(a: f32, b: f32) -> f32 {
    if a.is_nan() || a < b { a } else { b }
}

fn maximum(a: f32, b: f32) -> f32 {
    if a.is_nan() || a > b { a } else { b }
}

fn power(a: f32, b: f32) -> f64 {
    f64::from(a).powf(b.into())
}

/// A function of two floats.
type Binary = (&'static str, &'static [Param], fn(f32, f32) -> f64, Bound);

const BINARY: &[Binary] = &[
    ("aten.add.Tensor", &[Number(1.0)], |a, b| (a + b).into(), EXACT),
    // Nothing times infinity is not a number.
    ("aten.add.Tensor", &[Number(0.0)], |a, b| (a + 0.0 * b).into(), EXACT),
    ("aten.sub.Tensor", &[Number(1.0)], |a, b| (a - b).into(), EXACT),
    ("aten.mul.Tensor", &[], |a, b| (a * b).into(), EXACT),
    ("aten.div.Tensor", &[], |a, b| (a / b).into(), ulps(1)),
    ("aten.div.Tensor_mode", &[Null], |a, b| (a / b).into(), ulps(1)),
    ("aten.div.Tensor_mode", &[Text("trunc")], |a, b| (a / b).trunc().into(), ulps(1)),
    ("aten.div.Tensor_mode", &[Text("floor")], |a, b| floor_division(a, b).into(), ulps(2)),
    ("aten.pow.Tensor_Tensor", &[], power, ulps(2)),
    ("aten.minimum.default", &[], |a, b| minimum(a, b).into(), ANY_ZERO),
    ("aten.maximum.default", &[], |a, b| maximum(a, b).into(), ANY_ZERO),
];

#[test]
fn functions_of_two_extremes() -> anyhow::Result<()> {
    let operands = pairs();
    let mut failures = String::new();
    for &(name, params, want, bound) in BINARY {
        if let Err(error) = check((name, params, bound, DType::Float32), &operands, |x| want(x[0], x[1])) {
            let _ = writeln!(failures, "{error:#}");
        }
    }
    ensure!(failures.is_empty(), "{failures}");
    check_validation()
}

/// A test of two floats, between tensors and against a number.
type Test = (&'static str, &'static str, fn(&f32, &f32) -> bool);

const TESTS: &[Test] = &[
    ("aten.eq.Tensor", "aten.eq.Scalar", f32::eq),
    ("aten.ne.Tensor", "aten.ne.Scalar", f32::ne),
    ("aten.lt.Tensor", "aten.lt.Scalar", f32::lt),
    ("aten.le.Tensor", "aten.le.Scalar", f32::le),
    ("aten.gt.Tensor", "aten.gt.Scalar", f32::gt),
    ("aten.ge.Tensor", "aten.ge.Scalar", f32::ge),
    ("aten.logical_and.default", "", |&a, &b| a != 0.0 && b != 0.0),
    ("aten.logical_or.default", "", |&a, &b| a != 0.0 || b != 0.0),
    ("aten.logical_xor.default", "", |&a, &b| (a != 0.0) != (b != 0.0)),
];

#[test]
fn comparisons_of_extremes() -> anyhow::Result<()> {
    let operands = pairs();
    let singles = [numbers()];
    let truth = |test: fn(&f32, &f32) -> bool, a, b| f64::from(u8::from(test(&a, &b)));
    for &(tensor, scalar, test) in TESTS {
        check((tensor, &[], EXACT, DType::Bool), &operands, |x| truth(test, x[0], x[1]))?;
        for other in [0.0, -0.0, 1.0, f32::MAX, f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
            if !scalar.is_empty() {
                let params = [Number(other.into())];
                check((scalar, &params, EXACT, DType::Bool), &singles, |x| truth(test, x[0], other))?;
            }
        }
    }
    let not = |x: &[f32]| f64::from(u8::from(x[0] == 0.0));
    check(("aten.logical_not.default", &[], EXACT, DType::Bool), &singles, not)?;
    check_validation()
}

#[test]
fn powers_of_extremes() -> anyhow::Result<()> {
    let operands = [numbers()];
    for exponent in [0.0, 1.0, 2.0, 3.0, -1.0, -2.0, -3.0, 0.25, -1.5, 2.5, 31.0, 1e10, f32::INFINITY] {
        for exponent in [exponent, -exponent] {
            let params = [Number(exponent.into())];
            let want = |x: &[f32]| power(x[0], exponent);
            check(("aten.pow.Tensor_Scalar", &params, ulps(2), DType::Float32), &operands, want)?;
        }
    }
    // PyTorch takes roots, which tell −0 and −∞ from 0 and ∞.
    let params = [0.5, -0.5, f64::NAN].map(Number);
    let call = |at: usize| ("aten.pow.Tensor_Scalar", &params[at..=at], ulps(4), DType::Float32);
    check(call(0), &operands, |x| f64::from(x[0]).sqrt())?;
    check(call(1), &operands, |x| 1.0 / f64::from(x[0]).sqrt())?;
    check(call(2), &operands, |x| power(x[0], f32::NAN))?;
    check_validation()
}

#[test]
fn conversions_and_choices_of_extremes() -> anyhow::Result<()> {
    let operands = [numbers()];
    let cast = |to| ("aten._to_copy.default", [Null; 6], EXACT, to);
    // Truncated, saturated, 0 for NaN; single precision holds the ends exactly but for 2³¹ − 1, which reads as 2³¹.
    for (to, low, high) in [
        (DType::Int32, -2_147_483_648.0, 2_147_483_648.0),
        (DType::Int8, -128.0, 127.0),
        (DType::UInt8, 0.0, 255.0),
    ] {
        let (name, params, _, to) = cast(to);
        let want = |x: &[f32]| if x[0].is_nan() { 0.0 } else { x[0].trunc().clamp(low, high).into() };
        check((name, &params, ANY_ZERO, to), &operands, want)?;
    }
    let (name, params, bound, to) = cast(DType::Bool);
    check((name, &params, bound, to), &operands, |x| f64::from(u8::from(x[0] != 0.0)))?;
    let (name, params, bound, to) = cast(DType::Float16);
    check((name, &params, bound, to), &operands, |x| half::f16::from_f32(x[0]).into())?;
    let [a, b] = pairs();
    let condition: Vec<f32> = (0..a.len()).map(|at| [0.0, 1.0, f32::NAN][at % 3]).collect();
    let want = |x: &[f32]| f64::from(if x[0] == 0.0 { x[2] } else { x[1] });
    check(("aten.where.self", &[], EXACT, DType::Float32), &[condition, a, b], want)?;
    check_validation()
}
