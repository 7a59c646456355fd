//! Attention, with and without caches.

use std::sync::Arc;

use crate::Fault;
use crate::frame::Frame;
use crate::softmax::softmax;
use crate::tensor::{Tensor, collect};

/// Which attention arguments are in which slots.
struct Slots {
    query: usize,
    keys: usize,
    values: usize,
    start: usize,
    mask: usize,
    causal: usize,
}

/// What turns products of query and key into scores.
#[derive(Clone, Copy, Debug)]
struct Scoring {
    scale: f64,
    /// Bound of the scores; 0 for none.
    softcap: f64,
}

/// Cached attention over all arguments: `[B,S,Hq,D]` queries, `[B,C,Hkv,D]` keys and values.
struct Attention {
    query: Arc<Tensor>,
    keys: Arc<Tensor>,
    values: Arc<Tensor>,
    mask: Option<Mask>,
    causal: bool,
    start: usize,
    scoring: Scoring,
}

impl Attention {
    fn read(frame: &Frame<'_>, slots: &Slots, scoring: impl Fn(usize) -> Scoring) -> Result<Self, Fault> {
        let query = frame.ranked(slots.query, 4)?;
        let keys = frame.ranked(slots.keys, 4)?;
        let (rows, heads, width) = (query.dims()[1], query.dims()[2], query.dims()[3]);
        let (capacity, kv_heads) = (keys.dims()[1], keys.dims()[2]);
        frame.sized(slots.keys, &[query.dims()[0], capacity, kv_heads, width])?;
        let values = frame.sized(slots.values, keys.dims())?;
        if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
            let (expected, found) = ("key heads that divide the query heads", format!("{kv_heads}"));
            return Err(Fault::Value { slot: slots.keys, expected, found });
        }
        let start = frame.start(slots.start, rows, capacity)?;
        let mask = Mask::read(frame, slots.mask, [query.dims()[0], heads, rows, start + rows])?;
        let causal = match frame.is_null(slots.causal)? {
            true => mask.is_none(),
            false => frame.truth(slots.causal)?,
        };
        Ok(Self { mask, causal, start, scoring: scoring(width), query, keys, values })
    }

    /// Softmax over the columns for one query row of one head; zeros where all are masked.
    fn weights(&self, batch: usize, row: usize, head: usize) -> Vec<f64> {
        let (rows, heads, width) = (self.query.dims()[1], self.query.dims()[2], self.query.dims()[3]);
        let (capacity, kv_heads) = (self.keys.dims()[1], self.keys.dims()[2]);
        let (query, keys) = (self.query.floats(), self.keys.floats());
        let query = &query[((batch * rows + row) * heads + head) * width..][..width];
        let score = |column: usize| {
            if self.causal && column > self.start + row {
                return f64::NEG_INFINITY;
            }
            let kv_head = head / (heads / kv_heads);
            let key = &keys[((batch * capacity + column) * kv_heads + kv_head) * width..][..width];
            let mask = self.mask.as_ref().map_or(0.0, |mask| mask.at(batch, head, row, column));
            let score = self.scoring.scale * crate::matmul::dot(query, key) + mask;
            match self.scoring.softcap {
                0.0 => score,
                cap => cap * (score / cap).tanh(),
            }
        };
        normalised((0..self.start + rows).map(score).collect())
    }

    fn output(&self) -> Result<Tensor, Fault> {
        let (heads, width) = (self.query.dims()[2], self.query.dims()[3]);
        let (capacity, kv_heads) = (self.keys.dims()[1], self.keys.dims()[2]);
        let values = self.values.floats();
        let mut items = Vec::with_capacity(self.query.count());
        collect(&self.query.dims()[..3], |at| {
            let &[batch, row, head] = at else { return Ok(()) };
            let kv_head = head / (heads / kv_heads);
            let value = |column: usize| {
                &values[((batch * capacity + column) * kv_heads + kv_head) * width..][..width]
            };
            items.extend(weighted(&self.weights(batch, row, head), value, width));
            Ok(())
        })?;
        Ok(Tensor::wide(self.query.dims().to_vec(), items))
    }
}

/// An additive mask that broadcasts to `[B,H,S,T]`, possibly with more columns.
struct Mask {
    items: Vec<f64>,
    dims: [usize; 4],
}

impl Mask {
    fn read(frame: &Frame<'_>, slot: usize, needed: [usize; 4]) -> Result<Option<Self>, Fault> {
        let Some(mask) = frame.optional_tensor(slot)? else { return Ok(None) };
        let mut dims = [1; 4];
        let known = (2..=4).contains(&mask.rank());
        if known {
            dims[4 - mask.rank()..].copy_from_slice(mask.dims());
        }
        let fits = dims.iter().zip(&needed).take(3).all(|(&own, &needed)| own == 1 || own == needed);
        if !known || !fits || dims[3] < needed[3] {
            return Err(Fault::Dims { slot, expected: needed.to_vec(), found: mask.dims().to_vec() });
        }
        Ok(Some(Self { items: mask.floats().into_owned(), dims }))
    }

    fn at(&self, batch: usize, head: usize, row: usize, column: usize) -> f64 {
        let at = [batch, head, row].into_iter().zip(self.dims);
        let line = at.fold(0, |line, (at, size)| line * size + at.min(size - 1));
        self.items[line * self.dims[3] + column]
    }
}

/// Softmax; zeros where all scores are -∞.
fn normalised(mut scores: Vec<f64>) -> Vec<f64> {
    match scores.iter().all(|&score| score == f64::NEG_INFINITY) {
        true => scores.fill(0.0),
        false => softmax(&mut scores),
    }
    scores
}

/// Sum of value rows by weight.
fn weighted<'v>(weights: &[f64], value: impl Fn(usize) -> &'v [f64], width: usize) -> Vec<f64> {
    let mut sum = vec![0.0; width];
    for (column, &weight) in weights.iter().enumerate().filter(|&(_, &weight)| weight != 0.0) {
        sum.iter_mut().zip(value(column)).for_each(|(sum, value)| *sum += weight * value);
    }
    sum
}

/// Writes the rows of `value [B,S,H,D]` into `cache [B,C,H,D]` from the start position on.
fn update(frame: &mut Frame<'_>, value: usize, cache: usize, start: usize) -> Result<(), Fault> {
    let id = frame.id(cache)?;
    let (value, old) = (frame.ranked(value, 4)?, frame.ranked(cache, 4)?);
    let &[batches, rows, heads, width] = value.dims() else { return Ok(()) };
    let capacity = old.dims()[1];
    frame.sized(cache, &[batches, capacity, heads, width])?;
    let start = frame.start(start, rows, capacity)?;
    let line = heads * width;
    let (mut items, new) = (old.floats().into_owned(), value.floats());
    for batch in 0..batches {
        let to = (batch * capacity + start) * line;
        let from = batch * rows * line;
        items[to..to + rows * line].copy_from_slice(&new[from..from + rows * line]);
    }
    frame.write(id, Tensor::wide(old.dims().to_vec(), items))
}

/// `update_cache(value, cache!, start_pos)`; the output is a dummy that nothing reads.
pub(crate) fn update_cache(frame: &mut Frame<'_>) -> Result<(), Fault> {
    update(frame, 0, 1, 2)?;
    let dims = frame.output_bounds()?;
    let count = crate::tensor::count(&dims)?;
    frame.set(Tensor::wide(dims, vec![0.0; count]))
}

const CACHED: Slots = Slots { query: 0, keys: 3, values: 4, start: 5, mask: 7, causal: 9 };

/// `sdpa_with_kv_cache(q, k, v, k_cache!, v_cache!, start_pos, _, mask?, _, causal?, scale?)`.
pub(crate) fn with_kv_cache(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let result = updated(frame, &CACHED, scale(frame, 10)?)?.output()?;
    frame.set(result)
}

/// The weights of [`with_kv_cache`], `[B, Hq, ⌈S⌉4, ⌈C⌉4]` with zeros around.
pub(crate) fn attention_weights(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let attention = updated(frame, &CACHED, scale(frame, 10)?)?;
    let (query, capacity) = (attention.query.dims(), attention.keys.dims()[1]);
    let dims = vec![query[0], query[2], query[1].next_multiple_of(4), capacity.next_multiple_of(4)];
    let mut items = Vec::new();
    collect(&dims[..3], |at| {
        let weights = if at[2] < query[1] { attention.weights(at[0], at[2], at[1]) } else { Vec::new() };
        let zeros = dims[3] - weights.len();
        items.extend(weights);
        items.extend(std::iter::repeat_n(0.0, zeros));
        Ok(())
    })?;
    frame.set(Tensor::wide(dims, items))
}

/// Both caches written, then everything read.
fn updated(
    frame: &mut Frame<'_>,
    slots: &Slots,
    scoring: impl Fn(usize) -> Scoring,
) -> Result<Attention, Fault> {
    update(frame, 1, slots.keys, slots.start)?;
    update(frame, 2, slots.values, slots.start)?;
    Attention::read(frame, slots, scoring)
}

/// Scores scaled as a slot says, by 1/√D where it is Null.
fn scale(frame: &Frame<'_>, slot: usize) -> Result<impl Fn(usize) -> Scoring + use<>, Fault> {
    let scale = frame.optional_float(slot)?;
    Ok(move |width: usize| Scoring {
        scale: scale.unwrap_or_else(|| 1.0 / (width as f64).sqrt()),
        softcap: 0.0,
    })
}

/// `custom_sdpa(q, k_cache, v_cache, start_pos, mask?, _, causal?, scale?)`.
pub(crate) fn custom(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let slots = Slots { query: 0, keys: 1, values: 2, start: 3, mask: 4, causal: 6 };
    let result = Attention::read(frame, &slots, scale(frame, 7)?)?.output()?;
    frame.set(result)
}

/// `gemma_sdpa_with_kv_cache(q, k, v, k_cache!, v_cache!, start_pos, _, mask?, causal?, softcap?)`.
pub(crate) fn gemma_with_kv_cache(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let slots = Slots { causal: 8, ..CACHED };
    let result = updated(frame, &slots, softcap(frame, 9)?)?.output()?;
    frame.set(result)
}

/// `gemma_custom_sdpa(q, k_cache, v_cache, start_pos, _, mask?, causal?, softcap?)`.
pub(crate) fn gemma_custom(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let slots = Slots { query: 0, keys: 1, values: 2, start: 3, mask: 5, causal: 6 };
    let result = Attention::read(frame, &slots, softcap(frame, 7)?)?.output()?;
    frame.set(result)
}

/// Unscaled scores, capped as a slot says if the call has it in front of the output.
fn softcap(frame: &Frame<'_>, slot: usize) -> Result<impl Fn(usize) -> Scoring + use<>, Fault> {
    let softcap = if frame.len() > slot + 1 { frame.optional_float(slot)?.unwrap_or(0.0) } else { 0.0 };
    Ok(move |_: usize| Scoring { scale: 1.0, softcap })
}

/// `et_vk.sdpa(q [B,H,S,D], k [B,H,L,D], v [B,H,L,D], mask?, scale?)`.
pub(crate) fn plain(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let (query, keys) = (frame.ranked(0, 4)?, frame.ranked(1, 4)?);
    let &[batch, heads, rows, width] = query.dims() else { return Ok(()) };
    let length = keys.dims()[2];
    frame.sized(1, &[batch, heads, length, width])?;
    let values = frame.ranked(2, 4)?;
    let value_width = values.width();
    frame.sized(2, &[batch, heads, length, value_width])?;
    let mask = Mask::read(frame, 3, [batch, heads, rows, length])?;
    let scale = scale(frame, 4)?(width).scale;
    let (q, k, v) = (query.floats(), keys.floats(), values.floats());
    let mut items = Vec::new();
    collect(&[batch, heads, rows], |at| {
        let &[batch, head, row] = at else { return Ok(()) };
        let plane = batch * heads + head;
        let query = &q[(plane * rows + row) * width..][..width];
        let score = |column: usize| {
            let key = &k[(plane * length + column) * width..][..width];
            let mask = mask.as_ref().map_or(0.0, |mask| mask.at(batch, head, row, column));
            scale * crate::matmul::dot(query, key) + mask
        };
        let weights = normalised((0..length).map(score).collect());
        let value = |column: usize| &v[(plane * length + column) * value_width..][..value_width];
        items.extend(weighted(&weights, value, value_width));
        Ok(())
    })?;
    frame.set(Tensor::wide(vec![batch, heads, rows, value_width], items))
}
