//! `testing.compute_attn_weight_with_kv_cache`: what attention multiplies the values with, as a tensor.

use etvk_kernels::map::MapOp;
use etvk_kernels::softmax::SoftmaxOp;
use etvk_vkgraph::DType;

use super::call::{Call, Result as Lowered};
use super::repeat::{bound, size, times};
use super::softmax::Softmax;
use super::{Op, fill, map, matmul, pad, sdpa};
use crate::host::shape_fault;
use crate::ir::{Index, SymDef, SymId, TensorId, View};

/// Upper bounds and current sizes of q and k.
struct Sizes {
    batch: (Index, u32),
    heads: (Index, u32),
    queries: (Index, u32),
    context: (Index, u32),
    width: (Index, u32),
    /// Query heads that share a key head.
    group: u32,
}

/// `testing.compute_attn_weight_with_kv_cache.default
/// [q, k, v, k_cache, v_cache, start_pos, seq_len, attn_mask, dropout_p, is_causal, scale, out]`: both caches are
/// written; the result \[B, H, ⌈S⌉4, ⌈C⌉4\] is 0 where nothing is attended to.
pub(super) fn with_kv_cache(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[12], "12")?;
    sdpa::no_dropout(call, 8)?;
    let start = call.sym(5)?;
    let (masked, causal) = sdpa::causality(call, 7, 9)?;
    let keys = sdpa::write_cache(call, 1, 3, start)?;
    sdpa::write_cache(call, 2, 4, start)?;
    let query = call.float_tensor(0)?;
    let sizes = sizes(call, query, keys)?;
    let scale = call.optional_float(10)?.unwrap_or_else(|| 1.0 / f64::from(sizes.width.1).sqrt());
    let mut scores = scores(call, query, keys, &sizes)?;
    scores = map::inner(call, MapOp::MulF, [map::word(scale), 0], vec![scores], DType::Float32)?;
    if masked {
        let mask = mask(call, &sizes)?;
        scores = map::inner(call, MapOp::AddF, [map::word(1.0), 0], vec![scores, mask], DType::Float32)?;
    }
    let open = open(call, start, causal, &sizes)?;
    let closed = call.builder.literal(DType::Float32, map::word(f64::NEG_INFINITY));
    let scores = map::inner(call, MapOp::Where, [0; 2], vec![open, scores, closed], DType::Float32)?;
    let limits = bound(call, scores);
    let softmax = Op::Softmax(Softmax { op: SoftmaxOp::Softmax, dim: 3 });
    let weights = call.emit_inner(softmax, vec![scores], DType::Float32, &limits);
    let none = (0, Index::Const(0));
    let queries = rounding(call, sizes.queries.0);
    let pads = vec![none, none, (0, queries), (0, rounding(call, sizes.context.0))];
    let four = |size: u32| size.next_multiple_of(4);
    let out = [limits[0], limits[1], four(limits[2]), four(limits[3])];
    let weights = pad::inner(call, weights, pads, 0, &out);
    call.bind(11, weights)
}

fn sizes(call: &mut Call<'_, '_>, query: TensorId, keys: TensorId) -> Lowered<Sizes> {
    let (q, k) = (bound(call, query), bound(call, keys));
    let (&[b, s, h, d], &[b2, c, shared, d2]) = (q.as_slice(), k.as_slice()) else {
        return Err(shape_fault("q and k of an attention", &q, &k));
    };
    if b != b2 || d != d2 || shared == 0 || h % shared != 0 {
        return Err(shape_fault("q and k of an attention", &q, &k));
    }
    let mut of = |dim: usize, most: u32| (size(call, query, dim), most);
    let (batch, queries, heads, width) = (of(0, b), of(1, s), of(2, h), of(3, d));
    let context = (size(call, keys, 1), c);
    Ok(Sizes { batch, heads, queries, context, width, group: h / shared })
}

/// What rounds a size up to a multiple of four.
fn rounding(call: &mut Call<'_, '_>, size: Index) -> Index {
    // −size − 4 ⌊−size / 4⌋
    let mut sym = |def: SymDef| Index::Sym(call.builder.sym(def));
    let negative = sym(SymDef::Sub(Index::Const(0), size));
    let quotient = sym(SymDef::FloorDiv(negative, Index::Const(4)));
    let multiple = sym(SymDef::Mul(quotient, Index::Const(4)));
    sym(SymDef::Sub(negative, multiple))
}

/// q · k for every head, \[B, H, S, C\].
fn scores(call: &mut Call<'_, '_>, query: TensorId, keys: TensorId, sizes: &Sizes) -> Lowered<TensorId> {
    let Sizes { batch, heads, queries, context, width, group } = sizes;
    let heads_first = View::Permute(vec![0, 2, 1, 3]);
    let limits = [batch.1, heads.1, queries.1, width.1];
    let query = call.builder.view(query, heads_first.clone(), &limits)?;
    let shared = heads.1 / group;
    let keys = call.builder.view(keys, heads_first, &[batch.1, shared, context.1, width.1])?;
    let keys =
        call.builder.view(keys, View::Unsqueeze { dim: 2 }, &[batch.1, shared, 1, context.1, width.1])?;
    let mut expanded = vec![Index::Const(-1); 5];
    expanded[2] = Index::Const((*group).into());
    let limits = [batch.1, shared, *group, context.1, width.1];
    let keys = call.builder.view(keys, View::Expand(expanded), &limits)?;
    let all = (times(call, batch.0, heads.0), batch.1 * heads.1);
    let flat = |call: &mut Call<'_, '_>, id: TensorId, rows: &(Index, u32)| {
        call.builder.view(id, View::Reshape(vec![all.0, rows.0, width.0]), &[all.1, rows.1, width.1])
    };
    let (query, keys) = (flat(call, query, queries)?, flat(call, keys, context)?);
    let product = matmul::inner(call, query, keys, &[all.1, queries.1, context.1]);
    let apart = vec![batch.0, heads.0, queries.0, context.0];
    call.builder.view(product, View::Reshape(apart), &[batch.1, heads.1, queries.1, context.1])
}

/// The additive mask in slot 7, its last dimension as long as the cache.
fn mask(call: &mut Call<'_, '_>, sizes: &Sizes) -> Lowered<TensorId> {
    let mask = sdpa::mask_rank4(call, 7)?;
    let mut limits = bound(call, mask);
    let width = size(call, mask, 3);
    let more = Index::Sym(call.builder.sym(SymDef::Sub(sizes.context.0, width)));
    limits[3] = sizes.context.1;
    let none = (0, Index::Const(0));
    Ok(pad::inner(call, mask, vec![none, none, none, (0, more)], 0, &limits))
}

/// Which keys a query may attend to: \[S or 1, C\].
fn open(call: &mut Call<'_, '_>, start: SymId, causal: bool, sizes: &Sizes) -> Lowered<TensorId> {
    let columns = fill::counting(call, sizes.context.0, sizes.context.1);
    if !causal {
        let end = call.builder.sym(SymDef::Add(Index::Sym(start), sizes.queries.0));
        let end = call.builder.sym_tensor(end);
        return map::inner(call, MapOp::LtI, [0; 2], vec![columns, end], DType::Bool);
    }
    let rows = fill::counting(call, sizes.queries.0, sizes.queries.1);
    let start = call.builder.sym_tensor(start);
    let rows = map::inner(call, MapOp::AddI, [1, 0], vec![rows, start], DType::Int32)?;
    let rows = call.builder.view(rows, View::Unsqueeze { dim: 1 }, &[sizes.queries.1, 1])?;
    map::inner(call, MapOp::LeI, [0; 2], vec![columns, rows], DType::Bool)
}
