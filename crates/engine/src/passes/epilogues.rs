//! What is done to a product element by element moves into the product: act(gate) · up of two joined products, and
//! act(product) · y.

use etvk_kernels::linear_q::{Activation, Epilogue};
use etvk_kernels::map::MapOp;

use crate::ir::{Index, Origin, TensorId, View};
use crate::ops::Op;
use crate::ops::linear_q::LinearQ;

use super::Constants;
use super::rewrite::{NodeId, Rewrite};

pub(super) fn run(rewrite: &mut Rewrite, _: &dyn Constants) {
    for id in rewrite.nodes() {
        let Op::LinearQ(op) = &rewrite.node(id).op else { continue };
        if op.epilogue != Epilogue::None || op.prologue.is_some() {
            continue;
        }
        let op = op.clone();
        match *rewrite.node(id).outputs.as_slice() {
            [gate, up] if op.outputs[0] == op.outputs[1] => gated(rewrite, id, op, gate, up),
            [product] => multiplied(rewrite, id, op, product),
            _ => {}
        }
    }
}

/// An activation of a tensor, and the nodes that make it.
struct Activated {
    activation: Activation,
    result: TensorId,
    members: Vec<NodeId>,
}

/// The activation that is all that is done with `x`.
fn activated(rewrite: &Rewrite, x: TensorId) -> Option<Activated> {
    if let Some(reader) = rewrite.only_reader(x) {
        let simple = [(MapOp::GeluTanh, Activation::GeluTanh), (MapOp::GeluErf, Activation::GeluErf)];
        let (_, activation) = simple.into_iter().find(|&(op, _)| rewrite.map(reader, op).is_some())?;
        let result = rewrite.node(reader).outputs[0];
        return Some(Activated { activation, result, members: vec![reader] });
    }
    // SiLU comes as x · sigmoid(x).
    let sigmoid = *rewrite.readers(x).iter().find(|&&id| rewrite.map(id, MapOp::Sigmoid).is_some())?;
    let gate = rewrite.node(sigmoid).outputs[0];
    let product = rewrite.only_reader(gate)?;
    let factors = rewrite.map(product, MapOp::MulF)?;
    let own = factors == [x, gate] || factors == [gate, x];
    let alone = rewrite.readers(x).iter().all(|&id| id == sigmoid || id == product);
    let result = rewrite.node(product).outputs[0];
    (own && alone && !rewrite.is_wanted_elsewhere(x)).then(|| Activated {
        activation: Activation::Silu,
        result,
        members: vec![sigmoid, product],
    })
}

/// The product that an activated tensor is a factor of: its node and the other factor.
fn factor_of(rewrite: &Rewrite, activated: &Activated) -> Option<(NodeId, TensorId)> {
    let product = rewrite.only_reader(activated.result)?;
    let &[a, b] = rewrite.map(product, MapOp::MulF)? else { return None };
    let other = if a == activated.result { b } else { a };
    (other != activated.result).then_some((product, other))
}

fn gated(rewrite: &mut Rewrite, id: NodeId, op: LinearQ, gate: TensorId, up: TensorId) {
    let Some(activated) = activated(rewrite, gate) else { return };
    let Some((product, other)) = factor_of(rewrite, &activated) else { return };
    let result = rewrite.node(product).outputs[0];
    let same = rewrite.program.tensor(result).bound == rewrite.program.tensor(gate).bound;
    if other != up || rewrite.only_reader(up) != Some(product) || !same {
        return;
    }
    let (epilogue, outputs) =
        (Epilogue::Gated(activated.activation), op.outputs[..1].iter().copied().collect());
    let op = LinearQ { epilogue, outputs, ..op };
    let io = [rewrite.node(id).inputs.clone(), vec![result]];
    let members = [vec![id, product], activated.members].concat();
    rewrite.replace(&members, id, Op::LinearQ(op), io);
}

fn multiplied(rewrite: &mut Rewrite, id: NodeId, op: LinearQ, made: TensorId) {
    let Some(activated) = activated(rewrite, made) else { return };
    let Some((product, other)) = factor_of(rewrite, &activated) else { return };
    let result = rewrite.node(product).outputs[0];
    let bound = &rewrite.program.tensor(made).bound;
    let same = [result, other].iter().all(|&id| rewrite.program.tensor(id).bound == *bound);
    if !same || !has_rows(rewrite, other) || rewrite.depends(other, id) {
        return;
    }
    let op = LinearQ { epilogue: Epilogue::Multiply(activated.activation), ..op };
    let mut inputs = rewrite.node(id).inputs.clone();
    inputs.push(other);
    let members = [vec![id, product], activated.members].concat();
    rewrite.replace(&members, product, Op::LinearQ(op), [inputs, vec![result]]);
}

/// Whether the rows of a tensor are contiguous and equally far apart, from a start that never moves.
fn has_rows(rewrite: &Rewrite, id: TensorId) -> bool {
    let tensor = rewrite.program.tensor(id);
    if matches!(rewrite.program.tensor(rewrite.program.base(id)).origin, Origin::State(_)) {
        return false;
    }
    if tensor.dense {
        return true;
    }
    let one_row_dimension = tensor.bound.iter().rev().skip(1).filter(|&&size| size > 1).count() <= 1;
    // One plane of a contiguous tensor whose rows stayed rows.
    let Origin::View { base, view: View::Select { index: Index::Const(_), dim: 0 }, dynamic: None } =
        &tensor.origin
    else {
        return false;
    };
    match &rewrite.program.tensor(*base).origin {
        Origin::View { base, view: View::Permute(order), dynamic: None } => {
            one_row_dimension
                && order.last().is_some_and(|&last| last + 1 == order.len())
                && rewrite.program.tensor(*base).dense
        }
        _ => false,
    }
}
