//! Training steps.

use crate::Fault;
use crate::frame::{self, Frame};
use crate::softmax::log_sum_exp;
use crate::tensor::Tensor;

/// `adamw_step(param!, m!, v!, grad, lr, beta1, beta2, eps, weight_decay, correction1, correction2)`.
pub(crate) fn adamw_step(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let parameters = frame.tensor(0)?;
    let dims = parameters.dims();
    let (first, second) = (frame.sized(1, dims)?, frame.sized(2, dims)?);
    let gradient = frame.sized(3, dims)?;
    let (rate, beta1, beta2) = (frame.float(4)?, frame.float(5)?, frame.float(6)?);
    let (eps, decay) = (frame.float(7)?, frame.float(8)?);
    let (correction1, correction2) = (frame.float(9)?, frame.float(10)?);
    let mut updated = [parameters.floats(), first.floats(), second.floats()].map(|items| items.into_owned());
    let [p, m, v] = &mut updated;
    for (((p, m), v), g) in p.iter_mut().zip(m).zip(v).zip(gradient.floats().iter()) {
        *p -= rate * decay * *p;
        *m = beta1 * *m + (1.0 - beta1) * g;
        *v = beta2 * *v + (1.0 - beta2) * g * g;
        *p -= rate * (*m / correction1) / ((*v / correction2).sqrt() + eps);
    }
    let updated = updated.map(|items| Tensor::wide(dims.to_vec(), items));
    for (slot, tensor) in updated.iter().enumerate() {
        frame.write(frame.id(slot)?, tensor.clone())?;
    }
    frame.set_list(updated.to_vec())
}

/// `fused_ce(logits [N,V], labels [N], n_valid)` to the loss and its gradient; negative labels are left out.
pub(crate) fn fused_ce(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let logits = frame.ranked(0, 2)?;
    let (rows, classes) = (logits.dims()[0], logits.dims()[1]);
    let labels = frame.sized(1, &[rows])?;
    let valid = frame.float(2)?;
    let mut gradient = logits.floats().into_owned();
    let mut loss = 0.0;
    for (row, &label) in gradient.chunks_mut(classes.max(1)).zip(labels.integers().iter()) {
        if label < 0 {
            row.fill(0.0);
            continue;
        }
        let label = frame::index(1, label, classes)?;
        let log_sum = log_sum_exp(row);
        loss += (log_sum - row[label]) / valid;
        row.iter_mut().for_each(|x| *x = (*x - log_sum).exp() / valid);
        row[label] -= 1.0 / valid;
    }
    frame.set_list(vec![Tensor::wide(Vec::new(), vec![loss]), Tensor::wide(vec![rows, classes], gradient)])
}
