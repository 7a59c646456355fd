//! Reductions over any dimensions: `shaders/reduce.comp`.

use arrayvec::ArrayVec;

use crate::geometry::{Merged, elements, strided_groups};
use crate::operations::operations;
use crate::push::Push;
use crate::table::REDUCE;
use crate::{Dims, Launch, Limits, MAX_RANK, Strided, Unsupported};

/// Kept and reduced dimensions the kernel takes after neighbours have been merged.
const RANK: usize = 6;
/// Invocations of its workgroups.
const THREADS: u32 = 128;

operations! {
    /// Reductions of n elements x. Names end in `F` for floats and in `I` for ints; `Any` and `All` take ints.
    /// Indices are ints that count the reduced dimensions row-major.
    pub enum ReduceOp {
        /// Σx.
        SumF,
        /// Σx / n; NaN for none.
        MeanF,
        /// Largest; NaN if any is, −∞ for none.
        AmaxF,
        /// Smallest; NaN if any is, ∞ for none.
        AminF,
        /// Πx.
        ProdF,
        /// Σ(x − mean)² / max(n − correction, 0).
        VarF,
        /// Index of the first largest; a NaN counts as larger than all.
        ArgmaxF,
        /// Index of the first smallest; a NaN counts as smaller than all.
        ArgminF,
        /// Σx, wrapping.
        SumI,
        /// Largest; the least int for none.
        AmaxI,
        /// Smallest; the greatest int for none.
        AminI,
        /// Πx, wrapping.
        ProdI,
        /// Index of the first largest.
        ArgmaxI,
        /// Index of the first smallest.
        ArgminI,
        /// 1 if any word is not 0.
        Any,
        /// 1 if no word is 0.
        All,
    }
}

/// out\[k\] = op of x\[k, r\] over all r, where `reduced` says for each dimension of x whether it is one of r. out is
/// contiguous over the kept dimensions in order. `correction` is that of [`ReduceOp::VarF`].
/// Bindings: x, out, dyn.
///
/// # Errors
/// [`Unsupported`] when too many kept or reduced dimensions are left.
pub fn reduce(
    op: ReduceOp,
    x: &Strided,
    reduced: impl Fn(usize) -> bool,
    correction: f32,
    limits: &Limits,
) -> Result<Launch, Unsupported> {
    let part = |wanted: bool| -> Result<(u32, Merged<1>), Unsupported> {
        let dims = (0..x.sizes.len()).filter(|&d| reduced(d) == wanted);
        let axes = dims.filter_map(|d| Some((*x.sizes.get(d)?, *x.strides.get(d)?)));
        let (sizes, strides): (Dims, ArrayVec<i32, MAX_RANK>) = axes.unzip();
        Ok((elements(&sizes)?, Merged::new(&sizes, [&strides])))
    };
    let (outputs, kept) = part(false)?;
    let (count, over) = part(true)?;
    let ranks = [kept.rank(RANK)?, over.rank(RANK)?];
    let shared = row_groups(outputs, count, kept.strides[0].last());
    let push = Push::new()
        .words([outputs, count])
        .word(x.offset)
        .dynamic(x.dynamic_offset)
        .float(correction)
        .words(kept.inner_sizes(RANK))
        .words(kept.padded_strides(0, RANK))
        .words(over.inner_sizes(RANK))
        .words(over.padded_strides(0, RANK));
    let specialization = [op as u32, u32::from(shared), ranks[0], ranks[1]];
    let groups = strided_groups(outputs, if shared { 1 } else { THREADS });
    Ok(push.launch(REDUCE.pick(limits.tier), &specialization, groups, limits))
}

/// Whether `rows` of `count` elements each are best served by a workgroup a row rather than by an invocation a row.
/// Invocations read well together when neighbouring rows are neighbours in memory.
pub(crate) fn row_groups(rows: u32, count: u32, innermost_stride: Option<&i32>) -> bool {
    let coalesced = rows > 1 && innermost_stride == Some(&1);
    if coalesced { count >= 64 && rows < 4096 } else { count >= 32 }
}
