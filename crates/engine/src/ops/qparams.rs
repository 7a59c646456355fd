//! Quantisation: parameters chosen on the device, tensors to codes and back.

use etvk_kernels::map::MapOp;
use etvk_kernels::qparams::{self, Mapping};
use etvk_vkgraph::DType;

use super::call::{Call, Result as Lowered};
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
    /// Whether the outputs keep a last dimension of 1.
    pub(crate) keepdim: bool,
}

impl Kind for Qparams {
    fn infer(&self, node: &Node, shapes: &Shapes<'_>) -> Result<OutSizes, Fault> {
        let x = shapes.sizes(node.inputs[0]);
        let Some((_, leading)) = x.split_last() else { return Err(shape_fault("quantised tensor", &[1], x)) };
        let mut out: etvk_kernels::Dims = leading.iter().copied().collect();
        if self.keepdim {
            out.push(1);
        }
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
fn code(call: &Call<'_, '_>, slot: usize, default: i32) -> Lowered<i32> {
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
    let bound = call.builder.program.tensor(x).bound.to_vec();
    let block = call.ints(2)?;
    let per_row = block.len() == bound.len()
        && block.split_last().is_some_and(|(last, rest)| {
            rest.iter().all(|&b| b == 1) && bound.last().is_some_and(|&n| i64::from(n) == *last)
        });
    if !per_row {
        let found = format!("{block:?}");
        return Err(Fault::Argument { slot: 2, what: "block_size", expected: "one block a row", found });
    }
    let keepdim = call.last() == 10 && call.optional_bool(9)?.unwrap_or(false);
    #[expect(clippy::cast_possible_truncation, reason = "device arithmetic is single precision")]
    let eps = call.optional_float(6)?.unwrap_or(f64::from(f32::EPSILON)) as f32;
    let op = Qparams { mapping, qmin: code(call, 4, -128)?, qmax: code(call, 5, 127)?, eps, keepdim };
    let mut out = bound;
    let rank = out.len();
    out.truncate(rank - 1);
    if keepdim {
        out.push(1);
    }
    let x = call.builder.dense(x);
    let outputs = [(DType::Float32, out.as_slice()), (DType::Int32, out.as_slice())];
    let results = call.builder.node_outputs(Op::Qparams(op), vec![x], &outputs);
    call.bind_list(call.last(), &results)
}

/// `etvk.choose_qparams_per_row.default [x, quant_min, quant_max, scales, zero_points]`: two bare outputs.
pub(super) fn choose_per_row(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[5], "5")?;
    let x = call.float_tensor(0)?;
    let x = call.builder.dense(x);
    let eps = f32::EPSILON;
    let (qmin, qmax) = (code(call, 1, -128)?, code(call, 2, 127)?);
    let op = Qparams { mapping: Mapping::Affine, qmin, qmax, eps, keepdim: false };
    let bound = call.info(3)?.dims.clone();
    let outputs = [(DType::Float32, bound.as_slice()), (DType::Int32, bound.as_slice())];
    let results = call.builder.node_outputs(Op::Qparams(op), vec![x], &outputs);
    call.bind(3, results[0])?;
    call.bind(4, results[1])
}

const INT8: [u32; 2] = [(-128i32).cast_unsigned(), 127];

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
fn literals(call: &mut Call<'_, '_>, scale: usize, zero: usize) -> Lowered<(TensorId, TensorId)> {
    let (scale, zero) = (call.float(scale)?, code(call, zero, 0)?);
    Ok((
        call.builder.literal(DType::Float32, map::word(scale)),
        call.builder.literal(DType::Int32, zero.cast_unsigned()),
    ))
}

/// Float x in `slot` rounded to a fixed grid.
pub(super) fn static_grid(call: &mut Call<'_, '_>, x: usize, scale: usize, zero: usize) -> Lowered<TensorId> {
    let x = call.float_tensor(x)?;
    let (scale, zero) = literals(call, scale, zero)?;
    map::inner(call, MapOp::FakeQuantize, INT8, vec![x, scale, zero], DType::Float32)
}

/// Codes in `slot` as floats.
pub(super) fn dequantized(call: &mut Call<'_, '_>, x: usize, scale: usize, zero: usize) -> Lowered<TensorId> {
    let x = call.tensor(x)?;
    let x = call.builder.convert(x, DType::Int32);
    let (scale, zero) = literals(call, scale, zero)?;
    map::inner(call, MapOp::Dequantize, [0; 2], vec![x, scale, zero], DType::Float32)
}

/// A float result with the named activation, as int8 codes in `out`.
pub(super) fn quantized_output(
    call: &mut Call<'_, '_>,
    mut x: TensorId,
    activation: usize,
    (scale, zero): (usize, usize),
    out: usize,
) -> Lowered<()> {
    match if call.is_null(activation) { "none" } else { call.string(activation)? } {
        "none" => {}
        "relu" => x = map::inner(call, MapOp::Relu, [0; 2], vec![x], DType::Float32)?,
        other => {
            let found = other.to_owned();
            return Err(Fault::Argument {
                slot: activation,
                what: "activation",
                expected: "none or relu",
                found,
            });
        }
    }
    let (scale, zero) = literals(call, scale, zero)?;
    let codes = map::inner(call, MapOp::Quantize, INT8, vec![x, scale, zero], DType::Int8)?;
    call.bind(out, codes)
}

/// `quantized_decomposed.quantize_per_tensor.default [x, scale, zero_point, quant_min, quant_max, dtype, out]`
pub(super) fn quantize_per_tensor(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[7], "7")?;
    let x = call.float_tensor(0)?;
    let (scale, zero) = literals(call, 1, 2)?;
    let bounds = [code(call, 3, -128)?, code(call, 4, 127)?].map(i32::cast_unsigned);
    let dtype = call.info(6)?.dtype;
    let codes = map::inner(call, MapOp::Quantize, bounds, vec![x, scale, zero], dtype)?;
    call.bind(6, codes)
}

/// `quantized_decomposed.dequantize_per_tensor.default
/// [x, scale, zero_point, quant_min, quant_max, dtype, out_dtype, out]`
pub(super) fn dequantize_per_tensor(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[8], "8")?;
    let x = dequantized(call, 0, 1, 2)?;
    call.bind(7, x)
}

/// `quantized_decomposed.dequantize_per_channel.default
/// [x, scales, zero_points, axis, quant_min, quant_max, dtype, out_dtype, out]`
pub(super) fn dequantize_per_channel(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[9], "9")?;
    let bound = call.info(0)?.dims.clone();
    let axis = call.dim(3, bound.len())?;
    let block: Vec<i64> =
        bound.iter().enumerate().map(|(dim, &size)| if dim == axis { 1 } else { i64::from(size) }).collect();
    dequantize_blocks(call, &block, (1, 2), 8)
}

/// `torchao.dequantize_affine.default
/// [x, block_size, scale, zero_point, input_dtype, quant_min, quant_max, output_dtype, out]`
pub(super) fn dequantize_affine(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[9], "9")?;
    let block = call.ints(1)?;
    dequantize_blocks(call, &block, (2, 3), 8)
}

/// Codes whose blocks of the given sizes share a scale and a zero point: both sides are viewed with every
/// dimension split into (blocks, elements of a block), where the parameters broadcast.
fn dequantize_blocks(
    call: &mut Call<'_, '_>,
    block: &[i64],
    (scale, zero): (usize, usize),
    out: usize,
) -> Lowered<()> {
    let bound = call.info(0)?.dims.clone();
    let (mut split, mut shared) = (Vec::new(), Vec::new());
    for (&size, &block) in bound.iter().zip(block) {
        let block = u32::try_from(block).ok().filter(|&b| b > 0 && size % b == 0);
        let Some(block) = block else { return Err(shape_fault("blocks of a quantised tensor", &bound, &[])) };
        for (whole, part) in [(size / block, size / block), (block, 1)] {
            if whole != 1 {
                split.push(whole);
                shared.push(part);
            }
        }
    }
    if block.len() != bound.len() || split.len() > etvk_kernels::MAX_RANK {
        return Err(shape_fault("blocks of a quantised tensor", &bound, &split));
    }
    let x = call.tensor(0)?;
    let x = reshape(call, x, &split)?;
    let scales = call.float_tensor(scale)?;
    let scales = reshape(call, scales, &shared)?;
    let zeros = match call.optional_tensor(zero)? {
        Some(zeros) => {
            let zeros = call.builder.convert(zeros, DType::Int32);
            reshape(call, zeros, &shared)?
        }
        None => call.builder.literal(DType::Int32, 0),
    };
    let floats = map::inner(call, MapOp::Dequantize, [0; 2], vec![x, scales, zeros], DType::Float32)?;
    let whole = reshape(call, floats, &bound)?;
    call.bind(out, whole)
}

fn reshape(call: &mut Call<'_, '_>, id: TensorId, sizes: &[u32]) -> Lowered<TensorId> {
    let indices = sizes.iter().map(|&size| Index::Const(i64::from(size))).collect();
    call.builder.view(id, View::Reshape(indices), sizes)
}
