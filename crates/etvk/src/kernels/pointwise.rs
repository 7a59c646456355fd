//! Element by element: scalar arithmetic, selection, broadcasts and casts.

use crate::error::KernelFault;
use crate::kernels::call::{Call, Input, broadcast, broadcast_positions};
use crate::kernels::elements::{Elements, Scalar};

type Fault = Result<(), KernelFault>;

/// `add.Scalar_out(self, other, alpha, out)`: `self + alpha * other`.
pub(crate) fn add_scalar(call: &mut Call<'_>) -> Fault {
    call.takes(4)?;
    let (input, other, alpha) = (call.tensor(0)?, call.scalar(1)?, call.scalar(2)?);
    let sum = match (&input.elements, other.as_int(), alpha.as_int()) {
        (Elements::Ints(values), Some(other), Some(alpha)) => {
            let addend = other.wrapping_mul(alpha);
            Elements::Ints(values.iter().map(|x| x.wrapping_add(addend)).collect())
        }
        (elements, ..) => {
            let addend = other.as_f64() * alpha.as_f64();
            Elements::Floats(elements.floats().iter().map(|x| x + addend).collect())
        }
    };
    call.put(3, &input.sizes, &sum)
}

/// `mul.Scalar_out(self, other, out)`.
pub(crate) fn mul_scalar(call: &mut Call<'_>) -> Fault {
    call.takes(3)?;
    let (input, other) = (call.tensor(0)?, call.scalar(1)?);
    let product = match (&input.elements, other.as_int()) {
        (Elements::Ints(values), Some(other)) => {
            Elements::Ints(values.iter().map(|x| x.wrapping_mul(other)).collect())
        }
        (elements, _) => {
            let factor = other.as_f64();
            Elements::Floats(elements.floats().iter().map(|x| x * factor).collect())
        }
    };
    call.put(2, &input.sizes, &product)
}

/// `scalar_tensor.out(s, out)`.
pub(crate) fn scalar_tensor(call: &mut Call<'_>) -> Fault {
    call.takes(2)?;
    let elements = match call.scalar(0)? {
        Scalar::Double(value) => Elements::Floats(vec![value]),
        Scalar::Int(value) => Elements::Ints(vec![value]),
        Scalar::Bool(value) => Elements::Ints(vec![i64::from(value)]),
    };
    call.put(1, &[], &elements)
}

/// `where.self_out(condition, self, other, out)`.
pub(crate) fn where_self(call: &mut Call<'_>) -> Fault {
    call.takes(4)?;
    let (condition, yes, no) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    let sizes = broadcast(&[&condition.sizes, &yes.sizes, &no.sizes])?;
    call.resize(3, &sizes)?;
    let spread = |input: &Input| input.elements.gather(&broadcast_positions(&input.sizes, &sizes));
    let chosen = spread(&condition).ints();
    let out = match (spread(&yes), spread(&no)) {
        (Elements::Ints(yes), Elements::Ints(no)) => Elements::Ints(choose(&chosen, &yes, &no)),
        (yes, no) => Elements::Floats(choose(&chosen, &yes.floats(), &no.floats())),
    };
    call.put(3, &sizes, &out)
}

fn choose<T: Copy>(condition: &[i64], yes: &[T], no: &[T]) -> Vec<T> {
    condition.iter().zip(yes.iter().zip(no)).map(|(&c, (&y, &n))| if c != 0 { y } else { n }).collect()
}

/// `expand_copy.out(self, size, implicit, out)`: -1 keeps a size.
pub(crate) fn expand_copy(call: &mut Call<'_>) -> Fault {
    call.takes(4)?;
    let (input, asked) = (call.tensor(0)?, call.ints(1)?);
    let mismatch = || KernelFault::Shape {
        what: "expanded sizes",
        expected: format!("sizes that {:?} broadcasts to", input.sizes),
        found: format!("{asked:?}"),
    };
    let added = asked.len().checked_sub(input.sizes.len()).ok_or_else(mismatch)?;
    let mut sizes = Vec::with_capacity(asked.len());
    for (dim, &size) in asked.iter().enumerate() {
        let have = dim.checked_sub(added).map(|dim| input.sizes[dim]);
        let size = match (size, have) {
            (-1, Some(have)) => have,
            (size, _) => usize::try_from(size).map_err(|_| mismatch())?,
        };
        if have.is_some_and(|have| have != 1 && have != size) {
            return Err(mismatch());
        }
        sizes.push(size);
    }
    call.resize(3, &sizes)?;
    let out = input.elements.gather(&broadcast_positions(&input.sizes, &sizes));
    call.put(3, &sizes, &out)
}

/// `_to_dim_order_copy.out(self, non_blocking, dim_order, out)`: a cast; the output has its own memory order.
pub(crate) fn to_dim_order_copy(call: &mut Call<'_>) -> Fault {
    call.takes(4)?;
    let input = call.tensor(0)?;
    call.put(3, &input.sizes, &input.elements)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Frame, Slot};
    use etvk_pte::ScalarType;

    #[test]
    fn integers_stay_whole_and_floats_do_not() {
        let mut frame = Frame::of(vec![
            Slot::tensor(ScalarType::Int64, &[2]),
            Slot::Int(i64::MAX),
            Slot::Int(1),
            Slot::tensor(ScalarType::Int64, &[2]),
            Slot::Double(0.5),
            Slot::tensor(ScalarType::Float32, &[2]),
        ]);
        let bytes = Elements::Ints(vec![1, 4]).encode(ScalarType::Int64).unwrap();
        frame.write(0, 0, &[2], &bytes).unwrap();
        add_scalar(&mut Call::new(&mut frame, &[0, 1, 2, 3, 3])).unwrap();
        assert_eq!(Call::new(&mut frame, &[3]).tensor(0).unwrap().elements.ints(), [i64::MIN, i64::MIN + 3]);
        mul_scalar(&mut Call::new(&mut frame, &[0, 4, 5])).unwrap();
        assert_eq!(Call::new(&mut frame, &[5]).tensor(0).unwrap().elements.floats(), [0.5, 2.0]);
        let other_output = add_scalar(&mut Call::new(&mut frame, &[0, 1, 2, 3, 5]));
        assert_eq!(other_output, Err(KernelFault::ArgumentCount { expected: 4, found: 5 }));
    }

    #[test]
    fn selection_broadcasts() {
        let mut frame = Frame::of(vec![
            Slot::tensor(ScalarType::Bool, &[2, 1]),
            Slot::tensor(ScalarType::UInt8, &[3]),
            Slot::tensor(ScalarType::UInt8, &[]),
            Slot::tensor(ScalarType::UInt8, &[2, 3]),
        ]);
        frame.write(0, 0, &[2, 1], &[1, 0]).unwrap();
        frame.write(0, 1, &[3], &[1, 2, 3]).unwrap();
        frame.write(0, 2, &[], &[9]).unwrap();
        where_self(&mut Call::new(&mut frame, &[0, 1, 2, 3])).unwrap();
        assert_eq!(*frame.elements(0, 3).unwrap(), [1, 2, 3, 9, 9, 9]);
    }

    #[test]
    fn expansion_is_bounded_by_the_output() {
        let mut frame = Frame::of(vec![
            Slot::tensor(ScalarType::UInt8, &[1, 2]),
            Slot::Int(3),
            Slot::Int(-1),
            Slot::IntList(vec![1, 2]),
            Slot::Bool(false),
            Slot::tensor(ScalarType::UInt8, &[3, 2]),
        ]);
        frame.write(0, 0, &[1, 2], &[1, 2]).unwrap();
        expand_copy(&mut Call::new(&mut frame, &[0, 3, 4, 5])).unwrap();
        assert_eq!(*frame.elements(0, 5).unwrap(), [1, 2, 1, 2, 1, 2]);
        frame.set(1, Slot::Int(1 << 40));
        assert!(matches!(
            expand_copy(&mut Call::new(&mut frame, &[0, 3, 4, 5])),
            Err(KernelFault::Capacity { .. })
        ));
        frame.set(2, Slot::Int(5));
        assert!(matches!(
            expand_copy(&mut Call::new(&mut frame, &[0, 3, 4, 5])),
            Err(KernelFault::Shape { .. })
        ));
    }
}
