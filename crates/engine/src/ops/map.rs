//! Element-wise operators: one node kind for functions of up to three broadcast tensors.

use etvk_kernels::map::{self, MapOp};
use etvk_vkgraph::DType;

use super::call::{Call, Result as Lowered};
use super::{Kind, Op, OutSizes, broadcast, one, view};
use crate::error::{Error, Fault};
use crate::host::Shapes;
use crate::ir::{Elem, Node, TensorId};
use crate::record::{Bind, Record};

/// out\[i\] = op(a\[i\], b\[i\], c\[i\]), broadcast as PyTorch does. Inputs: a, (b), (c).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    /// The function.
    pub(crate) op: MapOp,
    /// Its scalar parameters, as device words.
    pub(crate) scalars: [u32; 2],
}

impl Kind for Map {
    fn infer(&self, node: &Node, shapes: &Shapes<'_>) -> Result<OutSizes, Fault> {
        let operands: arrayvec::ArrayVec<&[u32], 3> =
            node.inputs.iter().take(3).map(|&id| shapes.sizes(id)).collect();
        Ok(one(broadcast(&operands)?))
    }

    fn record(&self, node: &Node, record: &mut Record<'_>) -> Result<(), Error> {
        let inputs: arrayvec::ArrayVec<&etvk_kernels::Strided, 3> =
            node.inputs.iter().take(3).map(|&id| record.layout(id)).collect();
        let out = &record.layout(node.outputs[0]).sizes;
        let launch = map::map(self.op, &inputs, self.scalars, out, record.limits);
        let launch = launch.map_err(|unsupported| record.unsupported(node, &unsupported))?;
        let operand = |i: usize| node.inputs.get(i).map_or(Bind::Absent, |&id| Bind::Read(id));
        let binds = [operand(0), operand(1), operand(2), Bind::Write(node.outputs[0]), Bind::Dynamic];
        record.launch(&launch, &binds)
    }
}

/// A float operator and its integer twin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Twins {
    /// For float results (or operands, when comparing).
    pub(crate) float: MapOp,
    /// For integer ones.
    pub(crate) int: MapOp,
}

pub(super) fn node(op: MapOp, scalars: [u32; 2]) -> Op {
    Op::Map(Map { op, scalars })
}

/// A float parameter as a device word.
#[expect(clippy::cast_possible_truncation, reason = "device arithmetic is single precision")]
pub(super) fn word(value: f64) -> u32 {
    (value as f32).to_bits()
}

/// The conversion between two payload types, or `None` where the device words are the same.
/// Float to integer truncates and saturates, NaN gives 0; anything to bool is `!= 0`.
pub(crate) fn cast(from: DType, to: DType) -> Option<Op> {
    let bounds = |low: i32, high: i32| [low.cast_unsigned(), high.cast_unsigned()];
    match (from.is_float(), to) {
        (true, to) if to.is_float() => None,
        (false, to) if to.is_float() => Some(node(MapOp::IntToFloat, [0; 2])),
        (true, DType::Bool) => Some(node(MapOp::FloatToBool, [0; 2])),
        (true, DType::Int8) => Some(node(MapOp::FloatToInt, bounds(-128, 127))),
        (true, DType::UInt8) => Some(node(MapOp::FloatToInt, bounds(0, 255))),
        (true, _) => Some(node(MapOp::FloatToInt, bounds(i32::MIN, i32::MAX))),
        (false, DType::Bool) if from != DType::Bool => Some(node(MapOp::IntToBool, [0; 2])),
        (false, DType::Int8) if !matches!(from, DType::Int8 | DType::Bool) => {
            Some(node(MapOp::WrapInt8, [0; 2]))
        }
        (false, DType::UInt8) if !matches!(from, DType::UInt8 | DType::Bool) => {
            Some(node(MapOp::WrapUint8, [0; 2]))
        }
        (false, _) => None,
    }
}

/// Emits a map whose result is the value in `slot`; 8-bit integer results wrap.
pub(super) fn emit(
    call: &mut Call<'_, '_>,
    op: MapOp,
    scalars: [u32; 2],
    inputs: Vec<TensorId>,
    slot: usize,
) -> Lowered<()> {
    let inputs = addressable(call, inputs);
    let dtype = call.info(slot)?.dtype;
    let wrap = match dtype {
        DType::Int8 => MapOp::WrapInt8,
        DType::UInt8 => MapOp::WrapUint8,
        _ => return call.emit(node(op, scalars), inputs, slot),
    };
    let bound = call.info(slot)?.dims.clone();
    let wide = call.emit_inner(node(op, scalars), inputs, DType::Int32, &bound);
    call.emit(node(wrap, [0; 2]), vec![wide], slot)
}

/// Emits a map whose result stays inside the lowering.
pub(super) fn inner(
    call: &mut Call<'_, '_>,
    op: MapOp,
    scalars: [u32; 2],
    inputs: Vec<TensorId>,
    dtype: DType,
) -> Lowered<TensorId> {
    let bound = view::broadcast_bound(call, &inputs)?;
    let inputs = addressable(call, inputs);
    Ok(call.emit_inner(node(op, scalars), inputs, dtype, &bound))
}

/// Dimensions the kernel takes after neighbours have been merged.
pub(super) const RANK: usize = 6;

/// Operands the kernel can address: only tensors of a rank beyond its own can have too many dimensions.
fn addressable(call: &mut Call<'_, '_>, inputs: Vec<TensorId>) -> Vec<TensorId> {
    if inputs.iter().all(|&id| call.rank(id) <= RANK) {
        return inputs;
    }
    inputs.into_iter().map(|id| call.builder.contiguous(id)).collect()
}

/// The element kind a result of the value in `slot` is computed in.
fn result_elem(call: &Call<'_, '_>, slot: usize) -> Lowered<Elem> {
    Ok(Elem::of(call.info(slot)?.dtype))
}

/// `[self, out]`, on floats.
pub(super) fn unary(call: &mut Call<'_, '_>, op: MapOp) -> Lowered<()> {
    call.arity(&[2], "2")?;
    let x = call.float_tensor(0)?;
    emit(call, op, [0; 2], vec![x], 1)
}

/// `[self, out]`, on floats or integers.
pub(super) fn unary_any(call: &mut Call<'_, '_>, ops: Twins) -> Lowered<()> {
    call.arity(&[2], "2")?;
    let x = call.tensor(0)?;
    let op = if call.elem(x) == Elem::F32 { ops.float } else { ops.int };
    emit(call, op, [0; 2], vec![x], 1)
}

/// `aten.neg`, `relu` and their kin on integers: `clamp` with a lower bound of zero.
pub(super) fn relu(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[2], "2")?;
    let x = call.tensor(0)?;
    match call.elem(x) {
        Elem::F32 => emit(call, MapOp::Relu, [0; 2], vec![x], 1),
        Elem::I32 => emit(call, MapOp::ClampI, [0, i32::MAX.cast_unsigned()], vec![x], 1),
    }
}

/// `[self, other, out]`, or `[self, other, alpha, out]` for add and sub.
pub(super) fn binary(call: &mut Call<'_, '_>, ops: Twins, has_alpha: bool) -> Lowered<()> {
    if has_alpha {
        call.arity(&[4], "4")?;
    } else {
        call.arity(&[3], "3")?;
    }
    let out = call.last();
    let (a, b) = (call.tensor(0)?, call.tensor(1)?);
    match result_elem(call, out)? {
        Elem::F32 => {
            let alpha = if has_alpha { word(call.float(2)?) } else { word(1.0) };
            let inputs = vec![call.floats(a), call.floats(b)];
            emit(call, ops.float, [alpha, 0], inputs, out)
        }
        Elem::I32 => {
            let alpha = if has_alpha { wrapping_word(call.int(2)?) } else { 1 };
            if call.elem(a) == Elem::F32 || call.elem(b) == Elem::F32 {
                let inputs = vec![call.floats(a), call.floats(b)];
                let sum =
                    inner(call, ops.float, [word(call.float(2).unwrap_or(1.0)), 0], inputs, DType::Float32)?;
                return call.bind(out, sum);
            }
            emit(call, ops.int, [alpha, 0], vec![a, b], out)
        }
    }
}

/// The low 32 bits: integer arithmetic wraps.
#[expect(clippy::cast_possible_truncation, reason = "integer arithmetic wraps")]
fn wrapping_word(value: i64) -> u32 {
    value as u32
}

/// `aten.div.Tensor [self, other, out]`: true division, whatever the operands.
pub(super) fn divide(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[3], "3")?;
    let inputs = vec![call.float_tensor(0)?, call.float_tensor(1)?];
    let quotient = inner(call, MapOp::DivF, [0; 2], inputs, DType::Float32)?;
    call.bind(2, quotient)
}

/// `aten.div.Tensor_mode [self, other, rounding_mode, out]`
pub(super) fn divide_mode(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[4], "4")?;
    let ops = match if call.is_null(2) { "" } else { call.string(2)? } {
        "floor" => Twins { float: MapOp::DivFloorF, int: MapOp::DivFloorI },
        "trunc" => Twins { float: MapOp::DivTruncF, int: MapOp::DivTruncI },
        "" => Twins { float: MapOp::DivF, int: MapOp::DivTruncI },
        other => {
            let found = other.to_owned();
            return Err(Fault::Argument {
                slot: 2,
                what: "rounding_mode",
                expected: "floor, trunc or Null",
                found,
            });
        }
    };
    let (a, b) = (call.tensor(0)?, call.tensor(1)?);
    let integers = call.elem(a) == Elem::I32 && call.elem(b) == Elem::I32 && !call.is_null(2);
    if integers && result_elem(call, 3)? == Elem::I32 {
        return emit(call, ops.int, [0; 2], vec![a, b], 3);
    }
    let inputs = vec![call.floats(a), call.floats(b)];
    let quotient = inner(call, ops.float, [0; 2], inputs, DType::Float32)?;
    call.bind(3, quotient)
}

/// `[self, other, out]` to bool, `other` a tensor.
pub(super) fn compare(call: &mut Call<'_, '_>, ops: Twins) -> Lowered<()> {
    call.arity(&[3], "3")?;
    let (a, b) = (call.tensor(0)?, call.tensor(1)?);
    if call.elem(a) == Elem::I32 && call.elem(b) == Elem::I32 {
        return emit(call, ops.int, [0; 2], vec![a, b], 2);
    }
    let inputs = vec![call.floats(a), call.floats(b)];
    emit(call, ops.float, [0; 2], inputs, 2)
}

/// `[self, other, out]` to bool, `other` a number.
pub(super) fn compare_scalar(call: &mut Call<'_, '_>, ops: Twins) -> Lowered<()> {
    call.arity(&[3], "3")?;
    if matches!(call.value(1)?, etvk_vkgraph::Value::SymInt) {
        return compare(call, ops);
    }
    let (x, other) = (call.tensor(0)?, call.float(1)?);
    #[expect(clippy::cast_possible_truncation, reason = "checked to be a whole number in range")]
    if call.elem(x) == Elem::I32 && other.fract() == 0.0 && other.abs() <= f64::from(i32::MAX) {
        return emit(call, ops.int, [(other as i32).cast_unsigned(), 0], vec![x], 2);
    }
    let x = call.floats(x);
    emit(call, ops.float, [word(other), 0], vec![x], 2)
}

/// `aten.pow.Tensor_Scalar [self, exponent, out]`
pub(super) fn pow_scalar(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[3], "3")?;
    let (x, exponent) = (call.tensor(0)?, call.float(1)?);
    if result_elem(call, 2)? == Elem::I32 && call.elem(x) == Elem::I32 {
        return emit(call, MapOp::PowI, [wrapping_word(call.int(1)?), 0], vec![x], 2);
    }
    let x = call.floats(x);
    // A square is exact where the general power need not be; for halves PyTorch takes roots, of −0 and −∞ as well.
    let (op, inputs, scalars) = match exponent {
        2.0 => (MapOp::MulF, vec![x, x], [word(1.0), 0]),
        0.5 => (MapOp::Sqrt, vec![x], [0; 2]),
        -0.5 => (MapOp::Rsqrt, vec![x], [0; 2]),
        _ => (MapOp::PowF, vec![x], [word(exponent), 0]),
    };
    emit(call, op, scalars, inputs, 2)
}

/// `aten.gelu.default [self, approximate, out]`
pub(super) fn gelu(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[3], "3")?;
    let op = match if call.is_null(1) { "none" } else { call.string(1)? } {
        "tanh" => MapOp::GeluTanh,
        "none" => MapOp::GeluErf,
        other => {
            let found = other.to_owned();
            return Err(Fault::Argument { slot: 1, what: "approximate", expected: "none or tanh", found });
        }
    };
    let x = call.float_tensor(0)?;
    emit(call, op, [0; 2], vec![x], 2)
}

/// `aten.clamp.default` and `aten.hardtanh.default [self, min, max, out]`
pub(super) fn clamp(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[4], "4")?;
    let (low, high) = (call.optional_float(1)?, call.optional_float(2)?);
    bounded(call, low.unwrap_or(f64::NEG_INFINITY), high.unwrap_or(f64::INFINITY), 3)
}

/// `aten.relu6.default [self, out]`
pub(super) fn relu6(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[2], "2")?;
    bounded(call, 0.0, 6.0, 1)
}

/// Bounds of integers: the nearest inside.
#[expect(clippy::cast_possible_truncation, reason = "float to integer saturates, as the bounds should")]
pub(super) fn int_bounds(low: f64, high: f64) -> [u32; 2] {
    [low.ceil() as i32, high.floor() as i32].map(i32::cast_unsigned)
}

fn bounded(call: &mut Call<'_, '_>, low: f64, high: f64, out: usize) -> Lowered<()> {
    let x = call.tensor(0)?;
    if result_elem(call, out)? == Elem::I32 && call.elem(x) == Elem::I32 {
        return emit(call, MapOp::ClampI, int_bounds(low, high), vec![x], out);
    }
    let x = call.floats(x);
    emit(call, MapOp::ClampF, [word(low), word(high)], vec![x], out)
}

/// `[self, parameter, out]` on floats: hardshrink's λ, leaky_relu's slope.
pub(super) fn unary_parameter(call: &mut Call<'_, '_>, op: MapOp) -> Lowered<()> {
    call.arity(&[3], "3")?;
    let (x, parameter) = (call.float_tensor(0)?, word(call.float(1)?));
    emit(call, op, [parameter, 0], vec![x], 2)
}

fn to_bool(call: &mut Call<'_, '_>, slot: usize) -> Lowered<TensorId> {
    let x = call.tensor(slot)?;
    Ok(call.builder.convert(x, DType::Bool))
}

/// `[self, other, out]` on truth values.
pub(super) fn logical(call: &mut Call<'_, '_>, op: MapOp) -> Lowered<()> {
    call.arity(&[3], "3")?;
    let inputs = vec![to_bool(call, 0)?, to_bool(call, 1)?];
    emit(call, op, [0; 2], inputs, 2)
}

/// `aten.logical_not.default [self, out]`
pub(super) fn logical_not(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[2], "2")?;
    let x = to_bool(call, 0)?;
    emit(call, MapOp::LogicalNot, [0; 2], vec![x], 1)
}

fn integers(call: &mut Call<'_, '_>, slot: usize) -> Lowered<TensorId> {
    let x = call.tensor(slot)?;
    match call.elem(x) {
        Elem::I32 => Ok(x),
        Elem::F32 => {
            Err(Fault::Dtype { what: "bitwise operand", found: call.builder.program.tensor(x).dtype })
        }
    }
}

/// `[self, other, out]` on bits; on bools the bits 0 and 1.
pub(super) fn bitwise(call: &mut Call<'_, '_>, op: MapOp) -> Lowered<()> {
    call.arity(&[3], "3")?;
    let inputs = vec![integers(call, 0)?, integers(call, 1)?];
    emit(call, op, [0; 2], inputs, 2)
}

/// `aten.bitwise_not.default [self, out]`
pub(super) fn bitwise_not(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[2], "2")?;
    let x = integers(call, 0)?;
    let bool = call.info(1)?.dtype == DType::Bool;
    emit(call, if bool { MapOp::LogicalNot } else { MapOp::BitNot }, [0; 2], vec![x], 1)
}

/// `aten.where.self [condition, self, other, out]`
pub(super) fn where_self(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[4], "4")?;
    let condition = to_bool(call, 0)?;
    let dtype = call.info(3)?.dtype;
    let (a, b) = (call.tensor(1)?, call.tensor(2)?);
    let inputs = vec![condition, call.builder.convert(a, dtype), call.builder.convert(b, dtype)];
    emit(call, MapOp::Where, [0; 2], inputs, 3)
}

/// `aten._to_copy.default` and `dim_order_ops._to_dim_order_copy.default [self, …6, out]`: the target type is the output's.
pub(super) fn to_copy(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[8], "8")?;
    let mut x = call.tensor(0)?;
    if call.builder.is_state_tensor(x) {
        x = call.builder.copy(x);
    }
    // A half that the host sees as one was asked for by the model; the others stay wide.
    let info = call.info(7)?;
    if info.dtype == DType::Float16 && info.staging_dtype == DType::Float16 {
        let x = call.floats(x);
        return emit(call, MapOp::RoundHalf, [0; 2], vec![x], 7);
    }
    call.bind(7, x)
}
