//! Damaged payloads: the engine refuses them or executes them, but never panics, hangs or allocates without bounds.

use etvk_engine::{Executor, Input, LoadOptions, PortInfo};
use etvk_tests::{Fixture, check_validation, context};
use etvk_vkgraph::{Call, DType, Graph, GraphBuilder, NamedData, Payload, Value, ValueId};

/// Programs of different operators, and how many damaged copies of each are tried.
const FIXTURES: &[&str] = &[
    "llm/sdpa_kv_mask_scale1_fp32",
    "llm/linear_4w_g32_bias_fp32",
    "llm/embedding_4bit_g32_fp32",
    "llm/rope_hf_partial_fp32",
    "llm/rms_norm_weight_fp16",
    "llm/update_cache_only_fp32",
    "fork/gemma_sdpa_softcap_fp32",
    "fork/aten_rms_norm_rank4_odd_fp32",
];
const COPIES: u64 = 600;

/// Elements that all tensors of a graph may have together for it to be executed here.
const MAX_ELEMENTS: u64 = 1 << 22;

/// SplitMix64.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.next() % count.max(1) as u64).unwrap_or(0)
    }

    /// One to three bits or words changed.
    fn damage(&mut self, bytes: &mut [u8]) {
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len());
            let word = (at & !3)..((at & !3) + 4).min(bytes.len());
            match self.below(6) {
                0 | 1 => bytes[at] ^= 1 << self.below(8),
                2 => bytes[at] = self.next().to_le_bytes()[0],
                3 => bytes[word].fill(0xff),
                4 => bytes[word].fill(0),
                _ => {
                    let small = [self.next().to_le_bytes()[0] % 16, 0, 0, 0];
                    let length = word.len();
                    bytes[word].copy_from_slice(&small[..length]);
                }
            }
        }
    }
}

#[derive(Debug, Default)]
struct Outcomes {
    unparsed: u32,
    unlowered: u32,
    unloaded: u32,
    too_large: u32,
    failed: u32,
    executed: u32,
}

fn try_payload(bytes: &[u8], named: &dyn NamedData, outcomes: &mut Outcomes) -> anyhow::Result<()> {
    let Ok(payload) = Payload::parse(bytes) else {
        outcomes.unparsed += 1;
        return Ok(());
    };
    if etvk_engine::lower(payload.graph()).is_err() {
        outcomes.unlowered += 1;
        return Ok(());
    }
    let elements = |value: &Value| match value {
        Value::Tensor(info) => info.element_count(),
        _ => 0,
    };
    if payload.graph().values.iter().map(elements).fold(0, u64::saturating_add) > MAX_ELEMENTS {
        outcomes.too_large += 1;
        return Ok(());
    }
    let options = LoadOptions { named: Some(named), ..LoadOptions::default() };
    let Ok(mut executor) = Executor::load(context()?, &payload, options) else {
        outcomes.unloaded += 1;
        return Ok(());
    };
    for smaller in 0..3 {
        match execute(&mut executor, smaller) {
            Ok(()) => outcomes.executed += 1,
            Err(_) => outcomes.failed += 1,
        }
    }
    Ok(())
}

/// Executes with zeros at the bounds, or `smaller` by that much where they allow it, and reads every output.
fn execute(executor: &mut Executor, smaller: u32) -> Result<(), etvk_engine::Error> {
    let sizes = |port: &PortInfo| match port {
        PortInfo::Tensor { bound, .. } => bound.iter().map(|size| size.saturating_sub(smaller)).collect(),
        PortInfo::Int => Vec::new(),
    };
    let ports = executor.inputs().to_vec();
    let sizes: Vec<Vec<u32>> = ports.iter().map(sizes).collect();
    let zeros = |(port, sizes): (&PortInfo, &Vec<u32>)| match port {
        PortInfo::Tensor { dtype, .. } => vec![0; sizes.iter().product::<u32>() as usize * dtype.size()],
        PortInfo::Int => Vec::new(),
    };
    let data: Vec<Vec<u8>> = ports.iter().zip(&sizes).map(zeros).collect();
    let inputs: Vec<Input<'_>> = ports
        .iter()
        .zip(sizes.iter().zip(&data))
        .map(|(port, (sizes, data))| match port {
            PortInfo::Tensor { dtype, .. } => Input::Tensor { dtype: *dtype, sizes, data },
            PortInfo::Int => Input::Int(i64::from(smaller)),
        })
        .collect();
    executor.execute(&inputs)?;
    for (index, port) in executor.outputs().iter().enumerate() {
        match port {
            PortInfo::Tensor { dtype, .. } => {
                let count: u32 = executor.output_sizes(index)?.iter().product();
                executor.read_output(index, *dtype, &mut vec![0; count as usize * dtype.size()])?;
            }
            PortInfo::Int => {
                executor.output_int(index)?;
            }
        }
    }
    Ok(())
}

#[test]
fn damaged_graphs() -> anyhow::Result<()> {
    let mut outcomes = Outcomes::default();
    for name in FIXTURES {
        let fixture = Fixture::read(name)?;
        let (whole, named) = (fixture.payload()?, fixture.named()?);
        try_payload(whole, &named, &mut outcomes)?;
        assert!(outcomes.executed > 0, "{name}: {outcomes:?}");
        for copy in 0..COPIES {
            let mut bytes = whole.to_vec();
            Noise(copy).damage(&mut bytes);
            try_payload(&bytes, &named, &mut outcomes)?;
        }
    }
    // Damage of every depth, or the test tests nothing.
    let Outcomes { unparsed, unlowered, failed, executed, .. } = outcomes;
    assert!(unparsed > 0 && unlowered > 0 && failed > 0 && executed > 16, "{outcomes:?}");
    check_validation()
}

/// A graph with its constants' bytes.
struct Whole {
    graph: Graph,
    constants: Vec<Vec<u8>>,
}

impl Whole {
    fn read(fixture: &Fixture) -> anyhow::Result<Self> {
        let (payload, named) = (Payload::parse(fixture.payload()?)?, fixture.named()?);
        let bytes = |value: &Value| match value {
            Value::Tensor(info) if info.constant.is_some() => {
                payload.tensor_constant(info, Some(&named)).map(|bytes| bytes.to_vec())
            }
            _ => Ok(Vec::new()),
        };
        let constants = payload.graph().values.iter().map(bytes).collect::<Result<_, _>>()?;
        Ok(Self { graph: payload.into_graph(), constants })
    }

    /// The payload of a graph like this one.
    fn payload(&self, graph: &Graph) -> Vec<u8> {
        let mut builder = GraphBuilder::new();
        for (index, value) in graph.values.iter().enumerate() {
            let is_input = graph.inputs.iter().any(|id| id.index() == index);
            match value {
                Value::Tensor(info) if info.constant.is_some() => {
                    builder.constant(info.dtype, &info.dims, self.constants[index].clone())
                }
                Value::Tensor(info) if is_input => builder.input(info.dtype, &info.dims),
                Value::SymInt if is_input => builder.sym_int_input(),
                value => builder.value(value.clone()),
            };
        }
        for call in &graph.calls {
            builder.call(call.name.clone(), &call.args);
        }
        builder.outputs(&graph.outputs);
        builder.finish()
    }
}

const NUMBERS: &[i64] = &[0, 1, -1, 2, 3, 7, 255, 65_536, i64::MAX, i64::MIN, 2_147_483_648, -2_147_483_649];
const DTYPES: &[DType] =
    &[DType::Bool, DType::UInt8, DType::Int8, DType::Int32, DType::Float16, DType::Float32, DType::Int64];

/// Another graph of valid parts that need not fit each other.
fn restructure(graph: &mut Graph, noise: &mut Noise) {
    let (values, calls) = (graph.values.len(), graph.calls.len());
    let any_value = |noise: &mut Noise| ValueId(u32::try_from(noise.below(values)).unwrap_or(0));
    match noise.below(7) {
        0 => {
            let call = &mut graph.calls[noise.below(calls)];
            let slot = noise.below(call.args.len());
            call.args[slot] = any_value(noise);
        }
        1 => {
            let Call { args, .. } = &mut graph.calls[noise.below(calls)];
            if noise.below(2) == 0 {
                args.pop();
            } else {
                args.insert(noise.below(args.len()), any_value(noise));
            }
        }
        2 => {
            let operators = etvk_engine::OPERATORS;
            operators[noise.below(operators.len())]
                .name
                .clone_into(&mut graph.calls[noise.below(calls)].name);
        }
        3 => {
            let (from, to) = (noise.below(calls), noise.below(calls));
            graph.calls.swap(from, to);
        }
        _ => {
            let number = NUMBERS[noise.below(NUMBERS.len())];
            match &mut graph.values[noise.below(values)] {
                Value::Tensor(info) => match noise.below(4) {
                    0 => info.dtype = DTYPES[noise.below(DTYPES.len())],
                    1 => info.dims.push(u32::try_from(noise.below(4)).unwrap_or(0)),
                    2 => {
                        info.dims.pop();
                    }
                    _ => {
                        let size = u32::try_from(number.clamp(0, 70_000)).unwrap_or(0);
                        let dim = noise.below(info.dims.len());
                        info.dims.get_mut(dim).into_iter().for_each(|dim| *dim = size);
                    }
                },
                Value::IntList(items) => items.iter_mut().for_each(|item| *item = number),
                Value::ValueList(items) => items.iter_mut().for_each(|item| *item = any_value(noise)),
                other => {
                    *other = [Value::Int(number), Value::Double(f64::NAN), Value::Null, Value::Bool(true)]
                        [noise.below(4)]
                    .clone();
                }
            }
        }
    }
}

#[test]
fn restructured_graphs() -> anyhow::Result<()> {
    let mut outcomes = Outcomes::default();
    for name in FIXTURES {
        let whole = Whole::read(&Fixture::read(name)?)?;
        try_payload(&whole.payload(&whole.graph), &NoData, &mut outcomes)?;
        assert!(outcomes.executed > 0, "{name}: {outcomes:?}");
        for copy in 0..COPIES {
            let (mut graph, mut noise) = (whole.graph.clone(), Noise(copy));
            for _ in 0..=noise.below(3) {
                restructure(&mut graph, &mut noise);
            }
            try_payload(&whole.payload(&graph), &NoData, &mut outcomes)?;
        }
    }
    let Outcomes { unlowered, failed, executed, .. } = outcomes;
    assert!(unlowered > 0 && failed > 0 && executed > 100, "{outcomes:?}");
    check_validation()
}

/// All constants are in the payload.
struct NoData;

impl NamedData for NoData {
    fn get(&self, _: &str) -> Option<&[u8]> {
        None
    }
}
