//! Codes and back: parameters of every shape; int8 arithmetic between codes.

use etvk_reference::Arg;
use etvk_tests::{Draw, Fill, Outcome, Tolerance, Twin, property, result};
use etvk_vkgraph::{DType, GraphBuilder, ValueId};

use crate::broadcast::Broadcast;
use crate::map::call;
use crate::source::Source;

const PER_TENSOR: &[&str] = &["dequantize_per_tensor.default", "quantize_per_tensor.default"];
const OF_TENSORS: &[&str] =
    &["quantized_decomposed.dequantize_per_tensor.tensor", "quantized_decomposed.quantize_per_tensor.tensor"];
const PER_CHANNEL: &[&str] = &[
    "quantized_decomposed.dequantize_per_channel.default",
    "quantized_decomposed.quantize_per_channel.default",
];
const PER_TOKEN: &[&str] = &[
    "dequantize_per_token.default",
    "quantize_per_token.default",
    "quantized_decomposed.dequantize_per_token.default",
    "quantized_decomposed.quantize_per_token.default",
];
const AFFINE: &[&str] = &["torchao.dequantize_affine.default", "torchao.quantize_affine.default"];
const CHOOSE: &[&str] = &["choose_qparams.tensor", "quantized_decomposed.choose_qparams.tensor"];
const CHOOSE_ROWS: &[&str] = &[
    "choose_qparams_per_token_asymmetric.default",
    "quantized_decomposed.choose_qparams_per_token_asymmetric.default",
];
const CHOOSE_BLOCKS: &str = "torchao.choose_qparams_affine.default";
const ADD: &[&str] = &["et_vk.add_q8ta_q8ta_q8to.default", "et_vk.q8ta_add.default"];
const RELU: &str = "et_vk.q8ta_relu.default";

/// Every operator these properties compare.
pub(crate) fn names() -> Vec<&'static str> {
    let lists = [PER_TENSOR, OF_TENSORS, PER_CHANNEL, PER_TOKEN, AFFINE, CHOOSE, CHOOSE_ROWS, ADD];
    lists.into_iter().flatten().copied().chain([CHOOSE_BLOCKS, RELU]).collect()
}

/// A number half-way between two codes may fall to either.
const CODES: Tolerance = Tolerance { integer: 1.0, ..Tolerance::SINGLE };

/// How the parameters of a tensor are laid out.
#[derive(Clone, Copy, PartialEq)]
enum Layout {
    Numbers,
    Tensors,
    Channels(usize),
    Rows,
    Blocks,
}

/// A conversion of one tensor, its rank at least `rank`.
fn conversion(
    draw: &mut Draw<'_>,
    name: &str,
    rank: u32,
    layout: impl Fn(&mut Draw<'_>, usize) -> Layout,
) -> Outcome {
    let quantize = !name.contains("dequantize");
    let mut graph = GraphBuilder::new();
    let mut bound = draw.dims(rank, 4);
    let layout = layout(draw, bound.len());
    let (codes, low, high) =
        draw.pick(&[(DType::Int8, -128, 127), (DType::UInt8, 0, 255), (DType::Int8, -8, 7)]);
    let block: Vec<u32> = bound.iter().map(|&size| draw.pick(&[1, size.max(1), 2])).collect();
    if layout == Layout::Blocks {
        bound
            .iter_mut()
            .zip(&block)
            .for_each(|(size, &block)| *size = (*size).max(1).next_multiple_of(block));
    }
    let float = draw.float();
    let code_fill = Fill::Grid { low: low as f64, high: high as f64, step: 1.0 };
    let (from, fill) =
        if quantize { (float, Fill::Uniform { low: -9.0, high: 20.0 }) } else { (codes, code_fill) };
    let (source, x) = Source::new(draw, &mut graph, from, &bound, fill);
    // Parameters of rows are inputs that change with x; the others are constants.
    let dims = match layout {
        Layout::Numbers | Layout::Tensors => vec![1],
        Layout::Channels(axis) => vec![bound[axis]],
        Layout::Rows => [&bound[..bound.len() - 1], &[1]].concat(),
        Layout::Blocks => bound.iter().zip(&block).map(|(&size, &block)| size / block).collect(),
    };
    let (scale_fill, zero_fill) =
        (Fill::Uniform { low: 0.05, high: 0.3 }, Fill::Grid { low: -5.0, high: 5.0, step: 1.0 });
    let mut args = vec![x];
    if layout == Layout::Blocks {
        let block: Vec<i64> = block.iter().map(|&block| i64::from(block)).collect();
        args.push(graph.int_list(&block));
    }
    match layout {
        Layout::Numbers => args.extend([graph.double(0.173), graph.int(draw.pick(&[0, 3, -5]))]),
        Layout::Rows => args.extend([DType::Float32, DType::Int32].map(|dtype| graph.input(dtype, &dims))),
        _ => {
            for (dtype, fill) in [(DType::Float32, scale_fill), (DType::Int32, zero_fill)] {
                let bytes = draw.tensor(dtype, &dims, fill).to_le_bytes();
                args.push(graph.constant(dtype, &dims, bytes));
            }
            if layout == Layout::Blocks && draw.once_in(3) {
                args[3] = graph.null();
            }
        }
    }
    match layout {
        Layout::Channels(axis) => args.push(graph.int(i64::try_from(axis).unwrap_or(0))),
        Layout::Blocks => args.push(graph.null()),
        _ => {}
    }
    args.extend([graph.int(low), graph.int(high)]);
    // The types of codes and of floats: an output type stands behind the bounds, an input type of blocks before them.
    let types = match (layout == Layout::Blocks, quantize) {
        (true, true) => 0,
        (true, false) | (false, true) => 1,
        (false, false) => 2,
    };
    args.extend((0..types).map(|_| graph.null()));
    let out = if quantize { graph.tensor(codes, &bound) } else { result(&mut graph, float, &bound) };
    args.push(out);
    graph.call(name, &args);
    graph.outputs(&[out]);

    let mut twin = Twin::new(&graph)?;
    for whole in [true, false, false] {
        let mut sizes = if whole { bound.clone() } else { draw.shrunk(&bound) };
        match layout {
            Layout::Channels(axis) => sizes[axis] = bound[axis],
            Layout::Blocks => sizes.clone_from(&bound),
            _ => {}
        }
        let mut inputs = vec![source.arg(draw, &sizes)];
        if layout == Layout::Rows {
            let dims = [&sizes[..sizes.len() - 1], &[1]].concat();
            inputs.push(Arg::Tensor(draw.tensor(DType::Float32, &dims, scale_fill)));
            inputs.push(Arg::Tensor(draw.tensor(DType::Int32, &dims, zero_fill)));
        }
        twin.run(&inputs, CODES)?;
    }
    Ok(())
}

#[test]
fn one_pair_of_parameters() -> anyhow::Result<()> {
    for &name in PER_TENSOR {
        property(&[name], 8, |draw| conversion(draw, name, 0, |_, _| Layout::Numbers))?;
    }
    for &name in OF_TENSORS {
        property(&[name], 12, |draw| conversion(draw, name, 0, |_, _| Layout::Tensors))?;
    }
    Ok(())
}

#[test]
fn a_pair_for_each_channel() -> anyhow::Result<()> {
    for &name in PER_CHANNEL {
        property(&[name], 16, |draw| {
            conversion(draw, name, 1, |draw, rank| Layout::Channels(draw.below(rank)))
        })?;
    }
    Ok(())
}

#[test]
fn a_pair_for_each_row() -> anyhow::Result<()> {
    for &name in PER_TOKEN {
        property(&[name], 12, |draw| conversion(draw, name, 1, |_, _| Layout::Rows))?;
    }
    Ok(())
}

#[test]
fn a_pair_for_each_block() -> anyhow::Result<()> {
    for &name in AFFINE {
        property(&[name], 20, |draw| conversion(draw, name, 1, |_, _| Layout::Blocks))?;
    }
    Ok(())
}

fn range(draw: &mut Draw<'_>) -> Fill {
    let (low, high) = draw.pick(&[(-1.0, 1.0), (0.1, 3.0), (-50.0, -1.0), (-0.1, 40.0)]);
    Fill::Uniform { low, high }
}

#[test]
fn parameters_of_all_elements() -> anyhow::Result<()> {
    for &name in CHOOSE {
        property(&[name], 10, |draw| {
            let mut graph = GraphBuilder::new();
            let (bound, dtype, fill) = (draw.dims(0, 4), draw.float(), range(draw));
            let (source, x) = Source::new(draw, &mut graph, dtype, &bound, fill);
            let numbers = [graph.int(-128), graph.int(127), graph.double(1e-7), graph.null()];
            let outs = [graph.tensor(DType::Float32, &[1]), graph.tensor(DType::Int32, &[1])];
            let list = graph.value_list(&outs);
            graph.call(name, &[&[x], &numbers[..], &[list]].concat());
            graph.outputs(&outs);
            let mut twin = Twin::new(&graph)?;
            for whole in [true, false, false] {
                let sizes = if whole { bound.clone() } else { draw.shrunk(&bound) };
                let input = source.arg(draw, &sizes);
                twin.run(&[input], CODES)?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn parameters_of_tokens() -> anyhow::Result<()> {
    for &name in CHOOSE_ROWS {
        property(&[name], 10, |draw| {
            let mut graph = GraphBuilder::new();
            let (dtype, fill) = (draw.float(), range(draw));
            let bound = [draw.dims(0, 3), vec![draw.pick(&[8, 2, 33, 130])]].concat();
            let (source, x) = Source::new(draw, &mut graph, dtype, &bound, fill);
            let dims = [&bound[..bound.len() - 1], &[1]].concat();
            let outs = [graph.tensor(DType::Float32, &dims), graph.tensor(DType::Int32, &dims)];
            let (null, list) = (graph.null(), graph.value_list(&outs));
            graph.call(name, &[x, null, list]);
            graph.outputs(&outs);
            let mut twin = Twin::new(&graph)?;
            for whole in [true, false, false] {
                let mut sizes = if whole { bound.clone() } else { draw.shrunk(&bound) };
                sizes[bound.len() - 1] = bound[bound.len() - 1];
                let input = source.arg(draw, &sizes);
                twin.run(&[input], CODES)?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn parameters_of_blocks() -> anyhow::Result<()> {
    property(&[CHOOSE_BLOCKS], 24, |draw| {
        let mut graph = GraphBuilder::new();
        let rank = draw.between(1, 3) as usize;
        let block: Vec<u32> = (0..rank).map(|_| draw.pick(&[1, 2, 5])).collect();
        let bound: Vec<u32> = block.iter().map(|&block| block * draw.between(1, 4)).collect();
        let fill = range(draw);
        let (source, x) = Source::new(draw, &mut graph, DType::Float32, &bound, fill);
        let mapping = graph.string(draw.pick(&["ASYMMETRIC", "SYMMETRIC"]));
        let list: Vec<i64> = block.iter().map(|&block| i64::from(block)).collect();
        let mut args = vec![x, mapping, graph.int_list(&list), graph.null(), graph.int(-128), graph.int(127)];
        args.extend([graph.double(1e-7), graph.null(), graph.null()]);
        let keep = draw.once_in(2);
        args.push(graph.bool(keep));
        let kept = |&(&size, &block): &(&u32, &u32)| keep || block == 1 || size != block;
        let mut dims: Vec<u32> =
            bound.iter().zip(&block).filter(kept).map(|(&size, &block)| size / block).collect();
        // Blocks of one element everywhere are one block of all.
        if !keep && block.iter().all(|&block| block == 1) {
            dims.clear();
        }
        let outs = [graph.tensor(DType::Float32, &dims), graph.tensor(DType::Int32, &dims)];
        args.push(graph.value_list(&outs));
        graph.call(CHOOSE_BLOCKS, &args);
        graph.outputs(&outs);
        let mut twin = Twin::new(&graph)?;
        let input = source.arg(draw, &bound);
        twin.run(&[input], CODES)
    })
}

#[test]
fn arithmetic_of_codes() -> anyhow::Result<()> {
    let codes = Fill::Grid { low: -128.0, high: 127.0, step: 1.0 };
    for &name in ADD {
        property(&[name], 12, |draw| {
            let (mut graph, mut sizes) = (GraphBuilder::new(), Broadcast::new(draw));
            let a = sizes.operand(draw, &mut graph, DType::Int8, codes);
            let b = sizes.operand(draw, &mut graph, DType::Int8, codes);
            let mut args = vec![a, b];
            for scale in [0.1, 0.037, 0.21] {
                args.extend([graph.double(scale), graph.int(draw.pick(&[0, -128, 127, 5]))]);
            }
            args.push(graph.double(draw.pick(&[1.0, 0.5])));
            call(&mut graph, name, args, DType::Int8, &sizes.result());
            sizes.run(draw, &graph, CODES)
        })?;
    }
    property(&[RELU], 12, |draw| {
        let (mut graph, mut sizes) = (GraphBuilder::new(), Broadcast::new(draw));
        let mut args: Vec<ValueId> = vec![sizes.whole(draw, &mut graph, DType::Int8, codes)];
        for scale in [0.1, 0.07] {
            args.extend([graph.double(scale), graph.int(draw.pick(&[0, -128, 127, 5]))]);
        }
        call(&mut graph, RELU, args, DType::Int8, &sizes.result());
        sizes.run(draw, &graph, CODES)
    })
}
