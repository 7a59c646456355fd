//! Decoder layers with all passes, with each one left out and with none: the CPU twin runs every operator by itself.

use etvk_engine::Passes;
use etvk_reference::Arg;
use etvk_tests::{Draw, Fill, Outcome, Tolerance, Twin, property, result};
use etvk_vkgraph::{DType, GraphBuilder, ValueId};

const NAMES: &[&str] = &[
    "aten.add.Tensor",
    "aten.clamp.default",
    "aten.gelu.default",
    "aten.mul.Tensor",
    "aten.sigmoid.default",
    "aten.view_copy.default",
    "et_vk.apply_rotary_emb_hf.default",
    "et_vk.linear_q4gsw.default",
    "et_vk.rms_norm.default",
    "sdpa_with_kv_cache.default",
];

/// A decoder layer under construction. Widths that are whole tiles can be joined, the others cannot.
struct Layer {
    graph: GraphBuilder,
    dtype: DType,
    rows: u32,
    hidden: u32,
    heads: [u32; 2],
    width: u32,
    capacity: u32,
    start: ValueId,
}

impl Layer {
    fn new(draw: &mut Draw<'_>) -> Self {
        let mut graph = GraphBuilder::new();
        let start = graph.sym_int_input();
        let width = draw.pick(&[32, 64, 16, 12]);
        let heads = draw.pick(&[[2, 2], [4, 1], [4, 2], [1, 1]]);
        let (rows, hidden) = (draw.pick(&[3, 1, 9, 7, 40]), draw.pick(&[64, 32, 128, 96]));
        Self { graph, dtype: draw.float(), rows, hidden, heads, width, capacity: 48, start }
    }

    fn out(&mut self, dims: &[u32]) -> ValueId {
        result(&mut self.graph, self.dtype, dims)
    }

    fn constant(&mut self, draw: &mut Draw<'_>, dims: &[u32], fill: Fill) -> ValueId {
        let bytes = draw.tensor(DType::Float32, dims, fill).to_le_bytes();
        self.graph.constant(DType::Float32, dims, bytes)
    }

    fn linear(&mut self, draw: &mut Draw<'_>, x: ValueId, k: u32, n: u32) -> ValueId {
        const SCALES: Fill = Fill::Uniform { low: 0.002, high: 0.03 };
        const BYTES: Fill = Fill::Grid { low: 0.0, high: 255.0, step: 1.0 };
        let row = k.next_multiple_of(8) / 2;
        let codes = draw.tensor(DType::UInt8, &[n, row], BYTES).to_le_bytes();
        let weight = self.graph.constant(DType::UInt8, &[n, row], codes);
        let dims = [k / 4, n.next_multiple_of(4)];
        let scales = draw.tensor(DType::Float16, &dims, SCALES).to_le_bytes();
        let scales = self.graph.constant(DType::Float16, &dims, scales);
        let group = if k.is_multiple_of(16) { 16 } else { 4 };
        let (group, bias) = (self.graph.int(group), self.graph.null());
        let out = self.out(&[1, self.rows, n]);
        self.graph.call("et_vk.linear_q4gsw.default", &[x, weight, scales, group, bias, out]);
        out
    }

    fn norm(&mut self, draw: &mut Draw<'_>, x: ValueId, dims: &[u32]) -> ValueId {
        let width = dims[dims.len() - 1];
        let weight = self.constant(draw, &[width], Fill::Uniform { low: 0.5, high: 1.5 });
        let (eps, out) = (self.graph.double(1e-6), self.out(dims));
        self.graph.call("et_vk.rms_norm.default", &[x, weight, eps, out]);
        out
    }

    fn view(&mut self, x: ValueId, dims: &[u32]) -> ValueId {
        let size = |(d, &size): (usize, &u32)| if d == 1 { -1 } else { i64::from(size) };
        let sizes: Vec<i64> = dims.iter().enumerate().map(size).collect();
        let (list, out) = (self.graph.int_list(&sizes), self.out(dims));
        self.graph.call("aten.view_copy.default", &[x, list, out]);
        out
    }

    fn binary(&mut self, name: &str, a: ValueId, b: ValueId, dims: &[u32]) -> ValueId {
        let out = self.out(dims);
        let args =
            if name == "aten.add.Tensor" { vec![a, b, self.graph.int(1), out] } else { vec![a, b, out] };
        self.graph.call(name, &args);
        out
    }

    /// The heads of a product, perhaps normalised.
    fn heads_of(&mut self, draw: &mut Draw<'_>, x: ValueId, heads: u32) -> ValueId {
        let dims = [1, self.rows, heads, self.width];
        let product = self.linear(draw, x, self.hidden, heads * self.width);
        let heads = self.view(product, &dims);
        if draw.once_in(3) { heads } else { self.norm(draw, heads, &dims) }
    }

    fn attention(&mut self, draw: &mut Draw<'_>, x: ValueId) -> ValueId {
        let [many, few] = self.heads;
        let (q, k) = (self.heads_of(draw, x, many), self.heads_of(draw, x, few));
        let v = self.heads_of(draw, x, few);
        let tables = [(); 2].map(|()| self.constant(draw, &[self.capacity, self.width], Fill::UNIT));
        let dims = [many, few].map(|heads| [1, self.rows, heads, self.width]);
        let rotated = [self.out(&dims[0]), self.out(&dims[1])];
        let list = self.graph.value_list(&rotated);
        let rope = [q, k, tables[0], tables[1], self.start, list];
        self.graph.call("et_vk.apply_rotary_emb_hf.default", &rope);
        let cache = [1, self.capacity, few, self.width];
        let zeros = Fill::Grid { low: 0.0, high: 0.0, step: 1.0 };
        let caches = [(); 2].map(|()| self.constant(draw, &cache, zeros));
        let length = self.graph.int(1);
        let nulls = [(); 4].map(|()| self.graph.null());
        let out = self.out(&dims[0]);
        let head = [rotated[0], rotated[1], v, caches[0], caches[1], self.start, length];
        self.graph.call("sdpa_with_kv_cache.default", &[&head[..], &nulls, &[out]].concat());
        let joined = self.view(out, &[1, self.rows, many * self.width]);
        self.linear(draw, joined, many * self.width, self.hidden)
    }

    /// base + branch, perhaps of a normalised branch, clamped and scaled.
    fn residual(&mut self, draw: &mut Draw<'_>, base: ValueId, branch: ValueId) -> ValueId {
        let dims = [1, self.rows, self.hidden];
        let branch = if draw.once_in(2) { self.norm(draw, branch, &dims) } else { branch };
        let operands = if draw.once_in(2) { [base, branch] } else { [branch, base] };
        let mut sum = self.binary("aten.add.Tensor", operands[0], operands[1], &dims);
        if draw.once_in(2) {
            let (low, high, out) = (self.graph.double(-2.0), self.graph.double(2.0), self.out(&dims));
            self.graph.call("aten.clamp.default", &[sum, low, high, out]);
            sum = out;
        }
        if draw.once_in(2) {
            let factor = self.constant(draw, &[1], Fill::Uniform { low: 0.5, high: 1.5 });
            sum = self.binary("aten.mul.Tensor", sum, factor, &dims);
        }
        sum
    }

    fn activated(&mut self, draw: &mut Draw<'_>, x: ValueId, dims: &[u32]) -> ValueId {
        let out = self.out(dims);
        if draw.once_in(3) {
            self.graph.call("aten.sigmoid.default", &[x, out]);
            return self.binary("aten.mul.Tensor", x, out, dims);
        }
        let mode = self.graph.string(draw.pick(&["tanh", "none"]));
        self.graph.call("aten.gelu.default", &[x, mode, out]);
        out
    }

    /// act(gate) · up
    fn feed_forward(&mut self, draw: &mut Draw<'_>, x: ValueId) -> ValueId {
        let n = draw.pick(&[64, 128, 48]);
        let dims = [1, self.rows, n];
        let gate = self.linear(draw, x, self.hidden, n);
        let up = self.linear(draw, x, self.hidden, n);
        let gate = self.activated(draw, gate, &dims);
        let product = self.binary("aten.mul.Tensor", gate, up, &dims);
        self.linear(draw, product, n, self.hidden)
    }

    /// A whole layer over the residual stream `h`.
    fn layer(&mut self, draw: &mut Draw<'_>, h: ValueId) -> ValueId {
        let dims = [1, self.rows, self.hidden];
        let normed = self.norm(draw, h, &dims);
        let attended = self.attention(draw, normed);
        let h = self.residual(draw, h, attended);
        let normed = self.norm(draw, h, &dims);
        let fed = self.feed_forward(draw, normed);
        self.residual(draw, h, fed)
    }
}

fn layers(draw: &mut Draw<'_>, passes: impl Fn(&mut Draw<'_>) -> Passes) -> Outcome {
    let mut layer = Layer::new(draw);
    let mut h = layer.graph.input(DType::Float32, &[1, layer.rows, layer.hidden]);
    for _ in 0..draw.between(1, 2) {
        h = layer.layer(draw, h);
    }
    layer.graph.outputs(&[h]);
    let mut twin = Twin::with(&layer.graph, passes(draw))?;
    let mut start = 0;
    for rows in [layer.rows, 1, 1, layer.rows.min(2)] {
        let x = draw.tensor(DType::Float32, &[1, rows, layer.hidden], Fill::UNIT);
        twin.run(&[Arg::Int(start), Arg::Tensor(x)], Tolerance::HALVES)?;
        start += i64::from(rows);
    }
    Ok(())
}

#[test]
fn decoder_layers_with_all_passes() -> anyhow::Result<()> {
    property(NAMES, 24, |draw| layers(draw, |_| Passes::all()))
}

#[test]
fn decoder_layers_with_a_pass_left_out() -> anyhow::Result<()> {
    property(NAMES, 24, |draw| {
        layers(draw, |draw| {
            let names: Vec<&str> = Passes::names().collect();
            Passes::all().without(draw.pick(&names)).unwrap_or_default()
        })
    })
}

#[test]
fn decoder_layers_without_passes() -> anyhow::Result<()> {
    property(NAMES, 12, |draw| layers(draw, |_| Passes::none()))
}

/// What the passes are for: a decode step of one layer in few dispatches.
#[test]
fn a_layer_is_few_dispatches() -> anyhow::Result<()> {
    let mut counts = Vec::new();
    for passes in [Passes::all(), Passes::none()] {
        let mut draw = Draw::new(&[]);
        let mut layer = Layer::new(&mut draw);
        let x = layer.graph.input(DType::Float32, &[1, layer.rows, layer.hidden]);
        let h = layer.layer(&mut draw, x);
        layer.graph.outputs(&[h]);
        let mut twin = Twin::with(&layer.graph, passes).map_err(|error| anyhow::anyhow!("{error}"))?;
        let x = draw.tensor(DType::Float32, &[1, 1, layer.hidden], Fill::UNIT);
        twin.execute(&[Arg::Int(0), Arg::Tensor(x)])?;
        counts.push(twin.executor().counters().dispatches);
    }
    // Norm and q, k, v; heads; attention; o; sum, norm and gate · up; down; sum.
    anyhow::ensure!(counts[0] <= 8 && counts[1] >= 20, "{counts:?}");
    Ok(())
}
