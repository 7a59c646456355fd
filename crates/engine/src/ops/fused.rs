//! Element-wise operators that an old exporter fused with a clamp.

use etvk_kernels::map::MapOp;
use etvk_vkgraph::DType;

use super::call::{Call, Result};
use super::map::{self, Twins};
use crate::ir::{Elem, TensorId};

/// Which arithmetic a result of the last value's type is computed in, and what alpha is there.
fn arithmetic(call: &Call<'_, '_>, ops: Twins, operands: [TensorId; 2]) -> Result<(MapOp, DType, u32)> {
    let integers = operands.iter().all(|&id| call.elem(id) == Elem::I32);
    let integer = integers && Elem::of(call.info(call.last())?.dtype) == Elem::I32;
    Ok(if integer { (ops.int, DType::Int32, 1) } else { (ops.float, DType::Float32, map::word(1.0)) })
}

fn apply(call: &mut Call<'_, '_>, ops: Twins, operands: [TensorId; 2]) -> Result<TensorId> {
    let (op, dtype, alpha) = arithmetic(call, ops, operands)?;
    let operands = operands.map(|id| call.builder.convert(id, dtype));
    map::inner(call, op, [alpha, 0], operands.to_vec(), dtype)
}

fn clamped(call: &mut Call<'_, '_>, x: TensorId, bounds: usize) -> Result<TensorId> {
    let low = call.optional_float(bounds)?.unwrap_or(f64::NEG_INFINITY);
    let high = call.optional_float(bounds + 1)?.unwrap_or(f64::INFINITY);
    let (op, bounds, dtype) = match call.elem(x) {
        Elem::F32 => (MapOp::ClampF, [low, high].map(map::word), DType::Float32),
        Elem::I32 => (MapOp::ClampI, map::int_bounds(low, high), DType::Int32),
    };
    map::inner(call, op, bounds, vec![x], dtype)
}

/// `et_vk.binary_*_with_clamp.default [a, b, min, max, out]`
pub(super) fn binary_with_clamp(call: &mut Call<'_, '_>, ops: Twins) -> Result<()> {
    call.arity(&[5], "5")?;
    let operands = [call.tensor(0)?, call.tensor(1)?];
    let result = apply(call, ops, operands)?;
    let result = clamped(call, result, 2)?;
    call.bind(4, result)
}

/// `et_vk.clamp_with_binary_*.default [x, min, max, other, out]`
pub(super) fn clamp_with_binary(call: &mut Call<'_, '_>, ops: Twins) -> Result<()> {
    call.arity(&[5], "5")?;
    let x = call.tensor(0)?;
    let operands = [clamped(call, x, 1)?, call.tensor(3)?];
    let result = apply(call, ops, operands)?;
    call.bind(4, result)
}
