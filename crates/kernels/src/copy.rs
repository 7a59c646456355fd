//! Strided copies: views made contiguous, concatenation, expansion, padding, cache updates: `shaders/copy.comp`.

use crate::geometry::{Merged, elements, strided_groups};
use crate::push::Push;
use crate::table::COPY;
use crate::{Launch, Limits, MAX_RANK, Strided, Unsupported};

/// Invocations of its workgroups.
const THREADS: u32 = 128;

/// dst\[i\] = src\[i\]; src broadcasts to dst's sizes. What is read and what is written must not overlap.
/// Bindings: src, dst, dyn.
///
/// # Errors
/// [`Unsupported`] when src does not broadcast to dst's sizes.
pub fn copy(src: &Strided, dst: &Strided, limits: &Limits) -> Result<Launch, Unsupported> {
    let total = elements(&dst.sizes)?;
    let merged = Merged::new(&dst.sizes, [&src.broadcast_strides(&dst.sizes)?, &dst.strides]);
    let rank = merged.rank(MAX_RANK)?;
    let aligned = |x: &Strided| x.offset.is_multiple_of(4) && x.dynamic_offset.is_none();
    let wide = merged.is_flat(0) && merged.is_flat(1) && aligned(src) && aligned(dst);
    let push = Push::new()
        .words([total, src.offset, dst.offset])
        .dynamic(src.dynamic_offset)
        .dynamic(dst.dynamic_offset)
        .words(merged.inner_sizes(MAX_RANK))
        .words(merged.padded_strides(0, MAX_RANK))
        .words(merged.padded_strides(1, MAX_RANK));
    let groups = strided_groups(total, if wide { 4 * THREADS } else { THREADS });
    Ok(push.launch(COPY.pick(limits.tier), &[rank, u32::from(wide)], groups, limits))
}
