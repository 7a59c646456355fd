//! Products with 4-bit and 8-bit weights.

use etvk_kernels::linear_q::{self, CodeFormat, LinearQ as Kernel};
use etvk_kernels::{Dims, Storage};
use etvk_vkgraph::DType;

use super::call::{Call, Result as Lowered};
use super::qparams;
use super::{Kind, Op, OutSizes, one};
use crate::error::{Error, Fault};
use crate::host::{Shapes, shape_fault};
use crate::ir::{Form, Node, TensorId, WeightId};
use crate::record::{Bind, Record};

/// out\[…, n\] = Σₖ x\[…, k\] · code\[n, k\] · scale (+ bias\[n\]). Inputs: x (dense), (bias, dense).
#[derive(Clone, Debug)]
pub struct LinearQ {
    pub(crate) format: CodeFormat,
    pub(crate) weight: WeightId,
    pub(crate) scales: WeightId,
    pub(crate) scale_storage: Storage,
    /// N
    pub(crate) columns: u32,
    /// Bytes of a weight row.
    pub(crate) row_bytes: u32,
    /// Most K a weight row can serve.
    pub(crate) capacity: u32,
    /// Neighbouring k with one scale; `None` for one scale a row.
    pub(crate) group_size: Option<u32>,
    /// Scales of one group: N or more.
    pub(crate) scale_row: u32,
    /// Groups that have scales.
    pub(crate) groups: u32,
    pub(crate) bias: bool,
    /// The payload stores x as halves, so that x and the weights may be rounded to them.
    pub(crate) halves: bool,
}

impl Kind for LinearQ {
    fn infer(&self, node: &Node, shapes: &Shapes<'_>) -> Result<OutSizes, Fault> {
        let x = shapes.sizes(node.inputs[0]);
        let mut out: Dims = x.iter().copied().collect();
        let Some(depth) = out.last_mut() else { return Err(shape_fault("x of a linear layer", &[1, 1], x)) };
        let groups = self.group_size.map_or(1, |group| depth.div_ceil(group.max(1)));
        // The weight's rows are padded to whole bytes or words, so K itself comes from x.
        let fits = *depth <= self.capacity && self.capacity - *depth < 8;
        if !fits || groups > self.groups {
            return Err(shape_fault("K of a quantised linear layer", &[self.capacity], &[*depth]));
        }
        *depth = self.columns;
        if self.bias {
            let bias = shapes.sizes(node.inputs[1]);
            if bias.iter().product::<u32>() < self.columns {
                return Err(shape_fault("bias of a linear layer", &[self.columns], bias));
            }
        }
        Ok(one(out))
    }

    fn record(&self, node: &Node, record: &mut Record<'_>) -> Result<(), Error> {
        let x = record.layout(node.inputs[0]);
        let depth = x.sizes.last().copied().unwrap_or(0);
        let rows = x.sizes.iter().rev().skip(1).product();
        let op = Kernel {
            rows,
            columns: self.columns,
            depth,
            x_offset: 0,
            x_row: depth,
            format: self.format,
            row_bytes: self.row_bytes,
            weight_offset: 0,
            weight_bytes: self.columns * self.row_bytes,
            group_size: self.group_size,
            scale_storage: self.scale_storage,
            scale_row: self.scale_row,
            bias: self.bias,
            first_column: 0,
            out_row: self.columns,
            halves: self.halves,
        };
        let launch = linear_q::linear_q(&op, record.limits);
        let bias = if self.bias { Bind::Read(node.inputs[1]) } else { Bind::Absent };
        let binds = [
            Bind::Read(node.inputs[0]),
            Bind::Weight(self.weight),
            Bind::Weight(self.scales),
            bias,
            Bind::Write(node.outputs[0]),
        ];
        record.launch(&launch, &binds)
    }
}

/// Positions of a quantised weight's arguments.
pub(super) struct Slots {
    pub(super) weight: usize,
    pub(super) scales: usize,
    pub(super) bias: Option<usize>,
}

/// Storage of float constants that kernels read as serialised.
pub(super) fn scale_storage(call: &Call<'_, '_>, slot: usize) -> Lowered<Storage> {
    match call.info(slot)?.dtype {
        DType::Float16 => Ok(Storage::Half),
        DType::Float32 => Ok(Storage::Word),
        found => Err(Fault::Dtype { what: "scales", found }),
    }
}

/// A positive 32-bit argument.
pub(super) fn positive(call: &Call<'_, '_>, slot: usize, what: &'static str) -> Lowered<u32> {
    let value = call.int(slot)?;
    u32::try_from(value).ok().filter(|&v| v > 0).ok_or_else(|| Fault::Argument {
        slot,
        what,
        expected: "a positive number",
        found: value.to_string(),
    })
}

/// The node of a product of `x` with the weight in `slots`.
pub(super) fn product(
    call: &mut Call<'_, '_>,
    x: TensorId,
    format: CodeFormat,
    group_size: Option<u32>,
    slots: &Slots,
) -> Lowered<(Op, Vec<TensorId>)> {
    let dtype = if format == CodeFormat::Q8 { DType::Int8 } else { DType::UInt8 };
    let info = call.info(slots.weight)?;
    let (&[columns, row_bytes], true) = (info.dims.as_slice(), info.dtype.size() == 1) else {
        return Err(Fault::Dtype {
            what: if dtype == DType::Int8 { "8-bit weight" } else { "4-bit weight" },
            found: info.dtype,
        });
    };
    let capacity = if format == CodeFormat::Q8 { row_bytes } else { row_bytes.saturating_mul(2) };
    if columns.checked_mul(row_bytes).is_none() || capacity == u32::MAX {
        return Err(shape_fault("weight of a linear layer", &[], &info.dims));
    }
    let scales = &call.info(slots.scales)?.dims;
    let (groups, scale_row) = match (scales.as_slice(), group_size) {
        (&[groups, row], Some(_)) => (groups, row),
        (sizes, None) => (1, sizes.iter().product()),
        (sizes, Some(_)) => return Err(shape_fault("scales of a linear layer", &[1, columns], sizes)),
    };
    if scale_row < columns {
        return Err(shape_fault("scales of a linear layer", &[groups, columns], scales));
    }
    let storage = scale_storage(call, slots.scales)?;
    let mut inputs = vec![call.builder.dense(x)];
    let bias = match slots.bias {
        Some(slot) => call.optional_tensor(slot)?,
        None => None,
    };
    if let Some(bias) = bias {
        inputs.push(call.builder.dense(bias));
    }
    let op = LinearQ {
        format,
        weight: call.weight(slots.weight, Form::Raw)?,
        scales: call.weight(slots.scales, Form::Raw)?,
        scale_storage: storage,
        columns,
        row_bytes,
        capacity,
        group_size,
        scale_row,
        groups,
        bias: bias.is_some(),
        halves: call.info(0)?.dtype == DType::Float16,
    };
    Ok((Op::LinearQ(op), inputs))
}

/// `et_vk.linear_q4gsw.default [x, weights, scales, group_size, bias, out]`
pub(super) fn q4gsw(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[6], "6")?;
    let (x, group) = (call.float_tensor(0)?, positive(call, 3, "group_size")?);
    let slots = Slots { weight: 1, scales: 2, bias: Some(4) };
    let (op, inputs) = product(call, x, CodeFormat::Q4LowFirst, Some(group), &slots)?;
    call.emit(op, inputs, 5)
}

/// `et_vk.linear_dq8ca_q4gsw.default
/// [x, input_scale, input_zp, weights, weight_sums, weight_scales, group_size, bias, out]`
///
/// x is rounded to the grid of its row's scale and zero point, which makes the float product equal to the
/// integer one; `weight_sums` only serve integer kernels.
pub(super) fn dq8ca_q4gsw(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[9], "9")?;
    let group = positive(call, 6, "group_size")?;
    let x = qparams::per_row_grid(call, 0, 1, 2)?;
    let slots = Slots { weight: 3, scales: 5, bias: Some(7) };
    let (op, inputs) = product(call, x, CodeFormat::Q4LowFirst, Some(group), &slots)?;
    call.emit(op, inputs, 8)
}

/// `et_vk.linear_qcs4w.default [x, weight, scales, out]`
pub(super) fn qcs4w(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[4], "4")?;
    let x = call.float_tensor(0)?;
    let slots = Slots { weight: 1, scales: 2, bias: None };
    let (op, inputs) = product(call, x, CodeFormat::Q4HighFirst, None, &slots)?;
    call.emit(op, inputs, 3)
}

/// `aten._weight_int8pack_mm.default [x, weight, scales, out]`
pub(super) fn int8pack(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[4], "4")?;
    let x = call.float_tensor(0)?;
    let slots = Slots { weight: 1, scales: 2, bias: None };
    let (op, inputs) = product(call, x, CodeFormat::Q8, None, &slots)?;
    call.emit(op, inputs, 3)
}

/// `et_vk.linear_q8csw.default [x, weight, scales, bias, out]`
pub(super) fn q8csw(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[5], "5")?;
    let x = call.float_tensor(0)?;
    let slots = Slots { weight: 1, scales: 2, bias: Some(3) };
    let (op, inputs) = product(call, x, CodeFormat::Q8, None, &slots)?;
    call.emit(op, inputs, 4)
}

/// `et_vk.linear_q8ta_q8csw.default [x, scale, zp, weight, sums, scales, bias, out]`: x holds codes, or floats that are
/// rounded to the grid.
pub(super) fn q8ta_q8csw(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[8], "8")?;
    let codes = !call.info(0)?.dtype.is_float();
    let x = if codes { qparams::dequantized(call, 0, 1, 2)? } else { qparams::static_grid(call, 0, 1, 2)? };
    let slots = Slots { weight: 3, scales: 5, bias: Some(6) };
    let (op, inputs) = product(call, x, CodeFormat::Q8, None, &slots)?;
    call.emit(op, inputs, 7)
}

/// `et_vk.q8ta_linear.default
/// [x, in_scale, in_zp, weight, sums, scales, out_scale, out_zp, bias, activation, out]`: codes in, codes out.
pub(super) fn q8ta(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[11], "11")?;
    let x = qparams::dequantized(call, 0, 1, 2)?;
    let slots = Slots { weight: 3, scales: 5, bias: Some(8) };
    let (op, inputs) = product(call, x, CodeFormat::Q8, None, &slots)?;
    let bound = call.info(10)?.dims.clone();
    let product = call.emit_inner(op, inputs, DType::Float32, &bound);
    qparams::quantized_output(call, product, 9, (6, 7), 10)
}
