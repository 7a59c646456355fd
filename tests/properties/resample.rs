//! Resampled planes, detection grids, channels spread over pixels.

use etvk_reference::Arg;
use etvk_tests::{Draw, Fill, Outcome, Tolerance, Twin, property, result};
use etvk_vkgraph::{DType, GraphBuilder, ValueId};

use crate::conv::floats;
use crate::source::Source;

const NEAREST: &str = "aten.upsample_nearest2d.vec";
const BILINEAR: &str = "aten.upsample_bilinear2d.vec";
const GRID: &str = "aten.grid_sampler_2d.default";
const PRIORS: &str = "et_vk.grid_priors.default";
const SHUFFLE: &str = "aten.pixel_shuffle.default";
const SHUFFLE_CODES: &str = "et_vk.q8ta_pixel_shuffle.default";

/// Every operator these properties compare.
pub(crate) fn names() -> Vec<&'static str> {
    vec![NEAREST, BILINEAR, GRID, PRIORS, SHUFFLE, SHUFFLE_CODES]
}

/// Sizes of images: batch, channels, height, width.
fn images(draw: &mut Draw<'_>) -> Vec<u32> {
    let plane = [(); 2].map(|()| draw.pick(&[4, 1, 2, 3, 5, 7, 9]));
    vec![draw.between(1, 3), draw.pick(&[3, 1, 2, 5]), plane[0], plane[1]]
}

/// Sizes at most `bound`, none of them 0.
fn smaller(draw: &mut Draw<'_>, bound: &[u32]) -> Vec<u32> {
    bound.iter().map(|&size| draw.between(1, size)).collect()
}

/// Executes at the bounds, then at smaller sizes.
fn run(
    draw: &mut Draw<'_>,
    graph: &GraphBuilder,
    bound: &[u32],
    x: &Source,
    tolerance: Tolerance,
) -> Outcome {
    let mut twin = Twin::new(graph)?;
    for whole in [true, false, false] {
        let sizes = if whole { bound.to_vec() } else { smaller(draw, bound) };
        let input = x.arg(draw, &sizes);
        twin.run(&[input], tolerance)?;
    }
    Ok(())
}

/// Output sizes or factors, as lists of which one is Null, and the bounds they lead to.
fn target(draw: &mut Draw<'_>, graph: &mut GraphBuilder, plane: &[u32]) -> ([ValueId; 2], [u32; 2]) {
    if draw.once_in(2) {
        let factors = [(); 2].map(|()| draw.pick(&[2.0, 1.0, 1.5, 3.0, 2.7, 0.5]));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small positive numbers")]
        let sizes = [0, 1].map(|axis| (f64::from(plane[axis]) * factors[axis]) as u32);
        return ([graph.null(), graph.double_list(&factors)], sizes);
    }
    let sizes = [(); 2].map(|()| draw.pick(&[6, 1, 2, 3, 4, 5, 8, 11]));
    ([graph.int_list(&sizes.map(i64::from)), graph.null()], sizes)
}

#[test]
fn scaled_planes() -> anyhow::Result<()> {
    for name in [NEAREST, BILINEAR] {
        property(&[name], 40, |draw| {
            let (bound, dtype, mut graph) = (images(draw), draw.float(), GraphBuilder::new());
            let (x, id) = Source::new(draw, &mut graph, dtype, &bound, Fill::UNIT);
            let ([sizes, factors], plane) = target(draw, &mut graph, &bound[2..]);
            let out = result(&mut graph, dtype, &[bound[0], bound[1], plane[0], plane[1]]);
            let (args, tolerance) = match name {
                NEAREST => (vec![id, sizes, factors, out], Tolerance::EXACT),
                _ => (vec![id, sizes, graph.bool(draw.once_in(2)), factors, out], Tolerance::SINGLE),
            };
            graph.call(name, &args);
            graph.outputs(&[out]);
            run(draw, &graph, &bound, &x, tolerance)
        })?;
    }
    Ok(())
}

#[test]
fn planes_sampled_by_grids() -> anyhow::Result<()> {
    property(&[GRID], 60, |draw| {
        let (bound, dtype, mut graph) = (images(draw), DType::Float32, GraphBuilder::new());
        let points = [bound[0], draw.between(1, 5), draw.between(1, 7), 2];
        // Positions that single precision holds exactly: what is nearest is never in doubt.
        let fill = Fill::Grid { low: -1.75, high: 1.75, step: 0.125 };
        let (x, id) = Source::new(draw, &mut graph, dtype, &bound, Fill::UNIT);
        let (grid, grid_id) = Source::new(draw, &mut graph, dtype, &points, fill);
        let choices = [draw.below(2), draw.below(3)].map(|choice| i64::try_from(choice).unwrap_or(0));
        let choices = choices.map(|choice| graph.int(choice));
        let align = graph.bool(draw.once_in(2));
        let out = result(&mut graph, dtype, &[bound[0], bound[1], points[1], points[2]]);
        graph.call(GRID, &[id, grid_id, choices[0], choices[1], align, out]);
        graph.outputs(&[out]);
        let mut twin = Twin::new(&graph)?;
        for whole in [true, false, false] {
            let (mut sizes, mut at) = (bound.clone(), points.to_vec());
            if !whole {
                sizes = smaller(draw, &bound);
                at = [&sizes[..1], &smaller(draw, &points[1..3]), &[2]].concat();
            }
            let inputs = [x.arg(draw, &sizes), grid.arg(draw, &at)];
            twin.run(&inputs, Tolerance::SINGLE)?;
        }
        Ok(())
    })
}

/// Positions far outside, and none at all, stay inside the plane with the paddings that have an end.
#[test]
fn special_grids() -> anyhow::Result<()> {
    property(&[GRID], 2, |draw| {
        let mut graph = GraphBuilder::new();
        let (x, grid) =
            (graph.input(DType::Float32, &[1, 1, 2, 2]), graph.input(DType::Float32, &[1, 1, 4, 2]));
        let (mode, padding, align) = (graph.int(0), graph.int(1), graph.bool(draw.once_in(2)));
        let out = graph.tensor(DType::Float32, &[1, 1, 1, 4]);
        graph.call(GRID, &[x, grid, mode, padding, align, out]);
        graph.outputs(&[out]);
        let (far, nan) = (f64::INFINITY, f64::NAN);
        let inputs = [
            floats(&[1, 1, 2, 2], &[1.0, 2.0, 3.0, 5.0]),
            floats(&[1, 1, 4, 2], &[far, -far, nan, 1.0, -1e30, 1e30, nan, nan]),
        ];
        Twin::new(&graph)?.run(&inputs, Tolerance::EXACT)
    })
}

#[test]
fn detection_grids() -> anyhow::Result<()> {
    property(&[PRIORS], 20, |draw| {
        let (bound, dtype, mut graph) = (images(draw), draw.float(), GraphBuilder::new());
        let (x, id) = Source::new(draw, &mut graph, dtype, &bound, Fill::UNIT);
        let (stride, offset) = (graph.int(8), graph.double(draw.pick(&[0.5, 0.0])));
        let out = result(&mut graph, dtype, &[bound[2] * bound[3], 2]);
        graph.call(PRIORS, &[id, stride, offset, out]);
        graph.outputs(&[out]);
        run(draw, &graph, &bound, &x, Tolerance::EXACT)
    })
}

/// A tensor whose channels are `factor²` times `channels`, and what spreading them gives.
fn spread(draw: &mut Draw<'_>, factor: u32) -> (Vec<u32>, Vec<u32>) {
    let mut bound = draw.dims(0, 2);
    bound.iter_mut().for_each(|size| *size = (*size).clamp(1, 3));
    let (channels, height, width) = (draw.between(1, 3), draw.between(1, 5), draw.between(1, 5));
    let mut out = bound.clone();
    bound.extend([channels * factor * factor, height, width]);
    out.extend([channels, height * factor, width * factor]);
    (bound, out)
}

/// Executes with all channels, at the bounds and at smaller sizes.
fn run_spread(draw: &mut Draw<'_>, graph: &GraphBuilder, bound: &[u32], x: &Source) -> Outcome {
    let mut twin = Twin::new(graph)?;
    for whole in [true, false, false] {
        let mut sizes = if whole { bound.to_vec() } else { smaller(draw, bound) };
        let channel = bound.len() - 3;
        sizes[channel] = bound[channel];
        let input: Arg = x.arg(draw, &sizes);
        twin.run(&[input], Tolerance::EXACT)?;
    }
    Ok(())
}

#[test]
fn channels_to_pixels() -> anyhow::Result<()> {
    property(&[SHUFFLE], 30, |draw| {
        let (factor, dtype, mut graph) = (draw.between(1, 5), draw.float(), GraphBuilder::new());
        let (bound, dims) = spread(draw, factor);
        let (x, id) = Source::new(draw, &mut graph, dtype, &bound, Fill::UNIT);
        let factor = graph.int(i64::from(factor));
        let out = result(&mut graph, dtype, &dims);
        graph.call(SHUFFLE, &[id, factor, out]);
        graph.outputs(&[out]);
        run_spread(draw, &graph, &bound, &x)
    })
}

#[test]
fn channels_of_codes_to_pixels() -> anyhow::Result<()> {
    property(&[SHUFFLE_CODES], 30, |draw| {
        let (factor, mut graph) = (draw.between(1, 4), GraphBuilder::new());
        let (bound, dims) = spread(draw, factor);
        let fill = Fill::Grid { low: -128.0, high: 127.0, step: 1.0 };
        let (x, id) = Source::new(draw, &mut graph, DType::Int8, &bound, fill);
        let numbers = [graph.double(0.25), graph.int(3)];
        let inverse = graph.double(draw.pick(&[4.0, 2.0, 8.0]));
        let zero = graph.int(draw.pick(&[3, -7]));
        let factor = graph.int(i64::from(factor));
        let out = result(&mut graph, DType::Int8, &dims);
        graph.call(SHUFFLE_CODES, &[id, numbers[0], numbers[1], inverse, zero, factor, out]);
        graph.outputs(&[out]);
        run_spread(draw, &graph, &bound, &x)
    })
}
