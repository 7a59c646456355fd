//! A normalisation or a residual sum whose rows go into one product alone moves into the product, which makes it on the
//! way where its kernel can.

use crate::ops::Op;
use crate::ops::linear_q::{LinearQ, Prologue};

use super::Constants;
use super::residual::row_norm;
use super::rewrite::{NodeId, Rewrite};

pub(super) fn run(rewrite: &mut Rewrite, _: &dyn Constants) {
    for id in rewrite.nodes() {
        if let Op::LinearQ(op) = &rewrite.node(id).op
            && op.prologue.is_none()
        {
            let op = op.clone();
            join(rewrite, id, op);
        }
    }
}

fn join(rewrite: &mut Rewrite, id: NodeId, op: LinearQ) {
    let x = rewrite.node(id).inputs[0];
    let Some(before) = rewrite.producer(x) else { return };
    let outputs = rewrite.node(before).outputs.clone();
    let alone =
        rewrite.only_reader(x) == Some(id) && rewrite.node(id).inputs[1..].iter().all(|&other| other != x);
    let prologue = match &rewrite.node(before).op {
        // The rows that the product reads are the sum's own: others may read them, too.
        Op::Residual(sum) if sum.norm.is_none() => Prologue::Residual(*sum),
        Op::Residual(sum) if alone && outputs.get(1) == Some(&x) => Prologue::Residual(*sum),
        Op::Norm(_) if alone && rewrite.program.tensor(rewrite.node(before).inputs[0]).dense => {
            match row_norm(rewrite, before) {
                Some((norm, _)) => Prologue::Norm(norm),
                None => return,
            }
        }
        _ => return,
    };
    // The sum moves to the product: nothing that the product waits for may need it.
    let rest = rewrite.node(id).inputs[1..].to_vec();
    if rest.iter().any(|&other| rewrite.depends(other, before)) {
        return;
    }
    let inputs = [rewrite.node(before).inputs.clone(), rest].concat();
    let made = [rewrite.node(id).outputs.clone(), outputs].concat();
    let op = LinearQ { prologue: Some(prologue), ..op };
    rewrite.replace(&[before, id], before, Op::LinearQ(op), [inputs, made]);
}
