//! x · rsqrt(mean(x · x) + eps), written out operator by operator, becomes one normalisation; so does one that a weight
//! of its width is multiplied into.

use etvk_kernels::map::MapOp;
use etvk_kernels::norm::NormOp;
use etvk_kernels::reduce::ReduceOp;

use crate::ir::{Origin, TensorId};
use crate::ops::Op;
use crate::ops::norm::Norm;

use super::rewrite::{NodeId, Rewrite};
use super::{Constants, scalar};

pub(super) fn run(rewrite: &mut Rewrite, constants: &dyn Constants) {
    for id in rewrite.nodes() {
        if let Some(found) = find(rewrite, id, constants) {
            let Found { x, eps, squares, members, product } = found;
            rewrite.move_sizes(squares, x);
            let op = Op::Norm(Norm { op: NormOp::Rms, eps, weight: false, bias: false, stats: false });
            let output = rewrite.node(product).outputs[0];
            rewrite.replace(&members, product, op, [vec![x], vec![output]]);
        }
    }
}

struct Found {
    x: TensorId,
    eps: f32,
    /// x · x, whose sizes may be asked for.
    squares: TensorId,
    members: Vec<NodeId>,
    /// The last of them.
    product: NodeId,
}

/// The normalisation whose reciprocal root is node `root`.
fn find(rewrite: &Rewrite, root: NodeId, constants: &dyn Constants) -> Option<Found> {
    let program = &rewrite.program;
    let sum = *rewrite.map(root, MapOp::Rsqrt)?.first()?;
    let add = rewrite.producer(sum)?;
    let &[mean_view, eps] = rewrite.map(add, MapOp::AddF)? else { return None };
    let eps = scalar(program, eps, constants)?;
    let mean = rewrite.is_reshape(mean_view).unwrap_or(mean_view);
    let reduce = rewrite.producer(mean)?;
    let (squares, last) = match (&rewrite.node(reduce).op, rewrite.node(reduce).inputs.as_slice()) {
        (Op::Reduce(reduce), &[squares]) if reduce.op == ReduceOp::MeanF => (squares, reduce.dims.as_slice()),
        _ => return None,
    };
    let square = rewrite.producer(squares)?;
    let &[x, again] = rewrite.map(square, MapOp::MulF)? else { return None };
    let bound = &program.tensor(x).bound;
    let rank = bound.len();
    let root_out = rewrite.node(root).outputs[0];
    let mut per_row = bound.clone();
    *per_row.last_mut()? = 1;
    let product = rewrite.only_reader(root_out)?;
    let factors = rewrite.map(product, MapOp::MulF)?;
    let fits = x == again
        && rank <= 4
        && last == [rank - 1]
        && program.tensor(root_out).bound == per_row
        && (factors == [x, root_out] || factors == [root_out, x]);
    // Nothing else may want what lies between.
    let alone = rewrite.only_reader(sum) == Some(root)
        && (rewrite.only_reader(mean) == Some(add)
            || rewrite.only_reader_of_view(mean) == Some((add, mean_view)))
        && rewrite.readers(squares) == [reduce]
        && !rewrite.has_views(squares)
        && !matches!(program.tensor(program.base(x)).origin, Origin::State(_));
    (fits && alone).then(|| Found {
        x,
        eps,
        squares,
        members: vec![square, reduce, add, root, product],
        product,
    })
}
