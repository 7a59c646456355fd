//! softmax and log_softmax along one dimension: `shaders/softmax.comp`.

use arrayvec::ArrayVec;

use crate::geometry::{Merged, elements, strided_groups};
use crate::push::Push;
use crate::reduce::row_groups;
use crate::table::SOFTMAX;
use crate::{Dims, Launch, Limits, MAX_RANK, Strided, Unsupported};

/// Dimensions of the rows that the kernel takes: all but the normalised one.
const RANK: usize = MAX_RANK - 1;
/// Invocations of its workgroups.
const THREADS: u32 = 128;

/// Which function of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SoftmaxOp {
    /// e^(x − max) / Σ e^(x − max).
    Softmax = 0,
    /// x − max − ln Σ e^(x − max).
    LogSoftmax = 1,
}

/// out = op(x) along dimension `dim`; out has x's sizes and is contiguous. A tensor of rank 0 has one dimension of
/// size 1 here. Bindings: x, out, dyn.
///
/// # Errors
/// [`Unsupported`] when x has no dimension `dim` or too many elements.
pub fn softmax(op: SoftmaxOp, x: &Strided, dim: usize, limits: &Limits) -> Result<Launch, Unsupported> {
    let total = elements(&x.sizes)?;
    let rank = x.sizes.len();
    let (n, n_stride) = match (x.sizes.get(dim), x.strides.get(dim)) {
        (Some(&n), Some(&stride)) => (n, stride),
        _ if rank == 0 && dim == 0 => (1, 1),
        _ => return Err(Unsupported::Dim { dim, rank }),
    };
    let inner: u32 = x.sizes.iter().skip(dim + 1).product();
    let rows = total.checked_div(n).unwrap_or(0);
    let axes = x.sizes.iter().copied().zip(x.strides.iter().copied()).enumerate();
    let (sizes, strides): (Dims, ArrayVec<i32, MAX_RANK>) =
        axes.filter(|(d, _)| *d != dim).map(|(_, axis)| axis).unzip();
    let merged = Merged::new(&sizes, [&strides]);
    let shared = row_groups(rows, n, merged.strides[0].last());
    let push = Push::new()
        .words([rows, n, inner])
        .signed(n_stride)
        .word(x.offset)
        .dynamic(x.dynamic_offset)
        .words(merged.inner_sizes(RANK))
        .words(merged.padded_strides(0, RANK));
    let specialization = [op as u32, u32::from(shared), merged.rank(RANK)?];
    let groups = strided_groups(rows, if shared { 1 } else { THREADS });
    Ok(push.launch(SOFTMAX.pick(limits.tier), &specialization, groups, limits))
}
