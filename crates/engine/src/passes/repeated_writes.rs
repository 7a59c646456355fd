//! Rows that are already in a cache are not written into it again. Layers that share keys and values each write them in
//! the payload.

use crate::ir::{Origin, TensorId};
use crate::ops::Op;

use super::Constants;
use super::rewrite::{NodeId, Rewrite};

pub(super) fn run(rewrite: &mut Rewrite, _: &dyn Constants) {
    let states: Vec<TensorId> = rewrite.program.states.iter().map(|state| state.tensor).collect();
    for state in states {
        let users = rewrite.state_users(state).into_iter();
        let mut writers: Vec<NodeId> =
            users.filter(|&id| rewrite.node(id).outputs.contains(&state)).collect();
        writers.sort_by_key(|&id| rewrite.position(id));
        let mut last: Option<NodeId> = None;
        for writer in writers {
            if last.is_some_and(|last| repeats(rewrite, last, writer)) {
                rewrite.remove(&[writer]);
            } else {
                last = Some(writer);
            }
        }
    }
}

/// Whether `second` writes what `first` wrote, to where it is.
fn repeats(rewrite: &Rewrite, first: NodeId, second: NodeId) -> bool {
    let (a, b) = (rewrite.node(first), rewrite.node(second));
    let (Op::StateWrite(x), Op::StateWrite(y)) = (&a.op, &b.op) else { return false };
    let origin = |id: TensorId| &rewrite.program.tensor(rewrite.program.base(id)).origin;
    // Rows that come out of a state may have changed in between.
    let fixed = a.inputs.iter().all(|&id| !matches!(origin(id), Origin::State(_)));
    fixed && (x.dim, x.start, &a.inputs) == (y.dim, y.start, &b.inputs)
}
