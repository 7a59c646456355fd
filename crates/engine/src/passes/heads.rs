//! What is done to the heads of q, k and v before attention becomes one node: normalisation, rotation and the rows
//! written into the caches.

use arrayvec::ArrayVec;
use etvk_kernels::heads::{MAX_PARTS, MAX_WIDTH};
use etvk_kernels::rope::RopeForm;

use crate::ir::{Origin, TensorId};
use crate::ops::Op;
use crate::ops::heads::{Heads, Pairing, Part};

use super::Constants;
use super::residual::row_norm;
use super::rewrite::{NodeId, Rewrite};

pub(super) fn run(rewrite: &mut Rewrite, _: &dyn Constants) {
    for id in rewrite.nodes() {
        let Op::Sdpa(_) = &rewrite.node(id).op else { continue };
        let chains = chains(rewrite, id);
        let members: Vec<NodeId> = chains.iter().flat_map(|chain| chain.members.clone()).collect();
        let last = members.iter().copied().max_by_key(|&id| rewrite.position(id));
        if let Some(last) = last.filter(|_| members.len() > 1) {
            let (op, io) = node(&chains);
            rewrite.replace(&members, last, Op::Heads(op), io);
        }
    }
}

/// The nodes between a product and attention.
struct Chain {
    x: TensorId,
    part: Part,
    weight: Option<TensorId>,
    rotation: Option<(Pairing, TensorId, TensorId)>,
    output: TensorId,
    members: Vec<NodeId>,
}

/// The chains into attention `sdpa` that can run side by side.
fn chains(rewrite: &Rewrite, sdpa: NodeId) -> Vec<Chain> {
    let node = rewrite.node(sdpa);
    let before = rewrite.position(sdpa);
    let q = query(rewrite, node.inputs[0]);
    let caches = [node.inputs[1], node.inputs[2]].map(|state| cached(rewrite, state, before));
    let mut chains: Vec<Chain> = Vec::new();
    for chain in std::iter::once(q).chain(caches).flatten() {
        let fits =
            chains.iter().all(|other| alike(rewrite, other, &chain) && independent(rewrite, other, &chain));
        if fits {
            chains.push(chain);
        }
    }
    // A write moves to the place of the last member: nothing may look at the state in between.
    let last = chains.iter().flat_map(|chain| &chain.members).map(|&id| rewrite.position(id)).max();
    let undisturbed = |chain: &Chain| {
        chain.part.cache.is_none()
            || rewrite.state_users(chain.output).into_iter().all(|user| {
                let writer = chain.members.iter().map(|&id| rewrite.position(id)).max();
                let at = Some(rewrite.position(user));
                chain.members.contains(&user) || at < writer || at > last
            })
    };
    if chains.iter().all(undisturbed) { chains } else { Vec::new() }
}

/// The chain that ends in the queries `q`.
fn query(rewrite: &Rewrite, q: TensorId) -> Option<Chain> {
    let mut chain = start(q);
    extend(rewrite, &mut chain);
    (!chain.members.is_empty() && is_rows(rewrite, chain.x)).then_some(chain)
}

/// The chain that ends in the last write into `state` before position `before`.
fn cached(rewrite: &Rewrite, state: TensorId, before: u32) -> Option<Chain> {
    let writes = |id: &NodeId| rewrite.node(*id).outputs.contains(&state) && rewrite.position(*id) < before;
    let writer =
        rewrite.state_users(state).into_iter().filter(writes).max_by_key(|&id| rewrite.position(id))?;
    let Op::StateWrite(write) = &rewrite.node(writer).op else { return None };
    let rows = rewrite.node(writer).inputs[0];
    let mut chain = start(rows);
    if rewrite.only_reader(rows) == Some(writer) {
        extend(rewrite, &mut chain);
    }
    chain.members.push(writer);
    (chain.output, chain.part.cache) = (state, Some(write.start));
    (write.dim == 1 && is_rows(rewrite, chain.x)).then_some(chain)
}

fn start(output: TensorId) -> Chain {
    let part = Part { norm: None, rope: false, cache: None };
    Chain { x: output, part, weight: None, rotation: None, output, members: Vec::new() }
}

/// Goes back from `chain.x` over a rotation and a normalisation.
fn extend(rewrite: &Rewrite, chain: &mut Chain) {
    if let Some(rope) = rewrite.producer(chain.x)
        && let Op::Rope(op) = &rewrite.node(rope).op
        && let &[x, cos, sin] = rewrite.node(rope).inputs.as_slice()
    {
        let neighbours = op.form == RopeForm::Pairs;
        let (width, tables) =
            (rewrite.program.tensor(x).bound[3], [cos, sin].map(|id| rewrite.program.tensor(id)));
        let whole = tables.iter().all(|table| {
            table.contiguous
                && table.bound.len() == 2
                && table.bound[1] * if neighbours { 2 } else { 1 } == width
        });
        if op.form == RopeForm::Complex || !whole {
            return;
        }
        chain.rotation = Some((Pairing { neighbours, start: op.start }, cos, sin));
        (chain.part.rope, chain.x) = (true, x);
        chain.members.push(rope);
    }
    let reader = chain.members.last().copied();
    if let Some(norm) = rewrite.producer(chain.x)
        && (reader.is_none() || rewrite.only_reader(chain.x) == reader)
        && let Some((row, weight)) = row_norm(rewrite, norm)
        && is_rows(rewrite, rewrite.node(norm).inputs[0])
    {
        (chain.part.norm, chain.weight, chain.x) = (Some(row), weight, rewrite.node(norm).inputs[0]);
        chain.members.push(norm);
    }
}

/// Whether the kernel can read the rows of `x`.
fn is_rows(rewrite: &Rewrite, x: TensorId) -> bool {
    let tensor = rewrite.program.tensor(x);
    let state = matches!(rewrite.program.tensor(rewrite.program.base(x)).origin, Origin::State(_));
    let &[_, _, _, width] = tensor.bound.as_slice() else { return false };
    tensor.dense && !state && width % 2 == 0 && width <= MAX_WIDTH
}

/// Whether two chains have the same sizes but for the heads, and one rotation.
fn alike(rewrite: &Rewrite, a: &Chain, b: &Chain) -> bool {
    let [x, y] = [a, b].map(|chain| &rewrite.program.tensor(chain.x).bound);
    let rotations = a.rotation.is_none() || b.rotation.is_none() || a.rotation == b.rotation;
    rotations && a.output != b.output && [0, 1, 3].iter().all(|&d| x[d] == y[d])
}

fn independent(rewrite: &Rewrite, a: &Chain, b: &Chain) -> bool {
    let apart = |x: TensorId, members: &[NodeId]| members.iter().all(|&id| !rewrite.depends(x, id));
    apart(a.x, &b.members) && apart(b.x, &a.members)
}

fn node(chains: &[Chain]) -> (Heads, [Vec<TensorId>; 2]) {
    let rotation = chains.iter().find_map(|chain| chain.rotation);
    let parts: ArrayVec<Part, MAX_PARTS> = chains.iter().map(|chain| chain.part).take(MAX_PARTS).collect();
    let inputs = chains.iter().map(|chain| chain.x).chain(chains.iter().filter_map(|chain| chain.weight));
    let inputs = inputs.chain(rotation.iter().flat_map(|&(_, cos, sin)| [cos, sin])).collect();
    let outputs = chains.iter().map(|chain| chain.output).collect();
    (Heads { parts, rotation: rotation.map(|(pairing, ..)| pairing) }, [inputs, outputs])
}
