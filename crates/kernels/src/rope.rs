//! Rotary position embedding: `shaders/rope.comp`.

use crate::push::Push;
use crate::table::ROPE;
use crate::{Launch, Limits, Strided};

/// Invocations of a workgroup.
const THREADS: u64 = 128;

/// Which elements of a row form a pair and where its angle's cosine and sine are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum RopeForm {
    /// Neighbours; tables \[P, R/2\].
    Pairs = 0,
    /// Elements R/2 apart; tables \[P, R\] whose second half serves the second element.
    Halves = 1,
    /// Neighbours; one table \[P, R\] of cosine and sine alternating.
    Complex = 2,
}

/// Where a table of cosines or sines begins in its buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Elements before it.
    pub offset: u32,
    /// Word of the dynamic buffer with a further offset in elements.
    pub dynamic_offset: Option<u32>,
}

/// The rotation of one tensor.
#[derive(Clone, Debug)]
pub struct Rope<'a> {
    /// The pairing.
    pub form: RopeForm,
    /// x \[B, S, H, D\].
    pub x: &'a Strided,
    /// R ≤ D: elements of a row that are rotated, an even number; the others are copied.
    pub rotary: u32,
    /// Cosines (cosines and sines for [`RopeForm::Complex`]).
    pub cos: Table,
    /// Sines.
    pub sin: Table,
    /// P: rows of the tables; the last serves all positions beyond.
    pub table_rows: u32,
    /// Elements between rows of the tables.
    pub table_row: u32,
    /// Table row of s = 0.
    pub start: u32,
    /// Word of the dynamic buffer with a further addend of that row.
    pub start_dynamic: Option<u32>,
}

/// Launches a rotation; `None` unless x has rank 4. Bindings: x, cos, sin, out (contiguous \[B, S, H, D\]), dyn.
#[must_use]
pub fn rope(op: &Rope<'_>, limits: &Limits) -> Option<Launch> {
    let &[batch, s, heads, width] = op.x.sizes.as_slice() else { return None };
    let &[x_batch, x_s, x_head, x_d] = op.x.strides.as_slice() else { return None };
    let rows = batch.checked_mul(s)?.checked_mul(heads)?;
    let rotary = op.rotary.min(width);
    let push = Push::new()
        .words([rows, s, heads, width, rotary])
        .word(op.x.offset)
        .dynamic(op.x.dynamic_offset)
        .signed(x_batch)
        .signed(x_s)
        .signed(x_head)
        .signed(x_d)
        .word(op.start)
        .dynamic(op.start_dynamic)
        .words([op.table_rows, op.table_row])
        .word(op.cos.offset)
        .dynamic(op.cos.dynamic_offset)
        .word(op.sin.offset)
        .dynamic(op.sin.dynamic_offset);
    let units = u64::from(rows) * u64::from(width - rotary / 2);
    Some(push.launch(ROPE.pick(limits.tier), &[op.form as u32], units.div_ceil(THREADS), limits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::tests::PLAIN;

    #[test]
    fn one_invocation_a_pair_or_copied_element() {
        let sizes: crate::Dims = [1u32, 3, 2, 100].into_iter().collect();
        let x = Strided { strides: crate::contiguous_strides(&sizes), sizes, ..Strided::default() };
        let op = Rope {
            form: RopeForm::Halves,
            x: &x,
            rotary: 60,
            cos: Table::default(),
            sin: Table::default(),
            table_rows: 10,
            table_row: 60,
            start: 0,
            start_dynamic: Some(1),
        };
        let launch = rope(&op, &PLAIN).unwrap();
        assert_eq!(launch.groups, [(6u32 * 70).div_ceil(128), 1, 1]);
        assert_eq!(rope(&Rope { x: &Strided::default(), ..op }, &PLAIN), None);
    }
}
