//! Quantisation parameters chosen on the device, and what quantised products do with theirs.

use etvk_kernels::map::MapOp;
use etvk_kernels::qparams::{self, Mapping};
use etvk_vkgraph::DType;

use super::call::{Call, Result as Lowered};
use super::quantize::Blocks;
use super::{Kind, Op, OutSizes, map};
use crate::error::{Error, Fault};
use crate::host::{Shapes, shape_fault};
use crate::ir::{Index, Node, SymDef, TensorId, View};
use crate::record::{Bind, Record};

/// Scale and zero point of each row. Input: x (dense). Outputs: scale, zero point, of x's leading sizes.
#[derive(Clone, Debug)]
pub struct Qparams {
    pub(crate) mapping: Mapping,
    pub(crate) qmin: i32,
    pub(crate) qmax: i32,
    pub(crate) eps: f32,
}

impl Kind for Qparams {
    fn infer(&self, node: &Node, shapes: &Shapes<'_>) -> Result<OutSizes, Fault> {
        let x = shapes.sizes(node.inputs[0]);
        let Some((_, leading)) = x.split_last() else { return Err(shape_fault("quantised tensor", &[1], x)) };
        let out: etvk_kernels::Dims = leading.iter().copied().collect();
        Ok(OutSizes::from_iter([out.clone(), out]))
    }

    fn record(&self, node: &Node, record: &mut Record<'_>) -> Result<(), Error> {
        let x = record.layout(node.inputs[0]);
        let columns = x.sizes.last().copied().unwrap_or(0);
        let op = qparams::Qparams {
            mapping: self.mapping,
            rows: x.sizes.iter().rev().skip(1).product(),
            columns,
            x_offset: 0,
            x_row: columns,
            qmin: self.qmin,
            qmax: self.qmax,
            eps: self.eps,
        };
        let launch = qparams::qparams(&op, record.limits);
        let outputs = (Bind::Write(node.outputs[0]), Bind::Write(node.outputs[1]));
        record.launch(&launch, &[Bind::Read(node.inputs[0]), outputs.0, outputs.1])
    }
}

/// A bound of integer codes.
pub(super) fn code(call: &Call<'_, '_>, slot: usize, default: i32) -> Lowered<i32> {
    if call.is_null(slot) {
        return Ok(default);
    }
    let value = call.int(slot)?;
    i32::try_from(value).map_err(|_| Fault::Argument {
        slot,
        what: "code",
        expected: "a 32-bit number",
        found: value.to_string(),
    })
}

/// `torchao.choose_qparams_affine.default [x, mapping_type, block_size, target_dtype, quant_min, quant_max, eps,
/// scale_dtype, zero_point_dtype, (keepdim,) outs]`
pub(super) fn choose_affine(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[10, 11], "10 or 11")?;
    let mapping = match call.string(1)? {
        "ASYMMETRIC" => Mapping::Affine,
        "SYMMETRIC" => Mapping::Symmetric,
        "SYMMETRIC_NO_CLIPPING_ERR" => Mapping::SymmetricNoClipping,
        other => {
            let found = other.to_owned();
            return Err(Fault::Argument {
                slot: 1,
                what: "mapping_type",
                expected: "a torchao mapping",
                found,
            });
        }
    };
    let x = call.float_tensor(0)?;
    let block = call.ints(2)?;
    let keepdim = call.last() == 10 && call.optional_bool(9)?.unwrap_or(false);
    #[expect(clippy::cast_possible_truncation, reason = "device arithmetic is single precision")]
    let eps = call.optional_float(6)?.unwrap_or(f64::from(f32::MIN_POSITIVE)) as f32;
    let rule = Rule { mapping, qmin: code(call, 4, -128)?, qmax: code(call, 5, 127)?, eps };
    // torchao reduces over the dimensions of larger blocks; over none is over all, as everywhere in PyTorch.
    if !keepdim && block.iter().all(|&size| size == 1) {
        let [scales, zeros] = choose_for_all(call, x, rule)?;
        let scalar = || View::Reshape(Vec::new());
        let scales = call.builder.view(scales, scalar(), &[])?;
        let zeros = call.builder.view(zeros, scalar(), &[])?;
        return call.bind_list(call.last(), &[scales, zeros]);
    }
    let blocks = Blocks::new(call, x, &block)?;
    let rows = blocks.rows(call, x)?;
    let [scales, zeros] = choose(call, rows, rule);
    let shape = blocks.chosen(keepdim);
    let results = [shape.apply(call, scales)?, shape.apply(call, zeros)?];
    call.bind_list(call.last(), &results)
}

/// A rule for choosing parameters.
#[derive(Clone, Copy)]
struct Rule {
    mapping: Mapping,
    qmin: i32,
    qmax: i32,
    eps: f32,
}

/// Scale and zero point of every row of `x`, in x's sizes but for the last.
fn choose(call: &mut Call<'_, '_>, x: TensorId, rule: Rule) -> [TensorId; 2] {
    let Rule { mapping, qmin, qmax, eps } = rule;
    let x = call.builder.dense(x);
    let mut out = call.builder.program.tensor(x).bound.to_vec();
    out.pop();
    let op = Qparams { mapping, qmin, qmax, eps };
    let outputs = [(DType::Float32, out.as_slice()), (DType::Int32, out.as_slice())];
    let results = call.builder.node_outputs(Op::Qparams(op), vec![x], &outputs);
    [results[0], results[1]]
}

/// `quantized_decomposed.choose_qparams.tensor [x, quant_min, quant_max, eps, dtype, outs]`: one pair for all of x.
pub(super) fn choose_tensor(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[6], "6")?;
    let x = call.float_tensor(0)?;
    #[expect(clippy::cast_possible_truncation, reason = "device arithmetic is single precision")]
    let eps = call.float(3)? as f32;
    let rule = Rule { mapping: Mapping::Affine, qmin: code(call, 1, -128)?, qmax: code(call, 2, 127)?, eps };
    let results = choose_for_all(call, x, rule)?;
    call.bind_list(5, &results)
}

/// One scale and one zero point for all of `x`, of size \[1\].
fn choose_for_all(call: &mut Call<'_, '_>, x: TensorId, rule: Rule) -> Lowered<[TensorId; 2]> {
    let elements = call.builder.program.tensor(x).bound.iter().product();
    let flat = View::Reshape(vec![Index::Const(1), Index::Const(-1)]);
    let row = call.builder.view(x, flat, &[1, elements])?;
    Ok(choose(call, row, rule))
}

/// `quantized_decomposed.choose_qparams_per_token_asymmetric.default [x, dtype, outs]`
pub(super) fn choose_per_token(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[3], "3")?;
    let x = call.float_tensor(0)?;
    let rule = Rule { mapping: Mapping::PerToken, qmin: -128, qmax: 127, eps: f32::EPSILON };
    let dim = call.rank(x).saturating_sub(1);
    let mut bound = call.builder.program.tensor(x).bound.to_vec();
    if let Some(last) = bound.last_mut() {
        *last = 1;
    }
    let [scales, zeros] = choose(call, x, rule);
    let scales = call.builder.view(scales, View::Unsqueeze { dim }, &bound)?;
    let zeros = call.builder.view(zeros, View::Unsqueeze { dim }, &bound)?;
    call.bind_list(2, &[scales, zeros])
}

/// `etvk.choose_qparams_per_row.default [x, quant_min, quant_max, scales, zero_points]`: two bare outputs.
pub(super) fn choose_per_row(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[5], "5")?;
    let x = call.float_tensor(0)?;
    let (qmin, qmax) = (code(call, 1, -128)?, code(call, 2, 127)?);
    let [scales, zeros] = choose(call, x, Rule { mapping: Mapping::Affine, qmin, qmax, eps: f32::EPSILON });
    call.bind(3, scales)?;
    call.bind(4, zeros)
}

/// Bounds of signed bytes.
pub(super) const INT8: [u32; 2] = [(-128i32).cast_unsigned(), 127];

/// x in `slot` rounded to its row's grid: scale and zero point are tensors with one element a row.
pub(super) fn per_row_grid(
    call: &mut Call<'_, '_>,
    x: usize,
    scale: usize,
    zero: usize,
) -> Lowered<TensorId> {
    let x = call.float_tensor(x)?;
    let scale = call.float_tensor(scale)?;
    let zero = call.tensor(zero)?;
    let zero = call.builder.convert(zero, DType::Int32);
    let rank = call.rank(x);
    let mut sizes: Vec<Index> = Vec::new();
    let mut bound = call.builder.program.tensor(x).bound.to_vec();
    for dim in 0..rank.saturating_sub(1) {
        let dim = i64::try_from(dim).unwrap_or(0);
        sizes.push(Index::Sym(call.builder.sym(SymDef::Size { tensor: x, dim })));
    }
    sizes.push(Index::Const(1));
    if let Some(last) = bound.last_mut() {
        *last = 1;
    }
    let scale = call.builder.view(scale, View::Reshape(sizes.clone()), &bound)?;
    let zero = call.builder.view(zero, View::Reshape(sizes), &bound)?;
    map::inner(call, MapOp::FakeQuantize, INT8, vec![x, scale, zero], DType::Float32)
}

/// A literal scale and zero point as rank-0 tensors.
pub(super) fn literals(call: &mut Call<'_, '_>, scale: usize, zero: usize) -> Lowered<(TensorId, TensorId)> {
    let (scale, zero) = (call.float(scale)?, code(call, zero, 0)?);
    Ok((
        call.builder.literal(DType::Float32, map::word(scale)),
        call.builder.literal(DType::Int32, zero.cast_unsigned()),
    ))
}

/// x between floats and signed bytes, with a scale and a zero point in two slots.
fn bytes(
    call: &mut Call<'_, '_>,
    op: MapOp,
    x: TensorId,
    (scale, zero): (usize, usize),
    dtype: DType,
) -> Lowered<TensorId> {
    let (scale, zero) = literals(call, scale, zero)?;
    map::inner(call, op, INT8, vec![x, scale, zero], dtype)
}

/// Float x in `slot` rounded to a fixed grid.
pub(super) fn static_grid(call: &mut Call<'_, '_>, x: usize, scale: usize, zero: usize) -> Lowered<TensorId> {
    let x = call.float_tensor(x)?;
    bytes(call, MapOp::FakeQuantize, x, (scale, zero), DType::Float32)
}

/// Codes in `slot` as floats.
pub(super) fn dequantized(call: &mut Call<'_, '_>, x: usize, scale: usize, zero: usize) -> Lowered<TensorId> {
    let x = call.tensor(x)?;
    let x = call.builder.convert(x, DType::Int32);
    bytes(call, MapOp::Dequantize, x, (scale, zero), DType::Float32)
}

/// Float x in `slot` as int8 codes.
pub(super) fn static_codes(
    call: &mut Call<'_, '_>,
    x: usize,
    scale: usize,
    zero: usize,
) -> Lowered<TensorId> {
    let x = call.float_tensor(x)?;
    bytes(call, MapOp::Quantize, x, (scale, zero), DType::Int8)
}

/// Whether an activation's name is that of ReLU.
pub(super) fn has_relu(call: &Call<'_, '_>, slot: usize) -> Lowered<bool> {
    match if call.is_null(slot) { "none" } else { call.string(slot)? } {
        "none" => Ok(false),
        "relu" => Ok(true),
        other => {
            let found = other.to_owned();
            Err(Fault::Argument { slot, what: "activation", expected: "none or relu", found })
        }
    }
}

/// A float result with the named activation, as int8 codes in `out`.
pub(super) fn quantized_output(
    call: &mut Call<'_, '_>,
    mut x: TensorId,
    activation: usize,
    parameters: (usize, usize),
    out: usize,
) -> Lowered<()> {
    if has_relu(call, activation)? {
        x = map::inner(call, MapOp::Relu, [0; 2], vec![x], DType::Float32)?;
    }
    requantized(call, x, parameters, out)
}

/// Floats as int8 codes in `out`.
fn requantized(call: &mut Call<'_, '_>, x: TensorId, parameters: (usize, usize), out: usize) -> Lowered<()> {
    let codes = bytes(call, MapOp::Quantize, x, parameters, DType::Int8)?;
    call.bind(out, codes)
}

/// `et_vk.q8ta_add.default [a, b, a_scale, a_zp, b_scale, b_zp, out_scale, out_zp, alpha, out]`
pub(super) fn q8ta_add(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[10], "10")?;
    let inputs = vec![dequantized(call, 0, 2, 3)?, dequantized(call, 1, 4, 5)?];
    let alpha = map::word(call.float(8)?);
    let sum = map::inner(call, MapOp::AddF, [alpha, 0], inputs, DType::Float32)?;
    requantized(call, sum, (6, 7), 9)
}

/// `et_vk.q8ta_relu.default [x, scale, zp, out_scale, out_zp, out]`
pub(super) fn q8ta_relu(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[6], "6")?;
    let x = dequantized(call, 0, 1, 2)?;
    let x = map::inner(call, MapOp::Relu, [0; 2], vec![x], DType::Float32)?;
    requantized(call, x, (3, 4), 5)
}
