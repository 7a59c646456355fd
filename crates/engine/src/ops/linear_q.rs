//! Products with 4-bit and 8-bit weights.

use arrayvec::ArrayVec;
use etvk_kernels::linear_q::{self, CodeFormat, Epilogue, LinearQ as Kernel};
use etvk_kernels::residual::RowNorm;
use etvk_kernels::{Dims, Storage, Strided};
use etvk_vkgraph::DType;

use super::call::{Call, Result as Lowered};
use super::qparams;
use super::residual::Residual;
use super::{Kind, Op, OutSizes};
use crate::error::{Error, Fault};
use crate::host::{Shapes, shape_fault};
use crate::ir::{Form, Node, TensorId, WeightId};
use crate::record::{Bind, Record};

/// out\[…, n\] = Σₖ x\[…, k\] · code\[n, k\] · scale (+ bias\[n\]), with what may come before and after. Inputs, all
/// dense but for the operand: those of the prologue, x where there is none, (bias), (operand of the epilogue). Outputs:
/// one to three results that share the columns, (h of the prologue), (normalised rows of the prologue).
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
    /// Columns of each result.
    pub(crate) outputs: ArrayVec<u32, MAX_OUTPUTS>,
    pub(crate) epilogue: Epilogue,
    pub(crate) prologue: Option<Prologue>,
}

/// Results of one product.
pub(crate) const MAX_OUTPUTS: usize = 3;

/// What is done to the rows before the product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Prologue {
    /// x is normalised. Inputs: x, (weight).
    Norm(RowNorm),
    /// x joins a residual stream. Inputs: those of [`Residual`].
    Residual(Residual),
}

impl Prologue {
    /// The normalisation that makes the product's input.
    fn norm(&self) -> Option<RowNorm> {
        match self {
            Prologue::Norm(norm) => Some(*norm),
            Prologue::Residual(residual) => residual.norm,
        }
    }

    fn inputs(&self) -> usize {
        let weight = |norm: Option<RowNorm>| usize::from(norm.is_some_and(|norm| norm.weight));
        1 + weight(self.norm())
            + match self {
                Prologue::Norm(_) => 0,
                Prologue::Residual(residual) => 1 + weight(residual.branch) + usize::from(residual.scale),
            }
    }

    fn kernel(self) -> linear_q::Prologue {
        let branch = match self {
            Prologue::Norm(_) => None,
            Prologue::Residual(Residual { branch: norm, clamp, scale, .. }) => {
                Some(linear_q::Branch { norm, clamp, scale })
            }
        };
        linear_q::Prologue { branch, norm: self.norm() }
    }
}

/// The operands of a [`LinearQ`] that are there.
struct Operands {
    x: TensorId,
    bias: Option<TensorId>,
    operand: Option<TensorId>,
    base: Option<TensorId>,
    branch_weight: Option<TensorId>,
    scale: Option<TensorId>,
    norm_weight: Option<TensorId>,
    h: Option<TensorId>,
    normalised: Option<TensorId>,
}

impl LinearQ {
    fn operands(&self, node: &Node) -> Operands {
        let mut own = node.inputs.iter().skip(self.prologue.map_or(1, |prologue| prologue.inputs())).copied();
        let mut made = node.outputs.iter().skip(self.outputs.len()).copied();
        let mut operands = Operands {
            x: node.inputs[0],
            bias: if self.bias { own.next() } else { None },
            operand: own.next(),
            base: None,
            branch_weight: None,
            scale: None,
            norm_weight: None,
            h: None,
            normalised: None,
        };
        match self.prologue {
            Some(Prologue::Norm(norm)) => {
                operands.norm_weight = if norm.weight { node.inputs.get(1).copied() } else { None };
            }
            Some(Prologue::Residual(residual)) => {
                let sum = residual.operands(&node.inputs);
                operands.base = Some(sum.base);
                (operands.branch_weight, operands.scale) = (sum.branch_weight, sum.scale);
                (operands.norm_weight, operands.h) = (sum.norm_weight, made.next());
            }
            None => {}
        }
        operands.normalised = made.next();
        operands
    }

    fn kernel(&self, record: &Record<'_>, x: TensorId, operand: Option<TensorId>) -> Kernel {
        let sizes = &record.layout(x).sizes;
        let depth = sizes.last().copied().unwrap_or(0);
        let stored = self.outputs.first().copied().unwrap_or(0);
        Kernel {
            rows: sizes.iter().rev().skip(1).product(),
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
            outputs: self.outputs.clone(),
            epilogue: self.epilogue,
            operand: operand.map_or([0, stored], |id| rows_of(record.layout(id))),
            prologue: self.prologue.map(Prologue::kernel),
            halves: self.halves,
        }
    }

    /// Records the prologue as a dispatch of its own; gives the product's input.
    fn prepare(&self, node: &Node, operands: &Operands, record: &mut Record<'_>) -> Result<TensorId, Error> {
        match self.prologue {
            None => Ok(operands.x),
            Some(Prologue::Norm(norm)) => {
                let out = operands.normalised.unwrap_or(operands.x);
                super::norm::rows(norm, node, [operands.x, out], operands.norm_weight, record)?;
                Ok(out)
            }
            Some(Prologue::Residual(residual)) => {
                let made: ArrayVec<TensorId, 2> = operands.h.into_iter().chain(operands.normalised).collect();
                residual.launch(&node.inputs, &made, record)?;
                Ok(made.last().copied().unwrap_or(operands.x))
            }
        }
    }
}

/// Offset of the first element of rows that are contiguous, and elements from one to the next.
fn rows_of(layout: &Strided) -> [u32; 2] {
    let outer = layout.sizes.iter().zip(&layout.strides).rev().skip(1);
    let row = outer.clone().find(|(size, _)| **size > 1).map(|(_, stride)| stride.unsigned_abs());
    [layout.offset, row.unwrap_or(layout.sizes.last().copied().unwrap_or(1))]
}

impl Kind for LinearQ {
    fn weights(&self) -> Vec<WeightId> {
        vec![self.weight, self.scales]
    }

    fn infer(&self, node: &Node, shapes: &Shapes<'_>) -> Result<OutSizes, Fault> {
        let operands = self.operands(node);
        let x = match &self.prologue {
            Some(Prologue::Residual(residual)) => residual.sizes(&node.inputs, shapes)?,
            _ => shapes.sizes(operands.x),
        };
        let Some((&depth, leading)) = x.split_last() else {
            return Err(shape_fault("x of a linear layer", &[1, 1], x));
        };
        let groups = self.group_size.map_or(1, |group| depth.div_ceil(group.max(1)));
        // The weight's rows are padded to whole bytes or words, so K itself comes from x.
        let fits = depth <= self.capacity && self.capacity - depth < 8;
        if !fits || groups > self.groups {
            return Err(shape_fault("K of a quantised linear layer", &[self.capacity], &[depth]));
        }
        if let Some(bias) = operands.bias.map(|id| shapes.sizes(id))
            && bias.iter().product::<u32>() < self.columns
        {
            return Err(shape_fault("bias of a linear layer", &[self.columns], bias));
        }
        let row = |width: u32| leading.iter().copied().chain([width]).collect::<Dims>();
        let mut out: OutSizes = self.outputs.iter().map(|&width| row(width)).collect();
        if let Some(operand) = operands.operand.map(|id| shapes.sizes(id))
            && *operand != *out[0]
        {
            return Err(shape_fault("what a linear layer is multiplied with", &out[0], operand));
        }
        out.extend(operands.h.into_iter().chain(operands.normalised).map(|_| row(depth)));
        Ok(out)
    }

    fn record(&self, node: &Node, record: &mut Record<'_>) -> Result<(), Error> {
        let operands = self.operands(node);
        let mut op = self.kernel(record, operands.x, operands.operand);
        let mut x = operands.x;
        if op.prologue.is_some() && !op.takes_prologue(record.limits) {
            op.prologue = None;
            x = self.prepare(node, &operands, record)?;
        }
        let launch = linear_q::linear_q(&op, record.limits);
        let before = op.prologue.is_some();
        let read = |id: Option<TensorId>| id.map_or(Bind::Absent, Bind::Read);
        let part_of = |id: Option<TensorId>| if before { read(id) } else { Bind::Absent };
        // Absent results are bound to the first: the module declares them writable.
        let result = |i: usize| Bind::Write(node.outputs[if i < self.outputs.len() { i } else { 0 }]);
        let binds = [
            Bind::Read(x),
            Bind::Weight(self.weight),
            Bind::Weight(self.scales),
            read(operands.bias),
            read(operands.operand),
            part_of(operands.base),
            part_of(operands.branch_weight),
            part_of(operands.scale),
            part_of(operands.norm_weight),
            result(0),
            result(1),
            result(2),
            operands.h.filter(|_| before).map_or(result(0), Bind::Write),
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
        outputs: [columns].into_iter().collect(),
        epilogue: Epilogue::None,
        prologue: None,
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
