//! Normalisation of channels.

use etvk_reference::Arg;
use etvk_tests::{Draw, Fill, Outcome, Tolerance, Twin, property, result};
use etvk_vkgraph::{DType, GraphBuilder, ValueId};

use crate::source::Source;

const BATCH: &str = "aten._native_batch_norm_legit_no_training.default";
const GROUP: &str = "aten.native_group_norm.default";

/// Every operator these properties compare.
pub(crate) fn names() -> Vec<&'static str> {
    vec![BATCH, GROUP]
}

fn constant(draw: &mut Draw<'_>, graph: &mut GraphBuilder, size: u32, low: f64, high: f64) -> ValueId {
    let dtype = draw.float();
    let bytes = draw.tensor(dtype, &[size], Fill::Uniform { low, high }).to_le_bytes();
    graph.constant(dtype, &[size], bytes)
}

/// A weight or bias a channel, or none.
fn optional(draw: &mut Draw<'_>, graph: &mut GraphBuilder, channels: u32) -> ValueId {
    if draw.once_in(3) { graph.null() } else { constant(draw, graph, channels, -1.0, 1.5) }
}

/// Executes with all channels, at the bounds and at smaller sizes.
fn run(draw: &mut Draw<'_>, graph: &GraphBuilder, bound: &[u32], x: &Source) -> Outcome {
    let mut twin = Twin::new(graph)?;
    for whole in [true, false, false] {
        let mut sizes: Vec<u32> = bound.iter().map(|&size| draw.between(1, size)).collect();
        if whole {
            sizes = bound.to_vec();
        }
        sizes[1] = bound[1];
        let input: Arg = x.arg(draw, &sizes);
        twin.run(&[input], Tolerance::SINGLE)?;
    }
    Ok(())
}

/// Batch, channels and up to three spatial sizes, none of them 0.
fn bounds(draw: &mut Draw<'_>, channels: u32) -> Vec<u32> {
    let spatial = draw.dims(0, 3);
    let sizes = [draw.between(1, 3), channels].into_iter().chain(spatial);
    sizes.map(|size| size.clamp(1, 300)).collect()
}

#[test]
fn channels_of_a_batch() -> anyhow::Result<()> {
    property(&[BATCH], 30, |draw| {
        let (dtype, mut graph, channels) = (draw.float(), GraphBuilder::new(), draw.between(1, 9));
        let bound = bounds(draw, channels);
        let (x, id) = Source::new(draw, &mut graph, dtype, &bound, Fill::Uniform { low: -2.0, high: 3.0 });
        let affine = [(); 2].map(|()| optional(draw, &mut graph, channels));
        let mean = constant(draw, &mut graph, channels, -0.5, 0.5);
        let variance = constant(draw, &mut graph, channels, 0.1, 2.0);
        let numbers = [graph.double(0.1), graph.double(1e-5)];
        let outs = [&bound[..], &[0], &[0]].map(|dims| result(&mut graph, dtype, dims));
        let list = graph.value_list(&outs);
        graph.call(BATCH, &[id, affine[0], affine[1], mean, variance, numbers[0], numbers[1], list]);
        graph.outputs(&outs[..1]);
        run(draw, &graph, &bound, &x)
    })
}

#[test]
fn channels_in_groups() -> anyhow::Result<()> {
    property(&[GROUP], 30, |draw| {
        let (dtype, mut graph) = (draw.float(), GraphBuilder::new());
        let groups = draw.between(1, 4);
        let channels = groups * draw.between(1, 4);
        let bound = bounds(draw, channels);
        let fill = Fill::Uniform { low: -1.0, high: draw.pick(&[3.0, 1.0, 300.0]) };
        let (x, id) = Source::new(draw, &mut graph, dtype, &bound, fill);
        let affine = [(); 2].map(|()| optional(draw, &mut graph, channels));
        let area = bound[2..].iter().product();
        let numbers = [bound[0], channels, area, groups].map(|number| graph.int(i64::from(number)));
        let eps = graph.double(1e-5);
        let statistics = [bound[0], groups];
        let outs =
            [&bound[..], &statistics, &statistics].map(|dims| result(&mut graph, DType::Float32, dims));
        let list = graph.value_list(&outs);
        let mut args = vec![id, affine[0], affine[1]];
        args.extend(numbers);
        args.extend([eps, list]);
        graph.call(GROUP, &args);
        graph.outputs(&outs[..if draw.once_in(2) { 3 } else { 1 }]);
        run(draw, &graph, &bound, &x)
    })
}
