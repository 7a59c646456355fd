//! Convolutions of one and two spatial dimensions, float and int8.

use etvk_kernels::conv::{self, Arithmetic, Conv as Kernel, WeightStrides, Window};
use etvk_kernels::map::MapOp;
use etvk_kernels::{Dims, Storage, numel};
use etvk_vkgraph::DType;

use super::call::{Call, Result as Lowered};
use super::{Kind, Op, OutSizes, map, one, qparams};
use crate::error::{Error, Fault};
use crate::host::{Shapes, shape_fault};
use crate::ir::{Form, Node, TensorId, WeightId};
use crate::record::{Bind, Record};

/// Windows of x times weights. Inputs: x (contiguous, \[N, C, L\] or \[N, C, H, W\]), (weights, dense), (scales,
/// dense), (bias, dense).
#[derive(Clone, Debug)]
pub struct Conv {
    /// A constant as serialised, else an input.
    pub(crate) weight: Option<WeightId>,
    pub(crate) weights: Weights,
    pub(crate) window: Window,
    pub(crate) arithmetic: Arithmetic,
    /// Factor of all sums, and the number of scales; `None` without scales.
    pub(crate) scales: Option<(f32, u32)>,
    pub(crate) bias: bool,
    pub(crate) bounds: [f32; 2],
    /// Step and zero of the output's codes; `None` for floats.
    pub(crate) codes: Option<(f32, i32)>,
}

/// Channels of a convolution and where their weights lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weights {
    pub(crate) groups: u32,
    /// Input channels of a group.
    pub(crate) inner: u32,
    /// Output channels of a group.
    pub(crate) outer: u32,
    pub(crate) strides: WeightStrides,
}

impl Conv {
    /// The operands after x that are present.
    fn operands(&self, node: &Node) -> [Option<TensorId>; 3] {
        let mut rest = node.inputs.iter().skip(1).copied();
        [self.weight.is_none(), self.scales.is_some(), self.bias]
            .map(|present| if present { rest.next() } else { None })
    }
}

/// Height and width of `[N, C, L]` or `[N, C, H, W]`.
fn plane(sizes: &[u32]) -> Option<[u32; 2]> {
    match *sizes {
        [_, _, width] => Some([1, width]),
        [_, _, height, width] => Some([height, width]),
        _ => None,
    }
}

impl Kind for Conv {
    fn weights(&self) -> Vec<WeightId> {
        self.weight.into_iter().collect()
    }

    fn infer(&self, node: &Node, shapes: &Shapes<'_>) -> Result<OutSizes, Fault> {
        let x = shapes.sizes(node.inputs[0]);
        let input = plane(x).ok_or_else(|| shape_fault("rank of a convolution's input", &[4], x))?;
        let Weights { groups, inner, outer, .. } = self.weights;
        let channels = groups.saturating_mul(inner);
        if x[1] != channels {
            return Err(shape_fault("input channels of a convolution", &[channels], &x[1..2]));
        }
        if let [Some(weights), ..] = self.operands(node) {
            let (sizes, bound) = (shapes.sizes(weights), &shapes.program.tensor(weights).bound);
            if sizes != bound.as_slice() {
                return Err(shape_fault("weights of a convolution", bound, sizes));
            }
        }
        let size = |axis: usize| {
            let size = self.window.output(axis, input[axis]);
            size.ok_or_else(|| shape_fault("input that a window fits", &self.window.kernel, &input))
        };
        let mut out = Dims::from_iter([x[0], groups * outer]);
        if x.len() == 4 {
            out.push(size(0)?);
        }
        out.push(size(1)?);
        Ok(one(out))
    }

    fn record(&self, node: &Node, record: &mut Record<'_>) -> Result<(), Error> {
        let (x, out) = (record.layout(node.inputs[0]), record.layout(node.outputs[0]));
        let (Some(input), Some(output)) = (plane(&x.sizes), plane(&out.sizes)) else { return Ok(()) };
        let op = Kernel {
            batch: x.sizes[0],
            groups: self.weights.groups,
            inner: self.weights.inner,
            outer: self.weights.outer,
            input,
            output,
            window: self.window,
            x_offset: x.offset,
            x_dynamic: x.dynamic_offset,
            weights: self.weights.strides,
            arithmetic: self.arithmetic,
            scales: self.scales,
            bias: self.bias,
            bounds: self.bounds,
            codes: self.codes,
        };
        let launch = conv::conv(&op, record.limits);
        let [weights, scales, bias] = self.operands(node);
        let optional = |id: Option<TensorId>| id.map_or(Bind::Absent, Bind::Read);
        let binds = [
            Bind::Read(node.inputs[0]),
            self.weight.map_or_else(|| optional(weights), Bind::Weight),
            optional(scales),
            optional(bias),
            Bind::Write(node.outputs[0]),
            Bind::Dynamic,
        ];
        record.launch(&launch, &binds)
    }
}

/// Two numbers of at least `least` from a list of one or two, height first; `first` stands for the missing one of one
/// spatial dimension.
pub(super) fn pair(
    call: &mut Call<'_, '_>,
    slot: usize,
    first: Option<u32>,
    least: u32,
) -> Lowered<[u32; 2]> {
    let list = call.ints(slot)?;
    let number = |value: i64| u32::try_from(value).ok().filter(|&value| value >= least);
    let pair = match list[..] {
        [both] => number(both).map(|both| [first.unwrap_or(both), both]),
        [height, width] => number(height).zip(number(width)).map(|(height, width)| [height, width]),
        _ => None,
    };
    pair.ok_or_else(|| Fault::Argument {
        slot,
        what: "window",
        expected: if least == 0 { "one number or two" } else { "one positive number or two" },
        found: format!("{list:?}"),
    })
}

/// Groups, which divide the channels they are said to.
fn groups(call: &Call<'_, '_>, slot: usize, channels: &[u32]) -> Lowered<u32> {
    let value = call.int(slot)?;
    let groups = u32::try_from(value).ok().filter(|&groups| groups > 0);
    groups.filter(|&groups| channels.iter().all(|n| n.is_multiple_of(groups))).ok_or_else(|| {
        Fault::Argument {
            slot,
            what: "groups",
            expected: "a divisor of the channels",
            found: value.to_string(),
        }
    })
}

/// A dense float tensor of at least `least` elements.
fn vector(call: &mut Call<'_, '_>, slot: usize, what: &'static str, least: u32) -> Lowered<TensorId> {
    let id = call.float_tensor(slot)?;
    let bound = &call.builder.program.tensor(id).bound;
    if bound.iter().product::<u32>() < least {
        return Err(shape_fault(what, &[least], bound));
    }
    Ok(call.builder.dense(id))
}

/// `aten.convolution.default
/// [x, weight, bias, stride, padding, dilation, transposed, output_padding, groups, out]`, and
/// `et_vk.conv_with_clamp.default` with the bounds after groups.
pub(super) fn convolution(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[10, 12], "10 or 12")?;
    let transposed = call.optional_bool(6)?.unwrap_or(false);
    float(call, transposed, Some(7), 8)
}

/// `et_vk.conv1d_dw.default` and `conv1d_pw
/// [x, weight, bias, stride, padding, dilation, groups, min, max, out]`
pub(super) fn conv1d(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[10], "10")?;
    float(call, false, None, 6)
}

/// The slots up to dilation are alike; bounds follow groups.
fn float(
    call: &mut Call<'_, '_>,
    transposed: bool,
    output_padding: Option<usize>,
    groups_slot: usize,
) -> Lowered<()> {
    let x = call.float_tensor(0)?;
    let flat_line = call.rank(x) == 3;
    let first = |value| flat_line.then_some(value);
    let dims = call.info(1)?.dims.clone();
    let (kernel, [rows, columns]) = match dims[..] {
        [a, b, width] if flat_line => ([1, width], [a, b]),
        [a, b, height, width] if !flat_line => ([height, width], [a, b]),
        _ => return Err(shape_fault("weights of a convolution", &[], &dims)),
    };
    let (Some(count), false) = (numel(&dims), dims.contains(&0)) else {
        return Err(shape_fault("weights of a convolution", &[], &dims));
    };
    // Transposed weights are [input channels, output channels of a group, …].
    let groups = groups(call, groups_slot, &[rows])?;
    let (inner, outer) = if transposed { (rows / groups, columns) } else { (columns, rows / groups) };
    let taps = kernel[0] * kernel[1];
    let group = count / groups;
    let strides = match transposed {
        true => WeightStrides { group, outer: taps, inner: columns * taps, tap: 1 },
        false => WeightStrides { group, outer: columns * taps, inner: taps, tap: 1 },
    };
    let window = Window {
        kernel,
        stride: pair(call, 3, first(1), 1)?,
        padding: pair(call, 4, first(0), 0)?,
        dilation: pair(call, 5, first(1), 1)?,
        output_padding: match output_padding {
            Some(slot) if transposed => pair(call, slot, first(0), 0)?,
            _ => [0, 0],
        },
        transposed,
    };
    let bounds = match call.last() - groups_slot {
        3 => [call.optional_float(groups_slot + 1)?, call.optional_float(groups_slot + 2)?],
        _ => [None, None],
    };
    let mut inputs = vec![call.builder.contiguous(x)];
    let storage = match (call.constant(1)?.is_some(), call.info(1)?.dtype) {
        (true, DType::Float16) => Some(Storage::Half),
        (true, DType::Float32) => Some(Storage::Word),
        _ => None,
    };
    let weight = match storage {
        Some(_) => Some(call.weight(1, Form::Raw)?),
        None => {
            let weights = call.float_tensor(1)?;
            inputs.push(call.builder.dense(weights));
            None
        }
    };
    let channels = groups.checked_mul(outer).ok_or_else(|| shape_fault("output channels", &[], &dims))?;
    let bias = !call.is_null(2);
    if bias {
        inputs.push(vector(call, 2, "bias of a convolution", channels)?);
    }
    let op = Conv {
        weight,
        weights: Weights { groups, inner, outer, strides },
        window,
        arithmetic: Arithmetic::Float(storage.unwrap_or(Storage::Word)),
        scales: None,
        bias,
        bounds: clamp_bounds(bounds),
        codes: None,
    };
    call.emit(Op::Conv(op), inputs, call.last())
}

#[expect(clippy::cast_possible_truncation, reason = "device arithmetic is single precision")]
fn clamp_bounds([low, high]: [Option<f64>; 2]) -> [f32; 2] {
    [low.unwrap_or(f64::NEG_INFINITY) as f32, high.unwrap_or(f64::INFINITY) as f32]
}

/// How int8 weights are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// `[OC, KH·KW·IC/groups or more]`, input channel fastest.
    Rows,
    /// `[KH, KW, OC]`, one input channel a group.
    Depthwise,
}

/// Positions of the arguments of a convolution with int8 weights.
struct Slots {
    weight: usize,
    scales: usize,
    bias: usize,
    /// Kernel size; stride, padding, (output padding,) dilation and groups follow.
    kernel: usize,
    transposed: bool,
}

/// An int8 convolution of x with everything but its output's form: floats without bounds. `zero` is the code of x that
/// stands for 0, and its step; `None` for float x.
fn int8(
    call: &mut Call<'_, '_>,
    x: TensorId,
    codes: Option<(f32, i32)>,
    layout: Layout,
    slots: &Slots,
) -> Lowered<(Conv, Vec<TensorId>)> {
    let extra = usize::from(slots.transposed);
    let window = Window {
        kernel: pair(call, slots.kernel, None, 1)?,
        stride: pair(call, slots.kernel + 1, None, 1)?,
        padding: pair(call, slots.kernel + 2, None, 0)?,
        output_padding: if slots.transposed { pair(call, slots.kernel + 3, None, 0)? } else { [0, 0] },
        dilation: pair(call, slots.kernel + 3 + extra, None, 1)?,
        transposed: slots.transposed,
    };
    let &[_, inputs, _, _] = call.builder.program.tensor(x).bound.as_slice() else {
        return Err(shape_fault("input of a convolution", &[], &call.builder.program.tensor(x).bound));
    };
    let weights = int8_weights(call, slots, layout, inputs, window.kernel, slots.kernel + 4 + extra)?;
    let channels = weights.groups * weights.outer;
    // A transposed convolution in groups has scales for the channels of one group only.
    let scales = vector(call, slots.scales, "scales of a convolution", weights.outer)?;
    let count = call.builder.program.tensor(scales).bound.iter().product::<u32>();
    let count = if count >= channels { channels } else { weights.outer };
    let mut operands = vec![call.builder.contiguous(x), scales];
    let bias = !call.is_null(slots.bias);
    if bias {
        operands.push(vector(call, slots.bias, "bias of a convolution", channels)?);
    }
    let op = Conv {
        weight: Some(call.weight(slots.weight, Form::Raw)?),
        weights,
        window,
        arithmetic: match codes {
            Some((_, zero)) => Arithmetic::Int8 { zero },
            None => Arithmetic::Float(Storage::Int8),
        },
        scales: Some((codes.map_or(1.0, |(step, _)| step), count)),
        bias,
        bounds: clamp_bounds([None, None]),
        codes: None,
    };
    Ok((op, operands))
}

/// Channels and order of the int8 weights.
fn int8_weights(
    call: &Call<'_, '_>,
    slots: &Slots,
    layout: Layout,
    inputs: u32,
    kernel: [u32; 2],
    groups_slot: usize,
) -> Lowered<Weights> {
    let info = call.info(slots.weight)?;
    if info.dtype != DType::Int8 {
        return Err(Fault::Dtype { what: "weights of an int8 convolution", found: info.dtype });
    }
    let mismatch = |expected: &[u32]| shape_fault("weights of a convolution", expected, &info.dims);
    let count = numel(&info.dims).ok_or_else(|| mismatch(&[]))?;
    let taps = kernel[0].checked_mul(kernel[1]).ok_or_else(|| mismatch(&kernel))?;
    match (layout, info.dims.as_slice()) {
        (Layout::Rows, &[channels, row]) if channels > 0 => {
            let groups = groups(call, groups_slot, &[inputs, channels])?;
            let (inner, outer) = (inputs / groups, channels / groups);
            let needed = taps.checked_mul(inner).filter(|&needed| needed <= row);
            needed.ok_or_else(|| mismatch(&[channels, taps, inner]))?;
            let strides = WeightStrides { group: count / groups, outer: row, inner: 1, tap: inner };
            Ok(Weights { groups, inner, outer, strides })
        }
        (Layout::Depthwise, &[height, width, channels]) if [height, width] == kernel && channels > 0 => {
            let groups = groups(call, groups_slot, &[inputs, channels])?;
            if groups != inputs {
                return Err(mismatch(&[height, width, inputs]));
            }
            let outer = channels / groups;
            let strides = WeightStrides { group: outer, outer: 1, inner: 0, tap: channels };
            Ok(Weights { groups, inner: 1, outer, strides })
        }
        _ => Err(mismatch(&kernel)),
    }
}

/// Step and zero point in two neighbouring slots.
fn grid(call: &Call<'_, '_>, slot: usize) -> Lowered<(f32, i32)> {
    #[expect(clippy::cast_possible_truncation, reason = "device arithmetic is single precision")]
    let step = call.float(slot)? as f32;
    Ok((step, qparams::code(call, slot + 1, 0)?))
}

/// int8 codes in `slot`.
fn codes(call: &mut Call<'_, '_>, slot: usize) -> Lowered<TensorId> {
    let x = call.tensor(slot)?;
    Ok(call.builder.convert(x, DType::Int8))
}

/// int8 convolution of codes to codes; `activation` is the slot after groups, if there is one.
fn codes_to_codes(
    call: &mut Call<'_, '_>,
    layout: Layout,
    transposed: bool,
    activation: Option<usize>,
) -> Lowered<()> {
    let x = codes(call, 0)?;
    let slots = Slots { weight: 3, scales: 5, bias: 8, kernel: 9, transposed };
    let from = grid(call, 1)?;
    let (mut op, inputs) = int8(call, x, Some(from), layout, &slots)?;
    if let Some(slot) = activation
        && qparams::has_relu(call, slot)?
    {
        op.bounds[0] = 0.0;
    }
    op.codes = Some(grid(call, 6)?);
    let out = call.last();
    let bound = call.info(out)?.dims.clone();
    let result = call.emit_inner(Op::Conv(op), inputs, DType::Int8, &bound);
    call.bind(out, result)
}

/// `et_vk.q8ta_conv2d.default [x, in_scale, in_zp, weight, sums, scales, out_scale, out_zp, bias, kernel, stride,
/// padding, dilation, groups, activation, out]`
pub(super) fn q8ta(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[16], "16")?;
    codes_to_codes(call, Layout::Rows, false, Some(14))
}

/// [`q8ta`] with weights \[KH, KW, OC\].
pub(super) fn q8ta_depthwise(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[16], "16")?;
    codes_to_codes(call, Layout::Depthwise, false, Some(14))
}

/// [`q8ta`], transposed, with output_padding before dilation.
pub(super) fn q8ta_transposed(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[17], "17")?;
    codes_to_codes(call, Layout::Rows, true, Some(15))
}

/// [`q8ta`] as release 1.1 has it, without activation.
pub(super) fn q8to(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[15], "15")?;
    codes_to_codes(call, Layout::Rows, false, None)
}

/// [`q8to`] with weights \[KH, KW, OC\].
pub(super) fn q8to_depthwise(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[15], "15")?;
    codes_to_codes(call, Layout::Depthwise, false, None)
}

/// x in `slot` as codes of the step and zero point after it: as they are, or floats rounded to them.
fn quantised(call: &mut Call<'_, '_>, slot: usize) -> Lowered<TensorId> {
    if call.info(slot)?.dtype.is_float() {
        return qparams::static_codes(call, slot, slot + 1, slot + 2);
    }
    codes(call, slot)
}

/// `etvk.test_conv2d_q8ta_q8csw_q8to.default`: [`q8to`] between floats, with a layout before the output.
pub(super) fn q8to_test(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[16], "16")?;
    let x = quantised(call, 0)?;
    let slots = Slots { weight: 3, scales: 5, bias: 8, kernel: 9, transposed: false };
    let from = grid(call, 1)?;
    let (mut op, inputs) = int8(call, x, Some(from), Layout::Rows, &slots)?;
    let (step, zero) = grid(call, 6)?;
    op.codes = Some((step, zero));
    let bound = call.info(15)?.dims.clone();
    let result = call.emit_inner(Op::Conv(op), inputs, DType::Int8, &bound);
    let step = call.builder.literal(DType::Float32, step.to_bits());
    let zero = call.builder.literal(DType::Int32, zero.cast_unsigned());
    map::emit(call, MapOp::Dequantize, [0; 2], vec![result, step, zero], 15)
}

/// `et_vk.conv2d_q8ta_q8csw.default
/// [x, scale, zp, weight, sums, scales, bias, kernel, stride, padding, dilation, groups, out]`: x holds codes, or
/// floats that are rounded to them; the result is float.
pub(super) fn q8ta_q8csw(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[13], "13")?;
    let x = quantised(call, 0)?;
    let slots = Slots { weight: 3, scales: 5, bias: 6, kernel: 7, transposed: false };
    let from = grid(call, 1)?;
    let (op, inputs) = int8(call, x, Some(from), Layout::Rows, &slots)?;
    call.emit(Op::Conv(op), inputs, 12)
}

/// `et_vk.conv2d_q8csw.default [x, weight, scales, bias, kernel, stride, padding, dilation, groups, out]`: float x,
/// int8 weights.
pub(super) fn q8csw(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[10], "10")?;
    let x = call.float_tensor(0)?;
    let slots = Slots { weight: 1, scales: 2, bias: 3, kernel: 4, transposed: false };
    let (op, inputs) = int8(call, x, None, Layout::Rows, &slots)?;
    call.emit(Op::Conv(op), inputs, 9)
}
