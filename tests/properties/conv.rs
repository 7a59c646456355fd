//! Float convolutions.

use etvk_reference::{Arg, Data, Tensor};
use etvk_tests::{Draw, Fill, Outcome, Tolerance, Twin, property, result};
use etvk_vkgraph::{DType, GraphBuilder, ValueId};

use crate::source::Source;
use crate::window::Window;

const PLAIN: &[&str] = &["aten.convolution.default", "et_vk.conv2d_gemm.default"];
const CLAMPED: &[&str] = &["et_vk.conv_with_clamp.default", "conv_with_clamp.default"];
const LINES: &[&str] = &["et_vk.conv1d_dw.default", "et_vk.conv1d_pw.default"];

/// Every operator these properties compare.
pub(crate) fn names() -> Vec<&'static str> {
    [PLAIN, CLAMPED, LINES].concat()
}

/// Channels, images and window of a convolution.
pub(crate) struct Shape {
    pub(crate) line: bool,
    pub(crate) batch: u32,
    pub(crate) groups: u32,
    pub(crate) inner: u32,
    pub(crate) outer: u32,
    pub(crate) window: Window,
    pub(crate) least: [u32; 2],
    pub(crate) most: [u32; 2],
}

impl Shape {
    pub(crate) fn new(draw: &mut Draw<'_>, line: bool, transposed: bool, depthwise: bool) -> Self {
        let window = Window::new(draw, line, transposed);
        let [rows, columns] =
            [0, 1].map(|axis| if line && axis == 0 { (1, 1) } else { window.inputs(draw, axis) });
        let inputs = [3, 1, 2, 5, 8, 16, 17, 33];
        let outputs = [4, 1, 2, 3, 5, 8, 9, 16, 35];
        let (groups, inner, outer) = match draw.below(3) {
            _ if depthwise => (draw.pick(&[3, 1, 4, 8, 11]), 1, draw.pick(&[1, 1, 2, 3])),
            0 => (1, draw.pick(&inputs), draw.pick(&outputs)),
            1 => (draw.between(2, 4), draw.pick(&inputs[..5]), draw.pick(&outputs[..6])),
            _ => (draw.pick(&[3, 1, 4, 8, 11]), 1, draw.pick(&[1, 1, 2, 3])),
        };
        Self {
            line,
            batch: draw.between(1, 3),
            groups,
            inner,
            outer,
            window,
            least: [rows.0, columns.0],
            most: [rows.1, columns.1],
        }
    }

    /// Sizes of images of `channels` channels; `plane` is their height and width.
    fn sizes(&self, batch: u32, channels: u32, plane: [u32; 2]) -> Vec<u32> {
        let plane = if self.line { &plane[1..] } else { &plane[..] };
        [&[batch, channels], plane].concat()
    }

    pub(crate) fn x(&self, batch: u32, plane: [u32; 2]) -> Vec<u32> {
        self.sizes(batch, self.groups * self.inner, plane)
    }

    /// Bounds of the result.
    pub(crate) fn out(&self) -> Vec<u32> {
        let plane = [0, 1].map(|axis| self.window.output(axis, self.most[axis]));
        self.sizes(self.batch, self.channels(), plane)
    }

    pub(crate) fn channels(&self) -> u32 {
        self.groups * self.outer
    }

    fn weight(&self) -> Vec<u32> {
        match self.window.transposed {
            Some(_) => self.sizes(self.groups * self.inner, self.outer, self.window.kernel),
            None => self.sizes(self.channels(), self.inner, self.window.kernel),
        }
    }

    /// Executes at the bounds, then with smaller planes and fewer images.
    pub(crate) fn run(
        &self,
        draw: &mut Draw<'_>,
        graph: &GraphBuilder,
        x: &Source,
        rest: &[Arg],
        tolerance: Tolerance,
    ) -> Outcome {
        let mut twin = Twin::new(graph)?;
        for whole in [true, false, false] {
            let (mut batch, mut plane) = (self.batch, self.most);
            if !whole {
                batch = draw.between(1, batch);
                plane = [0, 1].map(|axis| draw.between(self.least[axis], self.most[axis]));
            }
            let mut inputs = vec![x.arg(draw, &self.x(batch, plane))];
            inputs.extend_from_slice(rest);
            twin.run(&inputs, tolerance)?;
        }
        Ok(())
    }
}

pub(crate) fn constant(
    draw: &mut Draw<'_>,
    graph: &mut GraphBuilder,
    dtype: DType,
    dims: &[u32],
    fill: Fill,
) -> ValueId {
    let bytes = draw.tensor(dtype, dims, fill).to_le_bytes();
    graph.constant(dtype, dims, bytes)
}

/// A single-precision tensor of given elements.
pub(crate) fn floats(dims: &[usize], values: &[f64]) -> Arg {
    #[expect(clippy::expect_used, reason = "as many elements as the sizes say")]
    Arg::Tensor(Tensor::new(DType::Float32, dims, Data::F64(values.to_vec())).expect("a tensor"))
}

/// A bias a channel, or none.
pub(crate) fn bias(draw: &mut Draw<'_>, graph: &mut GraphBuilder, channels: u32, fill: Fill) -> ValueId {
    if draw.once_in(3) {
        return graph.null();
    }
    let dtype = draw.float();
    constant(draw, graph, dtype, &[channels], fill)
}

/// x, weights and bias; the weights are a constant or a further input.
fn operands(
    draw: &mut Draw<'_>,
    graph: &mut GraphBuilder,
    shape: &Shape,
    dtype: DType,
) -> (Source, Vec<ValueId>, Vec<Arg>) {
    let dims = shape.x(shape.batch, shape.most);
    let (x, id) = Source::new(draw, graph, dtype, &dims, Fill::Uniform { low: -1.0, high: 2.0 });
    let (weights, fill) = (shape.weight(), Fill::UNIT);
    let mut rest = Vec::new();
    let weight = if draw.once_in(5) {
        let id = graph.input(dtype, &weights);
        rest.push(Arg::Tensor(draw.tensor(dtype, &weights, fill)));
        id
    } else {
        constant(draw, graph, dtype, &weights, fill)
    };
    let bias = bias(draw, graph, shape.channels(), fill);
    (x, vec![id, weight, bias], rest)
}

/// Bounds of a clamp: both, one, or none, the upper one as the exporter writes it, or below the lower one.
fn bounds(draw: &mut Draw<'_>, graph: &mut GraphBuilder) -> [ValueId; 2] {
    match draw.below(5) {
        0 => [graph.int(0), graph.double(f64::MAX)],
        1 => [graph.null(), graph.double(0.5)],
        2 => [graph.int(0), graph.int(6)],
        3 => [graph.double(1.0), graph.double(-1.0)],
        _ => [graph.null(), graph.null()],
    }
}

fn check(draw: &mut Draw<'_>, name: &str, clamped: bool) -> Outcome {
    let (line, transposed, depthwise) = (draw.once_in(4), draw.once_in(3), draw.once_in(4));
    let shape = Shape::new(draw, line, transposed, depthwise);
    let (mut graph, dtype) = (GraphBuilder::new(), draw.float());
    let (x, mut args, rest) = operands(draw, &mut graph, &shape, dtype);
    let window = &shape.window;
    for pair in [window.stride, window.padding, window.dilation] {
        args.push(Window::list(draw, &mut graph, pair, line));
    }
    args.push(graph.bool(transposed));
    args.push(Window::list(draw, &mut graph, window.transposed.unwrap_or([0, 0]), line));
    args.push(graph.int(i64::from(shape.groups)));
    if clamped {
        args.extend(bounds(draw, &mut graph));
    }
    let out = result(&mut graph, dtype, &shape.out());
    args.push(out);
    graph.call(name, &args);
    graph.outputs(&[out]);
    shape.run(draw, &graph, &x, &rest, Tolerance::SINGLE)
}

#[test]
fn one_and_two_dimensions() -> anyhow::Result<()> {
    for &name in PLAIN {
        property(&[name], 80, |draw| check(draw, name, false))?;
    }
    for &name in CLAMPED {
        property(&[name], 30, |draw| check(draw, name, true))?;
    }
    Ok(())
}

/// Enough channels and positions for the largest tiles.
#[test]
fn large_tiles() -> anyhow::Result<()> {
    property(&[PLAIN[0]], 1, |draw| {
        let mut shape = Shape::new(draw, false, false, false);
        (shape.batch, shape.groups, shape.inner, shape.outer) = (1, 1, 5, 130);
        let window = &mut shape.window;
        (window.kernel, window.stride, window.padding, window.dilation) = ([3, 2], [1, 1], [1, 0], [1, 1]);
        (shape.least, shape.most) = ([40, 48], [47, 50]);
        let (mut graph, dtype) = (GraphBuilder::new(), DType::Float32);
        let (x, mut args, rest) = operands(draw, &mut graph, &shape, dtype);
        for pair in [[1, 1], [1, 0], [1, 1]] {
            args.push(graph.int_list(&pair));
        }
        let (transposed, padding, groups) = (graph.bool(false), graph.int_list(&[0, 0]), graph.int(1));
        let out = result(&mut graph, dtype, &shape.out());
        args.extend([transposed, padding, groups, out]);
        graph.call(PLAIN[0], &args);
        graph.outputs(&[out]);
        shape.run(draw, &graph, &x, &rest, Tolerance::SINGLE)
    })
}

/// A NaN stays one through the clamp; what is not finite reaches only the windows that read it.
#[test]
fn special_values() -> anyhow::Result<()> {
    property(&[CLAMPED[0]], 1, |_| {
        let mut graph = GraphBuilder::new();
        let x = graph.input(DType::Float32, &[1, 1, 1, 8]);
        let weight =
            graph.constant(DType::Float32, &[1, 1, 1, 2], [1.0f32, 1.0].map(f32::to_le_bytes).concat());
        let (null, ones, zeros) = (graph.null(), graph.int_list(&[1, 1]), graph.int_list(&[0, 0]));
        let (transposed, groups) = (graph.bool(false), graph.int(1));
        let bounds = [graph.int(0), graph.double(f64::MAX)];
        let out = graph.tensor(DType::Float32, &[1, 1, 1, 7]);
        let args = [x, weight, null, ones, zeros, ones, transposed, zeros, groups, bounds[0], bounds[1], out];
        graph.call(CLAMPED[0], &args);
        graph.outputs(&[out]);
        let values = [1.0, -3.0, f64::NAN, 2.0, f64::INFINITY, f64::INFINITY, f64::NEG_INFINITY, -1.0];
        let input = floats(&[1, 1, 1, 8], &values);
        Twin::new(&graph)?.run(&[input], Tolerance::EXACT)
    })
}

#[test]
fn lines() -> anyhow::Result<()> {
    for &name in LINES {
        property(&[name], 24, |draw| {
            let shape = Shape::new(draw, true, false, false);
            let (mut graph, dtype) = (GraphBuilder::new(), draw.float());
            let (x, mut args, rest) = operands(draw, &mut graph, &shape, dtype);
            for pair in [shape.window.stride, shape.window.padding, shape.window.dilation] {
                args.push(Window::list(draw, &mut graph, pair, true));
            }
            args.push(graph.int(i64::from(shape.groups)));
            args.extend(bounds(draw, &mut graph));
            let out = result(&mut graph, dtype, &shape.out());
            args.push(out);
            graph.call(name, &args);
            graph.outputs(&[out]);
            shape.run(draw, &graph, &x, &rest, Tolerance::SINGLE)
        })?;
    }
    Ok(())
}
