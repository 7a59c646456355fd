//! Matrix products of floats.

use crate::Fault;
use crate::frame::Frame;
use crate::tensor::{Tensor, broadcast, broadcast_flat, collect};

/// `[M,K] · [K,N]`, both flat.
fn product(a: &[f64], b: &[f64], m: usize, k: usize, n: usize) -> Vec<f64> {
    let mut items = vec![0.0; m * n];
    for row in 0..m {
        for inner in 0..k {
            let x = a[row * k + inner];
            for column in 0..n {
                items[row * n + column] += x * b[inner * n + column];
            }
        }
    }
    items
}

pub(crate) fn mm(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let (a, b) = (frame.ranked(0, 2)?, frame.ranked(1, 2)?);
    let (m, k, n) = (a.dims()[0], a.dims()[1], b.dims()[1]);
    frame.sized(1, &[k, n])?;
    crate::tensor::count(&[m, n])?;
    frame.set(Tensor::wide(vec![m, n], product(&a.floats(), &b.floats(), m, k, n)))
}

pub(crate) fn bmm(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let (a, b) = (frame.ranked(0, 3)?, frame.ranked(1, 3)?);
    let (batch, m, k, n) = (a.dims()[0], a.dims()[1], a.dims()[2], b.dims()[2]);
    frame.sized(1, &[batch, k, n])?;
    crate::tensor::count(&[batch, m, n])?;
    let (x, y) = (a.floats(), b.floats());
    let matrix = |i: usize| product(&x[i * m * k..(i + 1) * m * k], &y[i * k * n..(i + 1) * k * n], m, k, n);
    frame.set(Tensor::wide(vec![batch, m, n], (0..batch).flat_map(matrix).collect()))
}

/// `addmm(self, a, b, beta, alpha)`: beta · self + alpha · (a · b).
pub(crate) fn addmm(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let (own, a, b) = (frame.tensor(0)?, frame.ranked(1, 2)?, frame.ranked(2, 2)?);
    let (beta, alpha) = (frame.float(3)?, frame.float(4)?);
    let (m, k, n) = (a.dims()[0], a.dims()[1], b.dims()[1]);
    frame.sized(2, &[k, n])?;
    let dims = [m, n];
    if broadcast(&[own.dims(), &dims])? != dims {
        return Err(Fault::Dims { slot: 0, expected: dims.to_vec(), found: own.dims().to_vec() });
    }
    let (bias, product) = (own.floats(), product(&a.floats(), &b.floats(), m, k, n));
    let items = collect(&dims, |at| {
        // With beta 0, self counts as absent, NaN included.
        let bias = if beta == 0.0 { 0.0 } else { beta * bias[broadcast_flat(at, own.dims())] };
        Ok(bias + alpha * product[at[0] * n + at[1]])
    })?;
    frame.set(Tensor::wide(dims.to_vec(), items))
}

/// `linear(x, weight [N,K], bias?)`.
pub(crate) fn linear(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let n = frame.ranked(1, 2)?.dims()[0];
    let weight = frame.sized(1, &[n, x.width()])?;
    let weight = weight.floats();
    let bias = frame.optional_elements(2, n)?;
    let result = rows(&x, n, |row| {
        (0..n)
            .map(|column| {
                let weight = &weight[column * row.len()..];
                dot(row, weight) + bias.as_ref().map_or(0.0, |bias| bias[column])
            })
            .collect()
    })?;
    frame.set(result)
}

pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Replaces every row (along the last dimension) by the `n` elements `f` makes of it.
pub(crate) fn rows(x: &Tensor, n: usize, mut f: impl FnMut(&[f64]) -> Vec<f64>) -> Result<Tensor, Fault> {
    let mut dims = x.dims().to_vec();
    match dims.last_mut() {
        Some(width) => *width = n,
        None => return Err(Fault::Rank { slot: 0, expected: 1, found: 0 }),
    }
    let count = crate::tensor::count(&dims)?;
    let (width, values) = (x.width(), x.floats());
    let items: Vec<f64> = match count.checked_div(n).unwrap_or(0) {
        rows if width == 0 => (0..rows).flat_map(|_| f(&[])).collect(),
        _ => values.chunks(width).flat_map(f).collect(),
    };
    Ok(Tensor::wide(dims, items))
}

/// `linear_dW(d_out [..,N], x [..,K])` to `[N,K]`: d_outᵀ · x.
pub(crate) fn weight_gradient(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let (gradient, x) = (frame.tensor(0)?, frame.tensor(1)?);
    let (n, k) = (gradient.width(), x.width());
    let mut leading = gradient.dims().to_vec();
    if let Some(width) = leading.last_mut() {
        *width = k;
    }
    frame.sized(1, &leading)?;
    let (gradient, x) = (gradient.floats(), x.floats());
    let rows = x.len().checked_div(k).unwrap_or(0);
    let items =
        collect(&[n, k], |at| Ok((0..rows).map(|row| gradient[row * n + at[0]] * x[row * k + at[1]]).sum()))?;
    frame.set(Tensor::wide(vec![n, k], items))
}
