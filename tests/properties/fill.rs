//! Tensors of one value.

use etvk_reference::Arg;
use etvk_tests::{Draw, Fill, Outcome, Tolerance, Twin, property, result};
use etvk_vkgraph::{DType, GraphBuilder, ValueId};

const SIZED: &[&str] = &["aten.full.default", "aten.ones.default", "aten.zeros.default"];
const LIKE: &[&str] = &["aten.full_like.default", "aten.ones_like.default", "aten.zeros_like.default"];

/// Every operator these properties compare.
pub(crate) fn names() -> Vec<&'static str> {
    [SIZED, LIKE, &["aten.scalar_tensor.default"]].concat()
}

fn run(draw: &mut Draw<'_>, graph: &GraphBuilder, dtype: DType, bound: &[u32]) -> Outcome {
    let mut twin = Twin::new(graph)?;
    for whole in [true, false, false] {
        let sizes = if whole { bound.to_vec() } else { draw.shrunk(bound) };
        twin.run(&[Arg::Tensor(draw.tensor(dtype, &sizes, Fill::UNIT))], Tolerance::EXACT)?;
    }
    Ok(())
}

/// The value in terms of its type, then what a runtime does not need to know.
fn finish(draw: &mut Draw<'_>, graph: &mut GraphBuilder, name: &str, mut args: Vec<ValueId>, bound: &[u32]) {
    let dtype = draw.pick(&[DType::Float32, DType::Int32, DType::Float16, DType::Bool, DType::Int64]);
    if name.contains("full") || name.contains("scalar") {
        let value = if dtype == DType::Bool { 1.0 } else { draw.pick(&[2.0, 0.0, -3.0]) };
        let half = if dtype.is_float() && draw.once_in(2) { 0.5 } else { 0.0 };
        args.push(graph.double(value + half));
    }
    args.extend((0..4).map(|_| graph.null()));
    let out = result(graph, dtype, bound);
    args.push(out);
    graph.call(name, &args);
    graph.outputs(&[out]);
}

#[test]
fn of_given_sizes() -> anyhow::Result<()> {
    for &name in SIZED {
        property(&[name], 8, |draw| {
            // Some sizes are those of an input.
            let (bound, mut graph) = (draw.dims(0, 4), GraphBuilder::new());
            let x = graph.input(DType::Float32, &bound);
            let mut items = Vec::new();
            for dim in 0..bound.len() {
                let (dim, size) = (graph.int(i64::try_from(dim).unwrap_or(0)), graph.sym_int());
                graph.call("sym_size.int", &[x, dim, size]);
                items.push(size);
            }
            let added = draw.between(1, 3);
            items.push(graph.int(i64::from(added)));
            let list =
                if bound.is_empty() { graph.int_list(&[i64::from(added)]) } else { graph.value_list(&items) };
            let dims = [&bound[..], &[added]].concat();
            finish(draw, &mut graph, name, vec![list], &dims);
            run(draw, &graph, DType::Float32, &bound)
        })?;
    }
    Ok(())
}

#[test]
fn of_the_sizes_of_another() -> anyhow::Result<()> {
    for &name in LIKE {
        property(&[name], 6, |draw| {
            let (bound, mut graph) = (draw.dims(0, 5), GraphBuilder::new());
            let dtype = draw.pick(&[DType::Float32, DType::Int32]);
            let x = graph.input(dtype, &bound);
            finish(draw, &mut graph, name, vec![x], &bound);
            run(draw, &graph, dtype, &bound)
        })?;
    }
    Ok(())
}

#[test]
fn of_no_dimensions() -> anyhow::Result<()> {
    property(&["aten.scalar_tensor.default"], 6, |draw| {
        let mut graph = GraphBuilder::new();
        graph.input(DType::Float32, &[1]);
        finish(draw, &mut graph, "aten.scalar_tensor.default", Vec::new(), &[]);
        run(draw, &graph, DType::Float32, &[1])
    })
}
