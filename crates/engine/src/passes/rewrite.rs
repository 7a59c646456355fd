//! A program while passes change it: who makes a tensor, who reads it, and nodes put in the place of others.

use std::collections::{HashMap, HashSet};

use etvk_kernels::map::MapOp;

use crate::ir::{HostStep, Node, Origin, Port, Program, SymDef, TensorId, View, WeightId};
use crate::ops::Op;

use super::order;

/// Index into the nodes of a [`Rewrite`], dead ones included.
pub(super) type NodeId = usize;

/// A program under change. Nodes are only ever added and marked dead; [`Rewrite::finish`] drops the dead ones and puts
/// the rest in order.
pub(super) struct Rewrite {
    pub(super) program: Program,
    /// Where each node stood at first: what a state holds when it is read follows from it.
    positions: Vec<u32>,
    live: Vec<bool>,
    producers: Vec<Option<NodeId>>,
    readers: Vec<Vec<NodeId>>,
    views: Vec<Vec<TensorId>>,
    /// Tensors whose contents or sizes are wanted outside of the nodes.
    pinned: Vec<bool>,
}

impl Rewrite {
    pub(super) fn new(program: Program) -> Self {
        let (nodes, tensors) = (program.nodes.len(), program.tensors.len());
        let mut rewrite = Self {
            positions: (0u32..).take(nodes).collect(),
            live: vec![true; nodes],
            producers: vec![None; tensors],
            readers: vec![Vec::new(); tensors],
            views: vec![Vec::new(); tensors],
            pinned: vec![false; tensors],
            program,
        };
        rewrite.index();
        rewrite
    }

    /// Works out from the program who reads what.
    fn index(&mut self) {
        for id in 0..self.program.nodes.len() {
            self.link(id);
        }
        for &(step, _) in &self.program.steps {
            if let HostStep::View(view) = step
                && let Origin::View { base, .. } = &self.program.tensor(view).origin
            {
                self.views[base.index()].push(view);
            }
        }
        for port in &self.program.outputs {
            if let Port::Tensor(id) = port {
                self.pinned[id.index()] = true;
            }
        }
        for def in &self.program.syms {
            if let SymDef::Size { tensor, .. } = def {
                self.pinned[tensor.index()] = true;
            }
        }
    }

    fn link(&mut self, id: NodeId) {
        let node = &self.program.nodes[id];
        for input in &node.inputs {
            self.readers[input.index()].push(id);
        }
        for output in &node.outputs {
            if self.program.tensors[output.index()].origin == Origin::Node {
                self.producers[output.index()] = Some(id);
            }
        }
    }

    /// The nodes alive now, in their order at first.
    pub(super) fn nodes(&self) -> Vec<NodeId> {
        (0..self.program.nodes.len()).filter(|&id| self.live[id]).collect()
    }

    pub(super) fn is_live(&self, id: NodeId) -> bool {
        self.live[id]
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.program.nodes[id]
    }

    /// The node that makes the tensor `id`, which must be no view.
    pub(super) fn producer(&self, id: TensorId) -> Option<NodeId> {
        self.producers[id.index()]
    }

    /// Nodes that read `id` itself, and not through a view. A node that reads it twice is there twice.
    pub(super) fn readers(&self, id: TensorId) -> &[NodeId] {
        &self.readers[id.index()]
    }

    /// Views taken of `id` that something reads.
    pub(super) fn has_views(&self, id: TensorId) -> bool {
        self.views[id.index()].iter().any(|&view| self.is_read(view))
    }

    fn is_read(&self, id: TensorId) -> bool {
        self.pinned[id.index()] || !self.readers[id.index()].is_empty() || self.has_views(id)
    }

    /// The one node that reads `id`, if that is all that is done with it: its words need never be in memory.
    pub(super) fn only_reader(&self, id: TensorId) -> Option<NodeId> {
        let (&first, rest) = self.readers(id).split_first()?;
        let alone = rest.iter().all(|&other| other == first);
        (alone && !self.is_wanted_elsewhere(id)).then_some(first)
    }

    /// Whether something other than the nodes that read `id` itself uses it.
    pub(super) fn is_wanted_elsewhere(&self, id: TensorId) -> bool {
        self.pinned[id.index()] || self.has_views(id)
    }

    /// As [`only_reader`](Self::only_reader), for tensors that are read through one view; with what the node reads.
    pub(super) fn only_reader_of_view(&self, id: TensorId) -> Option<(NodeId, TensorId)> {
        let read: Vec<TensorId> =
            self.views[id.index()].iter().copied().filter(|&view| self.is_read(view)).collect();
        let &[view] = read.as_slice() else { return None };
        let unseen = self.readers(id).is_empty() && !self.pinned[id.index()];
        let node = self.only_reader(view)?;
        unseen.then_some((node, view))
    }

    /// Lets everything that used `from` use `to`, which holds the same words in the same sizes.
    pub(super) fn replace_tensor(&mut self, from: TensorId, to: TensorId) {
        for id in std::mem::take(&mut self.readers[from.index()]) {
            for input in &mut self.program.nodes[id].inputs {
                if *input == from {
                    *input = to;
                }
            }
            self.readers[to.index()].push(id);
        }
        for view in std::mem::take(&mut self.views[from.index()]) {
            if let Origin::View { base, .. } = &mut self.program.tensors[view.index()].origin {
                *base = to;
            }
            self.views[to.index()].push(view);
        }
        for port in &mut self.program.outputs {
            if *port == Port::Tensor(from) {
                *port = Port::Tensor(to);
            }
        }
        self.move_sizes(from, to);
        self.pinned[to.index()] |= self.pinned[from.index()];
        self.pinned[from.index()] = false;
    }

    /// Takes the sizes asked of `from` from `to`, which always has the same.
    pub(super) fn move_sizes(&mut self, from: TensorId, to: TensorId) {
        let mut moved = false;
        for def in &mut self.program.syms {
            if let SymDef::Size { tensor, .. } = def
                && *tensor == from
            {
                (*tensor, moved) = (to, true);
            }
        }
        if moved {
            self.pinned[to.index()] = true;
            self.pinned[from.index()] = self.program.outputs.contains(&Port::Tensor(from));
        }
    }

    /// Removes nodes whose results nothing needs any more.
    pub(super) fn remove(&mut self, ids: &[NodeId]) {
        for &id in ids {
            self.live[id] = false;
            let node = &self.program.nodes[id];
            for input in &node.inputs {
                self.readers[input.index()].retain(|&reader| reader != id);
            }
            for output in &node.outputs {
                if self.producers[output.index()] == Some(id) {
                    self.producers[output.index()] = None;
                }
            }
        }
    }

    /// Puts one node in the place of `members`, at the position of the one that is `like`.
    pub(super) fn replace(
        &mut self,
        members: &[NodeId],
        like: NodeId,
        op: Op,
        io: [Vec<TensorId>; 2],
    ) -> NodeId {
        self.remove(members);
        let [inputs, outputs] = io;
        let id = self.program.nodes.len();
        let call = self.program.nodes[like].call;
        self.program.nodes.push(Node { op, inputs, outputs, call });
        let index = u32::try_from(id).unwrap_or(u32::MAX);
        self.program.steps.push((HostStep::Node(index), call));
        self.positions.push(self.positions[like]);
        self.live.push(true);
        self.link(id);
        id
    }

    /// How many nodes and tensors hold each constant.
    pub(super) fn weight_uses(&self) -> HashMap<WeightId, usize> {
        let mut uses = HashMap::new();
        for id in self.nodes() {
            self.node(id)
                .op
                .kind()
                .weights()
                .into_iter()
                .for_each(|weight| *uses.entry(weight).or_default() += 1);
        }
        for (tensor, readers) in self.program.tensors.iter().zip(&self.readers) {
            if let (Origin::Weight(weight), false) = (&tensor.origin, readers.is_empty()) {
                *uses.entry(*weight).or_default() += 1;
            }
        }
        uses
    }

    /// Whether the words of `target` can depend on the results of node `source`.
    pub(super) fn depends(&self, target: TensorId, source: NodeId) -> bool {
        let floor = self.positions[source];
        let mut seen = HashSet::new();
        let mut open = vec![self.program.base(target)];
        while let Some(id) = open.pop() {
            let Some(node) = self.producers[id.index()] else { continue };
            if node == source {
                return true;
            }
            // What stood before the source cannot depend on it.
            if self.positions[node] >= floor && seen.insert(node) {
                open.extend(self.program.nodes[node].inputs.iter().map(|&input| self.program.base(input)));
            }
        }
        false
    }

    /// The operands of a node that is the map `op` with an `alpha` of 1, where it has one.
    pub(super) fn map(&self, id: NodeId, op: MapOp) -> Option<&[TensorId]> {
        match &self.node(id).op {
            Op::Map(map) if self.live[id] && map.op == op => {
                let one = !matches!(op, MapOp::AddF | MapOp::SubF) || map.scalars[0] == 1f32.to_bits();
                one.then_some(self.node(id).inputs.as_slice())
            }
            _ => None,
        }
    }

    /// The nodes that read or write a state.
    pub(super) fn state_users(&self, state: TensorId) -> Vec<NodeId> {
        let uses =
            |id: &NodeId| self.node(*id).outputs.contains(&state) || self.node(*id).inputs.contains(&state);
        self.nodes().into_iter().filter(uses).collect()
    }

    /// Position of a node at first.
    pub(super) fn position(&self, id: NodeId) -> u32 {
        self.positions[id]
    }

    /// Whether `view` is the whole of its base under other sizes, element for element.
    pub(super) fn is_reshape(&self, view: TensorId) -> Option<TensorId> {
        match &self.program.tensor(view).origin {
            Origin::View { base, view: View::Reshape(_), .. } => Some(*base),
            _ => None,
        }
    }

    /// The changed program, or `None` where no order of its nodes gives every one of them what it needs.
    pub(super) fn finish(mut self) -> Option<Program> {
        let alive = |id: u32| self.live[id as usize];
        let mut steps = std::mem::take(&mut self.program.steps);
        steps.retain(|(step, _)| match step {
            HostStep::Node(id) => alive(*id),
            HostStep::View(id) => self.is_read(*id),
            HostStep::Sym(_) => true,
        });
        order::sort(self.program, &steps, &self.positions)
    }
}
