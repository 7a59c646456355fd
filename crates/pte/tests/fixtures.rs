//! Every fixture parses, and says what the manifest says.
#![expect(clippy::cast_possible_truncation, clippy::panic, clippy::unwrap_used, reason = "test code")]
mod common;

use std::collections::{BTreeMap, BTreeSet};

use etvk_pte::{
    BundledProgram, BundledValue, Container, FlatTensor, Instruction, Layout, Map, Method, Program,
    ScalarType, Value,
};
use serde_json::{Value as Json, json};

fn manifest() -> Vec<Json> {
    let text = std::fs::read_to_string(common::fixtures().join("manifest.json")).unwrap();
    let mut manifest: Json = serde_json::from_str(&text).unwrap();
    let Json::Array(cases) = manifest["cases"].take() else { panic!("no cases") };
    assert!(!cases.is_empty());
    cases
}

/// The file of a case that `path` names.
fn open(path: &Json) -> Map {
    Map::open(common::fixtures().join(path.as_str().unwrap())).unwrap()
}

fn array(list: &Json) -> &[Json] {
    list.as_array().unwrap()
}

#[test]
fn every_fixture_parses() {
    for path in common::files(&["pte", "ptd", "bpte"]) {
        let file = Map::open(&path).unwrap();
        let seen = common::walk::walk(&file).unwrap_or_else(|e| panic!("{}: {e:?}", path.display()));
        assert!(seen > 0, "{}", path.display());
        let kind = match path.extension().and_then(|extension| extension.to_str()) {
            Some("pte") => Container::Program,
            Some("ptd") => Container::FlatTensor,
            _ => Container::BundledProgram,
        };
        assert_eq!(Container::detect(&file), kind, "{}", path.display());
    }
}

/// Checks `values` against the `inputs` or `outputs` of a run.
fn check_signature(method: &Method<'_>, values: impl Iterator<Item = etvk_pte::ValueId>, run: &Json) {
    let values: Vec<_> = values.map(|id| *method.value(id).unwrap()).collect();
    assert_eq!(values.len(), array(run).len());
    for (value, expected) in values.iter().zip(array(run)) {
        let Value::Tensor(tensor) = value else { continue };
        check_layout(&tensor.layout, expected, tensor.dynamic);
    }
}

/// Checks type and shape; the sizes of a dynamic tensor are upper bounds.
fn check_layout(layout: &Layout<'_>, expected: &Json, dynamic: bool) {
    assert_eq!(json!(layout.scalar_type().name()), expected["dtype"]);
    let sizes: Vec<_> = layout.sizes().collect();
    let shape: Vec<usize> = array(&expected["shape"]).iter().map(|s| s.as_u64().unwrap() as usize).collect();
    if dynamic {
        assert!(layout.numel() >= shape.iter().product());
        assert_eq!(sizes.len(), shape.len());
    } else {
        assert_eq!(sizes, shape);
    }
}

#[test]
fn methods_have_the_inputs_and_outputs_of_their_runs() {
    for case in manifest() {
        let file = open(&case["pte"]);
        let program = Program::parse(&file).unwrap();
        let names: BTreeSet<_> = program.method_names().collect();
        for run in array(&case["runs"]) {
            let name = run["method"].as_str().unwrap();
            assert!(names.contains(name), "{case}");
            let method = program.method(name).unwrap();
            check_signature(&method, method.inputs().iter(), &run["inputs"]);
            check_signature(&method, method.outputs().iter(), &run["outputs"]);
        }
    }
}

#[test]
fn kernels_outside_the_delegate_are_called_as_often_as_the_manifest_says() {
    for case in manifest() {
        let file = open(&case["pte"]);
        let mut calls = BTreeMap::<String, u64>::new();
        for method in Program::parse(&file).unwrap().methods() {
            let method = method.unwrap();
            for instruction in method.chains().iter().flat_map(|chain| &chain.instructions) {
                if let Instruction::KernelCall { operator, .. } = *instruction {
                    *calls.entry(method.operators()[operator].to_string()).or_default() += 1;
                }
            }
            assert!(method.delegates().iter().all(|delegate| delegate.id == "VulkanBackend"));
        }
        assert_eq!(json!(calls), case["undelegated_kernel_calls"], "{}", case["name"]);
    }
}

#[test]
fn external_data_has_names_and_bytes() {
    let mut shards = 0;
    for case in manifest() {
        for path in array(&case["ptd"]) {
            let file = open(path);
            let data = FlatTensor::parse(&file).unwrap();
            assert!(!data.blobs().is_empty());
            for (key, blob) in data.blobs().iter() {
                assert_eq!(data.get(key).unwrap().bytes, blob.bytes);
                assert!(!blob.bytes.is_empty() && blob.layout.is_none(), "{key}");
            }
            shards += 1;
        }
    }
    assert!(shards >= 4);
}

#[test]
fn bundles_have_the_program_and_the_runs_of_their_case() {
    let mut bundles = 0;
    for case in manifest() {
        let Some(path) = array(&case["files"]).iter().find(|f| f.as_str().unwrap().ends_with(".bpte")) else {
            continue;
        };
        let file = open(path);
        let bundle = BundledProgram::parse(&file).unwrap();
        assert_eq!(bundle.program_bytes(), &*open(&case["pte"]), "{}", case["name"]);
        let tests: Vec<_> =
            bundle.suites().iter().flat_map(|s| s.cases.iter().map(move |test| (s.method, test))).collect();
        let runs = array(&case["runs"]);
        assert_eq!(tests.len(), runs.len());
        for (method, test) in tests {
            let matches = |values: &[BundledValue<'_>], run: &Json| {
                values.len() == array(run).len()
                    && values.iter().zip(array(run)).all(|(value, expected)| match value {
                        BundledValue::Tensor(layout, data) => {
                            assert_eq!(data.len(), layout.nbytes());
                            json!(layout.sizes().collect::<Vec<_>>()) == expected["shape"]
                                && json!(layout.scalar_type().name()) == expected["dtype"]
                        }
                        _ => true,
                    })
            };
            let run = runs.iter().find(|run| {
                run["method"] == method
                    && matches(&test.inputs, &run["inputs"])
                    && matches(&test.expected_outputs, &run["outputs"])
            });
            assert!(run.is_some(), "{}: {test:?}", case["name"]);
        }
        bundles += 1;
    }
    assert!(bundles >= 5);
}

#[test]
fn segments_start_where_the_writer_was_told() {
    let file = Map::open(common::fixtures().join("format/segment_alignment_4096.pte")).unwrap();
    let program = Program::parse(&file).unwrap();
    assert_eq!(program.header().unwrap().segment_base % 4096, 0);
    let inline = Map::open(common::fixtures().join("format/delegate_inline.pte")).unwrap();
    let method = Program::parse(&inline).unwrap().method("forward").unwrap();
    let payload = method.delegates()[0].payload.as_ptr_range();
    let header = Program::parse(&inline).unwrap().header();
    let end = header.map_or(inline.len(), |header| usize::try_from(header.flatbuffer_end).unwrap());
    assert!(inline[..end].as_ptr_range().contains(&payload.start), "an inline payload is in the FlatBuffer");
}

#[test]
fn element_types_have_their_numbers_and_names() {
    for kind in ScalarType::ALL {
        assert_eq!(ScalarType::from_raw(*kind as i8), Some(*kind));
    }
    assert_eq!(ScalarType::from_raw(30), None);
    let bfloat16 = ScalarType::from_raw(15).unwrap();
    assert_eq!((bfloat16.to_string().as_str(), bfloat16.size()), ("bfloat16", 2));
    assert_eq!(ScalarType::from_raw(11).unwrap().to_string(), "bool");
    assert_eq!(ScalarType::ALL.len(), 30);
}
