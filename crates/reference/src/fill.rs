//! Operators that make tensors from numbers.

use crate::Fault;
use crate::frame::{Frame, Number};
use crate::tensor::{Tensor, collect, count, truncate};

fn filled(dims: Vec<usize>, number: Number) -> Result<Tensor, Fault> {
    let count = count(&dims)?;
    Ok(match number {
        Number::Int(int) => Tensor::whole(dims, vec![int; count]),
        Number::Double(double) => Tensor::wide(dims, vec![double; count]),
    })
}

/// `full(size, value, ..)`.
pub(crate) fn full(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let result = filled(frame.sizes(0)?, frame.number(1)?)?;
    frame.set(result)
}

/// `full_like(x, value, ..)`.
pub(crate) fn full_like(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let result = filled(frame.tensor(0)?.dims().to_vec(), frame.number(1)?)?;
    frame.set(result)
}

/// `zeros(size, ..)`, `ones(size, ..)`.
pub(crate) fn constant(frame: &mut Frame<'_>, int: i64) -> Result<(), Fault> {
    let result = filled(frame.sizes(0)?, Number::Int(int))?;
    frame.set(result)
}

/// `zeros_like(x, ..)`, `ones_like(x, ..)`.
pub(crate) fn constant_like(frame: &mut Frame<'_>, int: i64) -> Result<(), Fault> {
    let result = filled(frame.tensor(0)?.dims().to_vec(), Number::Int(int))?;
    frame.set(result)
}

pub(crate) fn scalar_tensor(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let result = filled(Vec::new(), frame.number(0)?)?;
    frame.set(result)
}

/// `arange(start, end, step, ..)`: `start + i · step` below `end`.
pub(crate) fn arange(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let (start, end, step) = (frame.number(0)?, frame.number(1)?, frame.number(2)?);
    let length = ((end.float() - start.float()) / step.float()).ceil();
    if !length.is_finite() {
        let found = step.float().to_string();
        return Err(Fault::Value { slot: 2, expected: "a step to the end", found });
    }
    let dims = vec![usize::try_from(truncate(length)).unwrap_or(0)];
    let result = match (start.int(), step.int()) {
        (Some(start), Some(step)) => {
            let items = collect(&dims, |at| Ok(start.wrapping_add(step.wrapping_mul(at[0] as i64))))?;
            Tensor::whole(dims, items)
        }
        _ => {
            let items = collect(&dims, |at| Ok(start.float() + step.float() * at[0] as f64))?;
            Tensor::wide(dims, items)
        }
    };
    frame.set(result)
}

/// `grid_priors(x [..,H,W], stride, offset)` to `[H·W, 2]`.
pub(crate) fn grid_priors(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let &[.., h, w] = x.dims() else {
        return Err(Fault::Rank { slot: 0, expected: 2, found: x.rank() });
    };
    let (stride, offset) = (frame.float(1)?, frame.float(2)?);
    let items = collect(&[h, w, 2], |at| Ok((at[1 - at[2]] as f64 + offset) * stride))?;
    frame.set(Tensor::wide(vec![h * w, 2], items))
}
