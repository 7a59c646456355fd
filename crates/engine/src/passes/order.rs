//! The order of host steps and nodes: each after what it needs, otherwise as they stood.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use crate::ir::{HostStep, Index, Origin, Program, SymDef, SymId, TensorId, View};

type Step = (HostStep, u32);

/// Orders `steps`, and the nodes of `program` as their steps; nodes without a step are dropped. `positions` says where
/// each node stood at first, which decides what it finds in a state. `None` where no order gives every step what it
/// needs.
pub(super) fn sort(mut program: Program, steps: &[Step], positions: &[u32]) -> Option<Program> {
    let sequence = sequence(&Needs::new(&program, steps, positions), steps)?;
    let mut nodes: Vec<_> = std::mem::take(&mut program.nodes).into_iter().map(Some).collect();
    program.steps.clear();
    for index in sequence {
        let (mut step, call) = steps[index];
        if let HostStep::Node(id) = &mut step {
            program.nodes.extend(nodes[*id as usize].take());
            *id = u32::try_from(program.nodes.len() - 1).unwrap_or(u32::MAX);
        }
        program.steps.push((step, call));
    }
    Some(program)
}

/// Indices of `steps`: always the earliest call whose needs are met.
fn sequence(needs: &Needs, steps: &[Step]) -> Option<Vec<usize>> {
    let mut missing: Vec<usize> = vec![0; steps.len()];
    for &user in needs.users.iter().flatten() {
        missing[user] += 1;
    }
    let key = |index: usize| Reverse((steps[index].1, index));
    let mut ready: BinaryHeap<_> = (0..steps.len()).filter(|&i| missing[i] == 0).map(key).collect();
    let mut sequence = Vec::with_capacity(steps.len());
    while let Some(Reverse((_, index))) = ready.pop() {
        sequence.push(index);
        for &user in &needs.users[index] {
            missing[user] -= 1;
            if missing[user] == 0 {
                ready.push(key(user));
            }
        }
    }
    (sequence.len() == steps.len()).then_some(sequence)
}

/// For each step, the steps that need it.
struct Needs {
    users: Vec<Vec<usize>>,
}

impl Needs {
    fn new(program: &Program, steps: &[Step], positions: &[u32]) -> Self {
        let mut needs = Self { users: vec![Vec::new(); steps.len()] };
        let makers = Makers::new(program, steps);
        for (user, (step, _)) in steps.iter().enumerate() {
            match step {
                HostStep::Sym(sym) => match &program.syms[sym.index()] {
                    SymDef::Size { tensor, .. } => needs.add(makers.tensor(*tensor), user),
                    def => operands(def).into_iter().for_each(|sym| needs.add(makers.sym(sym), user)),
                },
                HostStep::View(id) => {
                    if let Origin::View { base, view, .. } = &program.tensor(*id).origin {
                        needs.add(makers.tensor(*base), user);
                        indices(view).for_each(|sym| needs.add(makers.sym(sym), user));
                    }
                }
                HostStep::Node(id) => {
                    let node = &program.nodes[*id as usize];
                    node.inputs.iter().for_each(|&input| needs.add(makers.tensor(input), user));
                    node.op.kind().syms().into_iter().for_each(|sym| needs.add(makers.sym(sym), user));
                }
            }
        }
        needs.states(program, steps, positions);
        needs
    }

    fn add(&mut self, maker: Option<usize>, user: usize) {
        if let Some(maker) = maker.filter(|&maker| maker != user) {
            self.users[maker].push(user);
        }
    }

    /// Readers and writers of a state keep their order.
    fn states(&mut self, program: &Program, steps: &[Step], positions: &[u32]) {
        let mut accesses: HashMap<u32, Vec<(u32, usize, bool)>> = HashMap::new();
        for (index, (step, _)) in steps.iter().enumerate() {
            let HostStep::Node(id) = step else { continue };
            let node = &program.nodes[*id as usize];
            let uses =
                node.inputs.iter().map(|id| (id, false)).chain(node.outputs.iter().map(|id| (id, true)));
            for (&tensor, writes) in uses {
                if let Origin::State(state) = program.tensor(program.base(tensor)).origin {
                    accesses.entry(state).or_default().push((positions[*id as usize], index, writes));
                }
            }
        }
        for list in accesses.values_mut() {
            list.sort_unstable();
            for (at, &(_, user, writes)) in list.iter().enumerate() {
                // Back to the last writer: what stood before it has been ordered with it.
                for &(_, earlier, wrote) in list[..at].iter().rev() {
                    if writes || wrote {
                        self.add(Some(earlier), user);
                    }
                    if wrote {
                        break;
                    }
                }
            }
        }
    }
}

/// Which step works out the sizes of a tensor, and which an integer.
struct Makers {
    tensors: Vec<Option<usize>>,
    syms: Vec<Option<usize>>,
}

impl Makers {
    fn new(program: &Program, steps: &[Step]) -> Self {
        let mut makers =
            Self { tensors: vec![None; program.tensors.len()], syms: vec![None; program.syms.len()] };
        for (index, (step, _)) in steps.iter().enumerate() {
            match step {
                HostStep::Sym(sym) => makers.syms[sym.index()] = Some(index),
                HostStep::View(id) => makers.tensors[id.index()] = Some(index),
                HostStep::Node(id) => {
                    for output in &program.nodes[*id as usize].outputs {
                        if program.tensor(*output).origin == Origin::Node {
                            makers.tensors[output.index()] = Some(index);
                        }
                    }
                }
            }
        }
        makers
    }

    fn tensor(&self, id: TensorId) -> Option<usize> {
        self.tensors[id.index()]
    }

    fn sym(&self, id: SymId) -> Option<usize> {
        self.syms[id.index()]
    }
}

/// Integers that another is computed from.
fn operands(def: &SymDef) -> Vec<SymId> {
    match *def {
        SymDef::Const(_) | SymDef::Input(_) | SymDef::Select { .. } | SymDef::Size { .. } => Vec::new(),
        SymDef::Add(a, b)
        | SymDef::Sub(a, b)
        | SymDef::Mul(a, b)
        | SymDef::FloorDiv(a, b)
        | SymDef::Less(a, b)
        | SymDef::AtMost(a, b)
        | SymDef::Equal(a, b) => [a, b].into_iter().filter_map(Index::sym).collect(),
    }
}

/// Integers that a view is laid out by.
fn indices(view: &View) -> impl Iterator<Item = SymId> {
    let indices: Vec<Index> = match view {
        View::Reshape(sizes) | View::Expand(sizes) => sizes.clone(),
        View::Slice { start, end, .. } => std::iter::once(*start).chain(*end).collect(),
        View::Select { index, .. } => vec![*index],
        View::Permute(_)
        | View::Unsqueeze { .. }
        | View::Squeeze(_)
        | View::Flip(_)
        | View::Unfold { .. } => Vec::new(),
    };
    indices.into_iter().filter_map(Index::sym)
}
