//! Rows and elements picked by an index.

use etvk_reference::Arg;
use etvk_tests::{Draw, Fill, Outcome, Tolerance, Twin, property, result};
use etvk_vkgraph::{DType, GraphBuilder, ValueId};

use crate::source::Source;

const NAMES: &[&str] = &[
    "aten.embedding.default",
    "aten.gather.default",
    "aten.index.Tensor",
    "aten.index_select.default",
    "et_vk.embedding_q4gsw.default",
];

/// Every operator these properties compare.
pub(crate) fn names() -> Vec<&'static str> {
    NAMES.to_vec()
}

/// Indices into `size` rows, negative ones among them.
fn indices(draw: &mut Draw<'_>, dtype: DType, dims: &[u32], size: u32) -> Arg {
    let size = f64::from(size);
    let low = if draw.once_in(2) { -size } else { 0.0 };
    Arg::Tensor(draw.tensor(dtype, dims, Fill::Uniform { low, high: size }))
}

fn index_type(draw: &mut Draw<'_>) -> DType {
    draw.pick(&[DType::Int32, DType::Int64])
}

/// Executes at several sizes of the indices into a constant table of `rows`.
fn run_indices(draw: &mut Draw<'_>, graph: &GraphBuilder, dtype: DType, bound: &[u32], rows: u32) -> Outcome {
    let mut twin = Twin::new(graph)?;
    for whole in [true, false, false] {
        let sizes = if whole { bound.to_vec() } else { draw.shrunk(bound) };
        let input = indices(draw, dtype, &sizes, rows);
        twin.run(&[input], Tolerance::SINGLE)?;
    }
    Ok(())
}

#[test]
fn rows_of_a_table() -> anyhow::Result<()> {
    let name = "aten.embedding.default";
    property(&[name], 16, |draw| {
        let mut graph = GraphBuilder::new();
        let (rows, width, index) = (draw.between(1, 40), draw.between(1, 35), index_type(draw));
        let dtype = draw.pick(&[DType::Float32, DType::Float16, DType::Int32]);
        let table = draw.tensor(dtype, &[rows, width], Fill::Uniform { low: -9.0, high: 9.0 }).to_le_bytes();
        let table = graph.constant(dtype, &[rows, width], table);
        let bound = draw.dims(0, 3);
        let x = graph.input(index, &bound);
        let (padding, no) = (graph.int(-1), graph.bool(false));
        let out = result(&mut graph, dtype, &[&bound[..], &[width]].concat());
        graph.call(name, &[table, x, padding, no, no, out]);
        graph.outputs(&[out]);
        run_indices(draw, &graph, index, &bound, rows)
    })
}

#[test]
fn rows_of_a_table_of_four_bits() -> anyhow::Result<()> {
    let name = "et_vk.embedding_q4gsw.default";
    property(&[name], 20, |draw| {
        let mut graph = GraphBuilder::new();
        let (rows, index) = (draw.between(2, 40), index_type(draw));
        let (group, groups) = (draw.pick(&[32, 2, 6, 8, 16]), draw.between(1, 5));
        let width = group * groups;
        let bytes = Fill::Grid { low: 0.0, high: 255.0, step: 1.0 };
        let table = draw.tensor(DType::UInt8, &[rows, width / 2], bytes).to_le_bytes();
        let table = graph.constant(DType::UInt8, &[rows, width / 2], table);
        let scale = draw.pick(&[DType::Float32, DType::Float16]);
        let scales_dims = if groups == 1 && draw.once_in(2) { vec![rows] } else { vec![rows, groups] };
        let scales = draw.tensor(scale, &scales_dims, Fill::Uniform { low: 0.01, high: 0.2 }).to_le_bytes();
        let scales = graph.constant(scale, &scales_dims, scales);
        let (group, linear) = (graph.int(i64::from(group)), graph.bool(draw.once_in(2)));
        let bound = draw.dims(0, 3);
        let x = graph.input(index, &bound);
        let dtype = draw.float();
        let out = result(&mut graph, dtype, &[&bound[..], &[width]].concat());
        graph.call(name, &[table, scales, group, x, linear, out]);
        graph.outputs(&[out]);
        run_indices(draw, &graph, index, &bound, rows)
    })
}

/// A tensor that is indexed in one dimension: as it reaches the operator, and how it changes.
struct Indexed {
    graph: GraphBuilder,
    dtype: DType,
    bound: Vec<u32>,
    dim: usize,
    x: ValueId,
    /// `None` for a constant.
    source: Option<Source>,
}

impl Indexed {
    fn new(draw: &mut Draw<'_>) -> Self {
        let (mut graph, mut bound) = (GraphBuilder::new(), draw.dims(1, 4));
        let dim = draw.below(bound.len());
        bound[dim] = bound[dim].max(1);
        let dtype = draw.pick(&[DType::Float32, DType::Float16, DType::Int32, DType::Bool]);
        let fill = Fill::Grid { low: -99.0, high: 99.0, step: 1.0 };
        if draw.once_in(3) {
            let bytes = draw.tensor(dtype, &bound, fill).to_le_bytes();
            let x = graph.constant(dtype, &bound, bytes);
            return Self { graph, dtype, bound, dim, x, source: None };
        }
        let (source, x) = Source::new(draw, &mut graph, dtype, &bound, fill);
        Self { graph, dtype, bound, dim, x, source: Some(source) }
    }

    /// Current sizes of x.
    fn sizes(&self, draw: &mut Draw<'_>, whole: bool) -> Vec<u32> {
        if whole || self.source.is_none() {
            return self.bound.clone();
        }
        let mut sizes = draw.shrunk(&self.bound);
        sizes[self.dim] = sizes[self.dim].max(1);
        sizes
    }

    /// x (unless a constant) and the indices, as inputs.
    fn inputs(&self, draw: &mut Draw<'_>, sizes: &[u32], index: DType, index_sizes: &[u32]) -> Vec<Arg> {
        let mut inputs: Vec<Arg> = self.source.iter().map(|source| source.arg(draw, sizes)).collect();
        inputs.push(indices(draw, index, index_sizes, sizes[self.dim]));
        inputs
    }

    fn dim_number(&self, draw: &mut Draw<'_>) -> i64 {
        let rank = i64::try_from(self.bound.len()).unwrap_or(0);
        i64::try_from(self.dim).unwrap_or(0) - if draw.once_in(2) { rank } else { 0 }
    }
}

#[test]
fn slices_of_a_dimension() -> anyhow::Result<()> {
    for name in ["aten.index_select.default", "aten.index.Tensor"] {
        property(&[name], 16, |draw| {
            let mut indexed = Indexed::new(draw);
            let index = index_type(draw);
            let many = name == "aten.index.Tensor" && draw.once_in(2);
            let index_bound = if many { draw.dims(1, 2) } else { vec![draw.between(0, 9)] };
            let number = indexed.dim_number(draw);
            let positions = indexed.graph.input(index, &index_bound);
            let (before, after) = (&indexed.bound[..indexed.dim], &indexed.bound[indexed.dim + 1..]);
            let dims = [before, &index_bound, after].concat();
            let out = result(&mut indexed.graph, indexed.dtype, &dims);
            if name == "aten.index.Tensor" {
                let mut items: Vec<ValueId> = (0..indexed.dim).map(|_| indexed.graph.null()).collect();
                items.push(positions);
                let list = indexed.graph.value_list(&items);
                indexed.graph.call(name, &[indexed.x, list, out]);
            } else {
                let number = indexed.graph.int(number);
                indexed.graph.call(name, &[indexed.x, number, positions, out]);
            }
            indexed.graph.outputs(&[out]);
            let mut twin = Twin::new(&indexed.graph)?;
            for whole in [true, false, false] {
                let sizes = indexed.sizes(draw, whole);
                let index_sizes = if whole { index_bound.clone() } else { draw.shrunk(&index_bound) };
                let inputs = indexed.inputs(draw, &sizes, index, &index_sizes);
                twin.run(&inputs, Tolerance::EXACT)?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn single_elements() -> anyhow::Result<()> {
    let name = "aten.gather.default";
    property(&[name], 16, |draw| {
        let mut indexed = Indexed::new(draw);
        let index = index_type(draw);
        let mut index_bound: Vec<u32> =
            indexed.bound.iter().map(|&size| if draw.once_in(3) { size / 2 } else { size }).collect();
        index_bound[indexed.dim] = draw.between(1, 9);
        let number = indexed.dim_number(draw);
        let positions = indexed.graph.input(index, &index_bound);
        let (number, no) = (indexed.graph.int(number), indexed.graph.bool(false));
        let out = result(&mut indexed.graph, indexed.dtype, &index_bound);
        indexed.graph.call(name, &[indexed.x, number, positions, no, out]);
        indexed.graph.outputs(&[out]);
        let mut twin = Twin::new(&indexed.graph)?;
        for whole in [true, false, false] {
            let sizes = indexed.sizes(draw, whole);
            let mut index_sizes = if whole { index_bound.clone() } else { draw.shrunk(&index_bound) };
            for (dim, size) in index_sizes.iter_mut().enumerate() {
                if dim != indexed.dim {
                    *size = (*size).min(sizes[dim]);
                }
            }
            let inputs = indexed.inputs(draw, &sizes, index, &index_sizes);
            twin.run(&inputs, Tolerance::EXACT)?;
        }
        Ok(())
    })
}
