//! Softmax over one dimension.

use crate::Fault;
use crate::frame::Frame;
use crate::tensor::Tensor;

/// Replaces a row by its softmax; by NaN where all of it is -∞.
pub(crate) fn softmax(row: &mut [f64]) {
    let max = crate::reduce::max(row);
    row.iter_mut().for_each(|x| *x = (*x - max).exp());
    let sum: f64 = row.iter().sum();
    row.iter_mut().for_each(|x| *x /= sum);
}

/// Replaces a row by the logarithm of its softmax.
pub(crate) fn log_softmax(row: &mut [f64]) {
    let log_sum = log_sum_exp(row);
    row.iter_mut().for_each(|x| *x -= log_sum);
}

/// Logarithm of the sum of exponentials.
pub(crate) fn log_sum_exp(row: &[f64]) -> f64 {
    let max = crate::reduce::max(row);
    max + row.iter().map(|x| (x - max).exp()).sum::<f64>().ln()
}

/// Applies `f` to every row along the dimension of argument 1.
pub(crate) fn rows(frame: &mut Frame<'_>, f: fn(&mut [f64])) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let dim = frame.dimension(1, x.rank())?;
    let size = x.dims().get(dim).copied().unwrap_or(1);
    let inner: usize = x.dims().iter().skip(dim + 1).product();
    let mut items = x.floats().into_owned();
    if !items.is_empty() {
        for block in items.chunks_mut(size * inner) {
            for lane in 0..inner {
                let mut row: Vec<f64> = block.iter().skip(lane).step_by(inner).copied().collect();
                f(&mut row);
                block.iter_mut().skip(lane).step_by(inner).zip(row).for_each(|(to, from)| *to = from);
            }
        }
    }
    frame.set(Tensor::wide(x.dims().to_vec(), items))
}
