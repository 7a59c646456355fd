//! Repetition: views that read the same elements again, then merged dimensions.

use super::call::{Call, Result};
use crate::error::Fault;
use crate::ir::{Index, SymDef, TensorId, View};

/// One dimension read several times.
#[derive(Clone, Copy)]
struct Repeat {
    /// Which dimension.
    dim: usize,
    /// How often.
    times: Index,
    /// Upper bound of that.
    bound: u32,
    /// Whether each element follows itself, instead of the whole dimension.
    interleaved: bool,
}

/// The current size of a dimension as an index.
pub(super) fn size(call: &mut Call<'_, '_>, tensor: TensorId, dim: usize) -> Index {
    let dim = i64::try_from(dim).unwrap_or(i64::MAX);
    Index::Sym(call.builder.sym(SymDef::Size { tensor, dim }))
}

/// The current sizes of a tensor.
pub(super) fn sizes(call: &mut Call<'_, '_>, tensor: TensorId) -> Vec<Index> {
    (0..call.rank(tensor)).map(|dim| size(call, tensor, dim)).collect()
}

/// The product of two indices.
pub(super) fn times(call: &mut Call<'_, '_>, a: Index, b: Index) -> Index {
    match (a, b) {
        (Index::Const(1), other) | (other, Index::Const(1)) => other,
        _ => Index::Sym(call.builder.sym(SymDef::Mul(a, b))),
    }
}

/// The upper bound of a tensor's sizes.
pub(super) fn bound(call: &Call<'_, '_>, id: TensorId) -> Vec<u32> {
    call.builder.program.tensor(id).bound.to_vec()
}

fn repeated(call: &mut Call<'_, '_>, x: TensorId, repeat: Repeat) -> Result<TensorId> {
    let Repeat { dim, times: count, bound: most, interleaved } = repeat;
    let at = if interleaved { dim + 1 } else { dim };
    let mut limits = bound(call, x);
    let mut merged = sizes(call, x);
    merged[dim] = times(call, merged[dim], count);
    limits.insert(at, 1);
    let apart = call.builder.view(x, View::Unsqueeze { dim: at }, &limits)?;
    let mut expanded = vec![Index::Const(-1); limits.len()];
    expanded[at] = count;
    limits[at] = most;
    let apart = call.builder.view(apart, View::Expand(expanded), &limits)?;
    limits.remove(at);
    limits[dim] = limits[dim].saturating_mul(most);
    call.builder.view(apart, View::Reshape(merged), &limits)
}

/// Upper bound of a repeat count, given those of a dimension before and after.
fn most(count: Index, before: u32, after: u32) -> u32 {
    match count {
        Index::Const(count) => u32::try_from(count).unwrap_or(0),
        Index::Sym(_) => after.div_ceil(before.max(1)),
    }
}

fn check_count(slot: usize, count: Index) -> Result<()> {
    match count {
        Index::Const(count) if u32::try_from(count).is_err() => {
            let found = count.to_string();
            Err(Fault::Argument { slot, what: "repeats", expected: "0 or more", found })
        }
        _ => Ok(()),
    }
}

/// `aten.repeat.default [self, repeats, out]`: leading repeats add dimensions.
pub(super) fn repeat(call: &mut Call<'_, '_>) -> Result<()> {
    call.arity(&[3], "3")?;
    let (mut x, counts) = (call.tensor(0)?, call.indices(1)?);
    let after = call.info(2)?.dims.clone();
    let rank = call.rank(x);
    if counts.len() < rank || counts.len() != after.len() {
        let found = counts.len().to_string();
        return Err(Fault::Argument { slot: 1, what: "repeats", expected: "one for each dimension", found });
    }
    let added = counts.len() - rank;
    for (dim, &times) in counts.iter().enumerate().skip(added).rev() {
        check_count(1, times)?;
        let before = bound(call, x)[dim - added];
        if times != Index::Const(1) {
            let bound = most(times, before, after[dim]);
            x = repeated(call, x, Repeat { dim: dim - added, times, bound, interleaved: false })?;
        }
    }
    let mut expanded: Vec<Index> = counts[..added].to_vec();
    expanded.resize(counts.len(), Index::Const(-1));
    call.emit_view(x, View::Expand(expanded), 2)
}

/// `aten.repeat_interleave.self_int [self, repeats, dim, output_size, out]`; without a dim of the flattened tensor.
pub(super) fn repeat_interleave(call: &mut Call<'_, '_>) -> Result<()> {
    call.arity(&[5], "5")?;
    let (mut x, times) = (call.tensor(0)?, call.index(1)?);
    check_count(1, times)?;
    if call.is_null(2) || call.rank(x) == 0 {
        let elements = bound(call, x).iter().product();
        x = call.builder.view(x, View::Reshape(vec![Index::Const(-1)]), &[elements])?;
    }
    let dim = if call.is_null(2) { 0 } else { call.dim(2, call.rank(x))? };
    let (before, after) = (bound(call, x)[dim], call.info(4)?.dims.get(dim).copied().unwrap_or(0));
    let bound = most(times, before, after);
    let x = repeated(call, x, Repeat { dim, times, bound, interleaved: true })?;
    call.bind(4, x)
}

/// `aten.unfold_copy.default [self, dim, size, step, out]`
pub(super) fn unfold(call: &mut Call<'_, '_>) -> Result<()> {
    call.arity(&[5], "5")?;
    let mut x = call.tensor(0)?;
    if call.rank(x) == 0 {
        x = call.builder.view(x, View::Unsqueeze { dim: 0 }, &[1])?;
    }
    let dim = call.dim(1, call.rank(x))?;
    let (size, step) =
        (super::linear_q::positive(call, 2, "size")?, super::linear_q::positive(call, 3, "step")?);
    call.emit_view(x, View::Unfold { dim, size, step }, 4)
}

/// `aten.copy.default [self, source, non_blocking, out]`: the source in the sizes and type of self.
pub(super) fn copy(call: &mut Call<'_, '_>) -> Result<()> {
    call.arity(&[4], "4")?;
    let (target, source) = (call.tensor(0)?, call.tensor(1)?);
    let sizes = sizes(call, target);
    let bound = bound(call, target);
    let x = call.builder.view(source, View::Expand(sizes), &bound)?;
    call.bind(3, x)
}
