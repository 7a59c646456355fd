//! Commands that need this machine's Vulkan device.
#![expect(clippy::unwrap_used, reason = "test code")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn etvk(args: &[&str]) -> Output {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
    Command::new(env!("CARGO_BIN_EXE_etvk")).args(args).current_dir(fixtures).output().unwrap()
}

fn stdout(args: &[&str]) -> String {
    let output = etvk(args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A path in the temporary folder that no other test uses.
fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("etvk-{}-{name}", std::process::id()))
}

#[test]
fn conformance_has_a_row_a_case_and_a_summary() {
    let json = scratch("conformance.json");
    let filter =
        "^format/(multi_method_prefill_decode|bundled_linear_fp32.*|external_constants_shards_fp16)$";
    let text = stdout(&["conformance", ".", "--filter", filter, "--json", json.to_str().unwrap()]);
    let written = std::fs::read_to_string(&json);
    std::fs::remove_file(&json).unwrap();
    let json: serde_json::Value = serde_json::from_str(&written.unwrap()).unwrap();
    assert!(text.starts_with("device: ") && text.ends_with("\n4 passed, 0 failed\n"), "{text}");
    assert_eq!(json["cases"].as_array().unwrap().len(), 4);
    assert_eq!((&json["cases"][0]["group"], &json["cases"][0]["pass"]), (&"format".into(), &true.into()));
}

#[test]
fn a_bundle_and_a_manifest_may_be_given_alone() {
    let text = stdout(&[
        "conformance",
        "format/bundled_int_ids.bpte",
        "manifest.json",
        "--filter",
        "bundled_int_ids",
    ]);
    assert!(
        text.contains("bundle/bundled_int_ids.bpte/forward") && text.ends_with("3 passed, 0 failed\n"),
        "{text}"
    );
}

#[test]
fn demo_decodes() {
    let text = stdout(&["demo", "models/gemma4_tiny_4w_fp16"]);
    assert!(text.contains("\nprompt  9 29 82 154 33 87 73 34 31\n"), "{text}");
    assert!(text.contains("\ndecode  8 tokens, ") && text.contains("every logit is within"), "{text}");
}

#[test]
fn outputs_are_written_and_inputs_read() {
    let (named, raw) = (scratch("out.safetensors"), scratch("out"));
    let model = "format/delegate_inline.pte";
    let made_up = stdout(&["run", model, "--seed", "5", "--output", named.to_str().unwrap()]);
    assert!(made_up.contains("out0  float32[2, 4]"), "{made_up}");
    assert!(std::fs::metadata(&named).unwrap().len() > 32);
    std::fs::remove_file(&named).unwrap();

    let zeros = scratch("zeros.bin");
    std::fs::write(&zeros, [0; 48]).unwrap();
    let args = ["run", model, "--inputs", zeros.to_str().unwrap(), "--output_file", raw.to_str().unwrap()];
    stdout(&[&args[..], &["--print", "none"]].concat());
    let output = std::fs::read(scratch("out-0.bin")).unwrap();
    // The bias alone: two rows alike.
    assert_eq!((output.len(), &output[..16]), (32, &output[16..]));
    std::fs::write(&zeros, [0; 44]).unwrap();
    let short = etvk(&args);
    std::fs::remove_file(&zeros).unwrap();
    std::fs::remove_file(scratch("out-0.bin")).unwrap();
    assert_eq!(short.status.code(), Some(2));
    let text = String::from_utf8(short.stderr).unwrap();
    assert!(text.trim_end().ends_with("float32[2, 6] takes 48 bytes, found 44"), "{text}");
}

#[test]
fn devices_are_listed() {
    assert!(stdout(&["devices"]).starts_with("0  "));
}

#[test]
fn replays_agree_and_results_are_written_for_build_servers() {
    let junit = scratch("junit.xml");
    let args = ["conformance", "manifest.json", "--filter", "^format/delegate_inline$", "--replay", "3"];
    let text = stdout(&[&args[..], &["--junit", junit.to_str().unwrap()]].concat());
    let xml = std::fs::read_to_string(&junit);
    std::fs::remove_file(&junit).unwrap();
    let xml = xml.unwrap();
    assert!(text.ends_with("1 passed, 0 failed\n"), "{text}");
    assert!(xml.contains("<testcase classname=\"rust.format\" name=\"delegate_inline\""), "{xml}");
}

#[test]
fn what_passes_although_it_is_expected_to_fail_is_a_failure() {
    let expected = scratch("expected.toml");
    std::fs::write(&expected, "[[failure]]\ncase = \"inline$\"\nreason = \"no reason\"\n").unwrap();
    let filter = "^format/delegate_inline$";
    let path = expected.to_str().unwrap();
    let output = etvk(&["conformance", "manifest.json", "--filter", filter, "--expected", path]);
    std::fs::remove_file(&expected).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("XPASS") && text.contains("expected to fail: no reason"), "{text}");
}

#[test]
fn a_door_that_is_not_there_is_bad_input() {
    let filter = "^format/delegate_inline$";
    let none =
        ["conformance", "manifest.json", "--filter", filter, "--via", "capi", "--capi", "none/libetvk.so"];
    let output = etvk(&none);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text.starts_with("error: none/libetvk.so: "), "{text}");
    let output = etvk(&["conformance", "manifest.json", "--compare", "other.so"]);
    assert_eq!(output.status.code(), Some(2));
}

/// The lines of JSON that a bench writes.
fn bench(args: &[&str], name: &str) -> (String, Vec<serde_json::Value>) {
    let json = scratch(name);
    let text = stdout(&[&["bench"], args, &["--json", json.to_str().unwrap()]].concat());
    let written = std::fs::read_to_string(&json);
    std::fs::remove_file(&json).unwrap();
    (text, written.unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

#[test]
fn bench_times_prompts_and_decoding() {
    for model in ["models/llama_tiny_4w_fp16.pte", "models/gemma4_tiny_4w_fp16.pte"] {
        let args = [model, "--pp", "7,33", "--tg", "3", "--depth", "0,8", "--reps", "2", "--commit", "abc"];
        let (text, lines) = bench(&args, "bench.jsonl");
        let names: Vec<_> = lines.iter().map(|line| line["test"].as_str().unwrap()).collect();
        assert_eq!(names, ["pp7", "pp33", "tg3@0", "tg3@8"]);
        assert!(names.iter().all(|name| text.contains(&format!("\n{name} "))), "{text}");
        for line in &lines {
            for field in ["device", "driver_version", "etvk", "commit", "file_sha256", "method", "seat"] {
                assert!(line[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {line}");
            }
            for field in ["mean", "stddev"] {
                assert!(
                    line["tokens_per_second"][field].as_f64().is_some_and(|x| x >= 0.0),
                    "{field}: {line}"
                );
            }
            for field in ["mean", "median", "min"] {
                assert!(line["ms"][field].as_f64().is_some_and(|x| x > 0.0), "{field}: {line}");
            }
            for field in [
                "load_seconds",
                "device_seconds",
                "first_seconds",
                "dispatches",
                "barriers",
                "device_buffer_bytes",
            ] {
                assert!(line[field].as_f64().is_some_and(|x| x > 0.0), "{field}: {line}");
            }
            assert_eq!((line["repetitions"].as_u64(), line["kernels"].is_null()), (Some(2), true));
        }
        assert_eq!((lines[0]["samples"].as_u64(), lines[2]["samples"].as_u64()), (Some(2), Some(6)));
    }
}

#[test]
fn bench_knows_where_the_time_goes() {
    let model = "models/llama_tiny_4w_fp16.pte";
    let (text, lines) = bench(&[model, "--tg", "1", "--reps", "2", "--kernels"], "kernels.jsonl");
    let [line] = lines.as_slice() else { panic!("{text}") };
    let kernels = line["kernels"].as_array().unwrap();
    let dispatches: f64 = kernels.iter().map(|row| row["count"].as_f64().unwrap()).sum();
    assert_eq!(Some(dispatches), line["dispatches"].as_f64());
    let is = |row: &&serde_json::Value| row["operator"].as_str().unwrap().contains("linear_q4gsw");
    let linear = kernels.iter().find(is).unwrap();
    // 4-bit weights of 32 × 32 and more, with their scales.
    assert!(linear["bytes"].as_f64().unwrap() > 10_000.0 && linear["share_of_limit"].is_f64(), "{linear}");
    assert!(line["copy_bytes_per_second"].as_f64().unwrap() > 1e6);
    assert!(text.contains("\nGPU time of tg1@0; copies on this device move "), "{text}");
}

#[test]
fn bench_times_any_program_and_tells_positions_out_of_range() {
    let (_, lines) = bench(&["models/resnet_small_fp16.pte", "--runs", "3"], "runs.jsonl");
    let [line] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!((line["test"].as_str(), line["samples"].as_u64()), (Some("run"), Some(3)));
    assert!(line["tokens_per_second"].is_null() && line["repetitions_per_second"]["mean"].is_f64(), "{line}");
    let output = etvk(&["bench", "models/llama_tiny_4w_fp16.pte", "--tg", "2", "--depth", "47"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && text.starts_with("error: tg2@47 (rust): "), "{text}");
}
