//! Elements and rows picked by an index tensor: `shaders/gather.comp`.

use arrayvec::ArrayVec;

use crate::push::Push;
use crate::table::GATHER;
use crate::{Launch, Limits, MAX_RANK, Storage, Strided};

/// Dimensions the kernel takes after neighbours have been merged.
const RANK: usize = 6;
/// Invocations of its workgroups.
const THREADS: u64 = 128;

/// Which rows of a table are in the buffer bound for it: all of them, unless it is bound part by part with one
/// launch a part. A launch leaves what belongs to other parts alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// First row.
    pub first: u32,
    /// Number of rows.
    pub count: u32,
}

/// x and the dimension that the index picks from.
#[derive(Clone, Debug)]
pub struct Gather<'a> {
    /// The source; `x.sizes[dim]` is the size of the whole table.
    pub x: &'a Strided,
    /// How x is stored ([`Storage::Word`] or [`Storage::Half`]).
    pub storage: Storage,
    /// The dimension picked from.
    pub dim: usize,
    /// The rows of it that are bound.
    pub rows: Rows,
    /// i32 indices; negative ones count from the end.
    pub index: &'a Strided,
    /// Told in the fault buffer when an index is out of range.
    pub tag: u32,
}

/// Why a gather cannot be launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unsupported {
    /// More dimensions remain after merging neighbours than the kernel takes.
    Rank {
        /// Dimensions that remain.
        rank: usize,
        /// Dimensions the kernel takes.
        most: usize,
    },
    /// The gathered dimension is not one of x's, or x and index differ in rank.
    Shape,
}

/// One dimension of the output: its size and the strides of x and index along it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Axis {
    size: u32,
    x: i32,
    index: i32,
}

/// out\[o…, j…, i…\] = x\[o…, index\[j…\], i…\]: index_select, index.Tensor and embedding.
/// Bindings: x, index, out (contiguous), dyn, fault.
///
/// # Errors
/// [`Unsupported`] when the dimensions cannot be expressed.
pub fn gather_rows(op: &Gather<'_>, limits: &Limits) -> Result<Launch, Unsupported> {
    let (x, index) = (op.x, op.index);
    let source = |i: usize| Some(Axis { size: *x.sizes.get(i)?, x: *x.strides.get(i)?, index: 0 });
    let picked = |i: usize| Some(Axis { size: *index.sizes.get(i)?, x: 0, index: *index.strides.get(i)? });
    let axes: Option<ArrayVec<Axis, { 2 * MAX_RANK }>> = (0..op.dim)
        .map(source)
        .chain((0..index.sizes.len()).map(picked))
        .chain((op.dim + 1..x.sizes.len()).map(source))
        .collect();
    launch(op, &axes.ok_or(Unsupported::Shape)?, limits)
}

/// out\[i…\] = x\[i… with index\[i…\] in dimension `dim`\]: gather. x and index have the same rank, out has index's sizes.
/// Bindings: x, index, out (contiguous), dyn, fault.
///
/// # Errors
/// [`Unsupported`] when the dimensions cannot be expressed.
pub fn gather_elements(op: &Gather<'_>, limits: &Limits) -> Result<Launch, Unsupported> {
    let (x, index) = (op.x, op.index);
    if x.sizes.len() != index.sizes.len() {
        return Err(Unsupported::Shape);
    }
    let axis = |i: usize| {
        let stride = if i == op.dim { 0 } else { *x.strides.get(i)? };
        Some(Axis { size: *index.sizes.get(i)?, x: stride, index: *index.strides.get(i)? })
    };
    let axes: Option<ArrayVec<Axis, { 2 * MAX_RANK }>> = (0..index.sizes.len()).map(axis).collect();
    launch(op, &axes.ok_or(Unsupported::Shape)?, limits)
}

fn launch(op: &Gather<'_>, axes: &[Axis], limits: &Limits) -> Result<Launch, Unsupported> {
    let (Some(&dim_size), Some(&dim_stride)) = (op.x.sizes.get(op.dim), op.x.strides.get(op.dim)) else {
        return Err(Unsupported::Shape);
    };
    let total = axes.iter().fold(1u64, |n, axis| n * u64::from(axis.size));
    let total = u32::try_from(total).map_err(|_| Unsupported::Shape)?;
    let merged = merge(axes);
    if merged.len() > RANK {
        return Err(Unsupported::Rank { rank: merged.len(), most: RANK });
    }
    // The kernel is specialised for the rank and does not look at what lies behind.
    let padded = |of: fn(&Axis) -> u32, fill: u32| {
        merged.iter().map(of).chain(std::iter::repeat(fill)).take(RANK).collect::<ArrayVec<u32, RANK>>()
    };
    let push = Push::new()
        .words([total, op.tag, dim_size, op.rows.first, op.rows.count])
        .signed(dim_stride)
        .word(op.x.offset)
        .dynamic(op.x.dynamic_offset)
        .word(op.index.offset)
        .dynamic(op.index.dynamic_offset)
        .words(padded(|axis| axis.size, 1))
        .words(padded(|axis| axis.x.cast_unsigned(), 0))
        .words(padded(|axis| axis.index.cast_unsigned(), 0));
    let rank = u32::try_from(merged.len()).unwrap_or(0);
    let groups = u64::from(total).div_ceil(THREADS);
    Ok(push.launch(GATHER.pick(limits.tier), &[op.storage as u32, rank], groups, limits))
}

/// Drops dimensions of one element and merges neighbours that are contiguous in both operands.
fn merge(axes: &[Axis]) -> ArrayVec<Axis, { 2 * MAX_RANK }> {
    let mut merged: ArrayVec<Axis, { 2 * MAX_RANK }> = ArrayVec::new();
    for &axis in axes.iter().filter(|axis| axis.size != 1) {
        let step = |stride: i32| i64::from(stride) * i64::from(axis.size);
        match merged.last_mut() {
            Some(last) if i64::from(last.x) == step(axis.x) && i64::from(last.index) == step(axis.index) => {
                *last = Axis { size: last.size.saturating_mul(axis.size), ..axis };
            }
            _ => merged.push(axis),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::tests::PLAIN;

    fn strided(sizes: &[u32]) -> Strided {
        let sizes: crate::Dims = sizes.iter().copied().collect();
        Strided { strides: crate::contiguous_strides(&sizes), sizes, ..Strided::default() }
    }

    fn op<'a>(x: &'a Strided, dim: usize, index: &'a Strided) -> Gather<'a> {
        let rows = Rows { first: 0, count: x.sizes[dim] };
        Gather { x, storage: Storage::Word, dim, rows, index, tag: 7 }
    }

    #[test]
    fn an_embedding_is_two_dimensional() {
        let (table, ids) = (strided(&[100, 64]), strided(&[1, 5]));
        let launch = gather_rows(&op(&table, 0, &ids), &PLAIN).unwrap();
        assert_eq!(launch.kernel.specialization.as_slice(), [0, 2]);
        assert_eq!(launch.push[0], 5 * 64);
        assert_eq!(&launch.push[10..12], [5, 64]);
        assert_eq!(&launch.push[16..18], [0, 1], "x does not vary with the row");
        assert_eq!(&launch.push[22..24], [1, 0], "index does not vary with the column");
        assert_eq!(launch.groups, [3, 1, 1]);
    }

    #[test]
    fn gather_keeps_the_strides_of_both() {
        let (x, index) = (strided(&[4, 6, 3]), strided(&[2, 5, 3]));
        let launch = gather_elements(&op(&x, 1, &index), &PLAIN).unwrap();
        assert_eq!(launch.push[5], 3, "stride of the gathered dimension");
        assert_eq!(&launch.push[10..13], [2, 5, 3]);
        assert_eq!(&launch.push[16..19], [18, 0, 1]);
        assert_eq!(&launch.push[22..25], [15, 3, 1]);
    }

    #[test]
    fn shapes_that_do_not_fit_are_refused() {
        let (x, index) = (strided(&[4, 6]), strided(&[5]));
        assert_eq!(gather_elements(&op(&x, 1, &index), &PLAIN), Err(Unsupported::Shape));
    }
}
