//! Calls of the operators that decoders are made of, with the arguments that upstream's exporter gives them.

use etvk_vkgraph::{DType, GraphBuilder, ValueId};

use crate::constants::Kept;

/// A tensor that a call writes or the host gives. Its second dimension is the number of tokens where it has that many.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) id: ValueId,
    pub(crate) dims: Vec<u32>,
}

impl Tensor {
    /// Size of the last dimension.
    pub(crate) fn width(&self) -> u32 {
        self.dims.last().copied().unwrap_or(1)
    }
}

/// A table in the form that its operator takes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lookup {
    /// 4-bit codes [V, E/2] and scales [V, E/group].
    Bits4 { codes: ValueId, scales: ValueId, group: u32 },
    /// Floats [V, E].
    Float { weight: ValueId },
}

/// A matrix in the form that its operator takes.
#[derive(Clone, Debug)]
pub(crate) enum Matrix {
    /// 4-bit codes [N, K/2] and scales [K/group, N].
    Bits4 { codes: ValueId, scales: ValueId, group: u32, rows: u32 },
    /// As [`Matrix::Bits4`], with the sums of the codes of each group [K/group, N].
    Dynamic8Bits4 { codes: ValueId, sums: ValueId, scales: ValueId, group: u32, rows: u32 },
    /// 8-bit codes [N, K] and scales [N].
    Bits8 { codes: ValueId, scales: ValueId, rows: u32 },
    /// Floats [N, K].
    Float { weight: ValueId, rows: u32 },
    /// Rows of one matrix after the other.
    Parts(Vec<Matrix>),
}

impl Matrix {
    fn rows(&self) -> u32 {
        match self {
            Self::Bits4 { rows, .. }
            | Self::Dynamic8Bits4 { rows, .. }
            | Self::Bits8 { rows, .. }
            | Self::Float { rows, .. } => *rows,
            Self::Parts(parts) => parts.iter().map(Self::rows).sum(),
        }
    }
}

/// A graph under construction. Constants are copied to the device before all else.
pub(crate) struct Graph {
    builder: GraphBuilder,
    dtype: DType,
    prepacks: Vec<[ValueId; 2]>,
    calls: Vec<(&'static str, Vec<ValueId>)>,
    /// Most tokens of an execution.
    tokens: u32,
    /// Their number.
    count: ValueId,
}

impl Graph {
    /// A graph with the inputs `tokens` int64 [1, `bound`] and `input_pos` int64 [1]; also returns them. Floats are `dtype`.
    pub(crate) fn new(dtype: DType, bound: u32) -> (Self, ValueId, ValueId) {
        let mut builder = GraphBuilder::with_buffers();
        let ids = builder.input(DType::Int32, &[1, bound]);
        let input_pos = builder.input(DType::Int32, &[1]);
        let count = builder.sym_int();
        let mut graph =
            Self { builder, dtype, prepacks: Vec::new(), calls: Vec::new(), tokens: bound, count };
        let one = graph.builder.int(1);
        graph.call("sym_size.int", &[ids, one, count]);
        let start = graph.builder.sym_int();
        let zero = graph.builder.int(0);
        graph.call("et_vk.select_as_symint.default", &[input_pos, zero, zero, start]);
        (graph, ids, start)
    }

    /// The payload; its constants are kept elsewhere.
    pub(crate) fn finish(mut self, output: &Tensor) -> Vec<u8> {
        for prepack in &self.prepacks {
            self.builder.call("et_vk.prepack.default", prepack);
        }
        for (name, args) in &self.calls {
            self.builder.call(*name, args);
        }
        self.builder.outputs(&[output.id]);
        self.builder.finish_named().0
    }

    fn call(&mut self, name: &'static str, args: &[ValueId]) {
        self.calls.push((name, args.to_vec()));
    }

    fn tensor(&mut self, dims: &[u32]) -> Tensor {
        Tensor { id: self.builder.tensor(self.dtype, dims), dims: dims.to_vec() }
    }

    /// Appends a call with one output, its last argument.
    fn output(&mut self, name: &'static str, args: &[ValueId], dims: &[u32]) -> Tensor {
        let out = self.tensor(dims);
        let mut args = args.to_vec();
        args.push(out.id);
        self.call(name, &args);
        out
    }

    /// A constant that operators read where it lies.
    pub(crate) fn constant(&mut self, dtype: DType, dims: &[u32], kept: &Kept) -> ValueId {
        self.builder.kept_constant(dtype, dims, &*kept.key, kept.length)
    }

    /// A constant that is copied to the device first, for operators that take tensors only.
    pub(crate) fn prepacked(&mut self, dims: &[u32], kept: &Kept) -> Tensor {
        let constant = self.constant(self.dtype, dims, kept);
        let out = self.tensor(dims);
        self.prepacks.push([constant, out.id]);
        out
    }

    /// The sum of two host integers.
    pub(crate) fn end(&mut self, start: ValueId) -> ValueId {
        let end = self.builder.sym_int();
        self.call("add", &[start, self.count, end]);
        end
    }

    /// Rows of an embedding table [V, E] for the ids: [1, S, E].
    pub(crate) fn embedding(&mut self, table: Lookup, ids: ValueId, width: u32) -> Tensor {
        let dims = [1, self.tokens, width];
        match table {
            Lookup::Bits4 { codes, scales, group } => {
                let (group, linear) = (self.builder.int(group.into()), self.builder.bool(true));
                self.output("et_vk.embedding_q4gsw.default", &[codes, scales, group, ids, linear], &dims)
            }
            Lookup::Float { weight } => {
                let (padding, no) = (self.builder.int(-1), self.builder.bool(false));
                self.output("aten.embedding.default", &[weight, ids, padding, no, no], &dims)
            }
        }
    }

    /// `x · wᵀ`: [.., K] to [.., N].
    pub(crate) fn linear(&mut self, x: &Tensor, matrix: &Matrix) -> Tensor {
        let mut dims = x.dims.clone();
        if let Some(last) = dims.last_mut() {
            *last = matrix.rows();
        }
        match *matrix {
            Matrix::Parts(ref parts) => {
                let parts: Vec<ValueId> = parts.iter().map(|part| self.linear(x, part).id).collect();
                let (list, last) = (self.builder.value_list(&parts), self.builder.int(-1));
                self.output("aten.cat.default", &[list, last], &dims)
            }
            Matrix::Bits4 { codes, scales, group, .. } => {
                let (group, bias) = (self.builder.int(group.into()), self.builder.null());
                self.output("et_vk.linear_q4gsw.default", &[x.id, codes, scales, group, bias], &dims)
            }
            Matrix::Dynamic8Bits4 { codes, sums, scales, group, .. } => {
                let [scale, zero] = self.qparams(x);
                let (group, bias) = (self.builder.int(group.into()), self.builder.null());
                let args = [x.id, scale, zero, codes, sums, scales, group, bias];
                self.output("et_vk.linear_dq8ca_q4gsw.default", &args, &dims)
            }
            Matrix::Bits8 { codes, scales, .. } => {
                self.output("aten._weight_int8pack_mm.default", &[x.id, codes, scales], &dims)
            }
            Matrix::Float { weight, .. } => {
                let bias = self.builder.null();
                self.output("aten.linear.default", &[x.id, weight, bias], &dims)
            }
        }
    }

    /// Scale and zero point of each row of `x`, for 8-bit activations.
    fn qparams(&mut self, x: &Tensor) -> [ValueId; 2] {
        let rows = x.dims.get(..x.dims.len().saturating_sub(1)).unwrap_or_default().to_vec();
        let mut block: Vec<i64> = vec![1; rows.len()];
        block.push(x.width().into());
        let kind = self.builder.string("ASYMMETRIC");
        let block = self.builder.int_list(&block);
        let [low, high] = [-128, 127].map(|bound| self.builder.int(bound));
        let [target, eps, scale_dtype, zero_dtype] = std::array::from_fn(|_| self.builder.null());
        let keep = self.builder.bool(false);
        let scale = self.builder.tensor(DType::Float32, &rows);
        let zero = self.builder.tensor(DType::Int8, &rows);
        let outputs = self.builder.value_list(&[scale, zero]);
        let args = [x.id, kind, block, target, low, high, eps, scale_dtype, zero_dtype, keep, outputs];
        self.call("torchao.choose_qparams_affine.default", &args);
        [scale, zero]
    }

    /// [1, S, N] as [1, S, `dims`…].
    pub(crate) fn view(&mut self, x: &Tensor, dims: &[u32]) -> Tensor {
        let mut sizes = vec![self.builder.int(1), self.count];
        sizes.extend(dims.iter().map(|&dim| self.builder.int(dim.into())));
        let sizes = self.builder.value_list(&sizes);
        let dims = [&[1, self.tokens], dims].concat();
        self.output("aten.view_copy.default", &[x.id, sizes], &dims)
    }

    /// `x / √(mean(x²) + eps) · weight` over the last dimension.
    pub(crate) fn rms_norm(&mut self, x: &Tensor, weight: ValueId, eps: f64) -> Tensor {
        let eps = self.builder.double(eps);
        self.output("et_vk.rms_norm.default", &[x.id, weight, eps], &x.dims)
    }

    /// As [`Graph::rms_norm`] without a weight, in the steps that upstream's exporter leaves of it; `eps` is [].
    pub(crate) fn plain_norm(&mut self, x: &Tensor, eps: &Tensor) -> Tensor {
        let squares = self.mul(x, x);
        let last = self.builder.int_list(&[-1]);
        let (keep, dtype) = (self.builder.bool(true), self.builder.null());
        let mut dims = x.dims.clone();
        if let Some(last) = dims.last_mut() {
            *last = 1;
        }
        let mean = self.output("aten.mean.dim", &[squares.id, last, keep, dtype], &dims);
        let sum = self.add(&mean, eps);
        let root = self.output("aten.rsqrt.default", &[sum.id], &dims);
        self.mul(x, &root)
    }

    pub(crate) fn add(&mut self, a: &Tensor, b: &Tensor) -> Tensor {
        let alpha = self.builder.int(1);
        self.output("aten.add.Tensor", &[a.id, b.id, alpha], &a.dims)
    }

    pub(crate) fn mul(&mut self, a: &Tensor, b: &Tensor) -> Tensor {
        self.output("aten.mul.Tensor", &[a.id, b.id], &a.dims)
    }

    pub(crate) fn div(&mut self, a: &Tensor, b: &Tensor) -> Tensor {
        self.output("aten.div.Tensor", &[a.id, b.id], &a.dims)
    }

    pub(crate) fn tanh(&mut self, x: &Tensor) -> Tensor {
        self.output("aten.tanh.default", &[x.id], &x.dims)
    }

    /// The tanh form of gelu.
    pub(crate) fn gelu(&mut self, x: &Tensor) -> Tensor {
        let form = self.builder.string("tanh");
        self.output("aten.gelu.default", &[x.id, form], &x.dims)
    }

    /// `x · sigmoid(x)`.
    pub(crate) fn silu(&mut self, x: &Tensor) -> Tensor {
        let sigmoid = self.output("aten.sigmoid.default", &[x.id], &x.dims);
        self.mul(x, &sigmoid)
    }

    /// `x` between −`bound` and `bound`.
    pub(crate) fn clamp(&mut self, x: &Tensor, bound: f64) -> Tensor {
        let [low, high] = [-bound, bound].map(|bound| self.builder.double(bound));
        self.output("aten.clamp.default", &[x.id, low, high], &x.dims)
    }

    /// Rows `start` to `end` of a table [P, W]: [S, W].
    pub(crate) fn rows(&mut self, table: &Tensor, [start, end]: [ValueId; 2]) -> Tensor {
        let (dim, step) = (self.builder.int(0), self.builder.int(1));
        let dims = [self.tokens, table.width()];
        self.output("aten.slice_copy.Tensor", &[table.id, dim, start, end, step], &dims)
    }

    /// The last token of [1, S, E]: [1, E].
    pub(crate) fn last(&mut self, x: &Tensor) -> Tensor {
        let (dim, index) = (self.builder.int(1), self.builder.int(-1));
        self.output("aten.select_copy.int", &[x.id, dim, index], &[1, x.width()])
    }

    /// Slice `index` of the first dimension.
    pub(crate) fn slice(&mut self, x: &Tensor, index: u32) -> Tensor {
        let (dim, index) = (self.builder.int(0), self.builder.int(index.into()));
        let dims = x.dims.get(1..).unwrap_or_default().to_vec();
        self.output("aten.select_copy.int", &[x.id, dim, index], &dims)
    }

    /// [1, S, L, W] as [L, 1, S, W].
    pub(crate) fn layers_first(&mut self, x: &Tensor) -> Tensor {
        let order = self.builder.int_list(&[2, 0, 1, 3]);
        let &[one, tokens, layers, width] = &*x.dims else { return x.clone() };
        self.output("aten.permute_copy.default", &[x.id, order], &[layers, one, tokens, width])
    }

    /// Rotates the halves of q and k [1, S, H, D] by tables [P, D] from row `start` on.
    pub(crate) fn rope_halves(
        &mut self,
        q: &Tensor,
        k: &Tensor,
        tables: &[Tensor; 2],
        start: ValueId,
    ) -> [Tensor; 2] {
        let [cos, sin] = tables;
        let outputs = [self.tensor(&q.dims), self.tensor(&k.dims)];
        let list = self.builder.value_list(&[outputs[0].id, outputs[1].id]);
        self.call("et_vk.apply_rotary_emb_hf.default", &[q.id, k.id, cos.id, sin.id, start, list]);
        outputs
    }

    /// Rotates neighbours of q and k [1, S, H, D] by rows of tables [S, D/2].
    pub(crate) fn rope_neighbours(&mut self, q: &Tensor, k: &Tensor, rows: &[Tensor; 2]) -> [Tensor; 2] {
        let [cos, sin] = rows;
        let outputs = [self.tensor(&q.dims), self.tensor(&k.dims)];
        let list = self.builder.value_list(&[outputs[0].id, outputs[1].id]);
        self.call("et_vk.apply_rotary_emb.default", &[q.id, k.id, cos.id, sin.id, list]);
        outputs
    }

    /// Rotates the halves of q [1, S, H, D] alone by rows of tables [S, D], in the steps that upstream's exporter leaves of
    /// it.
    pub(crate) fn rope_alone(&mut self, q: &Tensor, rows: &[Tensor; 2]) -> Tensor {
        let width = q.width();
        let half = width / 2;
        let mut dims = q.dims.clone();
        if let Some(last) = dims.last_mut() {
            *last = half;
        }
        let dim = self.builder.int(3);
        let [zero, one, middle, end] = [0, 1, half.into(), i64::MAX].map(|int| self.builder.int(int));
        let second = self.output("aten.slice_copy.Tensor", &[q.id, dim, middle, end, one], &dims);
        let second = self.output("aten.neg.default", &[second.id], &dims);
        let first = self.output("aten.slice_copy.Tensor", &[q.id, dim, zero, middle, one], &dims);
        let (list, last) = (self.builder.value_list(&[second.id, first.id]), self.builder.int(-1));
        let turned = self.output("aten.cat.default", &[list, last], &q.dims);
        let [cos, sin] = rows.each_ref().map(|rows| {
            let dims = [self.tokens, 1, width];
            self.output("aten.unsqueeze_copy.default", &[rows.id, one], &dims)
        });
        let (a, b) = (self.mul(q, &cos), self.mul(&turned, &sin));
        self.add(&a, &b)
    }

    /// Writes k and v [1, S, Hkv, D] into the caches at `start` and attends over what they hold then; the scale is 1/√D.
    /// `mask` is [S, context]; without one a token sees those before it.
    pub(crate) fn attention(
        &mut self,
        [q, k, v]: [&Tensor; 3],
        caches: [ValueId; 2],
        start: ValueId,
        mask: Option<&Tensor>,
    ) -> Tensor {
        let [k_cache, v_cache] = caches;
        let mask_id = mask.map_or_else(|| self.builder.null(), |mask| mask.id);
        let (dropout, causal) = (self.builder.int(0), self.builder.bool(mask.is_none()));
        let scale = self.builder.null();
        let args = [q.id, k.id, v.id, k_cache, v_cache, start, self.count, mask_id, dropout, causal, scale];
        self.output("sdpa_with_kv_cache.default", &args, &q.dims)
    }
}
