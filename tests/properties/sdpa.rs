//! Attention, with and without a cache.

use etvk_reference::{Arg, Data, Tensor};
use etvk_tests::{Draw, Fill, Outcome, Twin, property, result};
use etvk_vkgraph::{DType, GraphBuilder, ValueId};

use crate::linear_q::rounding;
use crate::source::Source;

const CACHED: &[&str] = &["llama.sdpa_with_kv_cache.default", "sdpa_with_kv_cache.default"];
const UPDATE: &[&str] = &["llama.update_cache.default", "update_cache.default"];
const CUSTOM: &[&str] = &["custom_sdpa.default", "llama.custom_sdpa.default"];
const GEMMA_CACHED: &[&str] = &["et_vk.gemma_sdpa_with_kv_cache.default", "gemma_sdpa_with_kv_cache.default"];
const GEMMA_CUSTOM: &[&str] = &["et_vk.gemma_custom_sdpa.default", "gemma_custom_sdpa.default"];
const PLAIN: &str = "et_vk.sdpa.default";
const WEIGHTS: &str = "testing.compute_attn_weight_with_kv_cache.default";

/// Every operator these properties compare.
pub(crate) fn names() -> Vec<&'static str> {
    [CACHED, UPDATE, CUSTOM, GEMMA_CACHED, GEMMA_CUSTOM, &[PLAIN, WEIGHTS]].concat()
}

const MOST_PRODUCTS: u32 = 1 << 20;

/// Sizes of an attention over a cache.
#[derive(Clone, Copy)]
struct Sizes {
    batch: u32,
    /// S: most queries of one execution.
    queries: u32,
    heads: u32,
    key_heads: u32,
    width: u32,
    /// Rows of the cache.
    capacity: u32,
}

impl Sizes {
    fn new(draw: &mut Draw<'_>) -> Self {
        let (key_heads, group) = (draw.between(1, 3), draw.pick(&[1, 2, 4, 3, 8]));
        let capacity = draw.pick(&[8, 5, 13, 33, 64, 130, 300, 700]);
        let batch = if draw.once_in(4) { 2 } else { 1 };
        let width = draw.pick(&[8, 1, 3, 5, 12, 32, 63, 64, 128, 130, 256]);
        let queries = draw.pick(&[1, 3, 2, 5, 9, 17, 33, 70]).min(capacity);
        let mut sizes = Self { batch, queries, heads: key_heads * group, key_heads, width, capacity };
        // Not more than a software device does in a moment.
        while sizes.products() > MOST_PRODUCTS && sizes.queries > 1 {
            sizes.queries = sizes.queries.div_ceil(2);
        }
        sizes
    }

    /// Products of a query and a key, times their width.
    fn products(&self) -> u32 {
        self.batch * self.queries * self.heads * self.capacity * self.width
    }

    /// [B, S, H, D]
    fn query(&self, rows: u32) -> [u32; 4] {
        [self.batch, rows, self.heads, self.width]
    }

    /// [B, S, Hkv, D]
    fn key(&self, rows: u32) -> [u32; 4] {
        [self.batch, rows, self.key_heads, self.width]
    }
}

/// An attention under construction: its graph, its inputs in order, and where the first query is.
struct Attention {
    graph: GraphBuilder,
    sizes: Sizes,
    dtype: DType,
    inputs: Vec<Input>,
    start: ValueId,
    /// The position, where it is a literal.
    literal: Option<u32>,
}

enum Input {
    /// Of all heads, or of the key heads.
    Rows { source: Source, keys: bool },
    /// A cache as an ordinary tensor.
    Cache,
    /// Of a rank from 2 to 4, with this many heads and columns.
    Mask { rank: usize, heads: u32, columns: u32, shared_row: bool },
    /// The position as an integer.
    Start,
    /// The position as the element of a tensor.
    StartElement,
}

impl Attention {
    fn new(draw: &mut Draw<'_>) -> Self {
        let (mut graph, sizes, dtype) = (GraphBuilder::new(), Sizes::new(draw), draw.float());
        let mut inputs = Vec::new();
        let mut literal = None;
        let start = match draw.below(6) {
            4 => {
                let (x, start) = (graph.input(DType::Int32, &[1]), graph.sym_int());
                let zero = graph.int(0);
                graph.call("et_vk.select_as_symint.default", &[x, zero, zero, start]);
                inputs.push(Input::StartElement);
                start
            }
            5 => {
                let start = draw.between(0, sizes.capacity - sizes.queries);
                literal = Some(start);
                graph.int(i64::from(start))
            }
            _ => {
                inputs.push(Input::Start);
                graph.sym_int_input()
            }
        };
        Self { graph, sizes, dtype, inputs, start, literal }
    }

    fn rows(&mut self, draw: &mut Draw<'_>, keys: bool) -> ValueId {
        let rows = self.sizes.queries;
        let dims = if keys { self.sizes.key(rows) } else { self.sizes.query(rows) };
        // Scores in the hundreds would leave single precision too few digits for the weights.
        let range = if self.sizes.width <= 64 { draw.pick(&[1.0, 2.0]) } else { 1.0 };
        let fill = Fill::Uniform { low: -range, high: range };
        let (source, id) = Source::new(draw, &mut self.graph, self.dtype, &dims, fill);
        self.inputs.push(Input::Rows { source, keys });
        id
    }

    /// A cache that some call writes: all zeros, as exporters have it, or not.
    fn cache(&mut self, draw: &mut Draw<'_>) -> ValueId {
        let dims = self.sizes.key(self.sizes.capacity);
        let count: u32 = dims.iter().product();
        let bytes = if draw.once_in(3) {
            draw.tensor(self.dtype, &dims, Fill::UNIT).to_le_bytes()
        } else {
            vec![0; count as usize * self.dtype.size()]
        };
        self.graph.constant(self.dtype, &dims, bytes)
    }

    /// A mask, or none; its rank where it is one.
    fn mask(&mut self, draw: &mut Draw<'_>, ranks: &[usize]) -> (ValueId, bool) {
        let rank = draw.pick(ranks);
        if rank == 0 {
            return (self.graph.null(), false);
        }
        let heads = if rank > 2 && draw.once_in(2) { self.sizes.heads } else { 1 };
        let columns = self.sizes.capacity + if draw.once_in(4) { 3 } else { 0 };
        let shared_row = draw.once_in(6);
        let dims = mask_dims(rank, heads, if shared_row { 1 } else { self.sizes.queries }, columns);
        let id = self.graph.input(self.dtype, &dims);
        self.inputs.push(Input::Mask { rank, heads, columns, shared_row });
        (id, true)
    }

    /// A mask that is a slice of a constant with a row for each position: windows over the latest keys, which the
    /// engine recognises, or nearly that.
    fn windows(&mut self, draw: &mut Draw<'_>, query: ValueId) -> ValueId {
        let (queries, capacity) = (self.sizes.queries, self.sizes.capacity);
        let width = draw.pick(&[3, 1, 2, 16, capacity, 100]);
        let closed = draw.pick(&[f64::NEG_INFINITY, -65504.0]);
        let open = |p: u32, c: u32| c <= p && c + width > p;
        let mut table: Vec<f64> = (0..capacity * capacity)
            .map(|i| if open(i / capacity, i % capacity) { 0.0 } else { closed })
            .collect();
        if draw.once_in(3) {
            let at = draw.below(table.len());
            table[at] = draw.pick(&[-1.0, 0.0, 2.0]);
        }
        let dims = [capacity, capacity];
        #[expect(clippy::expect_used, reason = "as many elements as the sizes say")]
        let bytes = Tensor::new(self.dtype, &dims.map(|size| size as usize), Data::F64(table))
            .expect("a tensor")
            .to_le_bytes();
        let table = self.graph.constant(self.dtype, &dims, bytes);
        let [zero, one] = [0, 1].map(|number| self.graph.int(number));
        let (count, end) = (self.graph.sym_int(), self.graph.sym_int());
        self.graph.call("sym_size.int", &[query, one, count]);
        self.graph.call("add", &[self.start, count, end]);
        let rows = result(&mut self.graph, self.dtype, &[queries, capacity]);
        self.graph.call("aten.slice_copy.Tensor", &[table, zero, self.start, end, one, rows]);
        rows
    }

    /// A truth value or none.
    fn causal(&mut self, draw: &mut Draw<'_>) -> ValueId {
        match draw.below(3) {
            0 => self.graph.null(),
            choice => self.graph.bool(choice == 1),
        }
    }

    /// A scale as a Double, as an Int, or none.
    fn scale(&mut self, draw: &mut Draw<'_>) -> ValueId {
        match draw.below(3) {
            0 => self.graph.null(),
            1 => self.graph.int(1),
            _ => self.graph.double(0.17),
        }
    }

    fn output(&mut self) -> ValueId {
        let dims = self.sizes.query(self.sizes.queries);
        result(&mut self.graph, self.dtype, &dims)
    }

    /// Executes a sequence: a prompt, steps after it, and earlier positions once more.
    fn run(&self, draw: &mut Draw<'_>) -> Outcome {
        let mut twin = Twin::new(&self.graph)?;
        let (most, capacity) = (self.sizes.queries, self.sizes.capacity);
        let mut next = 0;
        for step in 0..5 {
            let mut rows = match step {
                0 => most,
                1 | 2 => 1,
                _ => draw.shrunk_size(most),
            };
            let mut start = match step {
                3 => draw.between(0, next),
                4 => capacity - rows,
                _ => next,
            };
            if let Some(literal) = self.literal {
                start = literal;
            }
            if start + rows > capacity {
                (start, rows) = (capacity - rows.min(capacity), rows.min(capacity));
            }
            twin.run(&self.args(draw, rows, start), rounding(self.dtype)?)?;
            next = start + rows;
        }
        Ok(())
    }

    fn args(&self, draw: &mut Draw<'_>, rows: u32, start: u32) -> Vec<Arg> {
        let arg = |input: &Input| match input {
            Input::Rows { source, keys: true } => source.arg(draw, &self.sizes.key(rows)),
            Input::Rows { source, keys: false } => source.arg(draw, &self.sizes.query(rows)),
            Input::Cache => {
                let dims = self.sizes.key(self.sizes.capacity);
                Arg::Tensor(draw.tensor(self.dtype, &dims, Fill::UNIT))
            }
            Input::Mask { rank, heads, columns, shared_row } => {
                let dims = mask_dims(*rank, *heads, if *shared_row { 1 } else { rows }, *columns);
                random_mask(draw, self.dtype, &dims)
            }
            Input::Start => Arg::Int(i64::from(start)),
            Input::StartElement => {
                let at = f64::from(start);
                Arg::Tensor(draw.tensor(DType::Int32, &[1], Fill::Grid { low: at, high: at, step: 1.0 }))
            }
        };
        self.inputs.iter().map(arg).collect()
    }
}

fn mask_dims(rank: usize, heads: u32, rows: u32, columns: u32) -> Vec<u32> {
    [1, heads, rows, columns][4 - rank..].to_vec()
}

/// An additive mask. Of −∞ it may close rows altogether; in rows of nothing but −65504 single precision leaves little
/// of the products, so that there the first column stays open.
fn random_mask(draw: &mut Draw<'_>, dtype: DType, dims: &[u32]) -> Arg {
    let closed = draw.pick(&[f64::NEG_INFINITY, -65504.0]);
    let tensor = draw.tensor(dtype, dims, Fill::Mask { closed });
    if closed == f64::NEG_INFINITY {
        return Arg::Tensor(tensor);
    }
    let columns = tensor.dims().last().copied().unwrap_or(1).max(1);
    let mut items = tensor.floats().into_owned();
    items.iter_mut().step_by(columns).for_each(|first| *first = 0.0);
    #[expect(clippy::expect_used, reason = "as many elements as before")]
    let tensor = Tensor::new(dtype, tensor.dims(), Data::F64(items)).expect("a tensor");
    Arg::Tensor(tensor)
}

/// Masks of any kind that the operators take.
const ANY_MASK: &[usize] = &[0, 2, 3, 4];

#[test]
fn caches_written_and_read() -> anyhow::Result<()> {
    for &name in CACHED {
        property(&[name], 40, |draw| {
            let mut attention = Attention::new(draw);
            let (q, k) = (attention.rows(draw, false), attention.rows(draw, true));
            let v = attention.rows(draw, true);
            let caches = [attention.cache(draw), attention.cache(draw)];
            // seq_len says nothing.
            let length = attention.graph.int(1);
            let (mask, masked) = attention.mask(draw, ANY_MASK);
            let dropout = if draw.once_in(2) { attention.graph.null() } else { attention.graph.double(0.0) };
            let causal = attention.causal(draw);
            let scale = attention.scale(draw);
            let out = attention.output();
            let args =
                [q, k, v, caches[0], caches[1], attention.start, length, mask, dropout, causal, scale, out];
            attention.graph.call(name, &args);
            attention.graph.outputs(&[out]);
            if !masked && draw.once_in(4) {
                // What the caches hold, as a further output.
                let all = attention.sizes.key(attention.sizes.capacity);
                let (null, copy) =
                    (attention.graph.null(), result(&mut attention.graph, attention.dtype, &all));
                attention.graph.call("aten.clone.default", &[caches[0], null, copy]);
                attention.graph.outputs(&[copy]);
            }
            attention.run(draw)
        })?;
    }
    Ok(())
}

#[test]
fn windows_of_a_table() -> anyhow::Result<()> {
    property(&["sdpa_with_kv_cache.default", "aten.slice_copy.Tensor"], 40, |draw| {
        let mut attention = Attention::new(draw);
        let (q, k) = (attention.rows(draw, false), attention.rows(draw, true));
        let v = attention.rows(draw, true);
        let caches = [attention.cache(draw), attention.cache(draw)];
        let length = attention.graph.int(1);
        let mask = attention.windows(draw, q);
        let nulls = [(); 2].map(|()| attention.graph.null());
        let (scale, out) = (attention.scale(draw), attention.output());
        let head = [q, k, v, caches[0], caches[1], attention.start, length, mask];
        attention.graph.call("sdpa_with_kv_cache.default", &[&head[..], &nulls, &[scale, out]].concat());
        attention.graph.outputs(&[out]);
        attention.run(draw)
    })
}

#[test]
fn weights_of_the_values() -> anyhow::Result<()> {
    property(&[WEIGHTS], 24, |draw| {
        let mut attention = Attention::new(draw);
        let (q, k) = (attention.rows(draw, false), attention.rows(draw, true));
        let v = attention.rows(draw, true);
        let caches = [attention.cache(draw), attention.cache(draw)];
        let length = attention.graph.int(1);
        let (mask, _) = attention.mask(draw, &[0]);
        let (dropout, causal) = (attention.graph.null(), attention.causal(draw));
        let scale = attention.scale(draw);
        let sizes = attention.sizes;
        let four = |size: u32| size.next_multiple_of(4);
        let dims = [sizes.batch, sizes.heads, four(sizes.queries), four(sizes.capacity)];
        let out = result(&mut attention.graph, attention.dtype, &dims);
        let args =
            [q, k, v, caches[0], caches[1], attention.start, length, mask, dropout, causal, scale, out];
        attention.graph.call(WEIGHTS, &args);
        attention.graph.outputs(&[out]);
        attention.run(draw)
    })
}

#[test]
fn two_layers_share_caches() -> anyhow::Result<()> {
    property(&["sdpa_with_kv_cache.default"], 20, |draw| {
        let mut attention = Attention::new(draw);
        let (q, k) = (attention.rows(draw, false), attention.rows(draw, true));
        let v = attention.rows(draw, true);
        let caches = [attention.cache(draw), attention.cache(draw)];
        let mut outs = Vec::new();
        let reader_only = draw.once_in(2);
        for layer in 0..2 {
            let length = attention.graph.int(1);
            let (mask, _) = attention.mask(draw, &[0, 2]);
            let nulls = [(); 3].map(|()| attention.graph.null());
            let out = attention.output();
            let tail = [mask, nulls[0], nulls[1], nulls[2], out];
            if layer == 1 && reader_only {
                let args = [&[q, caches[0], caches[1], attention.start], &tail[..]].concat();
                attention.graph.call("llama.custom_sdpa.default", &args);
            } else {
                let head = [q, k, v, caches[0], caches[1], attention.start, length];
                attention.graph.call("sdpa_with_kv_cache.default", &[&head[..], &tail].concat());
            }
            outs.push(out);
        }
        attention.graph.outputs(&outs);
        attention.run(draw)
    })
}

#[test]
fn caches_written_by_calls_of_their_own() -> anyhow::Result<()> {
    for (&update, &read) in UPDATE.iter().zip(CUSTOM) {
        property(&[update, read], 24, |draw| {
            let mut attention = Attention::new(draw);
            let q = attention.rows(draw, false);
            let mut caches = Vec::new();
            for _ in 0..2 {
                let (rows, mut cache) = (attention.rows(draw, true), attention.cache(draw));
                if draw.once_in(2) {
                    let dims = attention.sizes.key(attention.sizes.capacity);
                    let packed = result(&mut attention.graph, attention.dtype, &dims);
                    attention.graph.call("et_vk.prepack.default", &[cache, packed]);
                    cache = packed;
                }
                let dummy = attention.graph.tensor(DType::Float32, &[1]);
                attention.graph.call(update, &[rows, cache, attention.start, dummy]);
                caches.push(cache);
            }
            custom(draw, attention, read, q, [caches[0], caches[1]])
        })?;
    }
    Ok(())
}

/// Ends a graph with a reader of two caches.
fn custom(
    draw: &mut Draw<'_>,
    mut attention: Attention,
    name: &str,
    q: ValueId,
    caches: [ValueId; 2],
) -> Outcome {
    let (mask, _) = attention.mask(draw, ANY_MASK);
    let (dropout, causal) = (attention.graph.null(), attention.causal(draw));
    let (scale, out) = (attention.scale(draw), attention.output());
    let args = [q, caches[0], caches[1], attention.start, mask, dropout, causal, scale, out];
    attention.graph.call(name, &args);
    attention.graph.outputs(&[out]);
    attention.run(draw)
}

/// Caches that nothing writes: inputs of the graph.
fn input_caches(attention: &mut Attention) -> [ValueId; 2] {
    let dims = attention.sizes.key(attention.sizes.capacity);
    [(); 2].map(|()| {
        attention.inputs.push(Input::Cache);
        attention.graph.input(attention.dtype, &dims)
    })
}

#[test]
fn tensors_read_as_caches() -> anyhow::Result<()> {
    for &name in CUSTOM {
        property(&[name], 20, |draw| {
            let mut attention = Attention::new(draw);
            let q = attention.rows(draw, false);
            let caches = input_caches(&mut attention);
            custom(draw, attention, name, q, caches)
        })?;
    }
    Ok(())
}

/// The end of a call of the fork: mask, causality, and a softcap if the call has that slot.
fn gemma(draw: &mut Draw<'_>, mut attention: Attention, name: &str, mut args: Vec<ValueId>) -> Outcome {
    args.push(attention.start);
    args.push(attention.graph.int(1));
    let (mask, masked) = attention.mask(draw, &[0, 4]);
    args.push(mask);
    // Causality is said of calls without a mask alone.
    args.push(if masked { attention.graph.null() } else { attention.graph.bool(true) });
    if draw.once_in(2) {
        let cap = if masked { draw.pick(&[0.0, 5.0, 50.0]) } else { 0.0 };
        args.push(attention.graph.double(cap));
    }
    let out = attention.output();
    args.push(out);
    attention.graph.call(name, &args);
    attention.graph.outputs(&[out]);
    attention.run(draw)
}

#[test]
fn gemma_with_caches() -> anyhow::Result<()> {
    for &name in GEMMA_CACHED {
        property(&[name], 28, |draw| {
            let mut attention = Attention::new(draw);
            let (q, k) = (attention.rows(draw, false), attention.rows(draw, true));
            let v = attention.rows(draw, true);
            let caches = [attention.cache(draw), attention.cache(draw)];
            gemma(draw, attention, name, vec![q, k, v, caches[0], caches[1]])
        })?;
    }
    Ok(())
}

#[test]
fn gemma_over_tensors() -> anyhow::Result<()> {
    for &name in GEMMA_CUSTOM {
        property(&[name], 20, |draw| {
            let mut attention = Attention::new(draw);
            let q = attention.rows(draw, false);
            let caches = input_caches(&mut attention);
            gemma(draw, attention, name, vec![q, caches[0], caches[1]])
        })?;
    }
    Ok(())
}

#[test]
fn attention_without_a_cache() -> anyhow::Result<()> {
    property(&[PLAIN], 48, |draw| {
        let mut graph = GraphBuilder::new();
        let (batch, heads, dtype) = (draw.between(1, 2), draw.between(1, 4), draw.float());
        let (rows, length) = (draw.pick(&[3, 1, 5, 9, 33, 66]), draw.pick(&[3, 1, 8, 17, 64, 130, 300]));
        let width = draw.pick(&[8, 1, 3, 5, 32, 64, 65, 128]);
        let dims = |rows: u32| [batch, heads, rows, width];
        let q = Source::new(draw, &mut graph, dtype, &dims(rows), Fill::UNIT);
        let [k, v] = [(); 2].map(|()| Source::new(draw, &mut graph, dtype, &dims(length), Fill::UNIT));
        let shared: Vec<bool> = (0..3).map(|_| draw.once_in(2)).collect();
        let mask_dims = |rows: u32, length: u32| {
            let one = |at: usize, size: u32| if shared[at] { 1 } else { size };
            [one(0, batch), one(1, heads), one(2, rows), length]
        };
        let masked = draw.once_in(2);
        let mask = if masked { graph.input(dtype, &mask_dims(rows, length)) } else { graph.null() };
        let scale = if draw.once_in(2) { graph.double(0.3) } else { graph.null() };
        let out = result(&mut graph, dtype, &dims(rows));
        graph.call(PLAIN, &[q.1, k.1, v.1, mask, scale, out]);
        graph.outputs(&[out]);
        let mut twin = Twin::new(&graph)?;
        for whole in [true, false, false] {
            let (rows, length) =
                if whole { (rows, length) } else { (draw.shrunk_size(rows), draw.between(1, length)) };
            let mut inputs = vec![q.0.arg(draw, &dims(rows))];
            inputs.extend([&k, &v].map(|(source, _)| source.arg(draw, &dims(length))));
            if masked {
                inputs.push(random_mask(draw, dtype, &mask_dims(rows, length)));
            }
            twin.run(&inputs, rounding(dtype)?)?;
        }
        Ok(())
    })
}
