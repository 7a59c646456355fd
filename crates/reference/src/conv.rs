//! Convolutions, float and int8, of one and two spatial dimensions.

use crate::Fault;
use crate::frame::Frame;
use crate::linear_q::activation;
use crate::map::clamped;
use crate::qparams::Scale;
use crate::tensor::{Tensor, collect, flat};

/// How the window moves; height first. One spatial dimension is two, the first of extent 1.
#[derive(Clone, Copy, Debug)]
struct Window {
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
    output_padding: [usize; 2],
    transposed: bool,
    groups: usize,
}

/// Two numbers from a list of one or two; `first` stands for the missing first one of one spatial dimension.
pub(crate) fn pair(frame: &Frame<'_>, slot: usize, first: Option<usize>) -> Result<[usize; 2], Fault> {
    match frame.sizes(slot)?[..] {
        [both] => Ok([first.unwrap_or(both), both]),
        [height, width] => Ok([height, width]),
        ref other => Err(Fault::Value { slot, expected: "one number or two", found: format!("{other:?}") }),
    }
}

/// A pair whose numbers are at least 1.
fn positive(frame: &Frame<'_>, slot: usize, first: Option<usize>) -> Result<[usize; 2], Fault> {
    match pair(frame, slot, first)? {
        pair if pair.contains(&0) => {
            Err(Fault::Value { slot, expected: "positive numbers", found: format!("{pair:?}") })
        }
        pair => Ok(pair),
    }
}

impl Window {
    /// A window whose kernel, stride, padding, dilation and groups are in slots from `slot` on.
    fn of_kernel(frame: &Frame<'_>, slot: usize) -> Result<Self, Fault> {
        Ok(Self {
            kernel: positive(frame, slot, None)?,
            stride: positive(frame, slot + 1, None)?,
            padding: pair(frame, slot + 2, None)?,
            dilation: positive(frame, slot + 3, None)?,
            output_padding: [0, 0],
            transposed: false,
            groups: frame.extent(slot + 4)?,
        })
    }

    /// Output size along an axis.
    fn output(&self, axis: usize, input: usize) -> Option<usize> {
        let reach = self.dilation[axis].checked_mul(self.kernel[axis].checked_sub(1)?)?.checked_add(1)?;
        let margin = self.padding[axis].checked_mul(2)?;
        if self.transposed {
            let spread = input.checked_sub(1)?.checked_mul(self.stride[axis])?;
            return spread.checked_add(reach)?.checked_add(self.output_padding[axis])?.checked_sub(margin);
        }
        Some(input.checked_add(margin)?.checked_sub(reach)? / self.stride[axis] + 1)
    }

    /// The input position that tap `tap` of output position `at` reads, if it is inside.
    fn source(&self, axis: usize, at: usize, tap: usize, input: usize) -> Option<usize> {
        let offset = tap * self.dilation[axis];
        let position = if self.transposed {
            let spread = (at + self.padding[axis]).checked_sub(offset)?;
            spread.is_multiple_of(self.stride[axis]).then_some(spread / self.stride[axis])?
        } else {
            (at * self.stride[axis] + offset).checked_sub(self.padding[axis])?
        };
        (position < input).then_some(position)
    }

    /// Convolves `x [N,C,H,W]`; `weight(output channel, input channel in its group, tap)` and `bias` are by element.
    fn apply(
        &self,
        x: &Tensor,
        channels: usize,
        weight: impl Fn(usize, usize, [usize; 2]) -> f64,
        bias: impl Fn(usize) -> f64,
    ) -> Result<Tensor, Fault> {
        let &[batch, inputs, height, width] = x.dims() else {
            return Err(Fault::Rank { slot: 0, expected: 4, found: x.rank() });
        };
        let grouped = inputs.is_multiple_of(self.groups) && channels.is_multiple_of(self.groups);
        let (Some(rows), Some(columns), true) = (self.output(0, height), self.output(1, width), grouped)
        else {
            let found = format!("{:?}", x.dims());
            return Err(Fault::Value { slot: 0, expected: "sizes that window and groups fit", found });
        };
        let (inner, outer) = (inputs / self.groups, channels / self.groups);
        let dims = vec![batch, channels, rows, columns];
        let values = x.floats();
        let items = collect(&dims, |at| {
            let mut sum = bias(at[1]);
            for row in 0..self.kernel[0] {
                let Some(y) = self.source(0, at[2], row, height) else { continue };
                for column in 0..self.kernel[1] {
                    let Some(z) = self.source(1, at[3], column, width) else { continue };
                    for channel in 0..inner {
                        let from = [at[0], at[1] / outer * inner + channel, y, z];
                        sum += values[flat(&from, x.dims())] * weight(at[1], channel, [row, column]);
                    }
                }
            }
            Ok(sum)
        })?;
        Ok(Tensor::wide(dims, items))
    }
}

/// `convolution(x, weight, bias?, stride, padding, dilation, transposed, output_padding, groups)`.
pub(crate) fn convolution(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let flags = Flags { transposed: frame.truth(6)?, output_padding: Some(7), groups: 8 };
    let result = float(frame, flags, [None, None])?;
    frame.set(result)
}

/// [`convolution`] with bounds in two more slots.
pub(crate) fn with_clamp(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let flags = Flags { transposed: frame.truth(6)?, output_padding: Some(7), groups: 8 };
    let bounds = [frame.optional_float(9)?, frame.optional_float(10)?];
    let result = float(frame, flags, bounds)?;
    frame.set(result)
}

/// `conv1d(x, weight, bias?, stride, padding, dilation, groups, low?, high?)`.
pub(crate) fn conv1d(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let flags = Flags { transposed: false, output_padding: None, groups: 6 };
    let bounds = [frame.optional_float(7)?, frame.optional_float(8)?];
    let result = float(frame, flags, bounds)?;
    frame.set(result)
}

/// Where float convolutions differ; the first six slots are alike.
struct Flags {
    transposed: bool,
    output_padding: Option<usize>,
    groups: usize,
}

fn float(frame: &Frame<'_>, flags: Flags, [low, high]: [Option<f64>; 2]) -> Result<Tensor, Fault> {
    let x = frame.tensor(0)?;
    let weight = frame.ranked(1, x.rank())?;
    let plane = |tensor: &Tensor| match *tensor.dims() {
        [a, b, width] => Ok([a, b, 1, width]),
        [a, b, height, width] => Ok([a, b, height, width]),
        _ => Err(Fault::Rank { slot: 0, expected: 4, found: tensor.rank() }),
    };
    let flat_line = x.rank() == 3;
    let first = |value| flat_line.then_some(value);
    let groups = frame.extent(flags.groups)?;
    let [outer, inner, height, width] = plane(&weight)?;
    let window = Window {
        kernel: [height, width],
        stride: positive(frame, 3, first(1))?,
        padding: pair(frame, 4, first(0))?,
        dilation: positive(frame, 5, first(1))?,
        output_padding: match flags.output_padding {
            Some(slot) if flags.transposed => pair(frame, slot, first(0))?,
            _ => [0, 0],
        },
        transposed: flags.transposed,
        groups,
    };
    let plane_x = x.reshaped(plane(&x)?.to_vec());
    // Transposed weights are [input channels, output channels of a group, ..].
    let (channels, inputs) = if flags.transposed {
        (inner.saturating_mul(groups), outer)
    } else {
        (outer, inner.saturating_mul(groups))
    };
    if plane_x.dims()[1] != inputs {
        let mut expected = x.dims().to_vec();
        expected[1] = inputs;
        return Err(Fault::Dims { slot: 0, expected, found: x.dims().to_vec() });
    }
    let (bias, values) = (frame.optional_elements(2, channels)?, weight.floats());
    let weight_at = |channel: usize, input: usize, tap: [usize; 2]| {
        let (row, column) = match flags.transposed {
            true => (channel / inner * (inputs / groups) + input, channel % inner),
            false => (channel, input),
        };
        values[flat(&[row, column, tap[0], tap[1]], &[outer, inner, height, width])]
    };
    let result = window
        .apply(&plane_x, channels, weight_at, |channel| bias.as_ref().map_or(0.0, |bias| bias[channel]))?;
    let items = result.floats().iter().map(|&y| clamped(y, low, high)).collect();
    let mut dims = result.dims().to_vec();
    if flat_line {
        dims.remove(2);
    }
    Ok(Tensor::wide(dims, items))
}

/// How int8 weights are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// `[OC, KH·KW·IC/groups or more]`, input channel fastest.
    Rows,
    /// `[KH, KW, OC]`, one input channel a group.
    Depthwise,
}

/// int8 weights with a scale a channel, and the bias.
struct Weight {
    layout: Layout,
    channels: usize,
    stride: usize,
    codes: Vec<f64>,
    scales: Vec<f64>,
    bias: Option<Vec<f64>>,
}

impl Weight {
    fn read(
        frame: &Frame<'_>,
        layout: Layout,
        [weight, scales, bias]: [usize; 3],
        window: &Window,
        inputs: usize,
    ) -> Result<Self, Fault> {
        let codes = frame.ranked(weight, if layout == Layout::Rows { 2 } else { 3 })?;
        let taps = window.kernel[0].saturating_mul(window.kernel[1]);
        let (channels, stride) = match layout {
            Layout::Rows => (codes.dims()[0], codes.width()),
            Layout::Depthwise => (codes.width(), codes.width()),
        };
        let needed = match layout {
            Layout::Rows => taps.saturating_mul(inputs / window.groups),
            Layout::Depthwise => taps,
        };
        let found =
            if layout == Layout::Rows { stride } else { codes.dims()[0].saturating_mul(codes.dims()[1]) };
        if found < needed || (layout == Layout::Depthwise && window.groups != inputs) {
            return Err(Fault::Length { slot: weight, expected: needed, found });
        }
        // A transposed convolution in groups has a scale for the channels of one group only.
        let scales = frame.elements(scales, channels / window.groups)?;
        let bias = frame.optional_elements(bias, channels)?;
        Ok(Self { layout, channels, stride, codes: codes.floats().into_owned(), scales, bias })
    }

    fn at(&self, window: &Window, inner: usize, channel: usize, input: usize, tap: [usize; 2]) -> f64 {
        let tap = tap[0] * window.kernel[1] + tap[1];
        let scale = match self.scales.get(channel).filter(|_| self.scales.len() >= self.channels) {
            Some(scale) => *scale,
            None => self.scales[channel % (self.channels / window.groups)],
        };
        scale
            * match self.layout {
                Layout::Rows => self.codes[channel * self.stride + tap * inner + input],
                Layout::Depthwise => self.codes[tap * self.stride + channel],
            }
    }

    fn apply(&self, x: &Tensor, window: &Window) -> Result<Tensor, Fault> {
        let inner = x.dims().get(1).map_or(0, |inputs| inputs / window.groups);
        let weight = |channel, input, tap| self.at(window, inner, channel, input, tap);
        let bias = |channel: usize| self.bias.as_ref().map_or(0.0, |bias| bias[channel]);
        window.apply(x, self.channels, weight, bias)
    }
}

fn mapped(x: &Tensor, f: impl Fn(f64) -> f64) -> Tensor {
    Tensor::wide(x.dims().to_vec(), x.floats().iter().map(|&x| f(x)).collect())
}

/// `q8ta_conv2d(x, scale, zp, weight, sums, scales, out_scale, out_zp, bias?, kernel, stride, padding, dilation,
/// groups, activation)`: int8 in, int8 out.
pub(crate) fn q8ta(frame: &mut Frame<'_>, layout: Layout) -> Result<(), Fault> {
    let window = Window::of_kernel(frame, 9)?;
    let low = activation(frame, 14)?;
    q8ta_with(frame, layout, &window, low)
}

/// [`q8ta`] without activation, as release 1.1 has it.
pub(crate) fn q8ta_linear(frame: &mut Frame<'_>, layout: Layout) -> Result<(), Fault> {
    let window = Window::of_kernel(frame, 9)?;
    q8ta_with(frame, layout, &window, f64::NEG_INFINITY)
}

/// [`q8ta`] with an output padding in front of the dilation.
pub(crate) fn q8ta_transposed(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let window = Window {
        kernel: positive(frame, 9, None)?,
        stride: positive(frame, 10, None)?,
        padding: pair(frame, 11, None)?,
        output_padding: pair(frame, 12, None)?,
        dilation: positive(frame, 13, None)?,
        transposed: true,
        groups: frame.extent(14)?,
    };
    let low = activation(frame, 15)?;
    q8ta_with(frame, Layout::Rows, &window, low)
}

fn q8ta_with(frame: &mut Frame<'_>, layout: Layout, window: &Window, low: f64) -> Result<(), Fault> {
    let x = frame.ranked(0, 4)?;
    let (from, to) = (Scale::at(frame, 1)?, Scale::at(frame, 6)?);
    let weight = Weight::read(frame, layout, [3, 5, 8], window, x.dims()[1])?;
    let result = weight.apply(&from.represented(&x), window)?;
    frame.set(mapped(&result, |y| to.quantise_8(y.max(low)) as f64))
}

/// Float in and out of [`q8ta_linear`]; slot 14 is a layout hint.
pub(crate) fn q8ta_test(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let window = Window::of_kernel(frame, 9)?;
    let x = frame.ranked(0, 4)?;
    let (from, to) = (Scale::at(frame, 1)?, Scale::at(frame, 6)?);
    let weight = Weight::read(frame, Layout::Rows, [3, 5, 8], &window, x.dims()[1])?;
    let result = weight.apply(&from.represented(&x), &window)?;
    frame.set(mapped(&result, |y| to.dequantise(to.quantise_8(y) as f64)))
}

/// `conv2d_q8ta_q8csw(x, scale, zp, weight, sums, scales, bias?, kernel, ..)`: codes or floats in, float out.
pub(crate) fn q8ta_q8csw(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let window = Window::of_kernel(frame, 7)?;
    let x = frame.ranked(0, 4)?;
    let from = Scale::at(frame, 1)?;
    let weight = Weight::read(frame, Layout::Rows, [3, 5, 6], &window, x.dims()[1])?;
    let result = weight.apply(&from.represented(&x), &window)?;
    frame.set(result)
}

/// `conv2d_q8csw(x, weight, scales, bias?, kernel, ..)`.
pub(crate) fn q8csw(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let window = Window::of_kernel(frame, 4)?;
    let x = frame.ranked(0, 4)?;
    let weight = Weight::read(frame, Layout::Rows, [1, 2, 3], &window, x.dims()[1])?;
    let result = weight.apply(&x, &window)?;
    frame.set(result)
}
