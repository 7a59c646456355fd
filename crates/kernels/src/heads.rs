//! Rows of the heads of q, k and v on their way into attention: `shaders/heads.comp`.

use arrayvec::ArrayVec;

use crate::push::Push;
use crate::residual::RowNorm;
use crate::rope::Table;
use crate::table::HEADS;
use crate::{Launch, Limits};

/// Tensors that one launch takes.
pub const MAX_PARTS: usize = 3;
/// Elements of a row that one invocation holds.
const ELEMENTS: u32 = 8;
/// Most invocations of a workgroup.
const MOST_THREADS: u32 = 128;
/// Largest D, which is even.
pub const MAX_WIDTH: u32 = ELEMENTS * MOST_THREADS;

/// One tensor \[B, S, H, D\], contiguous.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// H
    pub heads: u32,
    /// Its rows are normalised first.
    pub norm: Option<RowNorm>,
    /// Its rows are rotated then.
    pub rope: bool,
    /// Positions of the result \[B, P, H, D\]: S, or the capacity of a cache.
    pub out_rows: u32,
    /// Word of the dynamic buffer with the position of s = 0 in a cache.
    pub start_dynamic: Option<u32>,
}

/// The rotation of all parts that have one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rotation {
    /// The elements of a pair are neighbours and share a table entry, else they are D / 2 apart.
    pub neighbours: bool,
    /// Cosines, rows of `row` elements.
    pub cos: Table,
    /// Sines.
    pub sin: Table,
    /// Rows of the tables; the last serves all positions beyond.
    pub rows: u32,
    /// Elements between rows of the tables.
    pub row: u32,
    /// Word of the dynamic buffer with the table row of s = 0.
    pub start_dynamic: Option<u32>,
}

/// Parts with the same B, S and D.
#[derive(Clone, Debug)]
pub struct Heads {
    /// B
    pub batch: u32,
    /// S
    pub s: u32,
    /// D: even, at most [`MAX_WIDTH`].
    pub width: u32,
    /// One to three tensors.
    pub parts: ArrayVec<Part, MAX_PARTS>,
    /// Needed where a part is rotated.
    pub rotation: Option<Rotation>,
}

/// Launches the parts. Bindings: x of the three parts, their weights, cos, sin, their results (any buffer for those
/// missing), dyn.
#[must_use]
pub fn heads(op: &Heads, limits: &Limits) -> Launch {
    let heads = op.parts.iter().map(|part| part.heads).sum();
    let nothing = Rotation {
        neighbours: false,
        cos: Table::default(),
        sin: Table::default(),
        rows: 1,
        row: 0,
        start_dynamic: None,
    };
    let rotation = op.rotation.unwrap_or(nothing);
    let positions = op.batch * op.s;
    let mut push = Push::new()
        .words([positions, op.s, op.width, heads])
        .dynamic(rotation.start_dynamic)
        .words([rotation.rows, rotation.row])
        .word(rotation.cos.offset)
        .dynamic(rotation.cos.dynamic_offset)
        .word(rotation.sin.offset)
        .dynamic(rotation.sin.dynamic_offset);
    let of_parts = |word: fn(&Part) -> u32| [0, 1, 2].map(|index| op.parts.get(index).map_or(0, word));
    push = push
        .words(of_parts(|part| part.heads))
        .words(of_parts(flags))
        .words(of_parts(|part| part.norm.map_or(0.0, |norm| norm.eps).to_bits()))
        .words(of_parts(|part| part.out_rows));
    for index in 0..MAX_PARTS {
        push = push.dynamic(op.parts.get(index).and_then(|part| part.start_dynamic));
    }
    let threads = (op.width / 2).div_ceil(2).next_power_of_two().clamp(32, MOST_THREADS);
    let specialization = [threads, rotation.neighbours.into()];
    push.launch(HEADS.pick(limits.tier), &specialization, u64::from(positions) * u64::from(heads), limits)
}

fn flags(part: &Part) -> u32 {
    let weight = part.norm.is_some_and(|norm| norm.weight);
    u32::from(part.norm.is_some()) | (u32::from(weight) << 1) | (u32::from(part.rope) << 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::tests::PLAIN;

    #[test]
    fn one_workgroup_a_row_of_every_part() {
        let part = |heads| Part { heads, norm: None, rope: true, out_rows: 5, start_dynamic: None };
        let parts = ArrayVec::from_iter([part(8), part(2)]);
        let op = Heads { batch: 2, s: 5, width: 512, parts, rotation: None };
        let launch = heads(&op, &PLAIN);
        assert_eq!(launch.groups, [2 * 5 * 10, 1, 1]);
        assert_eq!(launch.kernel.specialization[0], 128);
        assert_eq!(launch.push[11..17], [8, 2, 0, 4, 4, 0]);
        assert_eq!(launch.push[20..23], [5, 5, 0]);
    }

    #[test]
    fn invocations_hold_a_whole_row() {
        for width in [2, 64, 100, 256, 512, MAX_WIDTH] {
            let part = Part { heads: 1, norm: None, rope: false, out_rows: 1, start_dynamic: None };
            let op = Heads { batch: 1, s: 1, width, parts: ArrayVec::from_iter([part]), rotation: None };
            assert!(heads(&op, &PLAIN).kernel.specialization[0] * ELEMENTS >= width, "{width}");
        }
    }
}
