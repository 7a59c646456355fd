//! Attention learns that its mask is a window over the latest keys: closed keys are then not read at all, and neither is
//! the mask. Models keep the mask of every position as the rows of one constant, of which a step slices its own.

use std::collections::HashMap;

use etvk_vkgraph::DType;

use crate::ir::{Index, Origin, SymId, TensorId, View, Weight, WeightId};
use crate::ops::Op;

use super::Constants;
use super::rewrite::Rewrite;

pub(super) fn run(rewrite: &mut Rewrite, constants: &dyn Constants) {
    let mut known: HashMap<WeightId, Option<u32>> = HashMap::new();
    for id in rewrite.nodes() {
        let Op::Sdpa(op) = &rewrite.node(id).op else { continue };
        // A softcap opens what a mask closes.
        let (true, Some(start), None) = (op.mask, op.start, op.softcap) else { continue };
        let Some(table) = rows_from(rewrite, rewrite.node(id).inputs[3], start) else { continue };
        let window = *known.entry(table).or_insert_with(|| {
            let weight = &rewrite.program.weights[table.index()];
            window(weight, constants.bytes(weight)?)
        });
        if let Op::Sdpa(op) = &mut rewrite.program.nodes[id].op {
            op.mask_window = window;
        }
    }
}

/// The constant whose rows from `start` on a mask is.
fn rows_from(rewrite: &Rewrite, mut mask: TensorId, start: SymId) -> Option<WeightId> {
    let program = &rewrite.program;
    while let Origin::View { base, view: View::Unsqueeze { dim: 0 }, .. } = &program.tensor(mask).origin {
        mask = *base;
    }
    let Origin::View { base, view, .. } = &program.tensor(mask).origin else { return None };
    let View::Slice { dim: 0, start: Index::Sym(first), step: 1, .. } = view else { return None };
    match program.tensor(*base).origin {
        Origin::Weight(weight) if *first == start && program.tensor(*base).bound.len() == 2 => Some(weight),
        _ => None,
    }
}

/// How many keys each row of a table leaves open, if row p has zeros for the keys p − window < c ≤ p and closes all others:
/// with −∞, or with −65504 and less, which is how −∞ is stored in halves.
fn window(weight: &Weight, bytes: &[u8]) -> Option<u32> {
    let &[rows, columns] = weight.dims.as_slice() else { return None };
    let count = usize::try_from(u64::from(rows) * u64::from(columns) * weight.dtype.size() as u64).ok()?;
    let bytes = bytes.get(..count)?;
    match weight.dtype {
        DType::Float16 => {
            let state = |bytes: &[u8; 2]| match u16::from_le_bytes(*bytes) {
                0 | 0x8000 => Some(true),
                0xFBFF | 0xFC00 => Some(false),
                _ => None,
            };
            window_of(bytes.as_chunks().0, columns, state)
        }
        DType::Float32 => {
            let state = |bytes: &[u8; 4]| match f32::from_le_bytes(*bytes) {
                0.0 => Some(true),
                mask if mask <= -65504.0 => Some(false),
                _ => None,
            };
            window_of(bytes.as_chunks().0, columns, state)
        }
        _ => None,
    }
}

/// As [`window`]; `open` says whether an element opens its key or closes it, if it is one of the two.
fn window_of<T>(elements: &[T], columns: u32, open: impl Fn(&T) -> Option<bool>) -> Option<u32> {
    // The width that rows with closed keys before the open ones agree on, and that of the last row without.
    let (mut found, mut whole) = (None, 0);
    for (position, row) in (0u32..).zip(elements.chunks_exact(columns.max(1) as usize)) {
        let end = row.len().min(position as usize + 1);
        let closed = row.iter().take_while(|element| open(element) == Some(false)).count();
        let rest = row.get(closed..end)?;
        if rest.iter().any(|element| open(element) != Some(true))
            || row[end..].iter().any(|element| open(element) != Some(false))
        {
            return None;
        }
        let width = position + 1 - u32::try_from(closed).ok()?;
        if closed == 0 && found.is_none() {
            whole = width;
        } else if width == 0 || width < whole || *found.get_or_insert(width) != width {
            return None;
        }
    }
    Some(found.unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Content, Form};

    const ROWS: u32 = 7;

    fn table(columns: u32, width: u32, closed: f32) -> Vec<f32> {
        let element = |row: u32, c: u32| if c <= row && c + width > row { 0.0 } else { closed };
        (0..ROWS).flat_map(|row| (0..columns).map(move |c| element(row, c))).collect()
    }

    fn found(columns: u32, table: &[f32]) -> Option<u32> {
        let of = |dtype| Weight {
            content: Content::Literal(0),
            dtype,
            dims: [ROWS, columns].into_iter().collect(),
            form: Form::Words,
        };
        let words: Vec<u8> = table.iter().flat_map(|x| x.to_le_bytes()).collect();
        let halves: Vec<u8> = table.iter().flat_map(|&x| half::f16::from_f32(x).to_le_bytes()).collect();
        let single = window(&of(DType::Float32), &words);
        assert_eq!(single, window(&of(DType::Float16), &halves));
        assert_eq!(window(&of(DType::Float32), &words[..words.len() - 1]), None);
        single
    }

    #[test]
    fn windows_are_found() {
        for closed in [f32::NEG_INFINITY, -65504.0] {
            for width in 1..ROWS {
                assert_eq!(found(7, &table(7, width, closed)), Some(width));
                assert_eq!(found(9, &table(9, width, closed)), Some(width));
            }
            assert_eq!(found(7, &table(7, ROWS, closed)), Some(u32::MAX));
        }
    }

    #[test]
    fn other_masks_are_not_windows() {
        for width in [2, 4] {
            let good = table(8, width, f32::NEG_INFINITY);
            for at in 0..good.len() {
                for other in [0.0, f32::NEG_INFINITY, -1.0, f32::NAN, -65472.0] {
                    let mut table = good.clone();
                    table[at] = other;
                    if other.is_nan() || other != good[at] {
                        assert_eq!(found(8, &table), None, "element {at} is {other}");
                    }
                }
            }
        }
    }

    #[test]
    fn fewer_columns_than_rows_are_a_window_as_far_as_they_go() {
        assert_eq!(found(4, &table(4, ROWS, f32::NEG_INFINITY)), Some(u32::MAX));
    }
}
