//! Arithmetic on the numbers of a program, sizes of tensors, and views.

use crate::error::KernelFault;
use crate::kernels::call::Call;
use crate::kernels::elements::{Elements, Scalar};

type Fault<T = ()> = Result<T, KernelFault>;

fn whole(value: usize) -> Scalar {
    Scalar::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

/// `sym_size.int(self, dim, out)`.
pub(crate) fn sym_size(call: &mut Call<'_>) -> Fault {
    call.takes(3)?;
    let sizes = call.sizes(0)?;
    let dim = call.dim(call.int(1)?, sizes.len())?;
    let size = sizes.get(dim).copied().ok_or(KernelFault::Range {
        what: "dimension",
        low: 0,
        high: -1,
        found: 0,
    })?;
    call.put_scalar(2, whole(size))
}

/// `sym_numel(self, out)`.
pub(crate) fn sym_numel(call: &mut Call<'_>) -> Fault {
    call.takes(2)?;
    let count = call.sizes(0)?.iter().product();
    call.put_scalar(1, whole(count))
}

/// `_local_scalar_dense(self, out)`: the only element.
pub(crate) fn local_scalar_dense(call: &mut Call<'_>) -> Fault {
    call.takes(2)?;
    let input = call.tensor(0)?;
    let boolean = call.scalar_type(0)? == etvk_pte::ScalarType::Bool;
    let value = match &input.elements {
        Elements::Ints(values) if boolean => values.first().map(|&x| Scalar::Bool(x != 0)),
        Elements::Ints(values) => values.first().map(|&x| Scalar::Int(x)),
        Elements::Floats(values) => values.first().map(|&x| Scalar::Double(x)),
    };
    let one = |found: &[usize]| KernelFault::Shape {
        what: "elements of the input",
        expected: "one".to_owned(),
        found: format!("{found:?}"),
    };
    let value =
        value.filter(|_| input.sizes.iter().all(|&size| size == 1)).ok_or_else(|| one(&input.sizes))?;
    call.put_scalar(1, value)
}

fn binary(
    call: &mut Call<'_>,
    ints: impl Fn(i64, i64) -> Fault<i64>,
    floats: impl Fn(f64, f64) -> f64,
) -> Fault {
    call.takes(3)?;
    let (a, b) = (call.scalar(0)?, call.scalar(1)?);
    let value = match (a.as_int(), b.as_int()) {
        (Some(a), Some(b)) => Scalar::Int(ints(a, b)?),
        _ => Scalar::Double(floats(a.as_f64(), b.as_f64())),
    };
    call.put_scalar(2, value)
}

fn checked(value: Option<i64>) -> Fault<i64> {
    value.ok_or(KernelFault::Overflow)
}

/// `add.Scalar(a, b, out)`.
pub(crate) fn add(call: &mut Call<'_>) -> Fault {
    binary(call, |a, b| checked(a.checked_add(b)), |a, b| a + b)
}

/// `sub.Scalar(a, b, out)`.
pub(crate) fn sub(call: &mut Call<'_>) -> Fault {
    binary(call, |a, b| checked(a.checked_sub(b)), |a, b| a - b)
}

/// `mul.Scalar(a, b, out)`.
pub(crate) fn mul(call: &mut Call<'_>) -> Fault {
    binary(call, |a, b| checked(a.checked_mul(b)), |a, b| a * b)
}

/// `floordiv(a, b, out)`: rounded down.
pub(crate) fn floordiv(call: &mut Call<'_>) -> Fault {
    binary(call, floor_div, |a, b| (a / b).floor())
}

/// `mod(a, b, out)`: the remainder of `floordiv`, with the sign of `b`.
pub(crate) fn modulo(call: &mut Call<'_>) -> Fault {
    let floats = |a: f64, b: f64| a - (a / b).floor() * b;
    binary(call, |a, b| Ok(a.wrapping_sub(floor_div(a, b)?.wrapping_mul(b))), floats)
}

fn floor_div(a: i64, b: i64) -> Fault<i64> {
    if b == 0 {
        return Err(KernelFault::DivisionByZero);
    }
    let quotient = checked(a.checked_div(b))?;
    Ok(if a % b != 0 && (a < 0) != (b < 0) { quotient - 1 } else { quotient })
}

/// `truediv.Scalar(a, b, out)`: always a float.
pub(crate) fn truediv(call: &mut Call<'_>) -> Fault {
    call.takes(3)?;
    let (a, b) = (call.scalar(0)?, call.scalar(1)?);
    if b.as_int() == Some(0) {
        return Err(KernelFault::DivisionByZero);
    }
    call.put_scalar(2, Scalar::Double(a.as_f64() / b.as_f64()))
}

/// `sym_max.Scalar(a, b, out)`.
pub(crate) fn sym_max(call: &mut Call<'_>) -> Fault {
    binary(call, |a, b| Ok(a.max(b)), f64::max)
}

/// `sym_min.Scalar(a, b, out)`.
pub(crate) fn sym_min(call: &mut Call<'_>) -> Fault {
    binary(call, |a, b| Ok(a.min(b)), f64::min)
}

fn compare(call: &mut Call<'_>, ints: fn(&i64, &i64) -> bool, floats: fn(&f64, &f64) -> bool) -> Fault {
    call.takes(3)?;
    let (a, b) = (call.scalar(0)?, call.scalar(1)?);
    let holds = match (a.as_int(), b.as_int()) {
        (Some(a), Some(b)) => ints(&a, &b),
        _ => floats(&a.as_f64(), &b.as_f64()),
    };
    call.put_scalar(2, Scalar::Bool(holds))
}

/// `eq.Scalar(a, b, out)`.
pub(crate) fn eq(call: &mut Call<'_>) -> Fault {
    compare(call, PartialEq::eq, PartialEq::eq)
}

/// `gt.Scalar(a, b, out)`.
pub(crate) fn gt(call: &mut Call<'_>) -> Fault {
    compare(call, PartialOrd::gt, PartialOrd::gt)
}

/// `lt.Scalar(a, b, out)`.
pub(crate) fn lt(call: &mut Call<'_>) -> Fault {
    compare(call, PartialOrd::lt, PartialOrd::lt)
}

/// `ge.Scalar(a, b, out)`.
pub(crate) fn ge(call: &mut Call<'_>) -> Fault {
    compare(call, PartialOrd::ge, PartialOrd::ge)
}

/// `le.Scalar(a, b, out)`.
pub(crate) fn le(call: &mut Call<'_>) -> Fault {
    compare(call, PartialOrd::le, PartialOrd::le)
}

/// `neg.Scalar(a, out)`.
pub(crate) fn neg(call: &mut Call<'_>) -> Fault {
    call.takes(2)?;
    let value = match call.scalar(0)? {
        Scalar::Double(value) => Scalar::Double(-value),
        value => Scalar::Int(checked(value.as_int().and_then(i64::checked_neg))?),
    };
    call.put_scalar(1, value)
}

/// `sym_float.Scalar(a, out)`.
pub(crate) fn sym_float(call: &mut Call<'_>) -> Fault {
    call.takes(2)?;
    let value = call.scalar(0)?.as_f64();
    call.put_scalar(1, Scalar::Double(value))
}

/// `sym_not.Scalar(a, out)`.
pub(crate) fn sym_not(call: &mut Call<'_>) -> Fault {
    call.takes(2)?;
    let value = call.scalar(0)?.as_f64() == 0.0;
    call.put_scalar(1, Scalar::Bool(value))
}

/// `sym_ite.Scalar(condition, a, b, out)`.
pub(crate) fn sym_ite(call: &mut Call<'_>) -> Fault {
    call.takes(4)?;
    let value = if call.flag(0)? { call.scalar(1)? } else { call.scalar(2)? };
    call.put_scalar(3, value)
}

fn to_int(call: &mut Call<'_>, round: fn(f64) -> f64) -> Fault {
    call.takes(2)?;
    let value = match call.scalar(0)? {
        Scalar::Double(value) => {
            let rounded = round(value);
            // The bounds are exact in f64; the upper one is the first that does not fit.
            let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded);
            #[expect(clippy::cast_possible_truncation, reason = "whole and in range")]
            checked(fits.then_some(rounded as i64))?
        }
        value => checked(value.as_int())?,
    };
    call.put_scalar(1, Scalar::Int(value))
}

/// `ceil.Scalar(a, out)`.
pub(crate) fn ceil(call: &mut Call<'_>) -> Fault {
    to_int(call, f64::ceil)
}

/// `round.Scalar(a, out)`: halves to even.
pub(crate) fn round(call: &mut Call<'_>) -> Fault {
    to_int(call, f64::round_ties_even)
}

/// `trunc.Scalar(a, out)`: towards zero.
pub(crate) fn trunc(call: &mut Call<'_>) -> Fault {
    to_int(call, f64::trunc)
}

/// `et_view.default(self, size, out)`: the output becomes another reading of the input's memory.
pub(crate) fn et_view(call: &mut Call<'_>) -> Fault {
    call.takes(3)?;
    let (have, asked) = (call.sizes(0)?.to_vec(), call.ints(1)?);
    let total: usize = have.iter().product();
    let mismatch = || KernelFault::Shape {
        what: "elements of a view",
        expected: format!("as many as {have:?}"),
        found: format!("{asked:?}"),
    };
    let inferred = asked.iter().filter(|&&size| size == -1).count();
    let known = asked.iter().filter(|&&size| size != -1).try_fold(1_usize, |known, &size| {
        usize::try_from(size).ok().and_then(|size| known.checked_mul(size)).ok_or_else(mismatch)
    })?;
    let rest = match inferred {
        0 => 1,
        1 => total.checked_div(known).unwrap_or(0),
        _ => return Err(mismatch()),
    };
    if known.checked_mul(rest) != Some(total) {
        return Err(mismatch());
    }
    let sizes: Vec<usize> = asked.iter().map(|&size| usize::try_from(size).unwrap_or(rest)).collect();
    let (from, to) = (call.id(0)?, call.id(2)?);
    call.frame.alias(from, to, &sizes)
}

/// `et_copy_index.tensor(copy_to, copy_from, index)`: row `index` of `copy_to`, which grows to hold it. Some programs
/// name `copy_to` again as the result.
pub(crate) fn et_copy_index(call: &mut Call<'_>) -> Fault {
    let repeated = call.id(0)? == call.id(call.count().saturating_sub(1))?;
    call.takes(if repeated { 4 } else { 3 })?;
    let (to, from) = (call.id(0)?, call.id(1)?);
    let found = call.int(2)?;
    let index = usize::try_from(found).ok().filter(|&index| index < usize::MAX);
    let index = index.ok_or(KernelFault::Range { what: "index", low: 0, high: i64::MAX, found })?;
    let mut sizes = call.sizes(0)?.to_vec();
    if sizes.get(1..) != Some(call.sizes(1)?) || call.scalar_type(0)? != call.scalar_type(1)? {
        let expected = format!("{} rows of {:?}", call.scalar_type(0)?, sizes.get(1..).unwrap_or_default());
        let found = format!("{} of {:?}", call.scalar_type(1)?, call.sizes(1)?);
        return Err(KernelFault::Shape { what: "row", expected, found });
    }
    sizes[0] = sizes[0].max(index + 1);
    let row = call.frame.elements(1, from)?.into_owned();
    call.frame.write_with(0, to, &sizes, |out| {
        let place = index.checked_mul(row.len()).and_then(|start| out.get_mut(start..start + row.len()));
        place.ok_or(KernelFault::Overflow)?.copy_from_slice(&row);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Frame, Slot};
    use crate::kernels::find;
    use etvk_pte::ScalarType;

    /// What an operator makes of numbers.
    fn eval(name: &str, args: &[Scalar]) -> Fault<Scalar> {
        let slot = |scalar: &Scalar| match *scalar {
            Scalar::Int(value) => Slot::Int(value),
            Scalar::Double(value) => Slot::Double(value),
            Scalar::Bool(value) => Slot::Bool(value),
        };
        let mut slots: Vec<Slot> = args.iter().map(slot).collect();
        slots.push(Slot::Null);
        let ids: Vec<usize> = (0..slots.len()).collect();
        let mut frame = Frame::of(slots);
        let kernel = find(&format!("executorch_prim::{name}")).unwrap();
        kernel(&mut Call::new(&mut frame, &ids))?;
        Call::new(&mut frame, &ids).scalar(args.len())
    }

    #[test]
    fn numbers_follow_python() {
        use Scalar::{Bool, Double, Int};
        for (name, args, want) in [
            ("add.Scalar", &[Int(2), Int(3)][..], Int(5)),
            ("add.Scalar", &[Int(2), Double(0.5)], Double(2.5)),
            ("sub.Scalar", &[Int(2), Int(3)], Int(-1)),
            ("mul.Scalar", &[Int(4), Int(-3)], Int(-12)),
            ("floordiv.int", &[Int(-7), Int(2)], Int(-4)),
            ("floordiv.Scalar", &[Double(-7.0), Int(2)], Double(-4.0)),
            ("mod.int", &[Int(-7), Int(2)], Int(1)),
            ("mod.Scalar", &[Int(7), Int(-2)], Int(-1)),
            ("truediv.Scalar", &[Int(1), Int(4)], Double(0.25)),
            ("eq.Scalar", &[Int(1), Double(1.0)], Bool(true)),
            ("lt.Scalar", &[Int(1), Int(1)], Bool(false)),
            ("le.Scalar", &[Int(1), Int(1)], Bool(true)),
            ("gt.Scalar", &[Double(1.5), Int(1)], Bool(true)),
            ("ge.Scalar", &[Int(0), Int(1)], Bool(false)),
            ("neg.Scalar", &[Int(3)], Int(-3)),
            ("sym_max.Scalar", &[Int(3), Int(9)], Int(9)),
            ("sym_min.Scalar", &[Double(3.5), Int(9)], Double(3.5)),
            ("sym_float.Scalar", &[Int(3)], Double(3.0)),
            ("sym_int.Scalar", &[Double(-3.7)], Int(-3)),
            ("sym_not.Scalar", &[Bool(false)], Bool(true)),
            ("sym_ite.Scalar", &[Bool(false), Int(1), Int(2)], Int(2)),
            ("ceil.Scalar", &[Double(1.2)], Int(2)),
            ("round.Scalar", &[Double(2.5)], Int(2)),
            ("trunc.Scalar", &[Double(-2.5)], Int(-2)),
        ] {
            assert_eq!(eval(name, args), Ok(want), "{name} {args:?}");
        }
    }

    #[test]
    fn what_has_no_result_is_a_fault() {
        use Scalar::{Double, Int};
        assert_eq!(eval("add.Scalar", &[Int(i64::MAX), Int(1)]), Err(KernelFault::Overflow));
        assert_eq!(eval("floordiv.int", &[Int(i64::MIN), Int(-1)]), Err(KernelFault::Overflow));
        assert_eq!(eval("mod.int", &[Int(1), Int(0)]), Err(KernelFault::DivisionByZero));
        assert_eq!(eval("ceil.Scalar", &[Double(f64::NAN)]), Err(KernelFault::Overflow));
        assert_eq!(eval("trunc.Scalar", &[Double(1e19)]), Err(KernelFault::Overflow));
        let count = eval("add.Scalar", &[Int(1)]);
        assert_eq!(count, Err(KernelFault::ArgumentCount { expected: 3, found: 2 }));
    }

    fn tensors() -> Frame {
        let mut frame = Frame::of(vec![
            Slot::tensor(ScalarType::UInt8, &[2, 3]),
            Slot::tensor(ScalarType::UInt8, &[4, 3]),
            Slot::tensor(ScalarType::UInt8, &[3]),
            Slot::Int(-1),
            Slot::Int(2),
            Slot::IntList(vec![4, 3]),
            Slot::tensor(ScalarType::UInt8, &[2, 3]),
        ]);
        frame.write(0, 0, &[2, 3], &[1, 2, 3, 4, 5, 6]).unwrap();
        frame.write(0, 1, &[1, 3], &[7, 7, 7]).unwrap();
        frame.write(0, 2, &[3], &[1, 2, 3]).unwrap();
        frame
    }

    #[test]
    fn sizes_of_tensors() {
        let mut frame = tensors();
        sym_size(&mut Call::new(&mut frame, &[0, 3, 4])).unwrap();
        assert_eq!(frame.int(0, 4), Ok(3));
        sym_numel(&mut Call::new(&mut frame, &[0, 4])).unwrap();
        assert_eq!(frame.int(0, 4), Ok(6));
        assert!(matches!(
            sym_size(&mut Call::new(&mut frame, &[0, 4, 4])),
            Err(KernelFault::Range { found: 6, low: -2, high: 1, .. })
        ));
        assert!(matches!(
            local_scalar_dense(&mut Call::new(&mut frame, &[0, 4])),
            Err(KernelFault::Shape { .. })
        ));
    }

    #[test]
    fn a_view_infers_one_size() {
        let mut frame = tensors();
        et_view(&mut Call::new(&mut frame, &[0, 5, 6])).unwrap();
        assert_eq!(frame.tensor(0, 6).unwrap().sizes, [2, 3]);
        assert_eq!(*frame.elements(0, 6).unwrap(), [1, 2, 3, 4, 5, 6]);
        frame.set(4, Slot::Int(4));
        let view = et_view(&mut Call::new(&mut frame, &[0, 5, 6]));
        assert!(matches!(view, Err(KernelFault::Shape { what: "elements of a view", .. })));
    }

    #[test]
    fn rows_are_added_one_by_one() {
        let mut frame = tensors();
        et_copy_index(&mut Call::new(&mut frame, &[1, 2, 4])).unwrap();
        assert_eq!(frame.tensor(0, 1).unwrap().sizes, [3, 3]);
        assert_eq!(*frame.elements(0, 1).unwrap(), [7, 7, 7, 0, 0, 0, 1, 2, 3]);
        assert!(matches!(
            et_copy_index(&mut Call::new(&mut frame, &[1, 2, 3, 1])),
            Err(KernelFault::Range { found: -1, .. })
        ));
        frame.set(4, Slot::Int(4));
        assert!(matches!(
            et_copy_index(&mut Call::new(&mut frame, &[1, 2, 4])),
            Err(KernelFault::Capacity { capacity: 12, .. })
        ));
    }
}
