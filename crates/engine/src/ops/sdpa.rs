//! Attention, with and without a KV cache.

use etvk_kernels::sdpa::{self, Sdpa as Kernel};
use etvk_kernels::{Storage, Strided};
use etvk_vkgraph::DType;

use super::call::{Call, Result as Lowered};
use super::copy::{StateWrite, check_rows};
use super::{Kind, Op, OutSizes};
use crate::error::{Error, Fault};
use crate::host::{Shapes, shape_fault};
use crate::ir::{Node, Origin, SymId, TensorId, View};
use crate::record::{Bind, Record};

/// softmax(scale · q kᵀ + mask) v. Inputs: q, k, v, (mask). Outputs: result, scratch.
#[derive(Clone, Debug, Default)]
pub struct Sdpa {
    /// Whether operands are \[B, S, H, D\] (sequence before heads) instead of \[B, H, S, D\].
    pub(crate) sequence_first: bool,
    /// First position; attends over `start + S` keys. Without it, over all keys.
    pub(crate) start: Option<SymId>,
    pub(crate) mask: bool,
    pub(crate) causal: bool,
    /// Factor of q · k; `None` is 1/√D.
    pub(crate) scale: Option<f64>,
    /// Limits scores to ±cap, after the mask.
    pub(crate) softcap: Option<f64>,
    /// Where the mask has a row for each query, it leaves open the keys up to the query's position, as many as this at
    /// most, and closes all others.
    pub(crate) mask_window: Option<u32>,
    /// The payload stores the operands as halves, so that they may be rounded to them.
    pub(crate) halves: bool,
}

struct Sizes {
    batch: u32,
    heads: u32,
    queries: u32,
    context: u32,
}

impl Sdpa {
    fn sizes(&self, q: &[u32], k: &[u32], v: &[u32]) -> Result<Sizes, Fault> {
        let order = |sizes: &[u32]| match *sizes {
            [b, s, h, d] if self.sequence_first => Some([b, h, s, d]),
            [b, h, s, d] => Some([b, h, s, d]),
            _ => None,
        };
        let fault = || shape_fault("q and k of an attention", q, k);
        let (Some([batch, heads, queries, width]), Some([b, key_heads, context, d])) = (order(q), order(k))
        else {
            return Err(fault());
        };
        if (b, d) != (batch, width) || key_heads == 0 || heads % key_heads != 0 {
            return Err(fault());
        }
        if k != v {
            return Err(shape_fault("k and v of an attention", k, v));
        }
        Ok(Sizes { batch, heads, queries, context })
    }

    /// The operand as \[B, H, S, D\].
    fn heads_first(&self, layout: &Strided) -> Strided {
        let mut layout = layout.clone();
        if self.sequence_first && layout.sizes.len() == 4 {
            layout.sizes.swap(1, 2);
            layout.strides.swap(1, 2);
        }
        layout
    }

    fn kernel<'a>(
        &self,
        q: &'a Strided,
        k: &'a Strided,
        v: &'a Strided,
        mask: Option<&'a Strided>,
        out_strides: [u32; 3],
    ) -> Kernel<'a> {
        let width = q.sizes.last().copied().unwrap_or(1);
        #[expect(clippy::cast_possible_truncation, reason = "device arithmetic is single precision")]
        let (scale, softcap) = (
            self.scale.unwrap_or_else(|| 1.0 / f64::from(width).sqrt()) as f32,
            self.softcap.map(|c| c as f32),
        );
        let window = self.window(q, mask);
        Kernel {
            q,
            k,
            v,
            k_storage: Storage::Word,
            v_storage: Storage::Word,
            mask: if window.is_some() { None } else { mask },
            scale,
            softcap,
            causal: self.causal || window.is_some(),
            window,
            cached: self.start.is_some(),
            start_dynamic: self.start.map(|sym| sym.0),
            out_strides,
            may_split: true,
            halves: self.halves,
        }
    }

    /// The keys that a query sees, if that is all that the mask says.
    fn window(&self, q: &Strided, mask: Option<&Strided>) -> Option<u32> {
        let (mask, window) = (mask?, self.mask_window?);
        let queries = q.sizes.get(2).copied()?;
        (*mask.sizes.get(..3)? == [1, 1, queries]).then_some(window)
    }
}

impl Kind for Sdpa {
    fn infer(&self, node: &Node, shapes: &Shapes<'_>) -> Result<OutSizes, Fault> {
        let of = |i: usize| shapes.sizes(node.inputs[i]);
        let sizes = self.sizes(of(0), of(1), of(2))?;
        let mut keys = i64::from(sizes.context);
        if let Some(start) = self.start {
            check_rows(shapes.sym(start), sizes.queries, sizes.context)?;
            keys = shapes.sym(start) + i64::from(sizes.queries);
        }
        if self.mask {
            let mask = of(3);
            let wanted = [sizes.batch, sizes.heads, sizes.queries];
            let rows_fit = mask.len() == 4 && mask.iter().zip(wanted).all(|(&m, w)| m == 1 || m == w);
            if !rows_fit || mask.last().is_none_or(|&w| i64::from(w) < keys) {
                let [b, h, s] = wanted;
                return Err(shape_fault(
                    "mask of an attention",
                    &[b, h, s, u32::try_from(keys).unwrap_or(0)],
                    mask,
                ));
            }
        }
        let scratch = shapes.program.tensor(node.outputs[1]).bound.clone();
        Ok(OutSizes::from_iter([of(0).iter().copied().collect(), scratch]))
    }

    fn syms(&self) -> Vec<SymId> {
        self.start.into_iter().collect()
    }

    fn record(&self, node: &Node, record: &mut Record<'_>) -> Result<(), Error> {
        let operand = |i: usize| self.heads_first(record.layout(node.inputs[i]));
        let (q, k, v) = (operand(0), operand(1), operand(2));
        let mask = self.mask.then(|| record.layout(node.inputs[3]).clone());
        let out = self.heads_first(record.layout(node.outputs[0]));
        let out_strides = [0, 1, 2].map(|i| out.strides.get(i).map_or(0, |s| s.unsigned_abs()));
        let op = self.kernel(&q, &k, &v, mask.as_ref(), out_strides);
        let launch = sdpa::sdpa(&op, record.limits);
        let launch = launch.map_err(|unsupported| record.unsupported(node, &unsupported))?;
        let read = |i: usize| Bind::Read(node.inputs[i]);
        let mask = if op.mask.is_some() { read(3) } else { Bind::Absent };
        let out = Bind::Write(node.outputs[0]);
        let scratch = Bind::Write(node.outputs[1]);
        let binds = [read(0), read(1), read(2), mask, out, Bind::Dynamic, scratch, Bind::Counters];
        // Of the scratch buffer little is used.
        let bytes = record.bytes(&binds[..5]);
        record.launch_moving(&launch.attend, &binds, bytes)
    }
}

/// Elements of one head the kernel takes.
const MAX_WIDTH: u32 = sdpa::MAX_WIDTH;

struct Attention {
    q: usize,
    k: TensorId,
    v: TensorId,
    mask: usize,
    op: Sdpa,
}

fn emit(call: &mut Call<'_, '_>, attention: Attention) -> Lowered<()> {
    let Attention { q, k, v, mask, mut op } = attention;
    op.halves = call.info(q)?.dtype == DType::Float16;
    let query = call.float_tensor(q)?;
    let query = call.builder.rows(query);
    let (k, v) = (call.builder.rows(k), call.builder.rows(v));
    let mut inputs = vec![query, k, v];
    if op.mask {
        inputs.push(mask_rank4(call, mask)?);
    }
    let bound = call.info(call.last())?.dims.clone();
    let width = bound.last().copied().unwrap_or(0);
    if width > MAX_WIDTH {
        let found = width.to_string();
        return Err(Fault::Shape {
            what: "width of a head",
            expected: format!("at most {MAX_WIDTH}"),
            found,
        });
    }
    let words = u32::try_from(sdpa::scratch_bound(width)).unwrap_or(u32::MAX);
    let outputs = [(DType::Float32, bound.as_slice()), (DType::Float32, &[words][..])];
    let results = call.builder.node_outputs(Op::Sdpa(op), inputs, &outputs);
    call.bind(call.last(), results[0])
}

/// An additive mask as \[B or 1, H or 1, S, W\].
pub(super) fn mask_rank4(call: &mut Call<'_, '_>, slot: usize) -> Lowered<TensorId> {
    let mut mask = call.float_tensor(slot)?;
    let mut bound = call.builder.program.tensor(mask).bound.to_vec();
    if bound.len() < 2 || bound.len() > 4 {
        return Err(shape_fault("rank of an attention mask", &[1, 1, 1, 1], &bound));
    }
    while bound.len() < 4 {
        bound.insert(0, 1);
        mask = call.builder.view(mask, View::Unsqueeze { dim: 0 }, &bound)?;
    }
    Ok(mask)
}

/// Writes rows of `slot` into the cache in `cache` from `start`, and returns the cache.
pub(super) fn write_cache(
    call: &mut Call<'_, '_>,
    slot: usize,
    cache: usize,
    start: SymId,
) -> Lowered<TensorId> {
    let rows = call.float_tensor(slot)?;
    let state = call.tensor(cache)?;
    if !matches!(call.builder.program.tensor(state).origin, Origin::State(_)) {
        let expected = "a constant that holds the cache";
        return Err(Fault::Kind { slot: cache, expected, found: "a computed tensor" });
    }
    let word = call.builder.dynamic_word();
    call.builder.push(Op::StateWrite(StateWrite { dim: 1, start, word }), vec![rows], vec![state]);
    Ok(state)
}

pub(super) fn no_dropout(call: &Call<'_, '_>, slot: usize) -> Lowered<()> {
    match call.optional_float(slot)? {
        None | Some(0.0) => Ok(()),
        Some(p) => Err(Fault::Argument { slot, what: "dropout_p", expected: "0", found: p.to_string() }),
    }
}

/// Without a mask attention is causal unless that is explicitly turned off; with one only if explicitly on.
pub(super) fn causality(call: &Call<'_, '_>, mask: usize, is_causal: usize) -> Lowered<(bool, bool)> {
    let masked = !call.is_null(mask);
    let causal = call.optional_bool(is_causal)?;
    Ok((masked, if masked { causal == Some(true) } else { causal != Some(false) }))
}

/// `sdpa_with_kv_cache.default
/// [q, k, v, k_cache, v_cache, start_pos, seq_len, attn_mask, dropout_p, is_causal, scale, out]`
pub(super) fn with_kv_cache(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[12], "12")?;
    no_dropout(call, 8)?;
    let start = call.sym(5)?;
    let (mask, causal) = causality(call, 7, 9)?;
    let scale = call.optional_float(10)?;
    let (k, v) = (write_cache(call, 1, 3, start)?, write_cache(call, 2, 4, start)?);
    let op = Sdpa { sequence_first: true, start: Some(start), mask, causal, scale, ..Sdpa::default() };
    emit(call, Attention { q: 0, k, v, mask: 7, op })
}

/// `llama.custom_sdpa.default [q, k_cache, v_cache, start_pos, attn_mask, dropout_p, is_causal, scale, out]`
pub(super) fn custom(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[9], "9")?;
    no_dropout(call, 5)?;
    let start = call.sym(3)?;
    let (mask, causal) = causality(call, 4, 6)?;
    let scale = call.optional_float(7)?;
    let (k, v) = (call.float_tensor(1)?, call.float_tensor(2)?);
    let op = Sdpa { sequence_first: true, start: Some(start), mask, causal, scale, ..Sdpa::default() };
    emit(call, Attention { q: 0, k, v, mask: 4, op })
}

/// `gemma_sdpa_with_kv_cache.default
/// [q, k, v, k_cache, v_cache, start_pos, seq_len, attn_mask, is_causal, (softcap_value,) out]`
pub(super) fn gemma_with_kv_cache(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[10, 11], "10 or 11")?;
    let start = call.sym(5)?;
    let (k, v) = (write_cache(call, 1, 3, start)?, write_cache(call, 2, 4, start)?);
    gemma(call, 7, start, k, v)
}

/// `gemma_custom_sdpa.default [q, k_cache, v_cache, start_pos, seq_len, attn_mask, is_causal, (softcap_value,) out]`
pub(super) fn gemma_custom(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[8, 9], "8 or 9")?;
    let start = call.sym(3)?;
    let (k, v) = (call.float_tensor(1)?, call.float_tensor(2)?);
    gemma(call, 5, start, k, v)
}

/// What the fork's forms share from the mask on: scale 1, and a softcap that only masks turn on.
fn gemma(call: &mut Call<'_, '_>, mask_slot: usize, start: SymId, k: TensorId, v: TensorId) -> Lowered<()> {
    let (mask, causal) = causality(call, mask_slot, mask_slot + 1)?;
    let given = if call.last() == mask_slot + 3 { call.optional_float(mask_slot + 2)? } else { None };
    let softcap = given.filter(|&cap| cap > 0.0 && mask);
    let scale = Some(1.0);
    let op =
        Sdpa { sequence_first: true, start: Some(start), mask, causal, scale, softcap, ..Sdpa::default() };
    emit(call, Attention { q: 0, k, v, mask: mask_slot, op })
}

/// `et_vk.sdpa.default [q, k, v, attn_mask, scale, out]`, operands \[B, H, S, D\]
pub(super) fn plain(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[6], "6")?;
    let (mask, scale) = (!call.is_null(3), call.optional_float(4)?);
    let (k, v) = (call.float_tensor(1)?, call.float_tensor(2)?);
    let op = Sdpa { mask, scale, ..Sdpa::default() };
    emit(call, Attention { q: 0, k, v, mask: 3, op })
}

/// `update_cache.default [value, cache, start_pos, out]`; nothing reads the output.
pub(super) fn update_cache(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[4], "4")?;
    let start = call.sym(2)?;
    write_cache(call, 0, 1, start).map(|_| ())
}
