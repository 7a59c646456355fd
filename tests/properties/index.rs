//! Several index tensors at once, and rows of 4-bit tables with zero points.

use etvk_reference::Arg;
use etvk_tests::{Draw, Fill, Tolerance, Twin, property, result};
use etvk_vkgraph::{DType, GraphBuilder, ValueId};

use crate::source::Source;

const INDEX: &str = "aten.index.Tensor";
const EMBEDDING: &str = "quantized_decomposed.embedding_4bit.dtype";

/// Every operator these properties compare.
pub(crate) fn names() -> Vec<&'static str> {
    vec![INDEX, EMBEDDING]
}

fn indices(draw: &mut Draw<'_>, dims: &[u32], size: u32) -> Arg {
    let size = f64::from(size);
    let low = if draw.once_in(2) { -size } else { 0.0 };
    Arg::Tensor(draw.tensor(DType::Int32, dims, Fill::Uniform { low, high: size }))
}

#[test]
fn dimensions_indexed_together() -> anyhow::Result<()> {
    property(&[INDEX], 32, |draw| {
        let mut graph = GraphBuilder::new();
        let bound: Vec<u32> = draw.dims(2, 4).iter().map(|&size| size.max(1)).collect();
        let indexed: Vec<bool> = bound.iter().map(|_| !draw.once_in(3)).collect();
        let dtype = draw.pick(&[DType::Float32, DType::Float16, DType::Int32, DType::Bool]);
        let fill = Fill::Grid { low: -99.0, high: 99.0, step: 1.0 };
        let (source, x) = Source::new(draw, &mut graph, dtype, &bound, fill);
        let common = draw.dims(1, 2);
        let (mut items, mut shapes) = (Vec::new(), Vec::new());
        for &indexed in &indexed {
            if !indexed {
                items.push(graph.null());
                continue;
            }
            // Some of the indices broadcast.
            let dims = if draw.once_in(3) { vec![1; common.len()] } else { common.clone() };
            items.push(graph.input(DType::Int32, &dims));
            shapes.push(dims);
        }
        if shapes.is_empty() {
            return Ok(());
        }
        let given: Vec<usize> = (0..bound.len()).filter(|&dim| indexed[dim]).collect();
        let neighbours = given.windows(2).all(|pair| pair[1] == pair[0] + 1);
        let place = if neighbours { given[0] } else { 0 };
        let widest = shapes.iter().find(|dims| **dims == common).cloned();
        let widest = widest.unwrap_or_else(|| vec![1; common.len()]);
        let mut dims: Vec<u32> =
            (0..bound.len()).filter(|&dim| !indexed[dim]).map(|dim| bound[dim]).collect();
        dims.splice(place..place, widest.iter().copied());
        let (list, out) = (graph.value_list(&items), result(&mut graph, dtype, &dims));
        graph.call(INDEX, &[x, list, out]);
        graph.outputs(&[out]);
        let mut twin = Twin::new(&graph)?;
        for whole in [true, false, false] {
            let mut sizes = if whole { bound.clone() } else { draw.shrunk(&bound) };
            sizes.iter_mut().for_each(|size| *size = (*size).max(1));
            let current = if whole { common.clone() } else { draw.shrunk(&common) };
            let mut inputs = vec![source.arg(draw, &sizes)];
            for (dims, &dim) in shapes.iter().zip(&given) {
                let dims = if *dims == common { &current } else { dims };
                inputs.push(indices(draw, dims, sizes[dim]));
            }
            twin.run(&inputs, Tolerance::EXACT)?;
        }
        Ok(())
    })
}

#[test]
fn rows_of_a_table_of_four_bits() -> anyhow::Result<()> {
    property(&[EMBEDDING], 20, |draw| {
        let mut graph = GraphBuilder::new();
        let (rows, group, groups) = (draw.between(2, 30), draw.pick(&[16, 2, 6, 32]), draw.between(1, 4));
        let width = group * groups;
        let bytes = Fill::Grid { low: 0.0, high: 255.0, step: 1.0 };
        let table = draw.tensor(DType::UInt8, &[rows, width / 2], bytes).to_le_bytes();
        let mut table = graph.constant(DType::UInt8, &[rows, width / 2], table);
        if draw.once_in(2) {
            let packed = graph.tensor(DType::UInt8, &[rows, width / 2]);
            graph.call("et_vk.prepack.default", &[table, packed]);
            table = packed;
        }
        let scale = draw.float();
        let dims = if groups == 1 && draw.once_in(2) { vec![rows] } else { vec![rows, groups] };
        let scales = draw.tensor(scale, &dims, Fill::Uniform { low: 0.01, high: 0.2 }).to_le_bytes();
        let scales = graph.constant(scale, &dims, scales);
        let zeros = match draw.once_in(2) {
            false => graph.null(),
            true => {
                let fill = Fill::Grid { low: -3.0, high: 3.0, step: 1.0 };
                let zeros = draw.tensor(DType::Int8, &dims, fill).to_le_bytes();
                graph.constant(DType::Int8, &dims, zeros)
            }
        };
        let bound = draw.dims(0, 3);
        let x = graph.input(DType::Int32, &bound);
        let dtype = draw.float();
        let numbers: [ValueId; 2] = [graph.int(-8), graph.int(7)];
        let (null, out) = (graph.null(), result(&mut graph, dtype, &[&bound[..], &[width]].concat()));
        graph.call(EMBEDDING, &[table, scales, zeros, numbers[0], numbers[1], x, null, out]);
        graph.outputs(&[out]);
        let mut twin = Twin::new(&graph)?;
        for whole in [true, false, false] {
            let sizes = if whole { bound.clone() } else { draw.shrunk(&bound) };
            let input = indices(draw, &sizes, rows);
            twin.run(&[input], Tolerance::SINGLE)?;
        }
        Ok(())
    })
}

#[test]
fn an_index_out_of_range_is_told_with_its_dimension() -> anyhow::Result<()> {
    property(&[], 1, |_| {
        let mut graph = GraphBuilder::new();
        let x = graph.input(DType::Float32, &[3, 4]);
        let rows = graph.input(DType::Int32, &[2]);
        let columns = graph.input(DType::Int32, &[2]);
        let (list, out) = (graph.value_list(&[rows, columns]), graph.tensor(DType::Float32, &[2]));
        graph.call(INDEX, &[x, list, out]);
        graph.outputs(&[out]);
        let mut twin = Twin::new(&graph)?;
        let tape = [0; 8];
        let mut draw = Draw::new(&tape);
        let tensor = |draw: &mut Draw<'_>, dtype, dims: &[u32], value: f64| {
            Arg::Tensor(draw.tensor(dtype, dims, Fill::Grid { low: value, high: value, step: 1.0 }))
        };
        // 4 is no column, although element 4 of the merged dimensions exists.
        let inputs = [
            tensor(&mut draw, DType::Float32, &[3, 4], 1.0),
            tensor(&mut draw, DType::Int32, &[2], 0.0),
            tensor(&mut draw, DType::Int32, &[2], 4.0),
        ];
        let error = twin.refused(&inputs)?.to_string();
        proptest::prop_assert!(error.contains("index 4 is out of range for size 4"), "{error}");
        Ok(())
    })
}
