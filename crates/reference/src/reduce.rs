//! Reductions.

use crate::Fault;
use crate::frame::Frame;
use crate::tensor::{Tensor, collect, count, flat};

/// The elements that every result is made of, in order.
struct Groups {
    /// Sizes of the result.
    dims: Vec<usize>,
    items: Vec<Vec<f64>>,
}

fn groups(x: &Tensor, reduced: &[usize], keep: bool) -> Result<Groups, Fault> {
    let kept: Vec<usize> = x
        .dims()
        .iter()
        .enumerate()
        .map(|(dim, &size)| if reduced.contains(&dim) { 1 } else { size })
        .collect();
    let mut items = vec![Vec::new(); count(&kept)?];
    let values = x.floats();
    let mut values = values.iter();
    collect(x.dims(), |at| {
        let to: Vec<usize> = at.iter().zip(&kept).map(|(&position, &size)| position.min(size - 1)).collect();
        items[flat(&to, &kept)].extend(values.next());
        Ok(())
    })?;
    let dims = kept.iter().enumerate().filter(|(dim, _)| keep || !reduced.contains(dim));
    Ok(Groups { dims: dims.map(|(_, &size)| size).collect(), items })
}

/// Reduces the dimensions of argument 1, all where it is Null or empty.
pub(crate) fn reduce(frame: &mut Frame<'_>, keep: usize, f: impl Fn(&[f64]) -> f64) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let reduced = if frame.is_null(1)? { Vec::new() } else { frame.dimensions(1, x.rank())? };
    let reduced = if reduced.is_empty() { (0..x.rank()).collect() } else { reduced };
    let groups = groups(&x, &reduced, frame.truth(keep)?)?;
    let items = groups.items.iter().map(|items| f(items)).collect();
    frame.set(Tensor::wide(groups.dims, items))
}

pub(crate) fn sum(items: &[f64]) -> f64 {
    items.iter().sum()
}

pub(crate) fn mean(items: &[f64]) -> f64 {
    sum(items) / items.len() as f64
}

/// Largest element; NaN where there is one.
pub(crate) fn max(items: &[f64]) -> f64 {
    items.iter().fold(f64::NEG_INFINITY, |best, &x| if x > best || x.is_nan() { x } else { best })
}

/// Smallest element; NaN where there is one.
pub(crate) fn min(items: &[f64]) -> f64 {
    items.iter().fold(f64::INFINITY, |best, &x| if x < best || x.is_nan() { x } else { best })
}

/// Mean and sum of squared deviations.
pub(crate) fn moments(items: &[f64]) -> (f64, f64) {
    let mean = mean(items);
    (mean, items.iter().map(|x| (x - mean) * (x - mean)).sum())
}

pub(crate) fn var(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let correction = f64::from(u8::from(frame.truth(2)?));
    reduce(frame, 3, |items| moments(items).1 / (items.len() as f64 - correction).max(0.0))
}

/// Index of the first element that is NaN or, without any, better than all others.
pub(crate) fn arg(frame: &mut Frame<'_>, better: fn(f64, f64) -> bool) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let keep = frame.truth(2)?;
    let reduced =
        if frame.is_null(1)? { (0..x.rank()).collect() } else { vec![frame.dimension(1, x.rank())?] };
    let groups = groups(&x, &reduced, keep)?;
    let best = |items: &Vec<f64>| {
        let mut best = 0;
        for (index, &x) in items.iter().enumerate().skip(1) {
            if !items[best].is_nan() && (x.is_nan() || better(x, items[best])) {
                best = index;
            }
        }
        best as i64
    };
    let items = groups.items.iter().map(best).collect();
    frame.set(Tensor::whole(groups.dims, items))
}
