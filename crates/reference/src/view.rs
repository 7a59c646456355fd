//! Operators that renumber elements and could be strided views.

use crate::Fault;
use crate::frame::{self, Frame};
use crate::tensor::{Tensor, count, flat};

/// Reshape; one size may be -1.
pub(crate) fn view(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let sizes = frame.ints(1)?;
    let known: Vec<usize> = sizes
        .iter()
        .filter(|&&size| size != -1)
        .map(|&size| frame::size(1, size))
        .collect::<Result<_, _>>()?;
    let known = count(&known)?;
    let rest = x.count().checked_div(known).unwrap_or(0);
    let dims: Vec<usize> = sizes
        .iter()
        .map(|&size| if size == -1 { Ok(rest) } else { frame::size(1, size) })
        .collect::<Result<_, _>>()?;
    if sizes.iter().filter(|&&size| size == -1).count() > 1 || count(&dims)? != x.count() {
        return Err(Fault::Dims { slot: 0, expected: dims, found: x.dims().to_vec() });
    }
    frame.set(x.reshaped(dims))
}

/// Drops the listed dimensions of size 1.
pub(crate) fn squeeze(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let drop = frame.dimensions(1, x.rank())?;
    let dims = x.dims().iter().enumerate();
    let dims =
        dims.filter(|&(dim, &size)| size != 1 || !drop.contains(&dim)).map(|(_, &size)| size).collect();
    frame.set(x.reshaped(dims))
}

pub(crate) fn unsqueeze(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let dim = frame.dimension(1, x.rank() + 1)?;
    let mut dims = x.dims().to_vec();
    dims.insert(dim, 1);
    frame.set(x.reshaped(dims))
}

pub(crate) fn permute(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let order = frame.dimensions(1, x.rank())?;
    permuted(frame, &x, &order)
}

/// Swaps two dimensions.
pub(crate) fn transpose(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let mut order: Vec<usize> = (0..x.rank()).collect();
    if x.rank() > 0 {
        order.swap(frame.dimension(1, x.rank())?, frame.dimension(2, x.rank())?);
    }
    permuted(frame, &x, &order)
}

/// Transpose of rank 2, identity below.
pub(crate) fn t(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    match x.rank() {
        0 | 1 => frame.set(Tensor::clone(&x)),
        2 => permuted(frame, &x, &[1, 0]),
        found => Err(Fault::Rank { slot: 0, expected: 2, found }),
    }
}

fn permuted(frame: &mut Frame<'_>, x: &Tensor, order: &[usize]) -> Result<(), Fault> {
    let mut sorted = order.to_vec();
    sorted.sort_unstable();
    if !sorted.iter().copied().eq(0..x.rank()) {
        let found = format!("{order:?}");
        return Err(Fault::Value { slot: 1, expected: "every dimension once", found });
    }
    let dims: Vec<usize> = order.iter().map(|&dim| x.dims()[dim]).collect();
    let mut from = vec![0; order.len()];
    let result = x.pick(&dims, |at| {
        for (&dim, &position) in order.iter().zip(at) {
            from[dim] = position;
        }
        Ok(flat(&from, x.dims()))
    })?;
    frame.set(result)
}

/// One index of a dimension, which is dropped.
pub(crate) fn select(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let dim = frame.dimension(1, x.rank())?;
    let size = x.dims().get(dim).copied().ok_or(Fault::Rank { slot: 0, expected: 1, found: 0 })?;
    let index = frame::index(2, frame.int(2)?, size)?;
    let mut dims = x.dims().to_vec();
    dims.remove(dim);
    let result = x.pick(&dims, |at| {
        let mut from = at.to_vec();
        from.insert(dim, index);
        Ok(flat(&from, x.dims()))
    })?;
    frame.set(result)
}

/// Python's slice of one dimension.
pub(crate) fn slice(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let dim = frame.dimension(1, x.rank())?;
    let size = x.dims().get(dim).copied().ok_or(Fault::Rank { slot: 0, expected: 1, found: 0 })?;
    let start = bound(frame.optional_int(2)?.unwrap_or(0), size);
    let end = bound(frame.optional_int(3)?.unwrap_or(i64::MAX), size);
    let step = frame.extent(4)?;
    let mut dims = x.dims().to_vec();
    dims[dim] = end.saturating_sub(start).div_ceil(step);
    let result = x.pick(&dims, |at| {
        let mut from = at.to_vec();
        from[dim] = start + at[dim] * step;
        Ok(flat(&from, x.dims()))
    })?;
    frame.set(result)
}

/// A slice bound inside a dimension, from its end where negative.
fn bound(bound: i64, size: usize) -> usize {
    match usize::try_from(bound) {
        Ok(bound) => bound.min(size),
        Err(_) => size.saturating_sub(usize::try_from(bound.unsigned_abs()).unwrap_or(usize::MAX)),
    }
}

/// Broadcast to sizes, -1 keeping a dimension.
pub(crate) fn expand(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let sizes = frame.ints(1)?;
    let added = sizes.len().checked_sub(x.rank()).ok_or(Fault::Length {
        slot: 1,
        expected: x.rank(),
        found: sizes.len(),
    })?;
    let mut dims = Vec::with_capacity(sizes.len());
    for (position, &size) in sizes.iter().enumerate() {
        let own = position.checked_sub(added).map(|dim| x.dims()[dim]);
        let size = match own {
            Some(own) if size == -1 => own,
            _ => frame::size(1, size)?,
        };
        if own.is_some_and(|own| own != 1 && own != size) {
            let sizes = sizes.iter().map(|&size| usize::try_from(size).unwrap_or(1)).collect();
            return Err(Fault::Broadcast { dims: vec![x.dims().to_vec(), sizes] });
        }
        dims.push(size);
    }
    let result = x.pick(&dims, |at| Ok(crate::tensor::broadcast_flat(at, x.dims())))?;
    frame.set(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slice_bounds() {
        assert_eq!(bound(3, 5), 3);
        assert_eq!(bound(i64::MAX, 5), 5);
        assert_eq!(bound(-1, 5), 4);
        assert_eq!(bound(-9, 5), 0);
        assert_eq!(bound(i64::MIN, 5), 0);
    }
}
