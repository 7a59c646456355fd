//! The graph of a decoder: tokens in, logits of the last one out.

use etvk_vkgraph::ValueId;

use crate::config::{Architecture, Config, Layer, Rope};
use crate::graph::{Graph, Matrix, Tensor};
use crate::weights::{Table, Weights};
use crate::{Error, Options, Quantisation, Result};

/// What sums of Gemma 4's residual stream are clamped to.
const CLAMP: f64 = 65_504.0;
/// Gemma 3's residual stream reaches beyond the range of halves. In programs of halves it is divided by this, a power of two and
/// so without rounding: in the embedding and the weights of the norms that add to it. Norms that read it do not see the
/// difference, since their epsilon is divided by its square.
const STREAM_DIVISOR: f64 = 32.0;

/// The payload of a decoder, and the number of its tokens' kinds.
pub(crate) fn build(config: &Config, options: &Options, weights: &mut Weights<'_>) -> Result<(Vec<u8>, u32)> {
    let vocabulary = match weights.sizes("token_embd.weight")? {
        &[rows, _] => u32::try_from(rows).unwrap_or(u32::MAX),
        found => return Err(sizes("token_embd.weight", found, &[0, config.hidden.into()])),
    };
    let (graph, ids, start) = Graph::new(weights.dtype(), config.max_seq);
    let divisor = match config.architecture {
        Architecture::Gemma3 if options.half => STREAM_DIVISOR,
        _ => 1.0,
    };
    let mut decoder = Decoder {
        config,
        storage: options.quantisation,
        graph,
        weights,
        start,
        end: start,
        divisor,
        ropes: Vec::new(),
        mask: None,
        plain_eps: None,
        kept: Vec::new(),
    };
    decoder.end = decoder.graph.end(start);
    decoder.tables()?;
    let wanted = options.vocabulary.unwrap_or(options.quantisation);
    let (mut x, head) = decoder.vocabulary(ids, vocabulary, wanted)?;
    let per_layer =
        config.per_layer.map(|width| decoder.per_layer(ids, &x, vocabulary, width)).transpose()?;
    for (index, layer) in config.layers.iter().enumerate() {
        x = decoder.layer(index, layer, x, per_layer.as_ref())?;
    }
    let logits = decoder.logits(&x, &head)?;
    Ok((decoder.graph.finish(&logits), vocabulary))
}

struct Decoder<'d, 'w> {
    config: &'d Config,
    storage: Quantisation,
    graph: Graph,
    weights: &'d mut Weights<'w>,
    start: ValueId,
    end: ValueId,
    /// What the residual stream is divided by.
    divisor: f64,
    ropes: Vec<Rotation>,
    /// Rows of the mask of sliding windows.
    mask: Option<Tensor>,
    plain_eps: Option<Tensor>,
    /// Keys, values and caches of each layer.
    kept: Vec<([Tensor; 2], [ValueId; 2])>,
}

/// Tables of one rotation.
struct Rotation {
    tables: [Tensor; 2],
    /// Those rows of them that belong to the tokens.
    rows: Option<[Tensor; 2]>,
}

impl Decoder<'_, '_> {
    /// Tables of positions.
    fn tables(&mut self) -> Result<()> {
        let alone: Vec<usize> =
            self.config.layers.iter().filter(|layer| layer.donor.is_some()).map(|layer| layer.rope).collect();
        for (index, rope) in self.config.ropes.iter().enumerate() {
            let width = if rope.neighbours { rope.head_dim / 2 } else { rope.head_dim };
            let dims = [self.config.max_context, width];
            let [cos, sin] = self.angles(rope)?;
            let (cos, sin) = (self.weights.keep(&cos)?, self.weights.keep(&sin)?);
            let tables = [self.graph.prepacked(&dims, &cos), self.graph.prepacked(&dims, &sin)];
            let rows = (rope.neighbours || alone.contains(&index))
                .then(|| tables.each_ref().map(|table| self.graph.rows(table, [self.start, self.end])));
            self.ropes.push(Rotation { tables, rows });
        }
        let context = self.config.max_context;
        let windows = self.config.layers.iter().filter_map(|layer| layer.window);
        if let Some(window) = windows.filter(|&window| window < context).min() {
            let closed = |row: u32, column: u32| column > row || column + window <= row;
            let element = |row, column| if closed(row, column) { -65_504.0 } else { 0.0 };
            let table: Vec<f32> =
                (0..context).flat_map(|row| (0..context).map(move |column| element(row, column))).collect();
            let kept = self.weights.keep(&table)?;
            let table = self.graph.prepacked(&[context, context], &kept);
            self.mask = Some(self.graph.rows(&table, [self.start, self.end]));
        }
        if self.config.architecture == Architecture::Gemma4 {
            self.plain_eps = Some(self.scalar(self.config.eps)?);
        }
        Ok(())
    }

    /// Cosines and sines of `position / divisor · base^(−2i/head_dim) / factor[i]`, each row twice over for halves.
    fn angles(&mut self, rope: &Rope) -> Result<[Vec<f32>; 2]> {
        let half = rope.head_dim / 2;
        let name = "rope_freqs.weight";
        let factors = if rope.factors && self.weights.has(name) {
            self.weights.floats(name, half)?
        } else {
            vec![1.0; half as usize]
        };
        let times = if rope.neighbours { 1 } else { 2 };
        let mut tables = [Vec::new(), Vec::new()];
        for position in 0..self.config.max_context {
            for _ in 0..times {
                for (i, factor) in (0..half).zip(&factors) {
                    let exponent = f64::from(2 * i) / f64::from(rope.head_dim);
                    let frequency = rope.base.powf(-exponent) / rope.divisor / f64::from(*factor);
                    let (sin, cos) = (f64::from(position) * frequency).sin_cos();
                    for (table, value) in tables.iter_mut().zip([cos, sin]) {
                        #[expect(clippy::cast_possible_truncation, reason = "tables are f32")]
                        table.push(value as f32);
                    }
                }
            }
        }
        Ok(tables)
    }

    /// The embeddings of the tokens, and the head.
    fn vocabulary(&mut self, ids: ValueId, rows: u32, wanted: Quantisation) -> Result<(Tensor, Matrix)> {
        let hidden = self.config.hidden;
        let gemma = matches!(self.config.architecture, Architecture::Gemma3 | Architecture::Gemma4);
        let factor = if gemma { f64::from(hidden).sqrt() / self.divisor } else { 1.0 };
        let importance = squares(&self.weights.floats("output_norm.weight", hidden)?);
        let (name, head) = ("token_embd.weight", "output.weight");
        let sizes = [rows, hidden];
        let (table, head) = if self.weights.has(head) {
            let table = self.weights.table(&mut self.graph, name, sizes, wanted, factor)?;
            (table, self.weights.matrix(&mut self.graph, head, sizes, wanted, Some(&importance))?)
        } else {
            self.weights.tied(&mut self.graph, name, sizes, wanted, factor, Some(&importance))?
        };
        Ok((self.embed(&table, ids, hidden), head))
    }

    fn embed(&mut self, table: &Table, ids: ValueId, width: u32) -> Tensor {
        match *table {
            Table::One(table) => self.graph.embedding(table, ids, width),
            Table::Two(high, low) => {
                let high = self.graph.embedding(high, ids, width);
                let low = self.graph.embedding(low, ids, width);
                self.graph.add(&high, &low)
            }
        }
    }

    /// Embeddings that layers have for themselves: [L, 1, S, W]. They are `(norm(model(x) / √hidden) + table · √W) / √2`; the
    /// factors stand in the norm's epsilon and weight and in the table.
    fn per_layer(&mut self, ids: ValueId, x: &Tensor, vocabulary: u32, width: u32) -> Result<Tensor> {
        let layers = u32::try_from(self.config.layers.len()).unwrap_or(u32::MAX);
        let all = layers.saturating_mul(width);
        let hidden = self.config.hidden;
        let model = self.matrix("per_layer_model_proj.weight", [all, hidden], None)?;
        let root = std::f64::consts::FRAC_1_SQRT_2;
        let weight = self.norm_weight("per_layer_proj_norm.weight", width, root)?;
        let factor = f64::from(width).sqrt() * root;
        let name = "per_layer_token_embd.weight";
        let table = self.weights.table(&mut self.graph, name, [vocabulary, all], self.storage, factor)?;
        let context = self.graph.linear(x, &model);
        let context = self.graph.view(&context, &[layers, width]);
        let context = self.graph.rms_norm(&context, weight, self.config.eps * f64::from(hidden));
        let own = self.embed(&table, ids, all);
        let own = self.graph.view(&own, &[layers, width]);
        let sum = self.graph.add(&context, &own);
        Ok(self.graph.layers_first(&sum))
    }

    fn layer(
        &mut self,
        index: usize,
        layer: &Layer,
        x: Tensor,
        per_layer: Option<&Tensor>,
    ) -> Result<Tensor> {
        let gemma4 = self.config.architecture == Architecture::Gemma4;
        let attention = self.attention(index, layer, &x)?;
        let x = self.residual(index, &x, attention, "post_attention_norm")?;
        let feed = self.feed_forward(index, layer, &x)?;
        let mut x = self.residual(index, &x, feed, "post_ffw_norm")?;
        if let Some((embeddings, width)) = per_layer.zip(self.config.per_layer) {
            let hidden = self.config.hidden;
            let gate = self.matrix(&named(index, "inp_gate"), [width, hidden], None)?;
            let back = self.matrix(&named(index, "proj"), [hidden, width], None)?;
            let weight = self.norm_weight(&named(index, "post_norm"), hidden, 1.0)?;
            let gate = self.graph.linear(&x, &gate);
            let gate = self.graph.gelu(&gate);
            let own = self.graph.slice(embeddings, u32::try_from(index).unwrap_or(u32::MAX));
            let gated = self.graph.mul(&gate, &own);
            let back = self.graph.linear(&gated, &back);
            let back = self.graph.rms_norm(&back, weight, self.config.eps);
            x = self.graph.add(&x, &back);
        }
        let scale = named(index, "layer_output_scale");
        if gemma4 && self.weights.has(&scale) {
            let scale = self.weights.floats(&scale, 1)?;
            let kept = self.weights.keep(&scale)?;
            let scale = self.graph.prepacked(&[1], &kept);
            x = self.graph.mul(&x, &scale);
        }
        Ok(x)
    }

    /// `x` and what a branch adds to it, in Gemma by way of a norm.
    fn residual(&mut self, index: usize, x: &Tensor, branch: Tensor, norm: &str) -> Result<Tensor> {
        let gemma = matches!(self.config.architecture, Architecture::Gemma3 | Architecture::Gemma4);
        let branch = if gemma {
            let weight = self.norm_weight(&named(index, norm), self.config.hidden, 1.0 / self.divisor)?;
            self.graph.rms_norm(&branch, weight, self.config.eps)
        } else {
            branch
        };
        let sum = self.graph.add(x, &branch);
        Ok(if self.config.architecture == Architecture::Gemma4 { self.graph.clamp(&sum, CLAMP) } else { sum })
    }

    /// The stream, normalised; also what errors of weights that read it weigh.
    fn normed(&mut self, name: &str, x: &Tensor) -> Result<(Tensor, Vec<f32>)> {
        let floats = self.weights.floats(name, self.config.hidden)?;
        let weight = self.norm_weight(name, self.config.hidden, 1.0)?;
        let eps = self.config.eps / (self.divisor * self.divisor);
        Ok((self.graph.rms_norm(x, weight, eps), squares(&floats)))
    }

    fn attention(&mut self, index: usize, layer: &Layer, x: &Tensor) -> Result<Tensor> {
        let hidden = self.config.hidden;
        let &Layer { heads, kv_heads, head_dim, .. } = layer;
        let (x, importance) = self.normed(&named(index, "attn_norm"), x)?;
        let rows = heads.saturating_mul(head_dim);
        let q = self.heads(&named(index, "attn_q"), &x, [heads, head_dim], &importance)?;
        let q = self.head_norm(index, "attn_q_norm", q, self.query_factor(layer))?;
        let (q, [k, v], caches) = match layer.donor {
            Some(donor) => {
                for name in ["attn_k", "attn_v", "attn_k_norm"] {
                    self.weights.ignore(&named(index, name));
                }
                let rows = self.ropes.get(layer.rope).and_then(|rope| rope.rows.clone());
                let q = rows.map_or_else(|| q.clone(), |rows| self.graph.rope_alone(&q, &rows));
                let (kept, caches) = self.kept.get(donor).cloned().ok_or_else(|| Error::Value {
                    key: format!("{}.attention.shared_kv_layers", self.config.architecture.name()),
                    found: donor.to_string(),
                    expected: "a layer before".to_owned(),
                })?;
                (q, kept, caches)
            }
            None => {
                let (q, kept) = self.keys_and_values(index, layer, q, &x, &importance)?;
                let count = u64::from(self.config.max_context) * u64::from(kv_heads) * u64::from(head_dim);
                let zeros = self.weights.zeros(count)?;
                let dims = [1, self.config.max_context, kv_heads, head_dim];
                let dtype = self.weights.dtype();
                (q, kept, [0; 2].map(|_| self.graph.constant(dtype, &dims, &zeros)))
            }
        };
        self.kept.push(([k.clone(), v.clone()], caches));
        let mask = layer.window.filter(|&window| window < self.config.max_context).and(self.mask.as_ref());
        let out = self.graph.attention([&q, &k, &v], caches, self.start, mask);
        let out = self.graph.view(&out, &[rows]);
        let matrix = self.matrix(&named(index, "attn_output"), [hidden, rows], None)?;
        Ok(self.graph.linear(&out, &matrix))
    }

    fn keys_and_values(
        &mut self,
        index: usize,
        layer: &Layer,
        q: Tensor,
        x: &Tensor,
        importance: &[f32],
    ) -> Result<(Tensor, [Tensor; 2])> {
        let sizes = [layer.kv_heads, layer.head_dim];
        let gemma4 = self.config.architecture == Architecture::Gemma4;
        let raw = self.heads(&named(index, "attn_k"), x, sizes, importance)?;
        // Gemma 4 may do without values of their own.
        let v = if gemma4 && !self.weights.has(&named(index, "attn_v")) {
            raw.clone()
        } else {
            self.heads(&named(index, "attn_v"), x, sizes, importance)?
        };
        let k = self.head_norm(index, "attn_k_norm", raw, 1.0)?;
        let v = self.plain_eps.clone().map_or_else(|| v.clone(), |eps| self.graph.plain_norm(&v, &eps));
        let neighbours = self.config.ropes.get(layer.rope).is_some_and(|rope| rope.neighbours);
        let Some(rope) = self.ropes.get(layer.rope) else { return Ok((q, [k, v])) };
        let [q, k] = match (&rope.rows, neighbours) {
            (Some(rows), true) => self.graph.rope_neighbours(&q, &k, rows),
            _ => self.graph.rope_halves(&q, &k, &rope.tables, self.start),
        };
        Ok((q, [k, v]))
    }

    /// What attention's own scale, 1/√D, has to be multiplied by: it stands in the norm of the queries, since upstream's runtime
    /// takes no other scale.
    fn query_factor(&self, layer: &Layer) -> f64 {
        let own = f64::from(layer.head_dim).sqrt();
        match self.config.architecture {
            Architecture::Gemma4 => own,
            // The one with 27 billion weights scales by the width of a head as if heads made up the hidden size.
            Architecture::Gemma3 if self.config.layers.len() == 62 => {
                own / (f64::from(self.config.hidden) / f64::from(layer.heads)).sqrt()
            }
            _ => 1.0,
        }
    }

    /// A projection, as heads.
    fn heads(
        &mut self,
        name: &str,
        x: &Tensor,
        [heads, head_dim]: [u32; 2],
        importance: &[f32],
    ) -> Result<Tensor> {
        let rows = heads.saturating_mul(head_dim);
        let matrix = self.matrix(name, [rows, self.config.hidden], Some(importance))?;
        let out = self.graph.linear(x, &matrix);
        Ok(self.graph.view(&out, &[heads, head_dim]))
    }

    fn head_norm(&mut self, index: usize, name: &str, x: Tensor, factor: f64) -> Result<Tensor> {
        if self.config.architecture == Architecture::Llama {
            return Ok(x);
        }
        let weight = self.norm_weight(&named(index, name), x.width(), factor)?;
        Ok(self.graph.rms_norm(&x, weight, self.config.eps))
    }

    fn feed_forward(&mut self, index: usize, layer: &Layer, x: &Tensor) -> Result<Tensor> {
        let hidden = self.config.hidden;
        let (x, importance) = self.normed(&named(index, "ffn_norm"), x)?;
        let gate = self.matrix(&named(index, "ffn_gate"), [layer.ffn, hidden], Some(&importance))?;
        let up = self.matrix(&named(index, "ffn_up"), [layer.ffn, hidden], Some(&importance))?;
        let down = self.matrix(&named(index, "ffn_down"), [hidden, layer.ffn], None)?;
        let gate = self.graph.linear(&x, &gate);
        let gate = match self.config.architecture {
            Architecture::Gemma3 | Architecture::Gemma4 => self.graph.gelu(&gate),
            Architecture::Llama | Architecture::Qwen3 => self.graph.silu(&gate),
        };
        let up = self.graph.linear(&x, &up);
        let gated = self.graph.mul(&gate, &up);
        Ok(self.graph.linear(&gated, &down))
    }

    fn logits(&mut self, x: &Tensor, head: &Matrix) -> Result<Tensor> {
        let last = self.graph.last(x);
        let (normed, _) = self.normed("output_norm.weight", &last)?;
        let logits = self.graph.linear(&normed, head);
        let Some(cap) = self.config.softcap else { return Ok(logits) };
        let cap = self.scalar(cap)?;
        let part = self.graph.div(&logits, &cap);
        let part = self.graph.tanh(&part);
        Ok(self.graph.mul(&part, &cap))
    }

    fn matrix(&mut self, name: &str, sizes: [u32; 2], importance: Option<&[f32]>) -> Result<Matrix> {
        self.weights.matrix(&mut self.graph, name, sizes, self.storage, importance)
    }

    /// The weight of a norm, times `factor`.
    fn norm_weight(&mut self, name: &str, length: u32, factor: f64) -> Result<ValueId> {
        let floats = self.weights.floats(name, length)?;
        #[expect(clippy::cast_possible_truncation, reason = "weights are f32")]
        let floats: Vec<f32> = floats.iter().map(|&weight| (f64::from(weight) * factor) as f32).collect();
        let kept = self.weights.keep(&floats)?;
        let dtype = self.weights.dtype();
        Ok(self.graph.constant(dtype, &[length], &kept))
    }

    /// A number as a tensor of rank 0.
    fn scalar(&mut self, value: f64) -> Result<Tensor> {
        #[expect(clippy::cast_possible_truncation, reason = "constants are f32")]
        let kept = self.weights.keep(&[value as f32])?;
        Ok(self.graph.prepacked(&[], &kept))
    }
}

fn named(index: usize, part: &str) -> String {
    format!("blk.{index}.{part}.weight")
}

fn squares(weights: &[f32]) -> Vec<f32> {
    weights.iter().map(|weight| weight * weight).collect()
}

fn sizes(name: &str, found: &[u64], expected: &[u64]) -> Error {
    Error::Sizes { name: name.to_owned(), found: found.to_vec(), expected: expected.to_vec() }
}
