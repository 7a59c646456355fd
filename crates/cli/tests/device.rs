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

/// A tokenizer of `count` words, each of which is a token: w0, w1, and so on. Those in `special` are called otherwise.
fn words(name: &str, count: usize, special: &[(usize, &str)]) -> PathBuf {
    let word = |id: usize| {
        let special = special.iter().find(|(token, _)| *token == id);
        special.map_or_else(|| format!("w{id}"), |(_, spelling)| (*spelling).to_owned())
    };
    let vocabulary: serde_json::Map<String, serde_json::Value> =
        (0..count).map(|id| (word(id), id.into())).collect();
    let added: Vec<_> = special
        .iter()
        .map(|(id, spelling)| {
            serde_json::json!({"id": id, "content": spelling, "special": true, "single_word": false, "lstrip": false,
                "rstrip": false, "normalized": false})
        })
        .collect();
    let json = serde_json::json!({
        "version": "1.0",
        "added_tokens": added,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "w0"},
    });
    let path = scratch(name);
    std::fs::write(&path, json.to_string()).unwrap();
    path
}

/// The token ids of a fixture's first run, and the token with the greatest of its golden logits.
fn first_run(model: &str) -> (Vec<i64>, usize) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models");
    let bytes = std::fs::read(path.join(format!("{model}.safetensors"))).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let tensor = |name| tensors.tensor(name).unwrap().data().to_vec();
    let tokens = tensor("r0.in0");
    let tokens = tokens.chunks_exact(8).map(|raw| i64::from_le_bytes(raw.try_into().unwrap())).collect();
    let logits = tensor("r0.out0");
    let logits = logits.chunks_exact(4).map(|raw| f32::from_le_bytes(raw.try_into().unwrap()));
    (tokens, logits.enumerate().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap().0)
}

fn sentence(tokens: &[i64]) -> String {
    tokens.iter().map(|token| format!("w{token}")).collect::<Vec<_>>().join(" ")
}

#[test]
fn generate_begins_with_the_golden_token() {
    for (model, vocabulary) in [("llama_tiny_4w_fp32", 128), ("gemma4_tiny_4w_fp32", 160)] {
        let (tokens, golden) = first_run(model);
        let tokenizer = words(model, vocabulary, &[]);
        let (program, prompt) = (format!("models/{model}.pte"), sentence(&tokens));
        // As llama_main spells it.
        let args = ["generate", "--model_path", &program, "--tokenizer_path", tokenizer.to_str().unwrap()];
        let output = etvk(&[&args[..], &["--prompt", &prompt, "--max_new_tokens=5", "--warmup"]].concat());
        let (text, told) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert!(output.status.success(), "{told}");
        let generated: Vec<&str> = text.split_whitespace().collect();
        assert!(generated.len() == 5 && text.ends_with('\n'), "{text}");
        assert_eq!(generated[0], format!("w{golden}"));
        let observed = told.lines().last().unwrap().strip_prefix("PyTorchObserver ").unwrap();
        let observed: serde_json::Value = serde_json::from_str(observed).unwrap();
        assert_eq!(observed["prompt_tokens"], tokens.len());
        assert_eq!(observed["generated_tokens"], 5);
        assert!(told.contains("generated  5 tokens, ") && told.contains("as many as asked for"), "{told}");

        // The rest of what it wrote follows from the beginning of it, and a seed gives one text.
        let rest = format!("{prompt} {}", generated[..3].join(" "));
        let two =
            stdout(&[&args[..], &["--prompt", &rest, "--seq_len", &(tokens.len() + 5).to_string()]].concat());
        assert_eq!(two.split_whitespace().collect::<Vec<_>>(), generated[3..]);
        let drawn = |seed| {
            let options = ["--temperature", "3", "--top-k", "50", "--top-p", "0.9", "--seed", seed];
            stdout(&[&args[..], &["--prompt", &prompt, "--max-new-tokens", "12"], &options].concat())
        };
        assert_eq!(drawn("7"), drawn("7"));
        assert_ne!(drawn("7"), drawn("8"));
        std::fs::remove_file(tokenizer).unwrap();
    }
}

#[test]
fn generate_stops_at_the_end_of_a_turn() {
    let model = "llama_tiny_4w_fp32";
    let (tokens, golden) = first_run(model);
    let tokenizer = words("turns", 128, &[(golden, "<end_of_turn>"), (127, "<start_of_turn>")]);
    let program = format!("models/{model}.pte");
    let args = ["generate", &program, "--tokenizer", tokenizer.to_str().unwrap(), "--prompt"];
    let output = etvk(&[&args[..], &[&sentence(&tokens)]].concat());
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"\n"[..]), "{told}");
    assert!(told.contains("generated  1 tokens") && told.contains("ended by <end_of_turn>"), "{told}");
    let on = stdout(&[&args[..], &[&sentence(&tokens), "--ignore-eos", "--max-new-tokens", "4"]].concat());
    assert!(on.split_whitespace().count() < 4 && !on.contains("<end_of_turn>"), "{on}");
    // Unknown words are w0 here: the turn is w0 after its token, the text, its end, its token, and w0.
    let chat = etvk(&[&args[..], &["w5 w6", "--chat", "--max-new-tokens", "1"]].concat());
    let told = String::from_utf8(chat.stderr).unwrap();
    assert!(chat.status.success() && told.contains("prompt     7 tokens"), "{told}");
    // Beyond the caches of a program that does not tell how long they are.
    let far = etvk(&[&args[..], &["w1", "--ignore-eos", "--max-new-tokens", "-1"]].concat());
    let (text, told) = (String::from_utf8(far.stdout).unwrap(), String::from_utf8(far.stderr).unwrap());
    assert_eq!(far.status.code(), Some(2));
    assert!(text.ends_with('\n') && told.contains("start position 48 is out of range"), "{told}");
    std::fs::remove_file(tokenizer).unwrap();
}

#[test]
fn eval_measures_perplexity() {
    let model = "models/llama_tiny_4w_fp32.pte";
    let (tokens, golden) = first_run("llama_tiny_4w_fp32");
    let (tokenizer, file) = (words("eval", 128, &[]), scratch("eval.txt"));
    let perplexity = |last: usize| -> f64 {
        std::fs::write(&file, format!("{} w{last}\n", sentence(&tokens))).unwrap();
        let args = ["eval", model, "--tokenizer", tokenizer.to_str().unwrap(), "--perplexity"];
        let text = stdout(&[&args[..], &[file.to_str().unwrap()]].concat());
        assert!(text.contains("\ntokens      8, 7 of them predicted\n"), "{text}");
        let line = text.lines().find_map(|line| line.strip_prefix("perplexity  ")).unwrap();
        line.parse().unwrap()
    };
    let (likely, other) = (perplexity(golden), perplexity((golden + 1) % 128));
    assert!(likely > 1.0 && other > likely, "{likely} {other}");
    std::fs::remove_file(tokenizer).unwrap();
    std::fs::remove_file(file).unwrap();
}
