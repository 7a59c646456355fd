//! Convolutions: `shaders/conv.comp` (tiles) and `shaders/conv_direct.comp` (few channels or few positions).

use crate::matmul::tile;
use crate::push::Push;
use crate::table::{CONV, CONV_DIRECT, CONV_DIRECT_INT8, CONV_INT8};
use crate::{Launch, Limits, Storage};

/// Invocations of a workgroup of the direct kernel.
const DIRECT_THREADS: u32 = 128;
/// Invocations that share an output of the direct kernel where outputs are few.
const DIRECT_LANES: u32 = 32;
/// Outputs below which they do.
const FEW_OUTPUTS: u64 = 32768;

/// How a window moves over a plane; height first. One spatial dimension is two, the first of extent 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Taps.
    pub kernel: [u32; 2],
    /// Input elements (of a transposed convolution: output elements) from one window to the next.
    pub stride: [u32; 2],
    /// Zeros around the input.
    pub padding: [u32; 2],
    /// Elements from one tap to the next.
    pub dilation: [u32; 2],
    /// Output elements a transposed convolution adds at the end.
    pub output_padding: [u32; 2],
    /// Whether input and output change roles.
    pub transposed: bool,
}

impl Window {
    /// Output size along an axis (0: height) of an input of size `input`; `None` where the window does not fit or
    /// positions exceed 31 bits.
    #[must_use]
    pub fn output(&self, axis: usize, input: u32) -> Option<u32> {
        let [kernel, stride, padding, dilation, extra] =
            [self.kernel, self.stride, self.padding, self.dilation, self.output_padding]
                .map(|pair| pair.get(axis).map(|&value| i64::from(value)));
        let (stride, padding) = (stride?, padding?);
        let reach = dilation?.checked_mul(kernel? - 1)?.checked_add(1)?;
        let input = i64::from(input);
        let size = if self.transposed {
            let spread = (input - 1).checked_mul(stride)?.checked_add(reach)?.checked_add(extra?)?;
            spread - 2 * padding
        } else {
            let room = input + 2 * padding - reach;
            if room < 0 {
                return None;
            }
            room / stride + 1
        };
        // The kernels number positions of the padded input, and of the spread output, by ints.
        let furthest = (input + 2 * padding).max(size + padding).checked_add(reach)?;
        i32::try_from(furthest).ok()?;
        u32::try_from(size).ok()
    }
}

/// Where the weight of (group, output channel in it, input channel in it, tap) lies: element
/// Σ index · stride, taps counted row-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightStrides {
    /// Elements between groups.
    pub group: u32,
    /// Elements between output channels.
    pub outer: u32,
    /// Elements between input channels.
    pub inner: u32,
    /// Elements between taps.
    pub tap: u32,
}

/// Exact int arithmetic on codes, or floats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arithmetic {
    /// x holds floats; weights are as the storage says ([`Storage::Int8`]: codes, to be scaled).
    Float(Storage),
    /// x holds codes of which this one stands for 0; weights are signed bytes.
    Int8 {
        /// The code that stands for 0.
        zero: i32,
    },
}

/// A convolution of contiguous x `[batch, groups · inner, h, w]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conv {
    /// Images.
    pub batch: u32,
    /// Groups of channels.
    pub groups: u32,
    /// Input channels of a group.
    pub inner: u32,
    /// Output channels of a group.
    pub outer: u32,
    /// Height and width of x.
    pub input: [u32; 2],
    /// Height and width of out.
    pub output: [u32; 2],
    /// The window.
    pub window: Window,
    /// Elements before x.
    pub x_offset: u32,
    /// Word of the dynamic buffer with more of them.
    pub x_dynamic: Option<u32>,
    /// Order of the weights.
    pub weights: WeightStrides,
    /// Of x and weights.
    pub arithmetic: Arithmetic,
    /// Factor of all sums, and the number of scales, one an output channel, by which they are repeated.
    pub scales: Option<(f32, u32)>,
    /// Whether there is a bias of one float an output channel.
    pub bias: bool,
    /// Bounds of the result, the upper one last.
    pub bounds: [f32; 2],
    /// Step and zero of int8 codes to which the result is rounded.
    pub codes: Option<(f32, i32)>,
}

/// Launches a convolution. Bindings: x, weights, scales, bias (any buffer for those missing), out (contiguous
/// `[batch, groups · outer, h, w]`), dyn.
#[must_use]
pub fn conv(op: &Conv, limits: &Limits) -> Launch {
    let [kernel_h, kernel_w] = op.window.kernel;
    let (storage, zero, int8) = match op.arithmetic {
        Arithmetic::Float(storage) => (storage, 0, false),
        Arithmetic::Int8 { zero } => (Storage::Int8, zero, true),
    };
    let mut specialization = vec![
        kernel_h,
        kernel_w,
        storage as u32,
        op.window.transposed.into(),
        op.bias.into(),
        op.scales.is_some().into(),
        op.codes.is_some().into(),
    ];
    let (batch, groups) = (u64::from(op.batch), u64::from(op.groups));
    let area = op.output[0].saturating_mul(op.output[1]);
    let depth = op.inner.saturating_mul(kernel_h).saturating_mul(kernel_w);
    if op.outer >= 8 && depth >= 8 && area >= 16 {
        let (tile_m, tile_n) = tile(op.outer, area, op.batch.saturating_mul(op.groups), limits);
        specialization.extend([tile_m * tile_n / 16, tile_m, tile_n]);
        let tiles = u64::from(op.outer.div_ceil(tile_m)) * u64::from(area.div_ceil(tile_n));
        let family = if int8 { &CONV_INT8 } else { &CONV };
        let shader = family.pick(limits.tier);
        return push(op, zero).launch(shader, &specialization, batch * groups * tiles, limits);
    }
    let outputs = batch * groups * u64::from(op.outer) * u64::from(area);
    let shared = op.inner >= DIRECT_LANES && outputs < FEW_OUTPUTS;
    let lanes = if shared { DIRECT_LANES } else { 1 };
    specialization.push(lanes);
    let family = if int8 { &CONV_DIRECT_INT8 } else { &CONV_DIRECT };
    let workgroups = outputs.div_ceil((DIRECT_THREADS / lanes).into());
    push(op, zero).launch(family.pick(limits.tier), &specialization, workgroups, limits)
}

fn push(op: &Conv, zero: i32) -> Push {
    let (x_scale, scale_count) = op.scales.unwrap_or((1.0, 1));
    let (step, out_zero) = op.codes.unwrap_or((1.0, 0));
    Push::new()
        .words([op.batch, op.groups, op.inner, op.outer])
        .words(op.input)
        .words(op.output)
        .words(op.window.stride)
        .words(op.window.padding)
        .words(op.window.dilation)
        .word(op.x_offset)
        .dynamic(op.x_dynamic)
        .words([op.weights.group, op.weights.outer, op.weights.inner, op.weights.tap])
        .signed(zero)
        .float(x_scale)
        .word(scale_count.max(1))
        .float(op.bounds[0])
        .float(op.bounds[1])
        .float(1.0 / step)
        .signed(out_zero)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::tests::PLAIN;

    const WINDOW: Window = Window {
        kernel: [3, 3],
        stride: [2, 2],
        padding: [1, 1],
        dilation: [1, 1],
        output_padding: [0, 0],
        transposed: false,
    };

    fn op(groups: u32, inner: u32, outer: u32, size: u32) -> Conv {
        let output = WINDOW.output(0, size).unwrap_or(0);
        Conv {
            batch: 2,
            groups,
            inner,
            outer,
            input: [size; 2],
            output: [output; 2],
            window: WINDOW,
            x_offset: 0,
            x_dynamic: None,
            weights: WeightStrides { group: outer * inner * 9, outer: inner * 9, inner: 9, tap: 1 },
            arithmetic: Arithmetic::Float(Storage::Word),
            scales: None,
            bias: true,
            bounds: [f32::NEG_INFINITY, f32::INFINITY],
            codes: None,
        }
    }

    #[test]
    fn output_sizes() {
        assert_eq!(WINDOW.output(0, 7), Some(4));
        assert_eq!(WINDOW.output(0, 0), None);
        assert_eq!(Window { padding: [0, 0], ..WINDOW }.output(1, 2), None);
        let transposed = Window { transposed: true, output_padding: [1, 1], ..WINDOW };
        assert_eq!(transposed.output(0, 4), Some(8));
        assert_eq!(Window { padding: [9, 9], ..transposed }.output(0, 4), None);
        assert_eq!(Window { dilation: [u32::MAX; 2], padding: [u32::MAX; 2], ..WINDOW }.output(0, 4), None);
    }

    #[test]
    fn shapes_choose_the_kernel() {
        let name = |op: &Conv| conv(op, &PLAIN).kernel.shader.name;
        assert_eq!(name(&op(1, 16, 32, 28)), "conv");
        assert_eq!(name(&op(32, 1, 1, 28)), "conv_direct");
        assert_eq!(name(&op(1, 64, 64, 2)), "conv_direct");
        let int8 = Conv { arithmetic: Arithmetic::Int8 { zero: -3 }, ..op(1, 16, 32, 28) };
        assert_eq!(name(&int8), "conv_int8");
        assert_eq!(conv(&int8, &PLAIN).push[20].cast_signed(), -3);
    }

    #[test]
    fn groups_cover_the_output() {
        let tiled = conv(&op(2, 16, 40, 28), &PLAIN);
        let [threads, tile_m, tile_n] = [7, 8, 9].map(|i| tiled.kernel.specialization[i]);
        assert_eq!(threads, tile_m * tile_n / 16);
        assert_eq!(tiled.groups[0], 2 * 2 * 40u32.div_ceil(tile_m) * 196u32.div_ceil(tile_n));
        assert_eq!(conv(&op(32, 1, 1, 28), &PLAIN).groups[0], (2 * 32 * 196u32).div_ceil(128));
        let few = conv(&op(1, 64, 64, 2), &PLAIN);
        assert_eq!((few.kernel.specialization[7], few.groups[0]), (32, 2 * 64 / 4));
    }
}
