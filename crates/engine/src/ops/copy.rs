//! Strided copies: materialised views, concatenation, rows written into a cache.

use etvk_kernels::Strided;

use super::{Kind, Op, OutSizes, one};
use crate::error::{Error, Fault};
use crate::host::{Shapes, shape_fault};
use crate::ir::{Node, SymId};
use crate::record::Record;

/// Input: any strided tensor. Output: the same elements, row-major.
#[derive(Clone, Debug)]
pub struct Copy;

/// Inputs: tensors of equal sizes but for `dim`. Output: their concatenation.
#[derive(Clone, Debug)]
pub struct Cat {
    /// Dimension along which the inputs follow each other.
    pub(crate) dim: usize,
}

/// Input: `[…, S, …]`, output: a state of equal sizes but for `dim`, of which rows `start..start + S` are written.
#[derive(Clone, Debug)]
pub struct StateWrite {
    /// Dimension that holds the rows.
    pub(crate) dim: usize,
    /// First row.
    pub(crate) start: SymId,
    /// Dynamic word with `start` in elements.
    pub(crate) word: u32,
}

impl Kind for Copy {
    fn infer(&self, node: &Node, shapes: &Shapes<'_>) -> Result<OutSizes, Fault> {
        Ok(one(shapes.sizes(node.inputs[0]).iter().copied().collect()))
    }

    fn record(&self, node: &Node, record: &mut Record<'_>) -> Result<(), Error> {
        let (from, to) = (record.layout(node.inputs[0]).clone(), record.layout(node.outputs[0]).clone());
        record.copy(node.inputs[0], &from, node.outputs[0], &to)
    }
}

impl Kind for Cat {
    fn infer(&self, node: &Node, shapes: &Shapes<'_>) -> Result<OutSizes, Fault> {
        let mut out: etvk_kernels::Dims = shapes.sizes(node.inputs[0]).iter().copied().collect();
        for &input in &node.inputs[1..] {
            let sizes = shapes.sizes(input);
            let fits = |d: usize| d == self.dim || sizes[d] == out[d];
            if sizes.len() != out.len() || !(0..out.len()).all(fits) {
                return Err(shape_fault("concatenated sizes", &out, sizes));
            }
            out[self.dim] = out[self.dim].saturating_add(sizes[self.dim]);
        }
        Ok(one(out))
    }

    fn record(&self, node: &Node, record: &mut Record<'_>) -> Result<(), Error> {
        let whole = record.layout(node.outputs[0]).clone();
        let mut at = 0u32;
        for &input in &node.inputs {
            let from = record.layout(input).clone();
            let length = from.sizes[self.dim];
            let mut to = whole.clone();
            to.sizes[self.dim] = length;
            to.offset += at * whole.strides[self.dim].unsigned_abs();
            at += length;
            record.copy(input, &from, node.outputs[0], &to)?;
        }
        Ok(())
    }
}

impl Kind for StateWrite {
    fn infer(&self, node: &Node, shapes: &Shapes<'_>) -> Result<OutSizes, Fault> {
        let (rows, state) = (shapes.sizes(node.inputs[0]), shapes.sizes(node.outputs[0]));
        let fits = |d: usize| d == self.dim || rows[d] == state[d];
        if rows.len() != state.len() || !(0..rows.len()).all(fits) {
            return Err(shape_fault("rows written into a cache", state, rows));
        }
        if let (Some(&count), Some(&capacity)) = (rows.get(self.dim), state.get(self.dim)) {
            check_rows(shapes.sym(self.start), count, capacity)?;
        }
        Ok(one(state.iter().copied().collect()))
    }

    fn syms(&self) -> Vec<SymId> {
        vec![self.start]
    }

    fn dynamic_word(&self, node: &Node, shapes: &Shapes<'_>) -> Result<Option<(u32, i32)>, Fault> {
        let row: i64 =
            shapes.sizes(node.outputs[0]).iter().skip(self.dim + 1).map(|&d| i64::from(d)).product();
        let offset = shapes.sym(self.start) * row;
        let offset = i32::try_from(offset).map_err(|_| Fault::SymOverflow(offset))?;
        Ok(Some((self.word, offset)))
    }

    fn record(&self, node: &Node, record: &mut Record<'_>) -> Result<(), Error> {
        let from = record.layout(node.inputs[0]).clone();
        let to: Strided = Strided {
            sizes: from.sizes.clone(),
            dynamic_offset: Some(self.word),
            ..record.layout(node.outputs[0]).clone()
        };
        record.copy(node.inputs[0], &from, node.outputs[0], &to)
    }
}

/// Rows `start..start + count` must lie inside a cache of `capacity` rows.
pub(super) fn check_rows(start: i64, count: u32, capacity: u32) -> Result<(), Fault> {
    let high = i64::from(capacity) - i64::from(count);
    if (0..=high).contains(&start) {
        return Ok(());
    }
    Err(Fault::Range { what: "start position", low: 0, high, found: start })
}

pub(crate) fn copy_op() -> Copy {
    Copy
}

/// A node that overwrites a whole state from `start` (0).
pub(crate) fn state_write(start: SymId, word: u32) -> Op {
    Op::StateWrite(StateWrite { dim: 0, start, word })
}
