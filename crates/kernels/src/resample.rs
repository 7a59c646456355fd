//! Resampling of planes: `shaders/resample.comp`.

use crate::push::Push;
use crate::table::RESAMPLE;
use crate::{Launch, Limits, Strided};

/// Invocations of its workgroups.
const THREADS: u32 = 128;

/// Where outputs are read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sampling {
    /// The element at ⌊index · step⌋.
    Nearest {
        /// Input elements for one of the output, height first.
        step: [f32; 2],
    },
    /// Between the elements around (index + ½) · step − ½, or index · step when `align` is set; not below 0.
    Bilinear {
        /// Input elements for one of the output, height first.
        step: [f32; 2],
        /// Whether the outer elements' centres meet.
        align: bool,
    },
    /// Where a grid says.
    Grid(Grid),
}

/// How a grid of (column, row) pairs from −1 to 1 is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// The nearest element instead of a mean of four.
    pub nearest: bool,
    /// What is outside.
    pub outside: Outside,
    /// Whether −1 and 1 are the outer elements' centres, else their edges.
    pub align: bool,
}

/// What a grid finds outside of a plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Outside {
    /// Zeros.
    Zeros = 0,
    /// The nearest element.
    Border = 1,
    /// A reflection.
    Reflection = 2,
}

/// A resampling of contiguous x `[batch, channels, h, w]`.
#[derive(Clone, Debug)]
pub struct Resample<'a> {
    /// Where outputs are read.
    pub sampling: Sampling,
    /// x.
    pub x: &'a Strided,
    /// The contiguous grid `[batch, h, w, 2]` of [`Sampling::Grid`].
    pub grid: Option<&'a Strided>,
    /// Height and width of out.
    pub output: [u32; 2],
}

/// Launches a resampling. Bindings: x, grid, out (contiguous `[batch, channels, h, w]`), dyn.
#[must_use]
pub fn resample(op: &Resample<'_>, limits: &Limits) -> Launch {
    let size = |dim: usize| op.x.sizes.get(dim).copied().unwrap_or(1);
    let (mode, align, outside, nearest, step) = match op.sampling {
        Sampling::Nearest { step } => (0, false, Outside::Border, false, step),
        Sampling::Bilinear { step, align } => (1, align, Outside::Border, false, step),
        Sampling::Grid(grid) => (2, grid.align, grid.outside, grid.nearest, [1.0; 2]),
    };
    let nothing = Strided::default();
    let grid = op.grid.unwrap_or(&nothing);
    let push = Push::new()
        .words((0..4).map(size))
        .words(op.output)
        .float(step[0])
        .float(step[1])
        .word(op.x.offset)
        .dynamic(op.x.dynamic_offset)
        .word(grid.offset)
        .dynamic(grid.dynamic_offset);
    let planes = u64::from(size(0)) * u64::from(size(1));
    let outputs = op.output.iter().fold(planes, |n, &size| n.saturating_mul(size.into()));
    let specialization = [mode, align.into(), outside as u32, nearest.into()];
    push.launch(RESAMPLE.pick(limits.tier), &specialization, outputs.div_ceil(THREADS.into()), limits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::tests::PLAIN;

    #[test]
    fn an_invocation_an_output() {
        let x = Strided::contiguous(&crate::Dims::from_iter([2, 3, 4, 5]));
        let grid = Grid { nearest: false, outside: Outside::Reflection, align: true };
        let op = Resample { sampling: Sampling::Grid(grid), x: &x, grid: Some(&x), output: [8, 9] };
        let launch = resample(&op, &PLAIN);
        assert_eq!(launch.groups[0], (2 * 3 * 8 * 9u32).div_ceil(128));
        assert_eq!(launch.kernel.specialization.as_slice(), [2, 1, 2, 0]);
        assert_eq!(launch.push[..6], [2, 3, 4, 5, 8, 9]);
    }
}
