//! Operators that copy elements: casts, concatenation, repetition, padding.

use std::sync::Arc;

use crate::Fault;
use crate::frame::{self, Frame};
use crate::tensor::{Data, Tensor, flat};

/// The input as it is, converted to the output's element type.
pub(crate) fn copy(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    frame.set(Tensor::clone(&x))
}

/// [`copy`] that a model asks for, so that it rounds to half precision.
pub(crate) fn cast(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = Tensor::clone(&*frame.tensor(0)?);
    let x = if frame.output_is_half()? { x.halved() } else { x };
    frame.set(x)
}

/// `copy(self, source)`: the source broadcast to the sizes of self.
pub(crate) fn copy_from(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let (x, source) = (frame.tensor(0)?, frame.tensor(1)?);
    if crate::tensor::broadcast(&[x.dims(), source.dims()])? != x.dims() {
        return Err(Fault::Dims { slot: 1, expected: x.dims().to_vec(), found: source.dims().to_vec() });
    }
    let result = source.pick(x.dims(), |at| Ok(crate::tensor::broadcast_flat(at, source.dims())))?;
    frame.set(result)
}

/// A constant's contents, once: later calls may have changed them since.
pub(crate) fn prepack(frame: &mut Frame<'_>) -> Result<(), Fault> {
    if frame.is_written()? { Ok(()) } else { copy(frame) }
}

pub(crate) fn cat(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let tensors = frame.tensors(0)?;
    // An empty tensor of rank 1 stands among tensors of any rank.
    let mut parts: Vec<&Arc<Tensor>> = tensors.iter().filter(|part| part.dims() != [0]).collect();
    if parts.is_empty() {
        parts.extend(tensors.first());
    }
    let first = *parts.first().ok_or(Fault::Length { slot: 0, expected: 1, found: 0 })?;
    let dim = frame.dimension(1, first.rank())?;
    let mut dims = first.dims().to_vec();
    let total = dims.get_mut(dim).ok_or(Fault::Rank { slot: 0, expected: 1, found: 0 })?;
    *total = 0;
    for part in &parts {
        let mut expected = first.dims().to_vec();
        expected[dim] = part.dims().get(dim).copied().unwrap_or_default();
        if part.dims() != expected {
            return Err(Fault::Dims { slot: 0, expected, found: part.dims().to_vec() });
        }
        dims[dim] += expected[dim];
    }
    let outer: usize = dims[..dim].iter().product();
    let rows = |part: &Tensor| part.count().checked_div(outer).unwrap_or(0);
    let data = if parts.iter().all(|part| part.is_integer()) {
        let items: Vec<_> = parts.iter().map(|part| (rows(part), part.integers())).collect();
        let row =
            |row: usize| items.iter().flat_map(move |(rows, items)| &items[row * rows..(row + 1) * rows]);
        Data::I64((0..outer).flat_map(row).copied().collect())
    } else {
        let items: Vec<_> = parts.iter().map(|part| (rows(part), part.floats())).collect();
        let row =
            |row: usize| items.iter().flat_map(move |(rows, items)| &items[row * rows..(row + 1) * rows]);
        Data::F64((0..outer).flat_map(row).copied().collect())
    };
    frame.set(match data {
        Data::I64(items) => Tensor::whole(dims, items),
        Data::F64(items) => Tensor::wide(dims, items),
    })
}

pub(crate) fn split_with_sizes(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let sizes = frame.sizes(1)?;
    split(frame, &x, &sizes)
}

/// Pieces of equal size but for the last.
pub(crate) fn split_tensor(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let piece = frame.extent(1)?;
    let total = x.dims().get(frame.dimension(2, x.rank())?).copied().unwrap_or(1);
    let sizes: Vec<usize> = (0..total).step_by(piece).map(|start| piece.min(total - start)).collect();
    split(frame, &x, &sizes)
}

fn split(frame: &mut Frame<'_>, x: &Tensor, sizes: &[usize]) -> Result<(), Fault> {
    let dim = frame.dimension(2, x.rank())?;
    let total = x.dims().get(dim).copied().ok_or(Fault::Rank { slot: 0, expected: 1, found: 0 })?;
    if sizes.iter().try_fold(0_usize, |sum, &size| sum.checked_add(size)) != Some(total) {
        let found = format!("{sizes:?}");
        return Err(Fault::Value { slot: 1, expected: "sizes that sum up to the dimension's", found });
    }
    let mut start = 0;
    let mut pieces = Vec::with_capacity(sizes.len());
    for &size in sizes {
        let mut dims = x.dims().to_vec();
        dims[dim] = size;
        pieces.push(x.pick(&dims, |at| {
            let mut from = at.to_vec();
            from[dim] += start;
            Ok(flat(&from, x.dims()))
        })?);
        start += size;
    }
    frame.set_list(pieces)
}

pub(crate) fn repeat(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let repeats = frame.sizes(1)?;
    let added = repeats.len().checked_sub(x.rank());
    let added = added.ok_or(Fault::Length { slot: 1, expected: x.rank(), found: repeats.len() })?;
    let mut own = vec![1; added];
    own.extend_from_slice(x.dims());
    let dims: Vec<usize> = own.iter().zip(&repeats).map(|(&own, &times)| own.saturating_mul(times)).collect();
    let result = x.pick(&dims, |at| {
        let from: Vec<usize> = at.iter().zip(&own).map(|(&position, &size)| position % size).collect();
        Ok(flat(&from, &own))
    })?;
    frame.set(result)
}

/// Every element of a dimension several times in a row; without dimension, of the flattened tensor.
pub(crate) fn repeat_interleave(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let times = frame::size(1, frame.int(1)?)?;
    let x = if frame.is_null(2)? || x.rank() == 0 { x.reshaped(vec![x.count()]) } else { Tensor::clone(&x) };
    let dim = if frame.is_null(2)? { 0 } else { frame.dimension(2, x.rank())? };
    let mut dims = x.dims().to_vec();
    dims[dim] = dims[dim].saturating_mul(times);
    let result = x.pick(&dims, |at| {
        let mut from = at.to_vec();
        from[dim] /= times;
        Ok(flat(&from, x.dims()))
    })?;
    frame.set(result)
}

pub(crate) fn flip(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let flipped = frame.dimensions(1, x.rank())?;
    let result = x.pick(x.dims(), |at| {
        let from = at.iter().zip(x.dims()).enumerate();
        let from = from.map(|(dim, (&position, &size))| match flipped.contains(&dim) {
            true => size - 1 - position,
            false => position,
        });
        Ok(flat(&from.collect::<Vec<_>>(), x.dims()))
    })?;
    frame.set(result)
}

/// Sliding windows along a dimension, as a new last one.
pub(crate) fn unfold(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let (size, step) = (frame.extent(2)?, frame.extent(3)?);
    let x = if x.rank() == 0 { x.reshaped(vec![1]) } else { Tensor::clone(&x) };
    let dim = frame.dimension(1, x.rank())?;
    let mut dims = x.dims().to_vec();
    let rest = dims[dim].checked_sub(size);
    dims[dim] = rest.ok_or(Fault::Length { slot: 0, expected: size, found: dims[dim] })? / step + 1;
    dims.push(size);
    let result = x.pick(&dims, |at| {
        let mut from = at[..x.rank()].to_vec();
        from[dim] = at[dim] * step + at[x.rank()];
        Ok(flat(&from, x.dims()))
    })?;
    frame.set(result)
}

/// Pads, or crops where negative, by pairs from the last dimension on.
pub(crate) fn pad(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let pads = frame.ints(1)?;
    let value = frame.number(2)?;
    let (pairs, rest) = pads.as_chunks::<2>();
    if !rest.is_empty() || pairs.len() > x.rank() {
        let found = format!("{pads:?}");
        return Err(Fault::Value { slot: 1, expected: "a pair for some of the last dimensions", found });
    }
    let mut dims = x.dims().to_vec();
    let mut lows = vec![0; x.rank()];
    for ((size, low), &[before, after]) in dims.iter_mut().zip(&mut lows).rev().zip(pairs) {
        let padded = i64::try_from(*size).ok().and_then(|size| size.checked_add(before)?.checked_add(after));
        *size = frame::size(1, padded.unwrap_or(-1))?;
        *low = before;
    }
    let inside = |at: &[usize]| -> Option<usize> {
        let mut from = Vec::with_capacity(at.len());
        for ((&position, &low), &size) in at.iter().zip(&lows).zip(x.dims()) {
            let position = i64::try_from(position).ok()?.checked_sub(low)?;
            from.push(usize::try_from(position).ok().filter(|&position| position < size)?);
        }
        Some(flat(&from, x.dims()))
    };
    let result = match (x.is_integer(), value.int()) {
        (true, Some(value)) => {
            let items = x.integers();
            let item = |at: &[usize]| Ok(inside(at).map_or(value, |index| items[index]));
            Tensor::whole(dims.clone(), crate::tensor::collect(&dims, item)?)
        }
        _ => {
            let items = x.floats();
            let item = |at: &[usize]| Ok(inside(at).map_or(value.float(), |index| items[index]));
            Tensor::wide(dims.clone(), crate::tensor::collect(&dims, item)?)
        }
    };
    frame.set(result)
}

/// `[.., C·r², H, W]` to `[.., C, H·r, W·r]`.
pub(crate) fn pixel_shuffle(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let factor = frame.extent(1)?;
    let result = shuffled(&x, factor)?;
    frame.set(result)
}

/// The tensor with channels spread over pixels; the factor is positive.
pub(crate) fn shuffled(x: &Tensor, factor: usize) -> Result<Tensor, Fault> {
    let Some(channel) = x.rank().checked_sub(3) else {
        return Err(Fault::Rank { slot: 0, expected: 3, found: x.rank() });
    };
    let square = factor.saturating_mul(factor);
    let mut dims = x.dims().to_vec();
    if !dims[channel].is_multiple_of(square) {
        let found = factor.to_string();
        return Err(Fault::Value { slot: 1, expected: "a factor whose square divides the channels", found });
    }
    dims[channel] /= square;
    dims[channel + 1] = dims[channel + 1].saturating_mul(factor);
    dims[channel + 2] = dims[channel + 2].saturating_mul(factor);
    x.pick(&dims, |at| {
        let (h, w) = (at[channel + 1], at[channel + 2]);
        let mut from = at.to_vec();
        from[channel] = at[channel] * square + (h % factor) * factor + w % factor;
        from[channel + 1] = h / factor;
        from[channel + 2] = w / factor;
        Ok(flat(&from, x.dims()))
    })
}
