//! Reshapes to the sizes a tensor already has are dropped, so that the passes after this one see through them.

use crate::ir::{HostStep, Index, Origin, Program, TensorId, View};
use crate::ops::Op;

use super::Constants;
use super::rewrite::Rewrite;

pub(super) fn run(rewrite: &mut Rewrite, _: &dyn Constants) {
    let fixed = fixed_sizes(&rewrite.program);
    for index in 0..rewrite.program.tensors.len() {
        let view = TensorId(u32::try_from(index).unwrap_or(u32::MAX));
        if let Some(base) = identity(&rewrite.program, view, &fixed) {
            rewrite.replace_tensor(view, base);
        }
    }
}

/// What `view` is the same as: a reshape with its base's bound, in which all sizes but one are known. The number of
/// elements then settles the one that is not.
fn identity(program: &Program, view: TensorId, fixed: &[u8]) -> Option<TensorId> {
    let tensor = program.tensor(view);
    let Origin::View { base, view: View::Reshape(sizes), .. } = &tensor.origin else { return None };
    let from = program.tensor(*base);
    if (&from.bound, from.dtype, from.bound.len()) != (&tensor.bound, tensor.dtype, sizes.len()) {
        return None;
    }
    let known = |d: usize| {
        fixed[base.index()] & (1 << d) != 0
            && (from.bound[d] == 1 || sizes[d] == Index::Const(from.bound[d].into()))
    };
    let unknown = (0..from.bound.len()).filter(|&d| !known(d)).count();
    (unknown <= 1).then_some(*base)
}

/// For each tensor the dimensions, one bit each, that always have the size of their bound.
fn fixed_sizes(program: &Program) -> Vec<u8> {
    let mut fixed: Vec<u8> = program.tensors.iter().map(|tensor| ones(&tensor.bound)).collect();
    for (index, tensor) in program.tensors.iter().enumerate() {
        if matches!(tensor.origin, Origin::Weight(_) | Origin::State(_)) {
            fixed[index] = u8::MAX;
        }
    }
    for (step, _) in &program.steps {
        match step {
            HostStep::View(id) => {
                let tensor = program.tensor(*id);
                if let Origin::View { view: View::Reshape(sizes), .. } = &tensor.origin {
                    let constant = |d: usize| sizes.get(d) == Some(&Index::Const(tensor.bound[d].into()));
                    fixed[id.index()] |= bits(tensor.bound.len(), constant);
                }
            }
            HostStep::Node(node) => {
                let node = &program.nodes[*node as usize];
                for output in &node.outputs {
                    if program.tensor(*output).origin == Origin::Node {
                        fixed[output.index()] |= of_output(program, &node.op, &node.inputs, *output, &fixed);
                    }
                }
            }
            HostStep::Sym(_) => {}
        }
    }
    fixed
}

fn of_output(program: &Program, op: &Op, inputs: &[TensorId], output: TensorId, fixed: &[u8]) -> u8 {
    let rank = program.tensor(output).bound.len();
    let last = 1u8.checked_shl(u32::try_from(rank).unwrap_or(u32::MAX).wrapping_sub(1)).unwrap_or(0);
    match op {
        Op::LinearQ(_) => (fixed[inputs[0].index()] & last.wrapping_sub(1)) | last,
        Op::EmbeddingQ4(_) => last,
        Op::Copy(_) | Op::Norm(_) | Op::Rope(_) | Op::Softmax(_) | Op::Sdpa(_)
            if program.tensor(inputs[0]).bound == program.tensor(output).bound =>
        {
            fixed[inputs[0].index()]
        }
        // A size other than 1 that one operand surely has is the result's.
        Op::Map(_) => inputs
            .iter()
            .filter(|input| program.tensor(**input).bound == program.tensor(output).bound)
            .fold(0, |all, input| all | fixed[input.index()]),
        _ => 0,
    }
}

/// Sizes of at most 1.
fn ones(bound: &[u32]) -> u8 {
    bits(bound.len(), |d| bound[d] <= 1)
}

fn bits(rank: usize, set: impl Fn(usize) -> bool) -> u8 {
    (0..rank.min(8)).fold(0, |all, d| if set(d) { all | (1 << d) } else { all })
}
