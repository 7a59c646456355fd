//! Products of one input with several weights become one product: q, k and v, gate and up.

use std::collections::HashMap;

use etvk_kernels::linear_q::{CodeFormat, Epilogue};

use crate::ir::{Content, Form, TensorId, Weight, WeightId};
use crate::ops::Op;
use crate::ops::linear_q::{LinearQ, MAX_OUTPUTS};

use super::Constants;
use super::rewrite::{NodeId, Rewrite};

/// How many nodes and tensors hold each constant.
type Uses = HashMap<WeightId, usize>;

pub(super) fn run(rewrite: &mut Rewrite, _: &dyn Constants) {
    let uses = rewrite.weight_uses();
    for id in rewrite.nodes() {
        let Some(x) = product(rewrite, id, &uses).map(|_| rewrite.node(id).inputs[0]) else { continue };
        let mut members = vec![id];
        for &other in rewrite.readers(x) {
            if members.len() < MAX_OUTPUTS && !members.contains(&other) && joins(rewrite, id, other, &uses) {
                members.push(other);
            }
        }
        if members.len() > 1 {
            join(rewrite, &members, x, &uses);
        }
    }
}

/// The plain product that a node is, if its weight can lie beside others.
fn product<'r>(rewrite: &'r Rewrite, id: NodeId, uses: &Uses) -> Option<&'r LinearQ> {
    let Op::LinearQ(op) = &rewrite.node(id).op else { return None };
    let plain = !op.bias && op.outputs.len() == 1 && op.epilogue == Epilogue::None && op.prologue.is_none();
    // Outputs begin at whole tiles of the kernels.
    let aligned = op.columns.is_multiple_of(64) && op.scale_row == op.columns;
    let own = [op.weight, op.scales].iter().all(|weight| uses.get(weight) == Some(&1));
    (rewrite.is_live(id) && plain && aligned && op.format == CodeFormat::Q4LowFirst && own).then_some(op)
}

fn joins(rewrite: &Rewrite, first: NodeId, other: NodeId, uses: &Uses) -> bool {
    let (Some(a), Some(b)) = (product(rewrite, first, uses), product(rewrite, other, uses)) else {
        return false;
    };
    let shape =
        |op: &LinearQ| (op.scale_storage, op.row_bytes, op.capacity, op.group_size, op.groups, op.halves);
    shape(a) == shape(b)
}

fn join(rewrite: &mut Rewrite, members: &[NodeId], x: TensorId, uses: &Uses) {
    let ops: Vec<LinearQ> = members.iter().filter_map(|&id| product(rewrite, id, uses).cloned()).collect();
    let Some(first) = ops.first() else { return };
    let columns = ops.iter().map(|op| op.columns).sum();
    let weights: Vec<WeightId> = ops.iter().map(|op| op.weight).collect();
    let scales: Vec<WeightId> = ops.iter().map(|op| op.scales).collect();
    let op = LinearQ {
        weight: joined(rewrite, &weights, 1, [columns, first.row_bytes]),
        scales: joined(rewrite, &scales, first.groups, [first.groups, columns]),
        columns,
        scale_row: columns,
        outputs: ops.iter().map(|op| op.columns).collect(),
        ..first.clone()
    };
    let outputs = members.iter().map(|&id| rewrite.node(id).outputs[0]).collect();
    rewrite.replace(members, members[0], Op::LinearQ(op), [vec![x], outputs]);
}

/// A constant that holds those of `parts`, which nothing else uses.
fn joined(rewrite: &mut Rewrite, parts: &[WeightId], rows: u32, dims: [u32; 2]) -> WeightId {
    let weights = &mut rewrite.program.weights;
    let parts: Vec<Weight> = parts
        .iter()
        .map(|id| {
            let nothing = Weight { content: Content::Nothing, ..weights[id.index()].clone() };
            std::mem::replace(&mut weights[id.index()], nothing)
        })
        .collect();
    let dtype = parts[0].dtype;
    let id = WeightId(u32::try_from(weights.len()).unwrap_or(u32::MAX));
    let content = Content::Joined { parts, rows };
    weights.push(Weight { content, dtype, dims: dims.into_iter().collect(), form: Form::Raw });
    id
}
