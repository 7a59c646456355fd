//! Normalisation of rows: `shaders/norm.comp`.

use crate::geometry::{Merged, elements, strided_groups};
use crate::push::Push;
use crate::table::NORM;
use crate::{Dims, Launch, Limits, Strided, Unsupported};

/// Dimensions of the rows that the kernel takes after neighbours have been merged.
const RANK: usize = 4;

/// Which normalisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormOp {
    /// x · 1/√(Σx²/n + eps) · weight.
    Rms,
    /// (x − mean) · 1/√(Σ(x − mean)²/n + eps) · weight + bias.
    Layer,
    /// As [`NormOp::Layer`], where a row is all channels of one of `groups` groups and weight and bias are per channel.
    Group {
        /// Groups of channels.
        groups: u32,
        /// Elements a channel: the product of the spatial sizes.
        area: u32,
    },
}

/// A normalisation and which optional operands it has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norm {
    /// Which one.
    pub op: NormOp,
    /// Added to the mean square or the variance.
    pub eps: f32,
    /// Whether weight is bound.
    pub weight: bool,
    /// Whether bias is bound.
    pub bias: bool,
    /// Whether mean and rstd, one of each a row, are wanted.
    pub stats: bool,
}

/// Normalises x, whose last dimension is a row and whose other dimensions count rows. out is contiguous, with x's
/// sizes; weight and bias are contiguous floats of a row (or one a channel), mean and rstd floats of a row each.
/// Bindings: x, weight, bias, out, mean, rstd (any buffer for those missing), dyn.
///
/// # Errors
/// [`Unsupported`] when x has no dimension or too many are left.
pub fn norm(norm: &Norm, x: &Strided, limits: &Limits) -> Result<Launch, Unsupported> {
    let missing = || Unsupported::Dim { dim: 0, rank: x.sizes.len() };
    let (&n, outer) = x.sizes.split_last().ok_or_else(missing)?;
    let (&n_stride, strides) = x.strides.split_last().ok_or_else(missing)?;
    let outer: Dims = outer.iter().copied().collect();
    let rows = elements(&outer)?;
    elements(&x.sizes)?;
    let merged = Merged::new(&outer, [strides]);
    let (mode, groups, area) = match norm.op {
        NormOp::Rms => (0, 1, 1),
        NormOp::Layer => (1, 1, 1),
        NormOp::Group { groups, area } => (2, groups.max(1), area.max(1)),
    };
    let push = Push::new()
        .words([rows, n])
        .signed(n_stride)
        .word(x.offset)
        .dynamic(x.dynamic_offset)
        .float(norm.eps)
        .words([groups, area])
        .words(merged.inner_sizes(RANK))
        .words(merged.padded_strides(0, RANK));
    let specialization = [
        mode,
        u32::from(norm.weight),
        u32::from(norm.bias),
        u32::from(norm.stats),
        merged.rank(RANK)?,
        threads(n, limits),
    ];
    Ok(push.launch(NORM.pick(limits.tier), &specialization, strided_groups(rows, 1), limits))
}

/// Invocations a row: about eight elements each, a power of two that the device takes.
pub(crate) fn threads(n: u32, limits: &Limits) -> u32 {
    let most = if limits.max_invocations >= 256 { 256 } else { 128 };
    n.div_ceil(8).next_power_of_two().clamp(32, most)
}
