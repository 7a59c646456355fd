//! The sum of a residual stream and a branch becomes one node with what surrounds it: the branch's normalisation before,
//! a clamp, a factor and the next normalisation behind.

use etvk_kernels::map::MapOp;
use etvk_kernels::norm::NormOp;
use etvk_kernels::residual::RowNorm;

use crate::ir::TensorId;
use crate::ops::Op;
use crate::ops::norm::Norm;
use crate::ops::residual::Residual;

use super::Constants;
use super::rewrite::{NodeId, Rewrite};

pub(super) fn run(rewrite: &mut Rewrite, _: &dyn Constants) {
    for id in rewrite.nodes() {
        if !rewrite.is_live(id) {
            continue;
        }
        let found = (0..2).filter_map(|branch| find(rewrite, id, branch)).max_by_key(|sum| sum.members.len());
        if let Some(sum) = found.filter(|sum| sum.members.len() > 1) {
            let last = sum.members.iter().copied().max_by_key(|&id| rewrite.position(id)).unwrap_or(id);
            rewrite.replace(&sum.members, last, Op::Residual(sum.op), [sum.inputs, sum.outputs]);
        }
    }
}

struct Sum {
    op: Residual,
    inputs: Vec<TensorId>,
    outputs: Vec<TensorId>,
    members: Vec<NodeId>,
}

/// The normalisation a node makes of whole rows, if that is what it does, and its weight.
pub(super) fn row_norm(rewrite: &Rewrite, id: NodeId) -> Option<(RowNorm, Option<TensorId>)> {
    let node = rewrite.node(id);
    match &node.op {
        Op::Norm(Norm { op: NormOp::Rms, eps, weight, bias: false, stats: false }) if rewrite.is_live(id) => {
            Some((RowNorm { eps: *eps, weight: *weight }, node.inputs.get(1).copied()))
        }
        _ => None,
    }
}

/// The sum that node `add` makes, operand `branch` of it being the branch.
fn find(rewrite: &Rewrite, add: NodeId, branch: usize) -> Option<Sum> {
    let operands = rewrite.map(add, MapOp::AddF)?;
    let &[mut x, base] = &[*operands.get(branch)?, *operands.get(1 - branch)?];
    let mut h = rewrite.node(add).outputs[0];
    let same = |id: TensorId| {
        let tensor = rewrite.program.tensor(id);
        tensor.dense && tensor.bound == rewrite.program.tensor(h).bound && !tensor.bound.is_empty()
    };
    if x == base || !same(x) || !same(base) {
        return None;
    }
    let mut sum = Sum {
        op: Residual { branch: None, clamp: None, scale: false, norm: None },
        inputs: Vec::new(),
        outputs: Vec::new(),
        members: vec![add],
    };
    let mut weight = None;
    if let Some(norm) = rewrite.producer(x)
        && rewrite.only_reader(x) == Some(add)
        && let Some((row, by)) = row_norm(rewrite, norm)
        && same(rewrite.node(norm).inputs[0])
    {
        (sum.op.branch, weight, x) = (Some(row), by, rewrite.node(norm).inputs[0]);
        sum.members.push(norm);
    }
    sum.inputs = [x, base].into_iter().chain(weight).collect();
    follow(rewrite, &mut sum, &mut h);
    sum.outputs.insert(0, h);
    Some(sum)
}

/// Takes in what is done with the sum `h`.
fn follow(rewrite: &Rewrite, sum: &mut Sum, h: &mut TensorId) {
    if let Some(next) = rewrite.only_reader(*h)
        && let Op::Map(map) = &rewrite.node(next).op
        && map.op == MapOp::ClampF
    {
        sum.op.clamp = Some(map.scalars.map(f32::from_bits));
        *h = rewrite.node(next).outputs[0];
        sum.members.push(next);
    }
    if let Some(next) = rewrite.only_reader(*h)
        && let Some(&[a, b]) = rewrite.map(next, MapOp::MulF)
    {
        let factor = if a == *h { b } else { a };
        let (tensor, whole) = (rewrite.program.tensor(factor), rewrite.program.tensor(*h));
        let result = rewrite.node(next).outputs[0];
        let one = tensor.dense && tensor.bound.iter().product::<u32>() == 1 && factor != *h;
        if one
            && rewrite.program.tensor(result).bound == whole.bound
            && whole.bound.len() >= tensor.bound.len()
        {
            sum.op.scale = true;
            sum.inputs.push(factor);
            *h = result;
            sum.members.push(next);
        }
    }
    let norms = rewrite.readers(*h).iter().filter(|&&id| rewrite.node(id).inputs[0] == *h);
    if let Some((norm, (row, weight))) = norms.filter_map(|&id| Some((id, row_norm(rewrite, id)?))).next() {
        sum.op.norm = Some(row);
        sum.inputs.extend(weight);
        sum.outputs.push(rewrite.node(norm).outputs[0]);
        sum.members.push(norm);
    }
}
