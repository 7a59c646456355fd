//! What an executor does beside computing: repeated steps without work, and errors that it survives.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use etvk_engine::{Counters, Error, Fault, PortInfo};
use etvk_reference::{Arg, Data, Tensor};
use etvk_tests::{Decoder, Draw, Fill, Step, Tolerance, Twin, check_validation, context, open};
use etvk_vkgraph::{DType, GraphBuilder};

const DECODERS: &[&str] = &[
    "models/gemma4_tiny_4w_fp16",
    "models/gemma4_tiny_4w_readonly_shared_fp16",
    "models/llama_tiny_4w_fp16",
    "fork/gemma4_fork_tiny_4w_fp16",
];

#[test]
fn a_decode_step_after_the_first_only_submits() -> anyhow::Result<()> {
    // Tests beside this one make pipelines in the shared context.
    let context = open()?;
    for name in DECODERS {
        let mut decoder = Decoder::load(&context, name)?;
        decoder.execute(&Step::new(0, 7))?;
        decoder.execute(&Step::new(7, 1))?;
        let (before, pipelines) = (decoder.executor().counters(), context.pipeline_count());
        for position in 8..12 {
            decoder.execute(&Step::new(position, 1))?;
            let mut logits = vec![0; decoder.logits_bytes()?];
            decoder.read(&mut logits)?;
        }
        // Back at the start with the prompt's shape, which was recorded before.
        decoder.execute(&Step::new(0, 7))?;
        decoder.execute(&Step::new(7, 1))?;
        let after = decoder.executor().counters();
        let want = Counters { executions: before.executions + 6, ..before };
        assert_eq!(after, want, "{name}");
        assert_eq!(context.pipeline_count(), pipelines, "{name}");
    }
    Ok(context.device().validation_log().check()?)
}

#[test]
fn kernels_of_the_first_steps_are_compiled_while_loading() -> anyhow::Result<()> {
    let context = open()?;
    for name in DECODERS {
        let mut decoder = Decoder::load(&context, name)?;
        let pipelines = context.pipeline_count();
        assert!(pipelines > 0, "{name}");
        let longest = decoder.executor().inputs().iter().find_map(|port| match port {
            PortInfo::Tensor { bound, .. } if bound.len() == 2 => Some(bound[1]),
            _ => None,
        });
        decoder.execute(&Step::new(0, longest.unwrap()))?;
        decoder.execute(&Step::new(7, 1))?;
        assert_eq!(context.pipeline_count(), pipelines, "{name}");
    }
    Ok(context.device().validation_log().check()?)
}

#[test]
fn a_restart_gives_the_same_logits() -> anyhow::Result<()> {
    let mut decoder = Decoder::load(context()?, DECODERS[0])?;
    let mut runs = Vec::new();
    for _ in 0..2 {
        let mut all = Vec::new();
        for step in [Step::new(0, 5), Step::new(5, 1), Step::new(6, 1), Step::new(7, 3)] {
            decoder.execute(&step)?;
            let mut logits = vec![0; decoder.logits_bytes()?];
            decoder.read(&mut logits)?;
            all.push(logits);
        }
        runs.push(all);
    }
    assert_eq!(runs[0], runs[1]);
    check_validation()
}

/// An int32 tensor of rank 1.
fn positions(items: &[i64]) -> Arg {
    Arg::Tensor(Tensor::new(DType::Int32, &[items.len()], Data::I64(items.to_vec())).unwrap())
}

#[test]
fn an_index_out_of_range_is_reported_and_survived() {
    let mut draw = Draw::new(&[9, 9, 9]);
    for name in ["aten.embedding.default", "aten.index_select.default", "et_vk.embedding_q4gsw.default"] {
        let mut graph = GraphBuilder::new();
        let bytes = draw.tensor(DType::UInt8, &[6, 8], Fill::Uniform { low: 0.0, high: 256.0 }).to_le_bytes();
        let float = draw.tensor(DType::Float32, &[6, 8], Fill::UNIT).to_le_bytes();
        let index = graph.input(DType::Int32, &[3]);
        let (number, no) = (graph.int(0), graph.bool(false));
        let out = match name {
            "et_vk.embedding_q4gsw.default" => {
                let table = graph.constant(DType::UInt8, &[6, 8], bytes);
                let scales = graph.constant(DType::Float32, &[6, 1], vec![0x3f; 24]);
                let (group, out) = (graph.int(16), graph.tensor(DType::Float32, &[3, 16]));
                graph.call(name, &[table, scales, group, index, no, out]);
                out
            }
            "aten.embedding.default" => {
                let table = graph.constant(DType::Float32, &[6, 8], float);
                let out = graph.tensor(DType::Float32, &[3, 8]);
                graph.call(name, &[table, index, number, no, no, out]);
                out
            }
            _ => {
                let table = graph.constant(DType::Float32, &[6, 8], float);
                let out = graph.tensor(DType::Float32, &[3, 8]);
                graph.call(name, &[table, number, index, out]);
                out
            }
        };
        graph.outputs(&[out]);
        let mut twin = Twin::new(&graph).unwrap();
        for (bad, good) in [(6, 5), (-7, -6), (i64::from(i32::MAX), 0), (i64::from(i32::MIN), -1)] {
            let error = twin.refused(&[positions(&[0, bad, 1])]).unwrap();
            let Error::IndexOutOfRange { call: 0, name: operator, index, limit: 6 } = &error else {
                panic!("{error}")
            };
            assert_eq!((operator.as_str(), i64::from(*index)), (name, bad));
            twin.run(&[positions(&[0, good, 1])], Tolerance::EXACT).unwrap();
            // At another size, too.
            twin.run(&[positions(&[good])], Tolerance::EXACT).unwrap();
        }
    }
    check_validation().unwrap();
}

/// Attention over a cache of eight rows: start position, then q, k and v of at most four.
fn cached() -> Twin {
    let mut graph = GraphBuilder::new();
    let start = graph.sym_int_input();
    let rows = [1, 4, 2, 8];
    let ids = [(); 3].map(|()| graph.input(DType::Float32, &rows));
    let caches = [(); 2].map(|()| graph.constant(DType::Float32, &[1, 8, 2, 8], vec![0; 512]));
    let nulls = [(); 5].map(|()| graph.null());
    let out = graph.tensor(DType::Float32, &rows);
    let args = [&ids[..], &caches, &[start], &nulls, &[out]].concat();
    graph.call("sdpa_with_kv_cache.default", &args);
    graph.outputs(&[out]);
    Twin::new(&graph).unwrap()
}

fn step(start: i64, rows: u32) -> Vec<Arg> {
    let mut draw = Draw::new(&[77]);
    let mut args = vec![Arg::Int(start)];
    args.extend([(); 3].map(|()| Arg::Tensor(draw.tensor(DType::Float32, &[1, rows, 2, 8], Fill::UNIT))));
    args
}

#[test]
fn a_position_beyond_the_cache_is_refused_and_survived() {
    let mut twin = cached();
    twin.run(&step(0, 4), Tolerance::SINGLE).unwrap();
    for (start, rows) in [(5, 4), (8, 1), (-1, 1), (i64::from(i32::MAX), 1), (i64::from(i32::MIN), 2)] {
        let error = twin.refused(&step(start, rows)).unwrap();
        let Error::Call(fault) = &error else { panic!("{error}") };
        let high = 8 - i64::from(rows);
        let found = fault.fault.clone();
        assert!(
            matches!(found, Fault::Range { low: 0, high: h, found, .. } if h == high && found == start),
            "{error}"
        );
        assert_eq!((fault.call, fault.name.as_str()), (0, "sdpa_with_kv_cache.default"));
        // What was refused has changed nothing that later steps see.
        twin.run(&step(4, 1), Tolerance::SINGLE).unwrap();
        twin.run(&step(4, 4), Tolerance::SINGLE).unwrap();
    }
    check_validation().unwrap();
}

#[test]
fn sizes_that_do_not_fit_are_refused_and_survived() {
    let mut graph = GraphBuilder::new();
    let (a, b) = (graph.input(DType::Float32, &[4, 6]), graph.input(DType::Float32, &[6]));
    let out = graph.tensor(DType::Float32, &[4, 6]);
    graph.call("aten.mul.Tensor", &[a, b, out]);
    graph.outputs(&[out]);
    let mut twin = Twin::new(&graph).unwrap();
    let mut draw = Draw::new(&[5]);
    let mut args = |a: [u32; 2], b: u32| {
        [&a[..], &[b]].map(|dims| Arg::Tensor(draw.tensor(DType::Float32, dims, Fill::UNIT))).to_vec()
    };
    twin.run(&args([4, 6], 6), Tolerance::EXACT).unwrap();
    let error = twin.refused(&args([4, 6], 5)).unwrap();
    assert!(matches!(error, Error::Call(_)), "{error}");
    let error = twin.refused(&args([5, 6], 6)).unwrap();
    assert!(matches!(error, Error::Input { index: 0, .. }), "{error}");
    twin.run(&args([3, 5], 5), Tolerance::EXACT).unwrap();
    twin.run(&args([4, 6], 6), Tolerance::EXACT).unwrap();
    check_validation().unwrap();
}
