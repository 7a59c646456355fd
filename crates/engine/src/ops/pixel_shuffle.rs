//! Channels spread over pixels: views alone.

use etvk_kernels::map::MapOp;
use etvk_vkgraph::DType;

use super::call::{Call, Result as Lowered};
use super::{map, qparams};
use crate::error::Fault;
use crate::host::shape_fault;
use crate::ir::{Index, SymDef, SymId, TensorId, View};

/// x \[…, C·r², H, W\] as \[…, C, H·r, W·r\].
fn shuffled(call: &mut Call<'_, '_>, x: TensorId, factor: usize, out: usize) -> Lowered<TensorId> {
    let value = call.int(factor)?;
    let bound = call.builder.program.tensor(x).bound.clone();
    let rank = bound.len();
    let r = u32::try_from(value).ok().filter(|&r| {
        rank >= 3 && r > 0 && r.checked_mul(r).is_some_and(|square| bound[rank - 3].is_multiple_of(square))
    });
    let Some(r) = r else {
        let expected = "a factor whose square divides the channels";
        return Err(Fault::Argument {
            slot: factor,
            what: "upscale_factor",
            expected,
            found: value.to_string(),
        });
    };
    // [lead, C, r, r, H, W] → [lead, C, H, r, W, r]: leading dimensions become one, so that few are left.
    let channels = bound[rank - 3] / (r * r);
    let (height, width) = (bound[rank - 2], bound[rank - 1]);
    let lead = bound[..rank - 3].iter().try_fold(1u32, |n, &d| n.checked_mul(d));
    let (Some(lead), Some(rows), Some(columns)) = (lead, height.checked_mul(r), width.checked_mul(r)) else {
        return Err(shape_fault("shuffled tensor", &[], &bound));
    };
    let size = |call: &mut Call<'_, '_>, dim: usize| -> SymId {
        call.builder.sym(SymDef::Size { tensor: x, dim: i64::try_from(dim).unwrap_or(0) })
    };
    let fixed = |size: u32| Index::Const(i64::from(size));
    let (h, w) = (size(call, rank - 2), size(call, rank - 1));
    let split = vec![Index::Const(-1), fixed(channels), fixed(r), fixed(r), Index::Sym(h), Index::Sym(w)];
    let split = call.builder.view(x, View::Reshape(split), &[lead, channels, r, r, height, width])?;
    let order = View::Permute(vec![0, 1, 4, 2, 5, 3]);
    let moved = call.builder.view(split, order, &[lead, channels, height, r, width, r])?;
    let mut sizes: Vec<Index> = (0..rank - 3).map(|dim| Index::Sym(size(call, dim))).collect();
    let scaled = |call: &mut Call<'_, '_>, sym| {
        Index::Sym(call.builder.sym(SymDef::Mul(Index::Sym(sym), Index::Const(i64::from(r)))))
    };
    sizes.extend([fixed(channels), scaled(call, h), scaled(call, w)]);
    let mut whole = bound[..rank - 3].to_vec();
    whole.extend([channels, rows, columns]);
    if whole.len() != call.info(out)?.dims.len() {
        return Err(shape_fault("rank of a shuffled tensor", &whole, &call.info(out)?.dims));
    }
    call.builder.view(moved, View::Reshape(sizes), &whole)
}

/// `aten.pixel_shuffle.default [x, upscale_factor, out]`
pub(super) fn pixel_shuffle(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[3], "3")?;
    let x = call.tensor(0)?;
    let result = shuffled(call, x, 1, 2)?;
    call.bind(2, result)
}

/// `et_vk.q8ta_pixel_shuffle.default [x, in_scale, in_zp, 1 / out_scale, out_zp, upscale_factor, out]`
pub(super) fn q8ta_pixel_shuffle(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[7], "7")?;
    let (step, inverse) = (call.float(1)?, call.float(3)?);
    let (from, to) = (qparams::code(call, 2, 0)?, qparams::code(call, 4, 0)?);
    let x = call.tensor(0)?;
    // The same grid on both sides, up to the rounding of a reciprocal: codes stay.
    if from == to && (step * inverse - 1.0).abs() <= 1e-7 {
        let result = shuffled(call, x, 5, 6)?;
        return call.bind(6, result);
    }
    let floats = qparams::dequantized(call, 0, 1, 2)?;
    let floats = shuffled(call, floats, 5, 6)?;
    let step = call.builder.literal(DType::Float32, map::word(1.0 / inverse));
    let zero = call.builder.literal(DType::Int32, to.cast_unsigned());
    let codes = map::inner(call, MapOp::Quantize, qparams::INT8, vec![floats, step, zero], DType::Int8)?;
    call.bind(6, codes)
}
