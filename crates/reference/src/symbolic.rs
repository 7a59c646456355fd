//! Integers that the host computes.

use crate::Fault;
use crate::frame::{self, Frame};
use crate::map::int_floor_div;
use crate::tensor::flat;

/// Current size of a dimension.
pub(crate) fn sym_size(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let dim = frame.dimension(1, x.rank())?;
    let size = x.dims().get(dim).copied().ok_or(Fault::Rank { slot: 0, expected: 1, found: 0 })?;
    frame.set_int(i64::try_from(size).unwrap_or(i64::MAX))
}

pub(crate) fn binary(frame: &mut Frame<'_>, f: fn(i64, i64) -> i64) -> Result<(), Fault> {
    let result = f(frame.int(0)?, frame.int(1)?);
    frame.set_int(result)
}

pub(crate) fn floordiv(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let (a, b) = (frame.int(0)?, frame.int(1)?);
    if b == 0 {
        return Err(Fault::DivisionByZero);
    }
    frame.set_int(int_floor_div(a, b))
}

pub(crate) fn compare(frame: &mut Frame<'_>, f: fn(&i64, &i64) -> bool) -> Result<(), Fault> {
    let result = f(&frame.int(0)?, &frame.int(1)?);
    frame.set_int(result.into())
}

/// `select_as_symint(x, dim, index)`: the only element at an index of a dimension.
pub(crate) fn select_as_symint(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let mut at = vec![0; x.rank()];
    if x.rank() > 0 {
        let dim = frame.dimension(1, x.rank())?;
        at[dim] = frame::index(2, frame.int(2)?, x.dims()[dim])?;
        let mut expected = vec![1; x.rank()];
        expected[dim] = x.dims()[dim];
        frame.sized(0, &expected)?;
    }
    frame.set_int(x.integers()[flat(&at, x.dims())])
}
