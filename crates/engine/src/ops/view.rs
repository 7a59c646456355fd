//! Operators that only reinterpret a tensor, and those that copy pieces of it.

use super::call::{Call, Result};
use super::copy::Cat;
use super::{Op, broadcast};
use crate::error::Fault;
use crate::ir::{Index, TensorId, View};

/// `et_vk.prepack.default [constant, out]`
pub(super) fn prepack(call: &mut Call<'_, '_>) -> Result<()> {
    call.arity(&[2], "2")?;
    let out = call.args[1];
    if call.builder.is_state(out) {
        return Ok(());
    }
    let tensor = call.tensor(0)?;
    call.bind(1, tensor)
}

/// `aten.clone.default`, `aten.alias_copy.default` and their kin: the same elements; the output is the last value.
pub(super) fn identity(call: &mut Call<'_, '_>) -> Result<()> {
    call.arity(&[2, 3, 4], "2 to 4")?;
    let mut tensor = call.tensor(0)?;
    if call.builder.is_state_tensor(tensor) {
        tensor = call.builder.copy(tensor);
    }
    call.bind(call.last(), tensor)
}

/// `aten.view_copy.default [self, size, out]`
pub(super) fn view_copy(call: &mut Call<'_, '_>) -> Result<()> {
    call.arity(&[3], "3")?;
    let (base, sizes) = (call.tensor(0)?, call.indices(1)?);
    call.emit_view(base, View::Reshape(sizes), 2)
}

/// `aten.permute_copy.default [self, dims, out]`
pub(super) fn permute(call: &mut Call<'_, '_>) -> Result<()> {
    call.arity(&[3], "3")?;
    let base = call.tensor(0)?;
    let order = call.dims(1, call.rank(base))?;
    complete(1, order.len(), call.rank(base))?;
    call.emit_view(base, View::Permute(order), 2)
}

/// `aten.transpose.int [self, dim0, dim1, out]`
pub(super) fn transpose(call: &mut Call<'_, '_>) -> Result<()> {
    call.arity(&[4], "4")?;
    let base = call.tensor(0)?;
    let rank = call.rank(base);
    let mut order: Vec<usize> = (0..rank).collect();
    order.swap(call.dim(1, rank)?, call.dim(2, rank)?);
    call.emit_view(base, View::Permute(order), 3)
}

/// `aten.t_copy.default [self, out]`
pub(super) fn matrix_transpose(call: &mut Call<'_, '_>) -> Result<()> {
    call.arity(&[2], "2")?;
    let base = call.tensor(0)?;
    call.emit_view(base, View::Permute((0..call.rank(base)).rev().collect()), 1)
}

fn complete(slot: usize, found: usize, rank: usize) -> Result<()> {
    if found == rank {
        return Ok(());
    }
    Err(Fault::Argument { slot, what: "dims", expected: "every dimension once", found: found.to_string() })
}

/// `aten.unsqueeze_copy.default [self, dim, out]`; a negative dim counts on the output's rank.
pub(super) fn unsqueeze(call: &mut Call<'_, '_>) -> Result<()> {
    call.arity(&[3], "3")?;
    let base = call.tensor(0)?;
    let dim = call.dim(1, call.rank(base) + 1)?;
    call.emit_view(base, View::Unsqueeze { dim }, 2)
}

/// `aten.squeeze_copy.dims [self, dims, out]`
pub(super) fn squeeze(call: &mut Call<'_, '_>) -> Result<()> {
    call.arity(&[3], "3")?;
    let base = call.tensor(0)?;
    let dims = call.dims(1, call.rank(base).max(1))?;
    call.emit_view(base, View::Squeeze(dims), 2)
}

/// `aten.select_copy.int [self, dim, index, out]`
pub(super) fn select(call: &mut Call<'_, '_>) -> Result<()> {
    call.arity(&[4], "4")?;
    let base = call.tensor(0)?;
    let (dim, index) = (call.dim(1, call.rank(base))?, call.index(2)?);
    call.emit_view(base, View::Select { dim, index }, 3)
}

/// `aten.slice_copy.Tensor [self, dim, start, end, step, out]`
pub(super) fn slice(call: &mut Call<'_, '_>) -> Result<()> {
    call.arity(&[6], "6")?;
    let base = call.tensor(0)?;
    let dim = call.dim(1, call.rank(base))?;
    let start = call.optional_index(2)?.unwrap_or(Index::Const(0));
    let end = call.optional_index(3)?;
    let step = call.int(4)?;
    let step = u32::try_from(step).ok().filter(|&s| s > 0 && i32::try_from(s).is_ok()).ok_or_else(|| {
        let found = step.to_string();
        Fault::Argument { slot: 4, what: "step", expected: "a positive 31-bit number", found }
    })?;
    call.emit_view(base, View::Slice { dim, start, end, step }, 5)
}

/// `aten.split_with_sizes_copy.default [self, sizes, dim, outs]`
pub(super) fn split_with_sizes(call: &mut Call<'_, '_>) -> Result<()> {
    call.arity(&[4], "4")?;
    let base = call.tensor(0)?;
    let sizes = call.ints(1)?;
    let dim = call.dim(2, call.rank(base))?;
    let bounds = call.list_infos(3)?;
    if bounds.len() != sizes.len() {
        let found = bounds.len().to_string();
        return Err(Fault::Argument { slot: 3, what: "outputs", expected: "one for each size", found });
    }
    let (mut pieces, mut start) = (Vec::new(), 0i64);
    for (&size, info) in sizes.iter().zip(bounds) {
        if size < 0 {
            let found = size.to_string();
            return Err(Fault::Argument { slot: 1, what: "size", expected: "0 or more", found });
        }
        let end = start.saturating_add(size);
        let view = View::Slice { dim, start: Index::Const(start), end: Some(Index::Const(end)), step: 1 };
        pieces.push(call.builder.view(base, view, &info.dims)?);
        start = end;
    }
    call.bind_list(3, &pieces)
}

/// `aten.split.Tensor [self, size, dim, outs]`: pieces of one size but for the last.
pub(super) fn split(call: &mut Call<'_, '_>) -> Result<()> {
    call.arity(&[4], "4")?;
    let base = call.tensor(0)?;
    let (size, dim) = (call.int(1)?, call.dim(2, call.rank(base))?);
    let (mut pieces, mut start) = (Vec::new(), 0i64);
    for info in call.list_infos(3)? {
        let end = start.saturating_add(size.max(0));
        let view = View::Slice { dim, start: Index::Const(start), end: Some(Index::Const(end)), step: 1 };
        pieces.push(call.builder.view(base, view, &info.dims)?);
        start = end;
    }
    call.bind_list(3, &pieces)
}

/// `aten.expand_copy.default [self, size, implicit, out]`
pub(super) fn expand(call: &mut Call<'_, '_>) -> Result<()> {
    call.arity(&[4], "4")?;
    let (base, sizes) = (call.tensor(0)?, call.indices(1)?);
    call.emit_view(base, View::Expand(sizes), 3)
}

/// `aten.flip.default [self, dims, out]`
pub(super) fn flip(call: &mut Call<'_, '_>) -> Result<()> {
    call.arity(&[3], "3")?;
    let base = call.tensor(0)?;
    let dims = call.dims(1, call.rank(base))?;
    call.emit_view(base, View::Flip(dims), 2)
}

/// `aten.cat.default [tensors, dim, out]`
pub(super) fn cat(call: &mut Call<'_, '_>) -> Result<()> {
    call.arity(&[3], "3")?;
    let rank = call.info(2)?.dims.len();
    let dim = call.dim(1, rank)?;
    let dtype = call.info(2)?.dtype;
    let tensors = call.tensors(0)?;
    let pieces: Vec<TensorId> = tensors.into_iter().flatten().collect();
    // PyTorch's legacy rule: a rank-1 tensor of no elements joins anything.
    let is_legacy_empty = |bound: &[u32]| rank != 1 && bound == [0];
    let mut inputs = Vec::new();
    for id in pieces {
        let tensor = call.builder.program.tensor(id);
        if is_legacy_empty(&tensor.bound) {
            continue;
        }
        if tensor.bound.len() != rank {
            let found = format!("{:?}", tensor.bound);
            return Err(Fault::Shape { what: "rank of a piece", expected: rank.to_string(), found });
        }
        inputs.push(call.builder.convert(id, dtype));
    }
    if inputs.is_empty() {
        return Err(Fault::Argument {
            slot: 0,
            what: "tensors",
            expected: "at least one",
            found: "0".into(),
        });
    }
    call.emit(Op::Cat(Cat { dim }), inputs, 2)
}

/// Sizes that right-aligned broadcasting gives, for bounds of inner results.
pub(super) fn broadcast_bound(call: &Call<'_, '_>, ids: &[TensorId]) -> Result<Vec<u32>> {
    let bounds: Vec<&[u32]> =
        ids.iter().map(|&id| call.builder.program.tensor(id).bound.as_slice()).collect();
    broadcast(&bounds).map(|dims| dims.to_vec())
}
