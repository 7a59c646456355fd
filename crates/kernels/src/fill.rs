//! Tensors that are computed from nothing: `shaders/fill.comp`.

use crate::geometry::{Merged, elements, strided_groups};
use crate::push::Push;
use crate::table::FILL;
use crate::{Launch, Limits, MAX_RANK, Strided, Unsupported};

/// Invocations of its workgroups.
const THREADS: u32 = 128;

/// What is written to element i, counted row-major.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Filling {
    /// The same word everywhere.
    Word(u32),
    /// start + i · step, wrapping.
    Ints {
        /// Element 0.
        start: i32,
        /// What each element adds.
        step: i32,
    },
    /// start + i · step, rounded twice.
    Floats {
        /// Element 0.
        start: f32,
        /// What each element adds.
        step: f32,
    },
}

/// Fills dst. Bindings: dst, dyn.
///
/// # Errors
/// [`Unsupported`] when dst has too many elements to count.
pub fn fill(filling: Filling, dst: &Strided, limits: &Limits) -> Result<Launch, Unsupported> {
    let total = elements(&dst.sizes)?;
    let merged = Merged::new(&dst.sizes, [&dst.strides]);
    let rank = merged.rank(MAX_RANK)?;
    let (mode, words) = match filling {
        Filling::Word(word) => (0, [word, 0]),
        Filling::Ints { start, step } => (1, [start.cast_unsigned(), step.cast_unsigned()]),
        Filling::Floats { start, step } => (2, [start.to_bits(), step.to_bits()]),
    };
    let push = Push::new()
        .word(total)
        .words(words)
        .word(dst.offset)
        .dynamic(dst.dynamic_offset)
        .words(merged.inner_sizes(MAX_RANK))
        .words(merged.padded_strides(0, MAX_RANK));
    Ok(push.launch(FILL.pick(limits.tier), &[mode, rank], strided_groups(total, THREADS), limits))
}
