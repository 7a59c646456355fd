//! Training steps, composed of element-wise nodes, reductions and products.

use etvk_kernels::map::MapOp;
use etvk_kernels::reduce::ReduceOp;
use etvk_kernels::softmax::SoftmaxOp;
use etvk_vkgraph::{DType, Value};

use super::call::{Call, Result as Lowered};
use super::repeat::{bound, size, times};
use super::softmax::Softmax;
use super::{Op, fill, gather, map, matmul, reduce};
use crate::host::shape_fault;
use crate::ir::{Index, TensorId, View};

fn float(call: &mut Call<'_, '_>, op: MapOp, scalars: [f64; 2], inputs: &[TensorId]) -> Lowered<TensorId> {
    map::inner(call, op, scalars.map(map::word), inputs.to_vec(), DType::Float32)
}

/// `et_vk.fused_ce.default [logits, labels, n_valid, [loss, d_logits]]`: cross-entropy of the rows whose label is not
/// negative, and its gradient. A label beyond the classes is reported.
pub(super) fn fused_ce(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[4], "4")?;
    let (logits, labels) = (call.float_tensor(0)?, call.tensor(1)?);
    let valid = call.float(2)?;
    let limits = bound(call, logits);
    let &[rows, classes] = limits.as_slice() else {
        return Err(shape_fault("logits", &[0, 0], &limits));
    };
    let labels = call.builder.convert(labels, DType::Int32);
    let labels = call.builder.view(labels, View::Unsqueeze { dim: 1 }, &[rows, 1])?;
    let log = Op::Softmax(Softmax { op: SoftmaxOp::LogSoftmax, dim: 1 });
    let log = call.emit_inner(log, vec![logits], DType::Float32, &limits);
    let zero = call.builder.literal(DType::Float32, 0);
    let counted = map::inner(call, MapOp::GeI, [0; 2], vec![labels], DType::Bool)?;

    let positive = [0, i32::MAX.cast_unsigned()];
    let index = map::inner(call, MapOp::ClampI, positive, vec![labels], DType::Int32)?;
    let picked = gather::inner(call, log, index, 1, true)?;
    let picked = map::inner(call, MapOp::Where, [0; 2], vec![counted, picked, zero], DType::Float32)?;
    let sum = reduce::node(ReduceOp::SumF, vec![0, 1]);
    let sum = call.emit_inner(sum, vec![picked], DType::Float32, &[]);
    let loss = float(call, MapOp::DivF, [-valid, 0.0], &[sum])?;

    let size = size(call, logits, 1);
    let numbers = fill::counting(call, size, classes);
    let hit = map::inner(call, MapOp::EqI, [0; 2], vec![numbers, labels], DType::Int32)?;
    let hit = call.floats(hit);
    let softmax = float(call, MapOp::Exp, [0.0; 2], &[log])?;
    let difference = float(call, MapOp::SubF, [1.0, 0.0], &[softmax, hit])?;
    let gradient = float(call, MapOp::DivF, [valid, 0.0], &[difference])?;
    let gradient = map::inner(call, MapOp::Where, [0; 2], vec![counted, gradient, zero], DType::Float32)?;
    call.bind_list(3, &[loss, gradient])
}

/// `et_vk.adamw_step.default
/// [param, m, v, grad, lr, beta1, beta2, eps, weight_decay, bias_correction1, bias_correction2, outs]`:
/// the first three are updated in place.
pub(super) fn adamw_step(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[12], "12")?;
    let [p, m, v, g] = [0, 1, 2, 3].map(|slot| call.float_tensor(slot));
    let (p, m, v, g) = (p?, m?, v?, g?);
    let (rate, beta1, beta2) = (call.float(4)?, call.float(5)?, call.float(6)?);
    let (eps, decay) = (call.float(7)?, call.float(8)?);
    let (correction1, correction2) = (call.float(9)?, call.float(10)?);
    let decayed = float(call, MapOp::SubF, [rate * decay, 0.0], &[p, p])?;
    let m = float(call, MapOp::MulF, [beta1, 0.0], &[m])?;
    let m = float(call, MapOp::AddF, [1.0 - beta1, 0.0], &[m, g])?;
    let v = float(call, MapOp::MulF, [beta2, 0.0], &[v])?;
    let square = float(call, MapOp::MulF, [0.0; 2], &[g, g])?;
    let v = float(call, MapOp::AddF, [1.0 - beta2, 0.0], &[v, square])?;
    let root = float(call, MapOp::DivF, [correction2, 0.0], &[v])?;
    let root = float(call, MapOp::Sqrt, [0.0; 2], &[root])?;
    let root = float(call, MapOp::AddF, [eps, 1.0], &[root])?;
    let step = float(call, MapOp::DivF, [correction1, 0.0], &[m])?;
    let step = float(call, MapOp::DivF, [0.0; 2], &[step, root])?;
    let p = float(call, MapOp::SubF, [rate, 0.0], &[decayed, step])?;

    let results = [p, m, v];
    for (slot, &result) in results.iter().enumerate() {
        call.bind(slot, result)?;
    }
    let Value::ValueList(outs) = call.value(11)? else { return call.bind_list(11, &results) };
    // The outputs are mostly the inputs again.
    for (at, (&out, &result)) in outs.iter().zip(&results).enumerate() {
        if out != call.args[at]
            && let Some(info) = call.builder.graph.tensor(out)
        {
            call.builder.bind(out, info, result)?;
        }
    }
    Ok(())
}

/// `et_vk.linear_dW.default [d_out, x, out]`: d_outᵀ · x over all rows.
pub(super) fn weight_gradient(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[3], "3")?;
    let (gradient, x) = (call.float_tensor(0)?, call.float_tensor(1)?);
    let gradient = rows(call, gradient)?;
    let x = rows(call, x)?;
    let mut limits = bound(call, gradient);
    limits.reverse();
    let gradient = call.builder.view(gradient, View::Permute(vec![1, 0]), &limits)?;
    matmul::product(call, gradient, x, true)
}

/// All rows of `x` as a matrix.
fn rows(call: &mut Call<'_, '_>, x: TensorId) -> Lowered<TensorId> {
    let limits = bound(call, x);
    let Some((&width, leading)) = limits.split_last() else {
        return Err(shape_fault("rows of a gradient", &[0, 0], &limits));
    };
    let mut count = Index::Const(1);
    for dim in 0..leading.len() {
        let size = size(call, x, dim);
        count = times(call, count, size);
    }
    let last = size(call, x, leading.len());
    call.builder.view(x, View::Reshape(vec![count, last]), &[leading.iter().product(), width])
}
