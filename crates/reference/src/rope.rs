//! Rotary position embeddings.

use crate::Fault;
use crate::frame::Frame;
use crate::tensor::Tensor;

/// Adjacent pairs: `(xq [B,S,Hq,D], xk, cos [S,D/2], sin)` to a list of two.
pub(crate) fn pairs(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let rotated = |slot| {
        let x = frame.ranked(slot, 4)?;
        let (rows, width) = (x.dims()[1], x.width());
        even(slot, width)?;
        let (cos, sin) = (frame.sized(2, &[rows, width / 2])?, frame.sized(3, &[rows, width / 2])?);
        let (cos, sin) = (cos.floats(), sin.floats());
        Ok(heads(&x, |row, head| {
            for (pair, x) in head.as_chunks_mut::<2>().0.iter_mut().enumerate() {
                let at = row * (width / 2) + pair;
                *x = rotate(*x, cos[at], sin[at]);
            }
        }))
    };
    let outputs = vec![rotated(0)?, rotated(1)?];
    frame.set_list(outputs)
}

/// Halves: `(xq, xk, cos [P,R], sin, start_pos)` to a list of two; elements from R on are copied.
pub(crate) fn halves(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let cos = frame.ranked(2, 2)?;
    let sin = frame.sized(3, cos.dims())?;
    let (positions, width) = (cos.dims()[0], cos.dims()[1]);
    even(2, width)?;
    let (half, cos, sin) = (width / 2, cos.floats(), sin.floats());
    let rotated = |slot| {
        let x = frame.ranked(slot, 4)?;
        if x.width() < width {
            let mut expected = x.dims().to_vec();
            expected[3] = width;
            return Err(Fault::Dims { slot, expected, found: x.dims().to_vec() });
        }
        let start = frame.start(4, x.dims()[1], positions)?;
        Ok(heads(&x, |row, head| {
            let at = (start + row) * width;
            for i in 0..half {
                let (low, high) = (head[i], head[i + half]);
                head[i] = low * cos[at + i] - high * sin[at + i];
                head[i + half] = high * cos[at + half + i] + low * sin[at + half + i];
            }
        }))
    };
    let outputs = vec![rotated(0)?, rotated(1)?];
    frame.set_list(outputs)
}

/// Complex numbers: `(x [B,N,C], freqs)` where freqs holds N·C numbers, cos and sin by turns.
pub(crate) fn interleaved(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.ranked(0, 3)?;
    let width = x.width();
    even(0, width)?;
    let period = x.dims()[1] * width;
    let frequencies = frame.elements(1, period)?;
    let mut items = x.floats().into_owned();
    for (index, x) in items.as_chunks_mut::<2>().0.iter_mut().enumerate() {
        let at = index * 2 % period;
        *x = rotate(*x, frequencies[at], frequencies[at + 1]);
    }
    frame.set(Tensor::wide(x.dims().to_vec(), items))
}

fn even(slot: usize, width: usize) -> Result<(), Fault> {
    if width.is_multiple_of(2) {
        return Ok(());
    }
    Err(Fault::Value { slot, expected: "of even width", found: format!("of width {width}") })
}

fn rotate([a, b]: [f64; 2], cos: f64, sin: f64) -> [f64; 2] {
    [a * cos - b * sin, a * sin + b * cos]
}

/// `[B,S,H,D]` with every head changed by `f(row, head)`.
fn heads(x: &Tensor, f: impl Fn(usize, &mut [f64])) -> Tensor {
    let mut items = x.floats().into_owned();
    let &[_, rows, heads, width] = x.dims() else {
        return Tensor::wide(x.dims().to_vec(), items);
    };
    for (index, head) in items.chunks_mut(width.max(1)).enumerate() {
        f(index / heads % rows, head);
    }
    Tensor::wide(x.dims().to_vec(), items)
}
