//! Tiny models of every architecture become programs that load and run, and what cannot be converted is refused.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

use std::path::PathBuf;

use etvk::{Module, Tensor, Value};
use etvk_convert::{Error, Options, Quantisation, convert};
use etvk_gguf::{Array, Gguf, GgufWriter, TensorType, Value as Key};

const HIDDEN: u64 = 64;
const VOCABULARY: u64 = 96;
const LAYERS: u64 = 4;

/// A model with random weights.
struct Model {
    writer: GgufWriter,
    tensors: Vec<(TensorType, u64)>,
}

impl Model {
    fn new(architecture: &str) -> Self {
        let mut model = Self { writer: GgufWriter::new(), tensors: Vec::new() };
        model.writer.key("general.architecture", Key::String(architecture.into()));
        model.writer.key("tokenizer.ggml.eos_token_id", Key::Unsigned(1));
        model.numbers(
            architecture,
            &[
                ("block_count", LAYERS),
                ("context_length", 32),
                ("embedding_length", HIDDEN),
                ("attention.head_count", 4),
            ],
        );
        model.writer.key(format!("{architecture}.attention.layer_norm_rms_epsilon"), Key::Float(1e-6));
        model.tensor("token_embd.weight", &[VOCABULARY, HIDDEN]);
        model.tensor("output_norm.weight", &[HIDDEN]);
        model
    }

    fn numbers(&mut self, architecture: &str, keys: &[(&str, u64)]) {
        for (name, value) in keys {
            self.writer.key(format!("{architecture}.{name}"), Key::Unsigned(*value));
        }
    }

    fn tensor(&mut self, name: &str, dims: &[u64]) {
        let kind = if dims.len() == 2 { TensorType::Q4_0 } else { TensorType::F32 };
        self.writer.tensor(name, kind, dims);
        self.tensors.push((kind, dims.iter().product()));
    }

    fn layer(&mut self, index: u64, [kv, head_dim, ffn]: [u64; 3], norms: &[&str], owner: bool) {
        let q = 4 * head_dim;
        let mut add = |name: &str, dims: &[u64]| self.tensor(&format!("blk.{index}.{name}.weight"), dims);
        add("attn_norm", &[HIDDEN]);
        add("ffn_norm", &[HIDDEN]);
        add("attn_q", &[q, HIDDEN]);
        add("attn_output", &[HIDDEN, q]);
        add("ffn_gate", &[ffn, HIDDEN]);
        add("ffn_up", &[ffn, HIDDEN]);
        add("ffn_down", &[HIDDEN, ffn]);
        if owner {
            add("attn_k", &[kv * head_dim, HIDDEN]);
            add("attn_v", &[kv * head_dim, HIDDEN]);
        }
        for &norm in norms {
            let head = ["attn_q_norm", "attn_k_norm"].contains(&norm);
            if owner || norm != "attn_k_norm" {
                add(norm, &[if head { head_dim } else { HIDDEN }]);
            }
        }
    }

    fn save(&self, name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("etvk-convert-{name}-{}.gguf", std::process::id()));
        let mut file = std::fs::File::create(&path).unwrap();
        let mut state = 1_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_le_bytes()[3]
        };
        self.writer
            .write(&mut file, |index, out| {
                let (kind, count) = self.tensors[index];
                for _ in 0..if kind == TensorType::F32 { count } else { 0 } {
                    out.write_all(&(0.75 + f32::from(next()) / 512.0).to_le_bytes())?;
                }
                for _ in 0..if kind == TensorType::Q4_0 { count / 32 } else { 0 } {
                    // A scale of 2^-6, and codes at random.
                    out.write_all(&[0x00, 0x24])?;
                    out.write_all(&[0; 16].map(|_: u8| next()))?;
                }
                Ok(())
            })
            .unwrap();
        path
    }
}

fn llama() -> Model {
    let mut model = Model::new("llama");
    let keys = [("attention.head_count_kv", 2), ("feed_forward_length", 128), ("rope.dimension_count", 16)];
    model.numbers("llama", &keys);
    model.tensor("output.weight", &[VOCABULARY, HIDDEN]);
    model.tensor("rope_freqs.weight", &[8]);
    (0..LAYERS).for_each(|index| model.layer(index, [2, 16, 128], &[], true));
    model
}

fn qwen3() -> Model {
    let mut model = Model::new("qwen3");
    let keys = [("attention.head_count_kv", 2), ("feed_forward_length", 96), ("attention.key_length", 32)];
    model.numbers("qwen3", &keys);
    (0..LAYERS).for_each(|index| model.layer(index, [2, 32, 96], &["attn_q_norm", "attn_k_norm"], true));
    model
}

const GEMMA: [&str; 4] = ["attn_q_norm", "attn_k_norm", "post_attention_norm", "post_ffw_norm"];

fn gemma3() -> Model {
    let mut model = Model::new("gemma3");
    let keys = [
        ("attention.head_count_kv", 1),
        ("feed_forward_length", 128),
        ("attention.key_length", 16),
        ("attention.value_length", 16),
        ("attention.sliding_window", 4),
        ("attention.sliding_window_pattern", 2),
    ];
    model.numbers("gemma3", &keys);
    (0..LAYERS).for_each(|index| model.layer(index, [1, 16, 128], &GEMMA, true));
    model
}

fn gemma4() -> Model {
    let mut model = Model::new("gemma4");
    let keys = [
        ("attention.head_count_kv", 1),
        ("attention.key_length", 32),
        ("attention.value_length", 32),
        ("attention.key_length_swa", 16),
        ("attention.value_length_swa", 16),
        ("attention.sliding_window", 4),
        ("attention.shared_kv_layers", 2),
        ("embedding_length_per_layer_input", 32),
    ];
    model.numbers("gemma4", &keys);
    let widths = [64, 64, 128, 128];
    model.writer.key("gemma4.feed_forward_length", Key::Array(Array::Unsigned(widths.to_vec())));
    model.writer.key("gemma4.final_logit_softcapping", Key::Float(30.0));
    let sliding = [true, false, true, false];
    model.writer.key("gemma4.attention.sliding_window_pattern", Key::Array(Array::Bool(sliding.to_vec())));
    model.tensor("per_layer_model_proj.weight", &[LAYERS * 32, HIDDEN]);
    model.tensor("per_layer_proj_norm.weight", &[32]);
    model.tensor("per_layer_token_embd.weight", &[VOCABULARY, LAYERS * 32]);
    model.tensor("rope_freqs.weight", &[16]);
    for ((index, sliding), ffn) in (0..).zip(sliding).zip(widths) {
        model.layer(index, [1, if sliding { 16 } else { 32 }, ffn], &GEMMA, index < 2);
        model.tensor(&format!("blk.{index}.inp_gate.weight"), &[32, HIDDEN]);
        model.tensor(&format!("blk.{index}.proj.weight"), &[HIDDEN, 32]);
        model.tensor(&format!("blk.{index}.post_norm.weight"), &[HIDDEN]);
        model.tensor(&format!("blk.{index}.layer_output_scale.weight"), &[1]);
    }
    model
}

fn logits(method: &mut etvk::Method, tokens: &[i64], start: i64) -> Vec<f32> {
    let tokens = Tensor::from_slice(&[1, tokens.len()], tokens).unwrap();
    let start = Tensor::from_slice(&[1], &[start]).unwrap();
    match &method.execute(&[Value::from(tokens), Value::from(start)]).unwrap()[..] {
        [Value::Tensor(logits)] => logits.to_vec().unwrap(),
        other => panic!("{other:?}"),
    }
}

fn distance(a: &[f32], b: &[f32]) -> f32 {
    let off: f32 = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum();
    (off / a.iter().map(|a| a * a).sum::<f32>()).sqrt()
}

/// The logits after some tokens, which do not depend on how the tokens come in.
fn run(gguf: &Gguf, name: &str, options: &Options) -> Vec<f32> {
    let out = std::env::temp_dir().join(format!("etvk-convert-{name}-{}.pte", std::process::id()));
    let report = convert(gguf, options, &out, &mut |_| {}).unwrap();
    assert_eq!((report.vocabulary, report.max_context), (96, 32));
    let module = Module::open(&out).unwrap();
    assert!(module.method_names().iter().any(|name| name == "get_eos_ids"));
    let mut forward = module.load("forward", None).unwrap();
    let tokens: [i64; 9] = [2, 17, 40, 5, 95, 60, 8, 33, 71];
    let together = logits(&mut forward, &tokens, 0);
    let mut single = Vec::new();
    for (start, token) in (0..).zip(tokens) {
        single = logits(&mut forward, &[token], start);
    }
    assert!(together.iter().all(|logit| logit.is_finite()), "{name}");
    let apart = distance(&together, &single);
    assert!(apart < 0.02, "{name} in {}: one by one is {apart} off", options.quantisation);
    std::fs::remove_file(out).unwrap();
    together
}

#[test]
fn every_architecture_runs_in_every_quantisation() {
    for (name, model) in [("llama", llama()), ("qwen3", qwen3()), ("gemma3", gemma3()), ("gemma4", gemma4())]
    {
        let path = model.save(name);
        let gguf = Gguf::open(&path).unwrap();
        let exact = Options { quantisation: Quantisation::Keep, half: false, ..Options::default() };
        let expected = run(&gguf, name, &exact);
        for (quantisation, half, most) in [
            (Quantisation::Keep, true, 0.02),
            (Quantisation::Bits8, false, 0.1),
            // The codes of the file are found again.
            (Quantisation::Bits4, true, 0.02),
            (Quantisation::Dynamic8Bits4, false, 0.2),
        ] {
            let found = run(&gguf, name, &Options { quantisation, half, ..Options::default() });
            let off = distance(&expected, &found);
            assert!(off < most, "{name} in {quantisation} is {off} off");
        }
        std::fs::remove_file(path).unwrap();
    }
}

fn refused(model: &Model, name: &str, options: &Options) -> Error {
    let path = model.save(name);
    let out = path.with_extension("pte");
    let error = convert(&Gguf::open(&path).unwrap(), options, &out, &mut |_| {}).unwrap_err();
    assert!(!out.exists() && !PathBuf::from(format!("{}.part", out.display())).exists());
    std::fs::remove_file(path).unwrap();
    error
}

#[test]
fn what_cannot_be_converted_is_named() {
    let plain = Options::default();
    let error = refused(&Model::new("mamba"), "mamba", &plain);
    assert!(matches!(error, Error::Architecture { found } if found == "mamba"));

    let mut model = llama();
    model.tensor("blk.0.attn_q.bias", &[64]);
    let error = refused(&model, "bias", &plain);
    assert!(matches!(error, Error::Unused { names } if names == ["blk.0.attn_q.bias"]));

    let mut model = llama();
    model.writer.key("llama.rope.scaling.type", Key::String("yarn".into()));
    assert!(matches!(refused(&model, "yarn", &plain), Error::Value { found, .. } if found == "yarn"));

    let error = refused(&Model::new("qwen3"), "bare", &plain);
    assert!(matches!(error, Error::MissingKey { key } if key == "qwen3.attention.head_count_kv"));

    let group = Options { group: 48, ..plain.clone() };
    assert!(matches!(refused(&llama(), "group", &group), Error::Group { columns: 64, group: 48, .. }));
    for (max_context, max_seq) in [(Some(33), None), (Some(0), None), (None, Some(33)), (Some(8), Some(9))] {
        let options = Options { max_context, max_seq, ..plain.clone() };
        assert!(matches!(refused(&llama(), "context", &options), Error::Option { .. }));
    }
}
