//! Operators that read at indices from a tensor.

use std::sync::Arc;

use crate::Fault;
use crate::frame::{self, Frame};
use crate::linear_q::Nibbles;
use crate::tensor::{Tensor, broadcast, broadcast_flat, collect, flat};

/// `embedding(weight [V,E], indices, ..)`.
pub(crate) fn embedding(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let (weight, indices) = (frame.ranked(0, 2)?, frame.tensor(1)?);
    let rows = indices.integers();
    let mut dims = indices.dims().to_vec();
    dims.push(weight.width());
    let result = weight.pick(&dims, |at| {
        let row = frame::index(1, rows[flat(&at[..indices.rank()], indices.dims())], weight.dims()[0])?;
        Ok(row * weight.width() + at[indices.rank()])
    })?;
    frame.set(result)
}

/// `embedding_q4gsw(weight [V,E/2], scales, group_size, indices, is_linear_weight)`.
pub(crate) fn embedding_q4gsw(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let order = if frame.truth(4)? { Nibbles::LowFirst } else { Nibbles::HighFirst };
    let group = frame.extent(2)?;
    let scales = frame.tensor(1)?;
    let vocabulary = frame.ranked(0, 2)?.dims()[0];
    let groups = scales.count().checked_div(vocabulary).unwrap_or(0);
    let width = frame.ranked(0, 2)?.width() * 2;
    if scales.count() != groups * vocabulary || groups < width.div_ceil(group) {
        let expected = vec![vocabulary, width.div_ceil(group)];
        return Err(Fault::Dims { slot: 1, expected, found: scales.dims().to_vec() });
    }
    let scales = scales.floats();
    nibble_rows(frame, 3, order, |row, column| (scales[row * groups + column / group], 0.0))
}

/// `embedding_4bit(weight [V,E/2], scales, zero_points?, qmin, qmax, indices, _)`, even elements in high nibbles.
pub(crate) fn embedding_4bit(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let weight = frame.ranked(0, 2)?;
    let (vocabulary, width) = (weight.dims()[0], weight.width() * 2);
    let scales = frame.tensor(1)?;
    let groups = scales.count().checked_div(vocabulary).unwrap_or(0);
    if scales.count() != groups * vocabulary || groups == 0 || !width.is_multiple_of(groups) {
        return Err(Fault::Dims { slot: 1, expected: vec![vocabulary, 1], found: scales.dims().to_vec() });
    }
    let (group, scales) = ((width / groups).max(1), scales.floats());
    let zero_points = frame.optional_elements(2, scales.len())?;
    nibble_rows(frame, 5, Nibbles::HighFirst, |row, column| {
        let at = row * groups + column / group;
        (scales[at], zero_points.as_ref().map_or(0.0, |zero_points| zero_points[at]))
    })
}

/// Rows of a table of 4-bit codes; `parameters(row, column)` is the scale and zero point of an element.
fn nibble_rows(
    frame: &mut Frame<'_>,
    indices: usize,
    order: Nibbles,
    parameters: impl Fn(usize, usize) -> (f64, f64),
) -> Result<(), Fault> {
    let (weight, slot) = (frame.ranked(0, 2)?, indices);
    let indices = frame.tensor(slot)?;
    let (bytes, rows) = (weight.integers(), indices.integers());
    let mut dims = indices.dims().to_vec();
    dims.push(weight.width() * 2);
    let items = collect(&dims, |at| {
        let row = frame::index(slot, rows[flat(&at[..indices.rank()], indices.dims())], weight.dims()[0])?;
        let column = at[indices.rank()];
        let (scale, zero_point) = parameters(row, column);
        Ok((order.code(&bytes[row * weight.width()..], column) - zero_point) * scale)
    })?;
    frame.set(Tensor::wide(dims, items))
}

/// `index_select(x, dim, index)`.
pub(crate) fn index_select(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let (x, index) = (frame.tensor(0)?, frame.tensor(2)?);
    let dim = frame.dimension(1, x.rank())?;
    let size = x.dims().get(dim).copied().ok_or(Fault::Rank { slot: 0, expected: 1, found: 0 })?;
    let positions = index.integers();
    let mut dims = x.dims().to_vec();
    dims[dim] = positions.len();
    let result = x.pick(&dims, |at| {
        let mut from = at.to_vec();
        from[dim] = frame::index(2, positions[at[dim]], size)?;
        Ok(flat(&from, x.dims()))
    })?;
    frame.set(result)
}

/// `gather(x, dim, index, ..)`.
pub(crate) fn gather(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let index = frame.ranked(2, x.rank())?;
    let dim = frame.dimension(1, x.rank())?;
    let fits = |(other, (&own, &size)): (usize, (&usize, &usize))| other == dim || own <= size;
    if !index.dims().iter().zip(x.dims()).enumerate().all(fits) {
        return Err(Fault::Dims { slot: 2, expected: x.dims().to_vec(), found: index.dims().to_vec() });
    }
    let positions = index.integers();
    let result = x.pick(index.dims(), |at| {
        let mut from = at.to_vec();
        if let Some(position) = from.get_mut(dim) {
            *position = frame::index(2, positions[flat(at, index.dims())], x.dims()[dim])?;
        }
        Ok(flat(&from, x.dims()))
    })?;
    frame.set(result)
}

/// `index(x, [index?..])`: indices broadcast together; Null keeps a dimension.
pub(crate) fn index(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let mut indices = frame.optional_tensors(1)?;
    if indices.len() > x.rank() {
        return Err(Fault::Length { slot: 0, expected: indices.len(), found: x.rank() });
    }
    indices.resize(x.rank(), None);
    let given: Vec<&Arc<Tensor>> = indices.iter().flatten().collect();
    let common = broadcast(&given.iter().map(|index| index.dims()).collect::<Vec<_>>())?;
    // The common dimensions stand where the indices do; in front, if those are not neighbours.
    let first = indices.iter().position(Option::is_some).unwrap_or(0);
    let neighbours = indices.iter().skip(first).take(given.len()).all(Option::is_some);
    let place = if neighbours { first } else { 0 };
    let kept = |(dim, _): &(usize, &usize)| indices[*dim].is_none();
    let mut dims: Vec<usize> = x.dims().iter().enumerate().filter(kept).map(|(_, &size)| size).collect();
    dims.splice(place..place, common.iter().copied());
    let result = x.pick(&dims, |at| {
        let chosen = &at[place..place + common.len()];
        let mut rest = at[..place].iter().chain(&at[place + common.len()..]);
        let mut from = Vec::with_capacity(x.rank());
        for (index, &size) in indices.iter().zip(x.dims()) {
            from.push(match index {
                Some(index) => frame::index(1, index.integers()[broadcast_flat(chosen, index.dims())], size)?,
                None => rest.next().copied().unwrap_or(0),
            });
        }
        Ok(flat(&from, x.dims()))
    })?;
    frame.set(result)
}
