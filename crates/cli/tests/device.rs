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
