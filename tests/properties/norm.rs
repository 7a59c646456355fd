//! Normalisation of rows.

use etvk_reference::Arg;
use etvk_tests::{Draw, Fill, Outcome, Tolerance, Twin, property, result};
use etvk_vkgraph::{GraphBuilder, ValueId};

use crate::source::Source;

const RMS: &[&str] = &["aten.rms_norm.default", "et_vk.rms_norm.default"];

/// Every operator these properties compare.
pub(crate) fn names() -> Vec<&'static str> {
    RMS.iter().copied().chain(["aten.native_layer_norm.default"]).collect()
}

/// Sizes of a tensor whose rows are normalised; rows of none are not.
fn dims(draw: &mut Draw<'_>) -> Vec<u32> {
    let mut dims = draw.dims(0, 4);
    dims.push(draw.pick(&[5, 1, 3, 7, 8, 16, 33, 64, 100, 257, 640, 1030]));
    dims
}

/// The first of the dimensions that are normalised together: mostly the last one.
fn normalised(draw: &mut Draw<'_>, bound: &[u32]) -> usize {
    let last = bound.len() - 1;
    let most = bound.iter().rev().take_while(|&&size| size > 0).count();
    if draw.once_in(3) { last + 1 - most.min(3).min(1 + draw.below(3)) } else { last }
}

fn shape(graph: &mut GraphBuilder, dims: &[u32]) -> ValueId {
    let numbers: Vec<i64> = dims.iter().map(|&size| i64::from(size)).collect();
    graph.int_list(&numbers)
}

/// A weight or bias of a row: a constant of either type, an input, or, if it may be, none.
struct Operand {
    id: ValueId,
    input: Option<Source>,
}

impl Operand {
    fn new(draw: &mut Draw<'_>, graph: &mut GraphBuilder, dims: &[u32], optional: bool) -> Self {
        let (dtype, fill) = (draw.float(), Fill::UNIT);
        match draw.below(if optional { 4 } else { 3 }) {
            3 => Self { id: graph.null(), input: None },
            2 => {
                let (source, id) = Source::new(draw, graph, dtype, dims, fill);
                Self { id, input: Some(source) }
            }
            _ => {
                let bytes = draw.tensor(dtype, dims, fill).to_le_bytes();
                Self { id: graph.constant(dtype, dims, bytes), input: None }
            }
        }
    }
}

/// Executes at the bounds, then with fewer rows; dimensions from `first` on are normalised.
fn run(
    draw: &mut Draw<'_>,
    graph: &GraphBuilder,
    bound: &[u32],
    first: usize,
    x: &Source,
    others: &[&Operand],
) -> Outcome {
    let mut twin = Twin::new(graph)?;
    for whole in [true, false, false] {
        let mut sizes = if whole { bound.to_vec() } else { draw.shrunk(bound) };
        sizes[first..].copy_from_slice(&bound[first..]);
        let mut inputs: Vec<Arg> = vec![x.arg(draw, &sizes)];
        for operand in others.iter().filter_map(|operand| operand.input.as_ref()) {
            inputs.push(operand.arg(draw, &sizes[first..]));
        }
        twin.run(&inputs, Tolerance::SINGLE)?;
    }
    Ok(())
}

#[test]
fn root_mean_square() -> anyhow::Result<()> {
    for &name in RMS {
        property(&[name], 30, |draw| {
            let (bound, dtype) = (dims(draw), draw.float());
            let range = draw.pick(&[1.0, 0.01, 300.0, 6.0e4]);
            let mut graph = GraphBuilder::new();
            let fill = Fill::Uniform { low: -range, high: range };
            let (x, id) = Source::new(draw, &mut graph, dtype, &bound, fill);
            let optional = name == "aten.rms_norm.default";
            let first = if optional { normalised(draw, &bound) } else { bound.len() - 1 };
            let weight = Operand::new(draw, &mut graph, &bound[first..], optional);
            let eps = draw.pick(&[1e-6, 1e-5, 0.5]);
            let eps = if optional && draw.once_in(4) { graph.null() } else { graph.double(eps) };
            let out = result(&mut graph, dtype, &bound);
            if optional {
                let shape = shape(&mut graph, &bound[first..]);
                graph.call(name, &[id, shape, weight.id, eps, out]);
            } else {
                graph.call(name, &[id, weight.id, eps, out]);
            }
            graph.outputs(&[out]);
            run(draw, &graph, &bound, first, &x, &[&weight])
        })?;
    }
    Ok(())
}

#[test]
fn mean_and_variance() -> anyhow::Result<()> {
    let name = "aten.native_layer_norm.default";
    property(&[name], 30, |draw| {
        let (bound, dtype) = (dims(draw), draw.float());
        let mut graph = GraphBuilder::new();
        let fill = Fill::Uniform { low: -1.0, high: draw.pick(&[3.0, 1.0, 300.0]) };
        let (x, id) = Source::new(draw, &mut graph, dtype, &bound, fill);
        let first = normalised(draw, &bound);
        let operands = [(); 2].map(|()| Operand::new(draw, &mut graph, &bound[first..], true));
        let mut statistics = bound.clone();
        statistics[first..].fill(1);
        let outs = [&bound, &statistics, &statistics].map(|dims| result(&mut graph, dtype, dims));
        let (shape, eps) = (shape(&mut graph, &bound[first..]), graph.double(1e-5));
        let list = graph.value_list(&outs);
        graph.call(name, &[id, shape, operands[0].id, operands[1].id, eps, list]);
        graph.outputs(&outs[..if draw.once_in(2) { 3 } else { 1 }]);
        run(draw, &graph, &bound, first, &x, &[&operands[0], &operands[1]])
    })
}
