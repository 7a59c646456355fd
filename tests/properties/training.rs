//! Training steps and 4-bit weights outside the usual linear layers.

use etvk_reference::Arg;
use etvk_tests::{Draw, Fill, Outcome, Tolerance, Twin, property, result};
use etvk_vkgraph::{DType, GraphBuilder, ValueId};

use crate::source::Source;

const ADAMW: &[&str] = &["adamw_step.default", "et_vk.adamw_step.default"];
const CROSS_ENTROPY: &str = "et_vk.fused_ce.default";
const WEIGHT_GRADIENT: &str = "et_vk.linear_dW.default";
const BACKWARD: &str = "et_vk.linear_q4gsw_backward.default";
const REQUANT: &str = "et_vk.q4gsw_requant.default";
const OLD: &[&str] = &["aten._weight_int4pack_mm.default", "et_vk.linear_weight_int4.default"];

/// Every operator these properties compare.
pub(crate) fn names() -> Vec<&'static str> {
    [ADAMW, OLD, &[CROSS_ENTROPY, WEIGHT_GRADIENT, BACKWARD, REQUANT]].concat()
}

const BYTES: Fill = Fill::Grid { low: 0.0, high: 255.0, step: 1.0 };
const SCALES: Fill = Fill::Uniform { low: 0.01, high: 0.2 };

fn constant(
    draw: &mut Draw<'_>,
    graph: &mut GraphBuilder,
    dtype: DType,
    dims: &[u32],
    fill: Fill,
) -> ValueId {
    let bytes = draw.tensor(dtype, dims, fill).to_le_bytes();
    graph.constant(dtype, dims, bytes)
}

/// Steps that carry the state on.
#[test]
fn steps_of_adam() -> anyhow::Result<()> {
    for &name in ADAMW {
        property(&[name], 10, |draw| {
            let (mut graph, dims) = (GraphBuilder::new(), draw.dims(1, 3));
            let positive = Fill::Uniform { low: 0.1, high: 1.0 };
            let state = [Fill::UNIT, Fill::UNIT, positive].map(|fill| {
                let constant = constant(draw, &mut graph, DType::Float32, &dims, fill);
                let variable = graph.tensor(DType::Float32, &dims);
                graph.call("et_vk.prepack.default", &[constant, variable]);
                variable
            });
            let gradient = graph.input(DType::Float32, &dims);
            let numbers =
                [0.01, 0.9, 0.99, 1e-6, draw.pick(&[0.0, 0.1]), 0.19, 0.0199].map(|n| graph.double(n));
            // The exporter lists the inputs again; anything may read them.
            let outs =
                if draw.once_in(3) { [(); 3].map(|()| graph.tensor(DType::Float32, &dims)) } else { state };
            let list = graph.value_list(&outs);
            graph.call(name, &[&state[..], &[gradient], &numbers[..], &[list]].concat());
            let read = [(); 3].map(|()| graph.tensor(DType::Float32, &dims));
            for (&from, &to) in state.iter().zip(&read) {
                graph.call("aten.neg.default", &[from, to]);
            }
            graph.outputs(&read);
            let mut twin = Twin::new(&graph)?;
            for _ in 0..3 {
                let input = Arg::Tensor(draw.tensor(DType::Float32, &dims, Fill::UNIT));
                twin.advance(&[input], Tolerance { absolute: 1e-5, ..Tolerance::SINGLE })?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn cross_entropy_and_its_gradient() -> anyhow::Result<()> {
    property(&[CROSS_ENTROPY], 16, |draw| {
        let mut graph = GraphBuilder::new();
        let (rows, classes) = (draw.between(1, 20), draw.pick(&[8, 1, 3, 33, 200, 700]));
        let range = draw.pick(&[1.0, 20.0]);
        let fill = Fill::Uniform { low: -range, high: range };
        let (source, logits) = Source::new(draw, &mut graph, DType::Float32, &[rows, classes], fill);
        let labels = graph.input(DType::Int32, &[rows]);
        let valid = graph.double(draw.pick(&[1.0, 7.0, 13.0]));
        let outs = [graph.tensor(DType::Float32, &[]), graph.tensor(DType::Float32, &[rows, classes])];
        let list = graph.value_list(&outs);
        graph.call(CROSS_ENTROPY, &[logits, labels, valid, list]);
        graph.outputs(&outs);
        let mut twin = Twin::new(&graph)?;
        for whole in [true, false] {
            let rows = if whole { rows } else { draw.shrunk_size(rows) };
            let high = f64::from(classes);
            let labels = draw.tensor(DType::Int32, &[rows], Fill::Uniform { low: -1.0, high });
            let inputs = [source.arg(draw, &[rows, classes]), Arg::Tensor(labels)];
            twin.run(&inputs, Tolerance { absolute: 1e-6, ..Tolerance::SINGLE })?;
        }
        Ok(())
    })
}

/// Rows with some leading dimensions.
fn leading(draw: &mut Draw<'_>) -> Vec<u32> {
    draw.pick(&[vec![5], vec![1], vec![2, 3], vec![33], vec![2, 1, 3]])
}

#[test]
fn gradients_of_weights() -> anyhow::Result<()> {
    property(&[WEIGHT_GRADIENT], 12, |draw| {
        let mut graph = GraphBuilder::new();
        let (leading, n, k) = (leading(draw), draw.between(1, 20), draw.between(1, 20));
        let dims = [[&leading[..], &[n]].concat(), [&leading[..], &[k]].concat()];
        let (gradient, a) = Source::new(draw, &mut graph, DType::Float32, &dims[0], Fill::UNIT);
        let (x, b) = Source::new(draw, &mut graph, DType::Float32, &dims[1], Fill::UNIT);
        let out = graph.tensor(DType::Float32, &[n, k]);
        graph.call(WEIGHT_GRADIENT, &[a, b, out]);
        graph.outputs(&[out]);
        let mut twin = Twin::new(&graph)?;
        for whole in [true, false] {
            let rows = if whole { leading.clone() } else { draw.shrunk(&leading) };
            let inputs =
                [gradient.arg(draw, &[&rows[..], &[n]].concat()), x.arg(draw, &[&rows[..], &[k]].concat())];
            twin.run(&inputs, Tolerance::SINGLE)?;
        }
        Ok(())
    })
}

fn run_rows(draw: &mut Draw<'_>, graph: &GraphBuilder, x: &Source, leading: &[u32], width: u32) -> Outcome {
    let mut twin = Twin::new(graph)?;
    for whole in [true, false] {
        let rows = if whole { leading.to_vec() } else { draw.shrunk(leading) };
        let input = x.arg(draw, &[&rows[..], &[width]].concat());
        twin.run(&[input], Tolerance::SINGLE)?;
    }
    Ok(())
}

#[test]
fn gradients_through_four_bit_weights() -> anyhow::Result<()> {
    property(&[BACKWARD], 12, |draw| {
        let mut graph = GraphBuilder::new();
        let (group, groups, n) = (draw.pick(&[4, 8, 32]), draw.between(1, 3), draw.between(1, 20));
        let (leading, k) = (leading(draw), group * groups);
        let (source, x) =
            Source::new(draw, &mut graph, DType::Float32, &[&leading[..], &[n]].concat(), Fill::UNIT);
        let weight = constant(draw, &mut graph, DType::UInt8, &[n, k / 2], BYTES);
        let row = if draw.once_in(2) { n } else { n.next_multiple_of(8) };
        let scales = constant(draw, &mut graph, DType::Float32, &[groups, row], SCALES);
        let group = graph.int(i64::from(group));
        let out = graph.tensor(DType::Float32, &[&leading[..], &[k]].concat());
        graph.call(BACKWARD, &[x, weight, scales, group, out]);
        graph.outputs(&[out]);
        run_rows(draw, &graph, &source, &leading, n)
    })
}

#[test]
fn weights_made_codes() -> anyhow::Result<()> {
    property(&[REQUANT], 16, |draw| {
        let mut graph = GraphBuilder::new();
        let (group, groups, n) = (draw.pick(&[4, 3, 8, 32]), draw.between(1, 3), draw.between(1, 20));
        let k = group * groups - draw.pick(&[0, 1]);
        let fill = Fill::Uniform { low: -0.6, high: 0.6 };
        let (source, x) = Source::new(draw, &mut graph, DType::Float32, &[n, k], fill);
        // Powers of two divide exactly; 0 stands for a group of zeros.
        let fill = if draw.once_in(4) {
            Fill::Grid { low: 0.0, high: 0.125, step: 0.125 }
        } else {
            Fill::Power { low: -5, high: -3 }
        };
        let scales = constant(draw, &mut graph, DType::Float32, &[groups, n], fill);
        let group = graph.int(i64::from(group));
        let out = graph.tensor(DType::UInt8, &[n, k.div_ceil(2)]);
        graph.call(REQUANT, &[x, scales, group, out]);
        graph.outputs(&[out]);
        let mut twin = Twin::new(&graph)?;
        let input = source.arg(draw, &[n, k]);
        twin.run(&[input], Tolerance::EXACT)
    })
}

#[test]
fn four_bit_weights_of_old_releases() -> anyhow::Result<()> {
    for &name in OLD {
        property(&[name], 10, |draw| {
            let mut graph = GraphBuilder::new();
            let (group, groups, n) = (draw.pick(&[32, 4, 64]), draw.between(1, 3), draw.between(1, 20));
            let (leading, k, dtype) = (leading(draw), group * groups, draw.float());
            let dims = [&leading[..], &[k]].concat();
            let (source, x) = Source::new(draw, &mut graph, dtype, &dims, Fill::UNIT);
            let weight = constant(draw, &mut graph, DType::UInt8, &[n, k / 2], BYTES);
            let fill = Fill::Uniform { low: -0.2, high: 0.2 };
            let parameters = constant(draw, &mut graph, DType::Float32, &[groups, n, 2], fill);
            let out = result(&mut graph, dtype, &[&leading[..], &[n]].concat());
            let mut args = vec![x, weight, graph.int(i64::from(group)), parameters];
            if name.starts_with("et_vk") {
                args.push(graph.int(8));
            }
            args.push(out);
            graph.call(name, &args);
            graph.outputs(&[out]);
            run_rows(draw, &graph, &source, &leading, k)
        })?;
    }
    Ok(())
}
