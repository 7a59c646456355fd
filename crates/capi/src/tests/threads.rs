//! Handles in several threads.

use super::fixtures::{self, Fixture};
use super::mixed;
use super::support::{Handle, Tensor};

const MODELS: [&str; 4] =
    ["gemma4_tiny_4w_fp32", "llama_tiny_float_fp32", "sdpa_kv_causal_gqa_fp32", "softcap_logits_4w_fp32"];
const EXECUTIONS: usize = 50;

/// The bytes of all outputs of the executions of a model on a new handle.
fn outputs(fixture: &Fixture) -> Vec<Vec<u8>> {
    let handle = fixture.create();
    let data = |tensor: Tensor| tensor.data;
    (0..EXECUTIONS)
        .flat_map(|index| fixture.execute(&handle, &fixture.runs[index % fixture.runs.len()]))
        .map(data)
        .collect()
}

#[test]
fn four_threads_of_four_models_give_what_one_gives() {
    let fixtures: Vec<Fixture> = MODELS.iter().map(|name| fixtures::one(name)).collect();
    let alone: Vec<_> = fixtures.iter().map(outputs).collect();
    std::thread::scope(|scope| {
        for first in 0..4 {
            let (fixtures, alone) = (&fixtures, &alone);
            scope.spawn(move || {
                // Each thread runs every model, and no two start with the same.
                for at in (0..4).map(|at| (first + at) % 4) {
                    assert!(outputs(&fixtures[at]) == alone[at], "{} differs", fixtures[at].name);
                }
            });
        }
    });
}

#[test]
fn one_handle_serves_several_threads() {
    let handle: Handle = mixed::source().create().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..EXECUTIONS).for_each(|_| mixed::assert_works(&handle)));
        }
    });
}
