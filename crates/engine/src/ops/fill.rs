//! Constant tensors: a literal read with stride zero costs nothing.

use etvk_vkgraph::DType;

use super::call::{Call, Result};
use super::map;
use crate::ir::{Elem, Index, SymDef, TensorId, View};

fn literal(call: &mut Call<'_, '_>, value: f64, slot: usize) -> Result<TensorId> {
    let dtype = call.info(slot)?.dtype;
    #[expect(clippy::cast_possible_truncation, reason = "float to integer saturates, as a fill value should")]
    let word = match (Elem::of(dtype), dtype) {
        (Elem::F32, _) => map::word(value),
        (Elem::I32, DType::Bool) => u32::from(value != 0.0),
        (Elem::I32, _) => (value as i32).cast_unsigned(),
    };
    Ok(call.builder.literal(dtype, word))
}

/// `[size, value, …, out]`
pub(super) fn full(call: &mut Call<'_, '_>) -> Result<()> {
    let (sizes, value, out) = (call.indices(0)?, call.float(1)?, call.last());
    let scalar = literal(call, value, out)?;
    call.emit_view(scalar, View::Expand(sizes), out)
}

/// `[size, …, out]` of one value.
pub(super) fn filled(call: &mut Call<'_, '_>, value: f64) -> Result<()> {
    let (sizes, out) = (call.indices(0)?, call.last());
    let scalar = literal(call, value, out)?;
    call.emit_view(scalar, View::Expand(sizes), out)
}

/// `[self, value, …, out]`
pub(super) fn full_like(call: &mut Call<'_, '_>) -> Result<()> {
    let value = call.float(1)?;
    like(call, value)
}

/// `[self, …, out]` of one value.
pub(super) fn like(call: &mut Call<'_, '_>, value: f64) -> Result<()> {
    let (x, out) = (call.tensor(0)?, call.last());
    let rank = i64::try_from(call.rank(x)).unwrap_or(0);
    let size = |dim| SymDef::Size { tensor: x, dim };
    let sizes = (0..rank).map(|dim| Index::Sym(call.builder.sym(size(dim)))).collect();
    let scalar = literal(call, value, out)?;
    call.emit_view(scalar, View::Expand(sizes), out)
}

/// `aten.scalar_tensor.default [value, …, out]`
pub(super) fn scalar_tensor(call: &mut Call<'_, '_>) -> Result<()> {
    let (value, out) = (call.float(0)?, call.last());
    let scalar = literal(call, value, out)?;
    call.bind(out, scalar)
}
