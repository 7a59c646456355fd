//! 4-bit codes that are unpacked by element-wise nodes: for products that are rare, or whose weight is no constant.

use etvk_kernels::map::MapOp;
use etvk_vkgraph::DType;

use super::call::{Call, Result as Lowered};
use super::copy::Cat;
use super::linear_q::positive;
use super::repeat::{bound, sizes};
use super::{Op, map, matmul, pad};
use crate::host::shape_fault;
use crate::ir::{Index, TensorId, View};

/// Which half of a byte holds the code with the even number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nibbles {
    LowFirst,
    HighFirst,
}

/// The codes, 0 to 15, of bytes \[…, n\] as ints \[…, 2 n\].
pub(super) fn unpacked(call: &mut Call<'_, '_>, bytes: TensorId, order: Nibbles) -> Lowered<TensorId> {
    let low = int_map(call, MapOp::BitAnd, 15, bytes)?;
    let high = int_map(call, MapOp::DivFloorI, 16, bytes)?;
    // Bytes that came as signed ones divide to −8…−1.
    let high = int_map(call, MapOp::BitAnd, 15, high)?;
    let pair = match order {
        Nibbles::LowFirst => [low, high],
        Nibbles::HighFirst => [high, low],
    };
    let (mut merged, mut limits) = (sizes(call, bytes), bound(call, bytes));
    let dim = limits.len();
    let Some(last) = merged.last_mut() else { return Err(shape_fault("rank of 4-bit codes", &[0], &[])) };
    *last = super::repeat::times(call, *last, Index::Const(2));
    limits.push(1);
    let mut halves = Vec::new();
    for half in pair {
        halves.push(call.builder.view(half, View::Unsqueeze { dim }, &limits)?);
    }
    limits[dim] = 2;
    let joined = call.emit_inner(Op::Cat(Cat { dim }), halves, DType::Int32, &limits);
    limits.pop();
    limits[dim - 1] = limits[dim - 1].saturating_mul(2);
    call.builder.view(joined, View::Reshape(merged), &limits)
}

fn int_map(call: &mut Call<'_, '_>, op: MapOp, scalar: u32, x: TensorId) -> Lowered<TensorId> {
    map::inner(call, op, [scalar, 0], vec![x], DType::Int32)
}

/// Parameters \[groups, N or more\] of a weight as \[N, K\]: group of k, neighbours share one.
fn spread(call: &mut Call<'_, '_>, table: TensorId, [n, k, group]: [u32; 3]) -> Lowered<TensorId> {
    let limits = bound(call, table);
    let &[groups, row] = limits.as_slice() else {
        return Err(shape_fault("parameters of a 4-bit weight", &[k.div_ceil(group), n], &limits));
    };
    if u64::from(groups) * u64::from(group) < u64::from(k) || row < n {
        return Err(shape_fault("parameters of a 4-bit weight", &[k.div_ceil(group), n], &limits));
    }
    let columns = groups.saturating_mul(group);
    let x = call.builder.view(table, View::Permute(vec![1, 0]), &[row, groups])?;
    let x = cut(call, x, 0, n)?;
    let x = call.builder.view(x, View::Unsqueeze { dim: 2 }, &[n, groups, 1])?;
    let kept = Index::Const(-1);
    let x = call.builder.view(x, View::Expand(vec![kept, kept, constant(group)]), &[n, groups, group])?;
    let x = call.builder.view(x, View::Reshape(vec![constant(n), constant(columns)]), &[n, columns])?;
    cut(call, x, 1, k)
}

fn constant(size: u32) -> Index {
    Index::Const(size.into())
}

/// The first `size` of dimension `dim`.
fn cut(call: &mut Call<'_, '_>, x: TensorId, dim: usize, size: u32) -> Lowered<TensorId> {
    let mut limits = bound(call, x);
    if limits[dim] == size {
        return Ok(x);
    }
    limits[dim] = size;
    let view = View::Slice { dim, start: Index::Const(0), end: Some(constant(size)), step: 1 };
    call.builder.view(x, view, &limits)
}

/// The weight of bytes \[N, ≥ ⌈K/2⌉\] in `slot` as codes \[N, K\].
fn codes(
    call: &mut Call<'_, '_>,
    slot: usize,
    order: Nibbles,
    k: Option<u32>,
) -> Lowered<(TensorId, [u32; 2])> {
    let bytes = call.tensor(slot)?;
    let limits = bound(call, bytes);
    let &[n, row] = limits.as_slice() else {
        return Err(shape_fault("4-bit weight", &[0, 0], &limits));
    };
    let most = row.saturating_mul(2);
    let k = k.unwrap_or(most);
    if k > most {
        return Err(shape_fault("K of a 4-bit weight", &[k], &[most]));
    }
    let codes = unpacked(call, bytes, order)?;
    Ok((cut(call, codes, 1, k)?, [n, k]))
}

/// `et_vk.linear_weight_int4.default [x, weight, group_size, scales_and_zeros, inner_k_tiles, out]` and
/// `aten._weight_int4pack_mm.default [x, weight, group_size, scales_and_zeros, out]`: codes from −8, scale and zero of
/// each group \[K / group, N, 2\]; the zero is added after scaling.
pub(super) fn weight_int4(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[5, 6], "5 or 6")?;
    let x = call.float_tensor(0)?;
    let group = positive(call, 2, "group_size")?;
    let depth = bound(call, x).last().copied();
    let (codes, [n, k]) = codes(call, 1, Nibbles::HighFirst, depth)?;
    let parameters = call.float_tensor(3)?;
    let limits = bound(call, parameters);
    let &[groups, row, 2] = limits.as_slice() else {
        return Err(shape_fault("scales and zeros of a 4-bit weight", &[k.div_ceil(group), n, 2], &limits));
    };
    let table = |call: &mut Call<'_, '_>, index: i64| {
        let view = View::Select { dim: 2, index: Index::Const(index) };
        let table = call.builder.view(parameters, view, &[groups, row])?;
        spread(call, table, [n, k, group])
    };
    let (scales, zeros) = (table(call, 0)?, table(call, 1)?);
    let eight = call.builder.literal(DType::Int32, 8);
    let weight = map::inner(call, MapOp::Dequantize, [0; 2], vec![codes, scales, eight], DType::Float32)?;
    let weight = map::inner(call, MapOp::AddF, [map::word(1.0), 0], vec![weight, zeros], DType::Float32)?;
    matmul::product(call, x, weight, false)
}

/// `et_vk.linear_q4gsw_backward.default [d_out, weights, scales, group_size, out]`: d_out · W.
pub(super) fn backward(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[5], "5")?;
    let gradient = call.float_tensor(0)?;
    let group = positive(call, 3, "group_size")?;
    let (codes, [n, k]) = codes(call, 1, Nibbles::LowFirst, None)?;
    let scales = call.float_tensor(2)?;
    let scales = spread(call, scales, [n, k, group])?;
    let eight = call.builder.literal(DType::Int32, 8);
    let weight = map::inner(call, MapOp::Dequantize, [0; 2], vec![codes, scales, eight], DType::Float32)?;
    matmul::product(call, gradient, weight, true)
}

/// `et_vk.q4gsw_requant.default [latent, scales, group_size, out]`: codes of \[N, K\] numbers, even k in low halves.
pub(super) fn requant(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[4], "4")?;
    let latent = call.float_tensor(0)?;
    let group = positive(call, 2, "group_size")?;
    let limits = bound(call, latent);
    let &[n, k] = limits.as_slice() else {
        return Err(shape_fault("weight to quantise", &[0, 0], &limits));
    };
    let scales = call.float_tensor(1)?;
    let scales = spread(call, scales, [n, k, group])?;
    let one = call.builder.literal(DType::Float32, map::word(1.0));
    let eight = call.builder.literal(DType::Int32, 8);
    let quotient = map::inner(call, MapOp::DivF, [0; 2], vec![latent, scales], DType::Float32)?;
    let codes = map::inner(call, MapOp::Quantize, [0, 15], vec![quotient, one, eight], DType::Int32)?;
    let used = map::inner(call, MapOp::NeF, [map::word(0.0), 0], vec![scales], DType::Bool)?;
    let mut codes = map::inner(call, MapOp::Where, [0; 2], vec![used, codes, eight], DType::Int32)?;
    let bytes = k.div_ceil(2);
    if k % 2 != 0 {
        let pads = vec![(0, Index::Const(0)), (0, Index::Const(1))];
        codes = pad::inner(call, codes, pads, 8, &[n, k + 1]);
    }
    let pairs = View::Reshape(vec![constant(n), constant(bytes), Index::Const(2)]);
    let pairs = call.builder.view(codes, pairs, &[n, bytes, 2])?;
    let mut half =
        |index| call.builder.view(pairs, View::Select { dim: 2, index: Index::Const(index) }, &[n, bytes]);
    let halves = vec![half(0)?, half(1)?];
    let packed = map::inner(call, MapOp::AddI, [16, 0], halves, DType::UInt8)?;
    call.bind(3, packed)
}
