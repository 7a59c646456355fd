//! The rotation that models write out, x · cos + cat(−x₂, x₁) · sin with x₁ and x₂ the halves of x's rows, becomes one
//! node.

use etvk_kernels::map::MapOp;
use etvk_kernels::rope::RopeForm;

use crate::ir::{Index, Origin, TensorId, View};
use crate::ops::Op;
use crate::ops::rope::Rope;

use super::Constants;
use super::rewrite::{NodeId, Rewrite};

pub(super) fn run(rewrite: &mut Rewrite, _: &dyn Constants) {
    for id in rewrite.nodes() {
        let Some((inputs, members)) = find(rewrite, id) else { continue };
        let output = rewrite.node(id).outputs[0];
        let op = Op::Rope(Rope { form: RopeForm::Halves, start: None });
        rewrite.replace(&members, id, op, [inputs, vec![output]]);
    }
}

/// The rotation whose sum is node `sum`: x, cosines and sines, and all its nodes.
fn find(rewrite: &Rewrite, sum: NodeId) -> Option<(Vec<TensorId>, Vec<NodeId>)> {
    let &[straight, turned] = rewrite.map(sum, MapOp::AddF)? else { return None };
    let (first, second) = (rewrite.producer(straight)?, rewrite.producer(turned)?);
    let &[x, cos] = rewrite.map(first, MapOp::MulF)? else { return None };
    let &[crossed, sin] = rewrite.map(second, MapOp::MulF)? else { return None };
    let cat = rewrite.producer(crossed)?;
    let &[negated, low] = rewrite.node(cat).inputs.as_slice() else { return None };
    let Op::Cat(op) = &rewrite.node(cat).op else { return None };
    let negation = rewrite.producer(negated)?;
    let &[high] = rewrite.map(negation, MapOp::NegF)? else { return None };
    let program = &rewrite.program;
    let &[_, positions, _, width] = program.tensor(x).bound.as_slice() else { return None };
    let half = i64::from(width / 2);
    let halves = width % 2 == 0
        && op.dim == 3
        && is_slice(rewrite, low, x, 0, Some(half))
        && is_slice(rewrite, high, x, half, None);
    let alone = rewrite.only_reader(straight) == Some(sum)
        && rewrite.only_reader(turned) == Some(sum)
        && rewrite.only_reader(crossed) == Some(second)
        && rewrite.only_reader(negated) == Some(cat);
    let tables = [table(rewrite, cos, positions, width)?, table(rewrite, sin, positions, width)?];
    (halves && alone).then(|| (vec![x, tables[0], tables[1]], vec![first, negation, cat, second, sum]))
}

/// Whether `view` is elements `start..end` of x's rows; without an end, all from `start` on.
fn is_slice(rewrite: &Rewrite, view: TensorId, x: TensorId, start: i64, end: Option<i64>) -> bool {
    let Origin::View { base, view, .. } = &rewrite.program.tensor(view).origin else { return false };
    let View::Slice { dim: 3, start: Index::Const(from), end: to, step: 1 } = view else { return false };
    let width = i64::from(rewrite.program.tensor(x).bound[3]);
    let to = match to {
        None => width,
        Some(Index::Const(to)) => (*to).min(width),
        Some(Index::Sym(_)) => return false,
    };
    (*base, *from, to) == (x, start, end.unwrap_or(width))
}

/// The table \[S, D\] behind a factor \[S, 1, D\].
fn table(rewrite: &Rewrite, factor: TensorId, positions: u32, width: u32) -> Option<TensorId> {
    let Origin::View { base, view: View::Unsqueeze { dim: 1 }, .. } = &rewrite.program.tensor(factor).origin
    else {
        return None;
    };
    let table = rewrite.program.tensor(*base);
    (*table.bound == [positions, width] && table.contiguous).then_some(*base)
}
