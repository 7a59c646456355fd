//! Quantisation: parameters, codes, and back.

use etvk_reference::{Arg, Data, Tensor};
use etvk_tests::{Draw, Fill, Outcome, Tolerance, Twin, property, result};
use etvk_vkgraph::{DType, GraphBuilder, ValueId};

use crate::source::Source;

const QUANTIZE: &str = "quantized_decomposed.quantize_per_tensor.default";
const DEQUANTIZE: &str = "quantized_decomposed.dequantize_per_tensor.default";
const PER_CHANNEL: &str = "quantized_decomposed.dequantize_per_channel.default";
const AFFINE: &str = "torchao.dequantize_affine.default";
const CHOOSE: &str = "torchao.choose_qparams_affine.default";
const PER_ROW: &str = "etvk.choose_qparams_per_row.default";

/// Every operator these properties compare.
pub(crate) fn names() -> Vec<&'static str> {
    vec![QUANTIZE, DEQUANTIZE, PER_CHANNEL, AFFINE, CHOOSE, PER_ROW]
}

/// Integer types of codes with their ranges.
const CODES: &[(DType, i64, i64)] = &[(DType::Int8, -128, 127), (DType::UInt8, 0, 255), (DType::Int8, -8, 7)];

fn codes((_, low, high): (DType, i64, i64)) -> Fill {
    Fill::Grid { low: low as f64, high: high as f64, step: 1.0 }
}

fn run(draw: &mut Draw<'_>, graph: &GraphBuilder, source: &Source, bound: &[u32]) -> Outcome {
    let mut twin = Twin::new(graph)?;
    for whole in [true, false, false] {
        let sizes = if whole { bound.to_vec() } else { draw.shrunk(bound) };
        let input = source.arg(draw, &sizes);
        twin.run(&[input], Tolerance::SINGLE)?;
    }
    Ok(())
}

#[test]
fn one_scale_for_all() -> anyhow::Result<()> {
    property(&[QUANTIZE], 12, |draw| {
        let (mut graph, bound, dtype) = (GraphBuilder::new(), draw.dims(0, 5), draw.float());
        let kind = draw.pick(CODES);
        // Between the codes but never half-way.
        let step = draw.pick(&[0.25, 0.125, 1.0]);
        let fill = Fill::Grid { low: -40.0 * step + step / 8.0, high: 140.0 * step, step: step / 4.0 };
        let (source, x) = Source::new(draw, &mut graph, dtype, &bound, fill);
        let numbers =
            [graph.double(step), graph.int(draw.pick(&[0, 3, -5])), graph.int(kind.1), graph.int(kind.2)];
        let (null, out) = (graph.null(), graph.tensor(kind.0, &bound));
        graph.call(QUANTIZE, &[&[x], &numbers[..], &[null, out]].concat());
        graph.outputs(&[out]);
        run(draw, &graph, &source, &bound)
    })?;
    property(&[DEQUANTIZE], 12, |draw| {
        let (mut graph, bound, dtype) = (GraphBuilder::new(), draw.dims(0, 5), draw.float());
        let kind = draw.pick(CODES);
        let (source, x) = Source::new(draw, &mut graph, kind.0, &bound, codes(kind));
        let numbers =
            [graph.double(0.037), graph.int(draw.pick(&[0, 3, -5])), graph.int(kind.1), graph.int(kind.2)];
        let (nulls, out) = ([graph.null(), graph.null()], result(&mut graph, dtype, &bound));
        graph.call(DEQUANTIZE, &[&[x], &numbers[..], &nulls, &[out]].concat());
        graph.outputs(&[out]);
        run(draw, &graph, &source, &bound)
    })
}

/// Scales, and zero points or none, as constants.
fn parameters(
    draw: &mut Draw<'_>,
    graph: &mut GraphBuilder,
    dims: &[u32],
    (dtype, low, high): (DType, i64, i64),
) -> [ValueId; 2] {
    let float = draw.float();
    let scales = draw.tensor(float, dims, Fill::Uniform { low: 0.01, high: 0.3 }).to_le_bytes();
    let scales = graph.constant(float, dims, scales);
    if draw.once_in(3) {
        return [scales, graph.null()];
    }
    let zeros_type = draw.pick(&[DType::Int32, dtype]);
    let zeros = draw.tensor(zeros_type, dims, codes((dtype, low, high))).to_le_bytes();
    [scales, graph.constant(zeros_type, dims, zeros)]
}

#[test]
fn a_scale_for_each_channel() -> anyhow::Result<()> {
    property(&[PER_CHANNEL], 12, |draw| {
        let (mut graph, bound, dtype) = (GraphBuilder::new(), draw.dims(1, 4), draw.float());
        let bound: Vec<u32> = bound.iter().map(|&size| size.max(1)).collect();
        let kind = draw.pick(CODES);
        let axis = draw.below(bound.len());
        let x = draw.tensor(kind.0, &bound, codes(kind)).to_le_bytes();
        let x = graph.constant(kind.0, &bound, x);
        let [scales, zeros] = parameters(draw, &mut graph, &[bound[axis]], kind);
        let numbers = [graph.int(i64::try_from(axis).unwrap_or(0)), graph.int(kind.1), graph.int(kind.2)];
        let (nulls, weight) = ([graph.null(), graph.null()], result(&mut graph, dtype, &bound));
        graph.call(PER_CHANNEL, &[&[x, scales, zeros], &numbers[..], &nulls, &[weight]].concat());
        times_input(draw, graph, weight, dtype, &bound)
    })
}

/// Ends a graph with a product of `weight` and an input.
fn times_input(
    draw: &mut Draw<'_>,
    mut graph: GraphBuilder,
    weight: ValueId,
    dtype: DType,
    bound: &[u32],
) -> Outcome {
    let x = graph.input(dtype, bound);
    let out = result(&mut graph, dtype, bound);
    graph.call("aten.mul.Tensor", &[x, weight, out]);
    graph.outputs(&[out]);
    let mut twin = Twin::new(&graph)?;
    twin.run(&[Arg::Tensor(draw.tensor(dtype, bound, Fill::UNIT))], Tolerance::SINGLE)
}

#[test]
fn a_scale_for_each_block() -> anyhow::Result<()> {
    property(&[AFFINE], 16, |draw| {
        let (mut graph, dtype) = (GraphBuilder::new(), draw.float());
        let kind = draw.pick(CODES);
        let (mut bound, mut block, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..draw.between(1, 3) {
            let (size, count) = (draw.between(1, 6), draw.between(1, 4));
            bound.push(size * count);
            block.push(i64::from(size));
            counts.push(count);
        }
        let x = draw.tensor(kind.0, &bound, codes(kind)).to_le_bytes();
        let x = graph.constant(kind.0, &bound, x);
        let [scales, zeros] = parameters(draw, &mut graph, &counts, kind);
        let block = graph.int_list(&block);
        let numbers = [graph.int(kind.1), graph.int(kind.2)];
        let (nulls, weight) = ([graph.null(), graph.null()], result(&mut graph, dtype, &bound));
        let args = [x, block, scales, zeros, nulls[0], numbers[0], numbers[1], nulls[1], weight];
        graph.call(AFFINE, &args);
        times_input(draw, graph, weight, dtype, &bound)
    })
}

/// Rows to choose parameters for: none of them all zero, none of one sign alone but now and then.
fn rows(draw: &mut Draw<'_>, graph: &mut GraphBuilder) -> (Vec<u32>, Source, ValueId) {
    let mut bound = draw.dims(0, 3);
    bound.push(draw.pick(&[8, 1, 2, 3, 33, 64, 130, 300, 1040]));
    let dtype = draw.float();
    let (low, high) = draw.pick(&[(-1.0, 1.0), (0.1, 3.0), (-50.0, -1.0), (-0.1, 40.0)]);
    let (source, x) = Source::new(draw, graph, dtype, &bound, Fill::Uniform { low, high });
    (bound, source, x)
}

/// A zero point may lie so close to half-way that single precision takes the other side.
fn run_rows(draw: &mut Draw<'_>, graph: &GraphBuilder, source: &Source, bound: &[u32]) -> Outcome {
    let mut twin = Twin::new(graph)?;
    for whole in [true, false, false] {
        let mut sizes = if whole { bound.to_vec() } else { draw.shrunk(bound) };
        let last = bound.len() - 1;
        sizes[last] = bound[last];
        let input = source.arg(draw, &sizes);
        twin.run(&[input], Tolerance { integer: 1.0, ..Tolerance::SINGLE })?;
    }
    Ok(())
}

#[test]
fn parameters_of_rows() -> anyhow::Result<()> {
    property(&[CHOOSE], 40, |draw| {
        let mut graph = GraphBuilder::new();
        let (bound, source, x) = rows(draw, &mut graph);
        let mapping = draw.pick(&["ASYMMETRIC", "SYMMETRIC", "SYMMETRIC_NO_CLIPPING_ERR"]);
        let mapping = graph.string(mapping);
        let mut block = vec![1; bound.len() - 1];
        block.push(i64::from(bound[bound.len() - 1]));
        let block = graph.int_list(&block);
        let mut args = vec![x, mapping, block, graph.null()];
        args.extend(if draw.once_in(2) {
            [graph.int(-8), graph.int(7)]
        } else {
            [graph.int(-128), graph.int(127)]
        });
        args.push(match draw.pick(&[Some(1e-7), None, Some(0.5)]) {
            Some(eps) => graph.double(eps),
            None => graph.null(),
        });
        args.extend([graph.null(), graph.null()]);
        let mut out = bound[..bound.len() - 1].to_vec();
        let mut keep = false;
        if draw.once_in(2) {
            keep = draw.once_in(2);
            args.push(graph.bool(keep));
        }
        out.extend(keep.then_some(1));
        // Blocks of one element everywhere are one block of all.
        if bound[bound.len() - 1] == 1 && !keep {
            out.clear();
        }
        let zeros = draw.pick(&[DType::Int32, DType::Int8]);
        let outs = [graph.tensor(DType::Float32, &out), graph.tensor(zeros, &out)];
        args.push(graph.value_list(&outs));
        graph.call(CHOOSE, &args);
        graph.outputs(&outs);
        run_rows(draw, &graph, &source, &bound)
    })?;
    property(&[PER_ROW], 8, |draw| {
        let mut graph = GraphBuilder::new();
        let (width, count) = (draw.between(1, 200), draw.between(1, 30));
        let bound = [count, width];
        let (source, x) = Source::new(draw, &mut graph, DType::Float32, &bound, Fill::UNIT);
        let outs = [graph.tensor(DType::Float32, &[count]), graph.tensor(DType::Int8, &[count])];
        let numbers = [graph.int(-128), graph.int(127)];
        graph.call(PER_ROW, &[x, numbers[0], numbers[1], outs[0], outs[1]]);
        graph.outputs(&outs);
        run_rows(draw, &graph, &source, &bound)
    })
}

/// Sizes, block, mapping, codes, keepdim; sizes of the results, scales, zero points.
type Chosen = (
    &'static [u32],
    &'static [i64],
    &'static str,
    [i64; 2],
    bool,
    &'static [usize],
    &'static [f64],
    &'static [i64],
);

/// What `choose_qparams_affine` of torchao 0.18 gives for the numbers ((37 i mod 101) − 43) / 8.
const TORCHAO: &[Chosen] = &[
    (
        &[2, 8],
        &[1, 4],
        "ASYMMETRIC",
        [-128, 127],
        false,
        &[2, 2],
        &[0.036_274_51, 0.031_372_55, 0.044_607_844, 0.031_372_55],
        &[20, -36, -16, -8],
    ),
    (
        &[2, 8],
        &[1, 4],
        "ASYMMETRIC",
        [-128, 127],
        true,
        &[2, 2],
        &[0.036_274_51, 0.031_372_55, 0.044_607_844, 0.031_372_55],
        &[20, -36, -16, -8],
    ),
    (
        &[4, 6],
        &[2, 3],
        "SYMMETRIC_NO_CLIPPING_ERR",
        [-8, 7],
        false,
        &[2, 2],
        &[0.910_714_27, 0.732_142_87, 0.964_285_73, 0.785_714_27],
        &[0, 0, 0, 0],
    ),
    (&[4, 6], &[4, 6], "ASYMMETRIC", [-128, 127], false, &[], &[0.047_549_02], &[-15]),
    (&[4, 6], &[4, 6], "ASYMMETRIC", [0, 255], true, &[1, 1], &[0.047_549_02], &[113]),
    (
        &[2, 3, 4],
        &[1, 3, 2],
        "ASYMMETRIC",
        [-128, 127],
        false,
        &[2, 2],
        &[0.046_078_432, 0.034_803_923, 0.031_372_55, 0.044_607_844],
        &[-11, 16, -48, -24],
    ),
    (
        &[2, 3, 4],
        &[1, 3, 2],
        "SYMMETRIC",
        [-128, 127],
        true,
        &[2, 1, 2],
        &[0.05, 0.039_215_688, 0.043_137_256, 0.052_941_177],
        &[0, 0, 0, 0],
    ),
    (
        &[2, 3, 4],
        &[2, 1, 4],
        "SYMMETRIC",
        [-128, 126],
        false,
        &[3],
        &[0.042_322_833, 0.053_149_607, 0.050_196_85],
        &[0, 0, 0],
    ),
    (
        &[2, 3, 4],
        &[2, 1, 4],
        "ASYMMETRIC",
        [-8, 7],
        true,
        &[1, 3, 1],
        &[0.641_666_65, 0.641_666_65, 0.758_333_3],
        &[0, -4, -1],
    ),
    (&[1, 8], &[1, 8], "ASYMMETRIC", [-128, 127], false, &[1], &[0.041_176_47], &[3]),
    (&[1, 8], &[1, 4], "SYMMETRIC", [0, 255], true, &[1, 2], &[0.042_156_864, 0.040_196_08], &[128, 128]),
    (
        &[3, 4],
        &[3, 1],
        "ASYMMETRIC",
        [-128, 127],
        false,
        &[4],
        &[0.046_078_432, 0.026_470_589, 0.026_470_589, 0.026_470_589],
        &[-11, -67, -19, 61],
    ),
    (
        &[3, 4],
        &[3, 1],
        "SYMMETRIC_NO_CLIPPING_ERR",
        [-128, 127],
        true,
        &[1, 4],
        &[0.050_196_85, 0.040_354_33, 0.030_511_811, 0.039_062_5],
        &[0, 0, 0, 0],
    ),
    (&[4, 6], &[1, 1], "ASYMMETRIC", [-128, 127], false, &[], &[0.047_549_02], &[-15]),
    (&[3, 1], &[1, 1], "SYMMETRIC", [-128, 127], false, &[], &[0.042_156_864], &[0]),
];

#[test]
fn parameters_of_blocks_are_those_of_torchao() -> anyhow::Result<()> {
    for &(sizes, block, mapping, [low, high], keepdim, dims, scales, zeros) in TORCHAO {
        let mut graph = GraphBuilder::new();
        let x = graph.input(DType::Float32, sizes);
        let (mapping, block) = (graph.string(mapping), graph.int_list(block));
        let (null, low, high, keep) = (graph.null(), graph.int(low), graph.int(high), graph.bool(keepdim));
        let out: Vec<u32> = dims.iter().map(|&size| u32::try_from(size)).collect::<Result<_, _>>()?;
        let outs = [graph.tensor(DType::Float32, &out), graph.tensor(DType::Int32, &out)];
        let list = graph.value_list(&outs);
        graph.call(CHOOSE, &[x, mapping, block, null, low, high, null, null, null, keep, list]);
        graph.outputs(&outs);
        let mut twin = Twin::new(&graph).map_err(|error| anyhow::anyhow!("{error}"))?;
        let own: Vec<usize> = sizes.iter().map(|&size| size as usize).collect();
        let count: usize = own.iter().product();
        let numbers = (0..count).map(|i| ((37 * i % 101) as f64 - 43.0) / 8.0).collect();
        let input = [Arg::Tensor(Tensor::new(DType::Float32, &own, Data::F64(numbers))?)];
        twin.run(&input, Tolerance::SINGLE).map_err(|error| anyhow::anyhow!("{error}"))?;
        let found = twin.execute(&input)?;
        let [Arg::Tensor(scale), Arg::Tensor(zero)] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((scale.dims(), zero.dims()), (dims, dims), "{sizes:?}");
        assert_eq!(zero.integers(), zeros, "{sizes:?}");
        let near = |(x, want): (&f64, &f64)| (x - want).abs() <= 1e-6 * want;
        assert!(scale.floats().iter().zip(scales).all(near), "{:?}, want {scales:?}", scale.floats());
    }
    Ok(())
}
