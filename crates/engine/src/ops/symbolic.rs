//! Integers that the host works out before an execution.

use super::call::{Call, Result};
use crate::error::Fault;
use crate::ir::{Elem, Index, Origin, Port, SymDef};
use crate::lower::Slot;

fn bind_sym(call: &mut Call<'_, '_>, slot: usize, def: SymDef) -> Result<()> {
    if !matches!(call.value(slot)?, etvk_vkgraph::Value::SymInt) {
        return Err(Fault::Kind { slot, expected: "a SymInt", found: "another kind" });
    }
    let sym = call.builder.sym(def);
    call.builder.set_slot(call.args[slot], Slot::Sym(sym));
    Ok(())
}

/// `sym_size.int [tensor, dim, out]`
pub(super) fn sym_size(call: &mut Call<'_, '_>) -> Result<()> {
    call.arity(&[3], "3")?;
    let tensor = call.tensor(0)?;
    let dim = call.int(1)?;
    crate::host::normalise_dim(dim, call.rank(tensor))?;
    bind_sym(call, 2, SymDef::Size { tensor, dim })
}

fn binary(call: &mut Call<'_, '_>, def: fn(Index, Index) -> SymDef) -> Result<()> {
    call.arity(&[3], "3")?;
    let (a, b) = (call.index(0)?, call.index(1)?);
    bind_sym(call, 2, def(a, b))
}

/// `add [a, b, out]`
pub(super) fn add(call: &mut Call<'_, '_>) -> Result<()> {
    binary(call, SymDef::Add)
}

/// `sub [a, b, out]`
pub(super) fn sub(call: &mut Call<'_, '_>) -> Result<()> {
    binary(call, SymDef::Sub)
}

/// `mul [a, b, out]`
pub(super) fn mul(call: &mut Call<'_, '_>) -> Result<()> {
    binary(call, SymDef::Mul)
}

/// `floordiv [a, b, out]`
pub(super) fn floordiv(call: &mut Call<'_, '_>) -> Result<()> {
    binary(call, SymDef::FloorDiv)
}

/// `lt [a, b, out]`
pub(super) fn lt(call: &mut Call<'_, '_>) -> Result<()> {
    binary(call, SymDef::Less)
}

/// `le [a, b, out]`
pub(super) fn le(call: &mut Call<'_, '_>) -> Result<()> {
    binary(call, SymDef::AtMost)
}

/// `gt [a, b, out]`
pub(super) fn gt(call: &mut Call<'_, '_>) -> Result<()> {
    binary(call, |a, b| SymDef::Less(b, a))
}

/// `ge [a, b, out]`
pub(super) fn ge(call: &mut Call<'_, '_>) -> Result<()> {
    binary(call, |a, b| SymDef::AtMost(b, a))
}

/// `eq [a, b, out]`
pub(super) fn eq(call: &mut Call<'_, '_>) -> Result<()> {
    binary(call, SymDef::Equal)
}

/// Assertions about integers: whatever they found was checked when the model was exported, and sizes are checked
/// here in any case.
#[expect(clippy::unnecessary_wraps, reason = "every operator is lowered by a function of this type")]
pub(super) fn assertion(_call: &mut Call<'_, '_>) -> Result<()> {
    Ok(())
}

/// `et_vk.select_as_symint.default [x, dim, index, out]`: x must be an integer graph input.
pub(super) fn select_as_symint(call: &mut Call<'_, '_>) -> Result<()> {
    call.arity(&[4], "4")?;
    let tensor = call.tensor(0)?;
    let base = call.builder.program.base(tensor);
    let Origin::Input(input) = call.builder.program.tensor(base).origin else {
        return Err(Fault::Kind { slot: 0, expected: "a graph input", found: "a computed tensor" });
    };
    if base != tensor || !matches!(call.builder.program.inputs.get(input as usize), Some(Port::Tensor(_))) {
        return Err(Fault::Kind { slot: 0, expected: "a graph input", found: "a view" });
    }
    if call.elem(tensor) != Elem::I32 {
        return Err(Fault::Dtype { what: "x", found: call.builder.program.tensor(tensor).dtype });
    }
    let (dim, index) = (call.int(1)?, call.int(2)?);
    crate::host::normalise_dim(dim, call.rank(tensor))?;
    bind_sym(call, 3, SymDef::Select { input, dim, index })
}
