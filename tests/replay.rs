//! An execution repeated is the same execution: payloads that keep nothing give the same bits every time.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use anyhow::{Context as _, ensure};
use etvk_engine::{Executor, Input, LoadOptions, PortInfo};
use etvk_tests::{Draw, Fill, Fixture, check_validation, context};
use etvk_vkgraph::{DType, Payload};

/// Of several families, and whole models.
const FIXTURES: &[&str] = &[
    "ops/conv2d_grouped_fp16",
    "ops/layer_norm_fp32",
    "ops/reduce_other_dims_fp32",
    "ops/mm_fp32",
    "ops/softmax_rank4_fp16",
    "llm/linear_8da4w_g32_fp32",
    "models/qconv_pt2e_8a8w_fp32",
    "models/encoder_tiny_fp32",
];

const EXECUTIONS: u32 = 100;

/// A port's input at its bounds: small indices where it takes integers.
fn input(draw: &mut Draw<'_>, port: &PortInfo) -> Option<(DType, Vec<u32>, Vec<u8>)> {
    let PortInfo::Tensor { dtype, bound } = port else { return None };
    let fill = if dtype.is_float() { Fill::UNIT } else { Fill::Grid { low: 0.0, high: 3.0, step: 1.0 } };
    Some((*dtype, bound.clone(), draw.tensor(*dtype, bound, fill).to_le_bytes()))
}

fn hash(executor: &Executor) -> anyhow::Result<u64> {
    let mut hasher = DefaultHasher::new();
    for (index, port) in executor.outputs().iter().enumerate() {
        let PortInfo::Tensor { dtype, .. } = port else {
            executor.output_int(index)?.hash(&mut hasher);
            continue;
        };
        let elements: u32 = executor.output_sizes(index)?.iter().product();
        let mut bytes = vec![0; elements as usize * dtype.size()];
        executor.read_output(index, *dtype, &mut bytes)?;
        ensure!(bytes.iter().any(|&byte| byte != 0), "output {index} is all zeros");
        bytes.hash(&mut hasher);
    }
    Ok(hasher.finish())
}

fn replay(name: &str) -> anyhow::Result<()> {
    let fixture = Fixture::read(name)?;
    let (payload, named) = (Payload::parse(fixture.payload()?)?, fixture.named()?);
    let options = LoadOptions { named: Some(&named), ..LoadOptions::default() };
    let mut executor = Executor::load(context()?, &payload, options)?;
    let mut draw = Draw::new(&[40_503, 7919, 31, 12_345]);
    let inputs = executor.inputs().iter().map(|port| input(&mut draw, port).context("a tensor"));
    let inputs = inputs.collect::<anyhow::Result<Vec<_>>>()?;
    let inputs: Vec<Input<'_>> =
        inputs.iter().map(|(dtype, sizes, data)| Input::Tensor { dtype: *dtype, sizes, data }).collect();
    let mut hashes = BTreeSet::new();
    for _ in 0..EXECUTIONS {
        executor.execute(&inputs)?;
        hashes.insert(hash(&executor)?);
    }
    ensure!(hashes.len() == 1, "{} different results", hashes.len());
    Ok(())
}

#[test]
fn a_hundred_executions_give_the_same_bits() -> anyhow::Result<()> {
    for name in FIXTURES {
        replay(name).context(*name)?;
    }
    check_validation()
}
