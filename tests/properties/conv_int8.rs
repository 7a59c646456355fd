//! Convolutions with int8 weights.

use etvk_tests::{Draw, Fill, Outcome, Tolerance, property, result};
use etvk_vkgraph::{DType, GraphBuilder, ValueId};

use crate::conv::{Shape, bias, constant};
use crate::source::Source;
use crate::window::Window;

const ROWS: &[&str] = &[
    "et_vk.q8ta_conv2d.default",
    "et_vk.q8ta_conv2d_general.default",
    "et_vk.q8ta_conv2d_im2col.default",
    "et_vk.q8ta_conv2d_pw.default",
];
const DEPTHWISE: &str = "et_vk.q8ta_conv2d_dw.default";
const TRANSPOSED: &str = "et_vk.q8ta_conv2d_transposed.default";
const OLD: &str = "et_vk.conv2d_q8ta_q8csw_q8to.default";
const OLD_DEPTHWISE: &str = "et_vk.conv2d_q8ta_q8csw_q8to_dw.default";
const OLD_TEST: &str = "etvk.test_conv2d_q8ta_q8csw_q8to.default";
const TO_FLOATS: &str = "et_vk.conv2d_q8ta_q8csw.default";
const WEIGHTS_ONLY: &str = "et_vk.conv2d_q8csw.default";

/// Every operator these properties compare.
pub(crate) fn names() -> Vec<&'static str> {
    let others = [DEPTHWISE, TRANSPOSED, OLD, OLD_DEPTHWISE, OLD_TEST, TO_FLOATS, WEIGHTS_ONLY];
    [ROWS, &others].concat()
}

const CODES: Fill = Fill::Grid { low: -128.0, high: 127.0, step: 1.0 };
/// Scales with which int8 arithmetic rounds nothing.
const POWERS: Fill = Fill::Power { low: -6, high: -3 };
/// Values between the codes of the input's scale, but never half-way.
const BETWEEN_CODES: Fill = Fill::Grid { low: -1.0 + 1.0 / 1024.0, high: 1.5, step: 1.0 / 512.0 };
const INPUT_SCALE: f64 = 1.0 / 64.0;

/// A convolution with int8 weights under construction.
struct Layer {
    graph: GraphBuilder,
    shape: Shape,
    depthwise: bool,
}

impl Layer {
    fn new(draw: &mut Draw<'_>, transposed: bool, depthwise: bool) -> Self {
        let mut shape = Shape::new(draw, false, transposed, depthwise);
        if transposed {
            shape.window.dilation = [1, 1];
            for axis in 0..2 {
                (shape.least[axis], shape.most[axis]) = shape.window.inputs(draw, axis);
            }
        }
        Self { graph: GraphBuilder::new(), shape, depthwise }
    }

    fn x(&mut self, draw: &mut Draw<'_>, dtype: DType, fill: Fill) -> (Source, ValueId) {
        let dims = self.shape.x(self.shape.batch, self.shape.most);
        Source::new(draw, &mut self.graph, dtype, &dims, fill)
    }

    /// Step and zero point of x, the zero at an end of the codes now and then.
    fn input_grid(&mut self, draw: &mut Draw<'_>) -> [ValueId; 2] {
        let zero = draw.pick(&[0, 3, -5, -128, 127]);
        [self.graph.double(INPUT_SCALE), self.graph.int(zero)]
    }

    /// Weights, their sums (which nothing reads) and scales.
    fn weights(&mut self, draw: &mut Draw<'_>, sums: bool) -> Vec<ValueId> {
        let (shape, [height, width]) = (&self.shape, self.shape.window.kernel);
        let channels = shape.channels();
        let dims = if self.depthwise {
            vec![height, width, channels]
        } else {
            let row = height * width * shape.inner;
            vec![channels, if draw.once_in(3) { row } else { row.next_multiple_of(4) }]
        };
        // A transposed convolution in groups has scales for one group.
        let scales = if shape.window.transposed.is_some() { shape.outer } else { channels };
        let mut args = vec![constant(draw, &mut self.graph, DType::Int8, &dims, CODES)];
        if sums {
            args.push(constant(draw, &mut self.graph, DType::Int32, &[channels], CODES));
        }
        let dtype = draw.float();
        args.push(constant(draw, &mut self.graph, dtype, &[scales], POWERS));
        args
    }

    fn bias(&mut self, draw: &mut Draw<'_>) -> ValueId {
        let fill = Fill::Grid { low: -8.0, high: 8.0, step: 0.125 };
        bias(draw, &mut self.graph, self.shape.channels(), fill)
    }

    fn output_grid(&mut self, draw: &mut Draw<'_>) -> [ValueId; 2] {
        let zero = draw.pick(&[0, 4, -5, -128, 127]);
        [self.graph.double(draw.pick(&[1.0, 0.25, 4.0])), self.graph.int(zero)]
    }

    fn window(&mut self, draw: &mut Draw<'_>) -> Vec<ValueId> {
        let window = self.shape.window.clone();
        let mut pairs = vec![window.kernel, window.stride, window.padding];
        pairs.extend(window.transposed);
        pairs.push(window.dilation);
        let mut args: Vec<ValueId> =
            pairs.into_iter().map(|pair| Window::list(draw, &mut self.graph, pair, false)).collect();
        args.push(self.graph.int(i64::from(self.shape.groups)));
        args
    }

    fn finish(
        mut self,
        draw: &mut Draw<'_>,
        name: &str,
        (x, mut args): (Source, Vec<ValueId>),
        dtype: DType,
        tolerance: Tolerance,
    ) -> Outcome {
        let out = result(&mut self.graph, dtype, &self.shape.out());
        args.push(out);
        self.graph.call(name, &args);
        self.graph.outputs(&[out]);
        self.shape.run(draw, &self.graph, &x, &[], tolerance)
    }

    /// The arguments from x to groups of a convolution of codes to codes.
    fn codes(&mut self, draw: &mut Draw<'_>, dtype: DType, fill: Fill) -> (Source, Vec<ValueId>) {
        let (x, id) = self.x(draw, dtype, fill);
        let mut args = vec![id];
        args.extend(self.input_grid(draw));
        args.extend(self.weights(draw, true));
        args.extend(self.output_grid(draw));
        args.push(self.bias(draw));
        args.extend(self.window(draw));
        (x, args)
    }
}

#[test]
fn codes_to_codes() -> anyhow::Result<()> {
    let forms = ROWS.iter().map(|&name| (name, false, false));
    for (name, depthwise, transposed) in forms.chain([(DEPTHWISE, true, false), (TRANSPOSED, false, true)]) {
        property(&[name], 30, |draw| {
            let mut layer = Layer::new(draw, transposed, depthwise);
            let (x, mut args) = layer.codes(draw, DType::Int8, CODES);
            let activation = draw.pick(&["none", "relu"]);
            args.push(layer.graph.string(activation));
            layer.finish(draw, name, (x, args), DType::Int8, Tolerance::EXACT)
        })?;
    }
    Ok(())
}

#[test]
fn codes_to_codes_of_old_releases() -> anyhow::Result<()> {
    for (name, depthwise) in [(OLD, false), (OLD_DEPTHWISE, true)] {
        property(&[name], 24, |draw| {
            let mut layer = Layer::new(draw, false, depthwise);
            let (x, args) = layer.codes(draw, DType::Int8, CODES);
            layer.finish(draw, name, (x, args), DType::Int8, Tolerance::EXACT)
        })?;
    }
    property(&[OLD_TEST], 24, |draw| {
        let mut layer = Layer::new(draw, false, false);
        let (x, mut args) = layer.codes(draw, DType::Float32, BETWEEN_CODES);
        args.push(layer.graph.int(0));
        layer.finish(draw, OLD_TEST, (x, args), DType::Float32, Tolerance::EXACT)
    })
}

#[test]
fn codes_to_floats() -> anyhow::Result<()> {
    property(&[TO_FLOATS], 30, |draw| {
        let mut layer = Layer::new(draw, false, false);
        let (dtype, float) = (draw.float(), draw.float());
        let (x, id) = match draw.once_in(2) {
            true => layer.x(draw, DType::Int8, CODES),
            false => layer.x(draw, dtype, BETWEEN_CODES),
        };
        let mut args = vec![id];
        args.extend(layer.input_grid(draw));
        args.extend(layer.weights(draw, true));
        args.push(layer.bias(draw));
        args.extend(layer.window(draw));
        layer.finish(draw, TO_FLOATS, (x, args), float, Tolerance::SINGLE)
    })
}

#[test]
fn floats_and_coded_weights() -> anyhow::Result<()> {
    property(&[WEIGHTS_ONLY], 30, |draw| {
        let mut layer = Layer::new(draw, false, false);
        let dtype = draw.float();
        let (x, id) = layer.x(draw, dtype, Fill::UNIT);
        let mut args = vec![id];
        args.extend(layer.weights(draw, false));
        args.push(layer.bias(draw));
        args.extend(layer.window(draw));
        layer.finish(draw, WEIGHTS_ONLY, (x, args), dtype, Tolerance::SINGLE)
    })
}
