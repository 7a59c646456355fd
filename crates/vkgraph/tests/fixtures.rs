//! Every payload that the exporter wrote for the fixtures parses, and holds the operators it should.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use etvk_pte::{Method, Program};
use etvk_vkgraph::{Payload, Value};
use serde_json::Value as Json;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures")
}

/// The payloads of a program's Vulkan delegates; several delegates may share one.
fn payloads(program: &[u8]) -> Vec<&[u8]> {
    let program = Program::parse(program).unwrap();
    let methods = program.methods().map(Result::unwrap);
    methods.flat_map(vulkan_payloads).collect()
}

fn vulkan_payloads(method: Method<'_>) -> Vec<&[u8]> {
    let vulkan = method.delegates().iter().filter(|delegate| delegate.id == "VulkanBackend");
    vulkan.map(|delegate| delegate.payload).collect()
}

fn cases() -> Vec<Json> {
    let manifest = std::fs::read(root().join("manifest.json")).unwrap();
    let manifest: Json = serde_json::from_slice(&manifest).unwrap();
    let cases = manifest["cases"].as_array().unwrap().clone();
    assert!(cases.len() > 100, "{} cases", cases.len());
    cases
}

#[test]
fn payloads_parse_and_hold_their_operators() {
    let mut wrong = Vec::new();
    for case in cases() {
        let program = std::fs::read(root().join(case["pte"].as_str().unwrap())).unwrap();
        let mut found = BTreeMap::new();
        for payload in payloads(&program) {
            match Payload::parse(payload) {
                Ok(payload) => {
                    for call in &payload.graph().calls {
                        *found.entry(call.name.clone()).or_insert(0_u64) += 1;
                    }
                }
                Err(error) => wrong.push(format!("{}: {error}", case["name"])),
            }
        }
        let expected: BTreeMap<String, u64> = serde_json::from_value(case["vulkan_ops"].clone()).unwrap();
        if found != expected {
            wrong.push(format!("{}: operators {found:?}, expected {expected:?}", case["name"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn all_constants_are_named_and_tensors_are_typed() {
    let mut tensors = 0;
    for case in cases() {
        let program = std::fs::read(root().join(case["pte"].as_str().unwrap())).unwrap();
        for payload in payloads(&program) {
            let payload = Payload::parse(payload).unwrap();
            for value in &payload.graph().values {
                let Value::Tensor(info) = value else { continue };
                tensors += 1;
                if info.constant.is_some() && info.byte_size() > 0 {
                    let error = payload.tensor_constant(info, None).unwrap_err().to_string();
                    assert!(error.contains("lives in named data under"), "{}: {error}", case["name"]);
                }
            }
        }
    }
    assert!(tensors > 1000, "{tensors} tensors");
}
