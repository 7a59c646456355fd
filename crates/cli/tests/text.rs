//! What the command prints where no device is needed, and its exit codes.
#![expect(clippy::unwrap_used, reason = "test code")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures")
}

/// Runs the command in the fixture folder.
fn etvk(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_etvk")).args(args).current_dir(fixtures()).output().unwrap()
}

fn stdout(args: &[&str]) -> String {
    let output = etvk(args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Exit code and the one line on standard error.
fn failure(args: &[&str]) -> (Option<i32>, String) {
    let output = etvk(args);
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn help() {
    insta::assert_snapshot!("help", stdout(&["--help"]));
    for command in ["run", "generate", "eval", "check", "inspect", "bench", "conformance", "demo", "devices"]
    {
        insta::assert_snapshot!(format!("help_{command}"), stdout(&[command, "--help"]));
    }
}

#[test]
fn inspect() {
    insta::assert_snapshot!("inspect_linear", stdout(&["inspect", "format/external_constants_one_fp16.pte"]));
    insta::assert_snapshot!("inspect_sdpa", stdout(&["inspect", "llm/sdpa_kv_decode_static_fp32.pte"]));
    let bundle = stdout(&["inspect", "format/bundled_multi_method.bpte"]);
    assert!(bundle.starts_with("bundled program") && bundle.contains("test cases: 1 for encode"), "{bundle}");
    let data = std::fs::read_dir(fixtures().join("format")).unwrap().map(|entry| entry.unwrap().path());
    let data = data.into_iter().find(|path| path.extension().is_some_and(|found| found == "ptd")).unwrap();
    assert!(stdout(&["inspect", data.to_str().unwrap()]).starts_with("external data"));
}

#[test]
fn inspect_json_has_the_same_graph() {
    let json = stdout(&["inspect", "--json", "llm/sdpa_kv_decode_static_fp32.pte"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let graph = &json["methods"][0]["delegates"][0]["graph"];
    assert_eq!(json["kind"], "program");
    assert_eq!(graph["operators"]["sdpa_with_kv_cache.default"], 1);
    assert_eq!(graph["inputs"].as_array().unwrap().len(), 4);
}

#[test]
fn check() {
    insta::assert_snapshot!("check_runs", stdout(&["check", "llm/sdpa_decomposed_fp32.pte"]));
    let output = etvk(&["check", "format/external_constants_one_fp32.pte"]);
    assert_eq!(output.status.code(), Some(2));
    insta::assert_snapshot!("check_without_data", String::from_utf8(output.stdout).unwrap());
}

#[test]
fn bad_input_is_told_on_one_line() {
    let (code, text) = failure(&["check", "format/none.pte"]);
    assert_eq!(code, Some(2));
    assert!(text.starts_with("error: format/none.pte: ") && text.trim_end().lines().count() == 1, "{text}");
    let (code, text) = failure(&["run", "manifest.json"]);
    assert_eq!(code, Some(2));
    assert!(text.starts_with("error: manifest.json: ") && text.trim_end().lines().count() == 1, "{text}");
    assert_eq!(failure(&["conformance", "format", "--filter", "nothing"]).0, Some(2));
    assert_eq!(failure(&["run"]).0, Some(2));
    assert_eq!(failure(&["fly"]).0, Some(2));
}

#[test]
fn what_bench_cannot_do_is_told() {
    let model = "models/llama_tiny_4w_fp16.pte";
    for args in [
        &["--pp", "0"][..],
        &["--tg", "many"],
        &["--reps", "0"],
        &["--runs", "2", "--pp", "4"],
        &["--delegate", "some.so"],
        &["--compare-delegate", "some.so", "--kernels"],
    ] {
        let (code, text) = failure(&[&["bench", model], args].concat());
        assert!(code == Some(2) && text.starts_with("error: "), "{args:?}: {text}");
    }
    let (code, text) = failure(&["bench", "models/resnet_small_fp16.pte"]);
    assert_eq!(code, Some(2));
    assert!(text.contains("takes (float32[1, 3, 48, 48])") && text.contains("--runs"), "{text}");
    let (code, text) = failure(&["bench", model, "--compare-delegate", "other.so", "--delegate", "none.so"]);
    assert_eq!(
        (code, text.as_str()),
        (Some(2), "error: none.so: there is no such library; --delegate names it\n")
    );
    let output = stdout(&["bench", "format/no_vulkan_delegate.pte", "--runs", "2"]);
    assert!(output.starts_with("device  CPU only\n") && output.contains("\nrun "), "{output}");
}

#[test]
fn a_program_without_delegate_needs_no_device() {
    // No such device can be there, and none is asked for.
    let output =
        stdout(&["run", "format/no_vulkan_delegate.pte", "--device", "no such device", "--seed", "3"]);
    assert!(output.starts_with("forward on CPU only: 1 execution"), "{output}");
    let (code, text) = failure(&["run", "format/delegate_inline.pte", "--device", "no such device"]);
    assert_eq!(code, Some(3), "{text}");
}

#[test]
fn names_of_options_may_have_underscores() {
    let args = [
        "run",
        "--model_path=format/no_vulkan_delegate.pte",
        "--num_executions",
        "2",
        "--print_output",
        "all",
    ];
    let output = stdout(&args);
    assert!(output.contains("2 executions") && output.contains("out0  float32[3, 5]"), "{output}");
}

#[test]
fn text_needs_a_language_model_and_its_tokenizer() {
    let (code, text) = failure(&["generate", "models/llama_tiny_4w_fp16.pte", "--prompt", "a"]);
    assert_eq!(code, Some(2));
    let want = "error: models/tokenizer.json: there is no such file; --tokenizer names another\n";
    assert_eq!(text, want);
    let (code, text) = failure(&[
        "eval",
        "models/llama_tiny_4w_fp16.pte",
        "--perplexity",
        "none.txt",
        "--tokenizer",
        "none",
    ]);
    assert!(code == Some(2) && text.starts_with("error: none.txt: "), "{text}");
    let args = ["generate", "models/llama_tiny_4w_fp16.pte", "--tokenizer", "manifest.json", "--prompt", "a"];
    let (code, text) = failure(&args);
    assert!(code == Some(2) && text.starts_with("error: manifest.json: "), "{text}");
    for args in [&["--prompt", "a", "--prompt-file", "b"][..], &[], &["--prompt", "a", "--top-k", "-1"]] {
        let (code, text) = failure(&[&["generate", "some.pte"], args].concat());
        assert!(code == Some(2) && text.starts_with("error: "), "{args:?}: {text}");
    }
}
