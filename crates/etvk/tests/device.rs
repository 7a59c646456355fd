//! Delegated programs on this machine's Vulkan device.
#![expect(clippy::unwrap_used, reason = "test code")]

use std::path::{Path, PathBuf};

use etvk::{Counters, Method, Module, ModuleOptions, Runtime, Tensor, Value};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(name)
}

fn floats(value: &Value) -> Vec<f32> {
    value.as_tensor().unwrap().to_vec().unwrap()
}

/// Feeds tokens from a position on; the logits of the last one.
fn feed(method: &mut Method, tokens: &[i64], start: i64) -> Vec<f32> {
    let positions: Vec<i64> = (start..).take(tokens.len()).collect();
    let tokens = Tensor::from_slice(&[1, tokens.len()], tokens).unwrap();
    let positions = Tensor::from_slice(&[positions.len()], &positions).unwrap();
    floats(&method.execute(&[tokens.into(), positions.into()]).unwrap()[0])
}

#[test]
fn a_decode_step_records_and_allocates_nothing() {
    let module = Module::open(fixture("models/gemma4_tiny_4w_fp32.pte")).unwrap();
    let mut method = module.load("forward", None).unwrap();
    feed(&mut method, &[5, 6, 7], 0);
    feed(&mut method, &[8], 3);
    let before = method.counters()[0];
    feed(&mut method, &[9], 4);
    feed(&mut method, &[10], 5);
    let after = method.counters()[0];
    assert_eq!(after, Counters { executions: before.executions + 2, ..before });
}

#[test]
fn caches_belong_to_one_loaded_method() {
    let module = Module::open(fixture("models/gemma4_tiny_4w_fp32.pte")).unwrap();
    let (mut a, mut b) = (module.load("forward", None).unwrap(), module.load("forward", None).unwrap());
    let whole = feed(&mut a, &[5, 6, 7, 8], 0);
    feed(&mut b, &[1, 2, 3], 0);
    // A new sequence may start over what is in the caches.
    feed(&mut b, &[5, 6, 7], 0);
    feed(&mut a, &[90, 91, 92], 0);
    let stepped = feed(&mut b, &[8], 3);
    let close = whole.iter().zip(&stepped).all(|(a, b)| (a - b).abs() < 1e-3);
    assert!(close, "{whole:?} {stepped:?}");
}

#[test]
fn loading_tells_how_far_it_is() {
    let runtime = Runtime::default();
    let options = ModuleOptions { runtime: runtime.clone(), ..ModuleOptions::default() };
    let module = Module::open_with(fixture("llm/sdpa_decomposed_fp32.pte"), options).unwrap();
    let mut seen = Vec::new();
    module.load("forward", Some(&mut |progress| seen.push(progress))).unwrap();
    assert!(seen.iter().all(|progress| progress.delegates == 3 && progress.done <= progress.total));
    let module = Module::open(fixture("models/llama_tiny_4w_fp32.pte")).unwrap();
    module.load("forward", Some(&mut |progress| seen.push(progress))).unwrap();
    let last = seen.last().unwrap();
    assert!(last.done == last.total && last.total > 0, "{last:?}");
    assert!(runtime.opened().is_some());
}

#[test]
fn positions_beyond_the_context_are_refused() {
    let module = Module::open(fixture("models/gemma4_tiny_4w_fp32.pte")).unwrap();
    let mut method = module.load("forward", None).unwrap();
    let execute = |method: &mut Method, token: i64, position: i64| {
        let token = Tensor::from_slice(&[1, 1], &[token]).unwrap();
        let position = Tensor::from_slice(&[1], &[position]).unwrap();
        method.execute(&[token.into(), position.into()])
    };
    for (token, position) in [(5, 1_000_000), (5, -1), (1_000_000, 0), (5, i64::MAX)] {
        let result = execute(&mut method, token, position);
        assert!(
            matches!(result, Err(etvk::Error::Delegate { delegate: 0, .. })),
            "{token} {position} {result:?}"
        );
    }
    // A refused execution does not spoil the next one.
    execute(&mut method, 5, 0).unwrap();
}
