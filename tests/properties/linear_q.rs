//! Products with quantised weights.

use etvk_engine::Tier;
use etvk_reference::Arg;
use etvk_tests::{Draw, Fill, Outcome, Tolerance, Twin, context, property, result};
use etvk_vkgraph::{DType, GraphBuilder, ValueId};
use proptest::test_runner::TestCaseError;

use crate::source::Source;

const FOUR_BITS: &[&str] = &["et_vk.linear_q4gsw.default", "et_vk.q4gsw_linear.default"];
const DYNAMIC: &str = "et_vk.linear_dq8ca_q4gsw.default";
const FOUR_BITS_A_ROW: &str = "et_vk.linear_qcs4w.default";
const EIGHT_BITS: &[&str] = &["aten._weight_int8pack_mm.default", "et_vk.linear_q8csw.default"];
const STATIC: &str = "et_vk.linear_q8ta_q8csw.default";
const CODES: &[&str] = &["et_vk.q8ta_linear.default", "et_vk.q8ta_linear_gemv.default"];

/// Every operator these properties compare.
pub(crate) fn names() -> Vec<&'static str> {
    [FOUR_BITS, EIGHT_BITS, CODES, &[DYNAMIC, FOUR_BITS_A_ROW, STATIC]].concat()
}

const BYTES: Fill = Fill::Grid { low: 0.0, high: 255.0, step: 1.0 };
const SIGNED_BYTES: Fill = Fill::Grid { low: -128.0, high: 127.0, step: 1.0 };
const SCALES: Fill = Fill::Uniform { low: 0.002, high: 0.1 };
/// Scales with which int8 arithmetic rounds nothing.
const POWERS: Fill = Fill::Power { low: -6, high: -3 };

/// A linear layer of K inputs and N outputs under construction.
struct Layer {
    graph: GraphBuilder,
    dtype: DType,
    leading: Vec<u32>,
    k: u32,
    n: u32,
}

impl Layer {
    fn new(draw: &mut Draw<'_>, depths: &[u32]) -> Self {
        let rows = draw.pick(&[1, 2, 3, 5, 8, 9, 17, 33, 64, 65, 70]);
        let leading = match draw.below(6) {
            4 => vec![draw.between(1, 3), rows.min(33)],
            5 if draw.once_in(2) => Vec::new(),
            5 => vec![2, draw.between(1, 2), rows.min(9)],
            _ => vec![rows],
        };
        let n = draw.pick(&[4, 1, 3, 5, 6, 8, 31, 33, 64, 70]);
        Self { graph: GraphBuilder::new(), dtype: draw.float(), leading, k: draw.pick(depths), n }
    }

    fn dims(&self, last: u32) -> Vec<u32> {
        [&self.leading[..], &[last]].concat()
    }

    fn x(&mut self, draw: &mut Draw<'_>, dtype: DType, fill: Fill) -> (Source, ValueId) {
        let dims = self.dims(self.k);
        Source::new(draw, &mut self.graph, dtype, &dims, fill)
    }

    fn constant(&mut self, draw: &mut Draw<'_>, dtype: DType, dims: &[u32], fill: Fill) -> ValueId {
        let bytes = draw.tensor(dtype, dims, fill).to_le_bytes();
        self.graph.constant(dtype, dims, bytes)
    }

    /// Codes and scales of 4-bit groups: rows padded to eight codes, scales to four columns.
    fn groups(&mut self, draw: &mut Draw<'_>, group: u32) -> [ValueId; 2] {
        let weight = [self.n, self.k.next_multiple_of(8) / 2];
        let scale = draw.pick(&[DType::Float32, DType::Float16]);
        let scales = [self.k / group, self.n.next_multiple_of(4)];
        [self.constant(draw, DType::UInt8, &weight, BYTES), self.constant(draw, scale, &scales, SCALES)]
    }

    fn bias(&mut self, draw: &mut Draw<'_>, fill: Fill) -> ValueId {
        let width = if draw.once_in(2) { self.n } else { self.n.next_multiple_of(4) };
        match draw.below(2) {
            0 => self.graph.null(),
            _ => {
                let dtype = draw.float();
                self.constant(draw, dtype, &[width], fill)
            }
        }
    }

    fn finish(&mut self, name: &str, mut args: Vec<ValueId>, dtype: DType) {
        let dims = self.dims(self.n);
        let out = result(&mut self.graph, dtype, &dims);
        args.push(out);
        self.graph.call(name, &args);
        self.graph.outputs(&[out]);
    }

    /// Sizes of the rows at the bounds or below.
    fn leading(&self, draw: &mut Draw<'_>, whole: bool) -> Vec<u32> {
        if whole { self.leading.clone() } else { draw.shrunk(&self.leading) }
    }

    fn run(&self, draw: &mut Draw<'_>, x: &Source, tolerance: Tolerance) -> Outcome {
        let mut twin = Twin::new(&self.graph)?;
        for whole in [true, false, false] {
            let mut sizes = self.leading(draw, whole);
            sizes.push(self.k);
            let input = x.arg(draw, &sizes);
            twin.run(&[input], tolerance)?;
        }
        Ok(())
    }
}

const DEPTHS: &[u32] = &[8, 4, 12, 16, 20, 36, 64, 100, 128, 132, 256, 512, 1028];

/// A divisor of K, eight or more where that is possible.
fn group_size(draw: &mut Draw<'_>, k: u32) -> u32 {
    let fitting: Vec<u32> =
        [k, 8, 12, 16, 32, 64, 128, k / 2].into_iter().filter(|&g| g >= 4 && k.is_multiple_of(g)).collect();
    draw.pick(&fitting)
}

/// Devices with matrix hardware round what the payload stores as halves to halves.
pub(crate) fn rounding(dtype: DType) -> Result<Tolerance, TestCaseError> {
    let context = context().map_err(|error| TestCaseError::fail(format!("{error:#}")))?;
    Ok(if dtype == DType::Float16 && context.tier() >= Tier::Full {
        Tolerance::HALVES
    } else {
        Tolerance::SINGLE
    })
}

#[test]
fn four_bit_groups() -> anyhow::Result<()> {
    for &name in FOUR_BITS {
        property(&[name], 36, |draw| {
            let mut layer = Layer::new(draw, DEPTHS);
            let group = group_size(draw, layer.k);
            let dtype = layer.dtype;
            let (x, id) = layer.x(draw, dtype, Fill::Uniform { low: -2.0, high: 3.0 });
            let [weight, scales] = layer.groups(draw, group);
            let (group, bias) = (layer.graph.int(i64::from(group)), layer.bias(draw, Fill::UNIT));
            layer.finish(name, vec![id, weight, scales, group, bias], dtype);
            layer.run(draw, &x, rounding(dtype)?)
        })?;
    }
    Ok(())
}

/// Values between the codes of the scales in [`POWERS`], but never half-way.
const BETWEEN_CODES: Fill = Fill::Grid { low: -1.0 + 1.0 / 1024.0, high: 1.5, step: 1.0 / 512.0 };

#[test]
fn four_bit_groups_and_quantised_rows() -> anyhow::Result<()> {
    property(&[DYNAMIC], 36, |draw| {
        let mut layer = Layer::new(draw, DEPTHS);
        let group = group_size(draw, layer.k);
        let (dtype, leading) = (layer.dtype, layer.leading.clone());
        let x = layer.graph.input(dtype, &layer.dims(layer.k));
        let row_scales = layer.graph.input(DType::Float32, &leading);
        let zeros_type = draw.pick(&[DType::Int8, DType::Int32, DType::Float32]);
        let row_zeros = layer.graph.input(zeros_type, &leading);
        let [weight, scales] = layer.groups(draw, group);
        let sums = [layer.k / group, layer.n.next_multiple_of(8)];
        let sums = layer.constant(draw, DType::Int32, &sums, BYTES);
        let (group, bias) = (layer.graph.int(i64::from(group)), layer.bias(draw, Fill::UNIT));
        layer.finish(DYNAMIC, vec![x, row_scales, row_zeros, weight, sums, scales, group, bias], dtype);
        let mut twin = Twin::new(&layer.graph)?;
        for whole in [true, false, false] {
            let leading = layer.leading(draw, whole);
            let all = [&leading[..], &[layer.k]].concat();
            let zeros = Fill::Grid { low: -20.0, high: 20.0, step: 1.0 };
            let inputs = [
                (dtype, &all, BETWEEN_CODES),
                (DType::Float32, &leading, POWERS),
                (zeros_type, &leading, zeros),
            ];
            let inputs = inputs.map(|(dtype, dims, fill)| Arg::Tensor(draw.tensor(dtype, dims, fill)));
            twin.run(&inputs, rounding(dtype)?)?;
        }
        Ok(())
    })
}

#[test]
fn four_bits_and_one_scale_a_row() -> anyhow::Result<()> {
    property(&[FOUR_BITS_A_ROW], 24, |draw| {
        let mut layer = Layer::new(draw, &[8, 2, 4, 6, 14, 36, 64, 130, 256]);
        let dtype = layer.dtype;
        let (x, id) = layer.x(draw, dtype, Fill::UNIT);
        let (n, k, scale) = (layer.n, layer.k, draw.float());
        let weight = layer.constant(draw, DType::UInt8, &[n, k / 2], BYTES);
        let scales = layer.constant(draw, scale, &[n], SCALES);
        layer.finish(FOUR_BITS_A_ROW, vec![id, weight, scales], dtype);
        layer.run(draw, &x, Tolerance::SINGLE)
    })
}

const ODD_DEPTHS: &[u32] = &[8, 1, 3, 4, 7, 16, 33, 64, 130, 257];

#[test]
fn eight_bits() -> anyhow::Result<()> {
    for &name in EIGHT_BITS {
        property(&[name], 24, |draw| {
            let mut layer = Layer::new(draw, ODD_DEPTHS);
            let dtype = layer.dtype;
            let (x, id) = layer.x(draw, dtype, Fill::UNIT);
            let (n, k, scale) = (layer.n, layer.k, draw.float());
            let weight = layer.constant(draw, DType::Int8, &[n, k], SIGNED_BYTES);
            let scales = layer.constant(draw, scale, &[n], SCALES);
            let mut args = vec![id, weight, scales];
            if name == "et_vk.linear_q8csw.default" {
                args.push(layer.bias(draw, Fill::UNIT));
            }
            layer.finish(name, args, dtype);
            layer.run(draw, &x, Tolerance::SINGLE)
        })?;
    }
    Ok(())
}

/// The arguments from scale to scales of a layer with a static scale.
fn static_arguments(draw: &mut Draw<'_>, layer: &mut Layer, step: f64, scales: Fill) -> Vec<ValueId> {
    let (n, k) = (layer.n, layer.k);
    let zero = i64::from(draw.between(0, 10)) - 5;
    let numbers = [layer.graph.double(step), layer.graph.int(zero)];
    let weight = layer.constant(draw, DType::Int8, &[n, k], SIGNED_BYTES);
    let padded = n.next_multiple_of(4);
    let sums = layer.constant(draw, DType::Int32, &[padded], BYTES);
    let scales = layer.constant(draw, DType::Float32, &[padded], scales);
    vec![numbers[0], numbers[1], weight, sums, scales]
}

#[test]
fn eight_bits_and_a_static_scale() -> anyhow::Result<()> {
    property(&[STATIC], 24, |draw| {
        let mut layer = Layer::new(draw, ODD_DEPTHS);
        let dtype = layer.dtype;
        let (x, id) = if draw.once_in(2) {
            layer.x(draw, DType::Int8, SIGNED_BYTES)
        } else {
            layer.x(draw, dtype, BETWEEN_CODES)
        };
        let mut args = vec![id];
        args.extend(static_arguments(draw, &mut layer, 1.0 / 64.0, SCALES));
        args.push(layer.bias(draw, Fill::UNIT));
        layer.finish(STATIC, args, dtype);
        layer.run(draw, &x, Tolerance::SINGLE)
    })
}

#[test]
fn eight_bit_codes_in_and_out() -> anyhow::Result<()> {
    for &name in CODES {
        property(&[name], 24, |draw| {
            let mut layer = Layer::new(draw, ODD_DEPTHS);
            let (x, id) = layer.x(draw, DType::Int8, SIGNED_BYTES);
            let mut args = vec![id];
            args.extend(static_arguments(draw, &mut layer, 1.0 / 64.0, POWERS));
            let zero = i64::from(draw.between(0, 10)) - 5;
            args.extend([layer.graph.double(draw.pick(&[1.0, 0.25, 4.0])), layer.graph.int(zero)]);
            args.push(layer.bias(draw, Fill::Grid { low: -8.0, high: 8.0, step: 0.125 }));
            let activation = draw.pick(&["none", "relu"]);
            args.push(layer.graph.string(activation));
            layer.finish(name, args, DType::Int8);
            layer.run(draw, &x, Tolerance::EXACT)
        })?;
    }
    Ok(())
}
