//! Seeded damage to real payloads: an error or a graph that keeps its promises, never a panic.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use etvk_vkgraph::{ConstantId, Graph, NamedData, Payload, Value, ValueId};

/// xorshift64*
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }
}

struct Nothing;

impl NamedData for Nothing {
    fn get(&self, _key: &str) -> Option<&[u8]> {
        Some(&[])
    }
}

/// The first payload of a fixture, to the end of the file.
fn payload(path: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(path);
    let program = std::fs::read(path).unwrap();
    let start = program.windows(4).position(|window| window == b"VH00").unwrap() - 4;
    let field = |at: usize| u32::from_le_bytes(program[start + at..start + at + 4].try_into().unwrap());
    let end = start + field(18) as usize + field(22) as usize;
    program[start..end].to_vec()
}

fn keeps_its_promises(graph: &Graph) {
    let known = |id: ValueId| assert!(graph.value(id).is_some(), "{id}");
    for value in &graph.values {
        match value {
            Value::ValueList(items) => {
                for &item in items {
                    known(item);
                    assert!(!graph.value(item).unwrap().is_list());
                }
            }
            Value::Tensor(info) => {
                assert!(info.dims.len() <= 8 && u32::try_from(info.element_count()).is_ok());
                if let Some(constant) = info.constant {
                    assert!(graph.constants[constant.index()].length >= info.byte_size());
                }
            }
            _ => (),
        }
    }
    for call in &graph.calls {
        assert!(!call.name.is_empty() && !call.args.is_empty());
        call.args.iter().copied().for_each(known);
    }
    for &id in graph.inputs.iter().chain(&graph.outputs) {
        assert!(matches!(graph.value(id), Some(Value::Tensor(_) | Value::SymInt)));
    }
}

/// Parses, looks at everything, and says whether the payload was accepted.
fn survives(bytes: &[u8]) -> bool {
    let Ok(payload) = Payload::parse(bytes) else { return false };
    keeps_its_promises(payload.graph());
    for value in &payload.graph().values {
        if let Value::Tensor(info) = value {
            let _ = payload.tensor_constant(info, Some(&Nothing));
        }
    }
    for id in 0..=u32::try_from(payload.graph().constants.len()).unwrap() {
        let _ = payload.constant(ConstantId(id), None);
    }
    true
}

#[test]
fn damaged_payloads() {
    let mut random = Random(1);
    let (mut accepted, mut refused) = (0, 0);
    let mut count = |survived| if survived { accepted += 1 } else { refused += 1 };
    for path in [
        "fork/gemma_custom_sdpa_const_cache.pte",
        "models/llama_tiny_4w_fp16.pte",
        "llm/embedding_4bit_wide_fp16.pte",
    ] {
        let good = payload(path);
        assert!(survives(&good), "{path}");
        for round in 0..3000 {
            let mut bytes = good.clone();
            for _ in 0..=round % 3 {
                let at = random.below(bytes.len());
                bytes[at] ^= 1 << random.below(8);
            }
            count(survives(&bytes));
        }
        for _ in 0..3000 {
            let mut bytes = good.clone();
            let at = 4 * random.below(bytes.len() / 4);
            let word = match random.below(6) {
                0 => 0,
                1 => u32::MAX,
                2 => 0x7FFF_FFFF,
                3 => 0x8000_0000,
                4 => u32::try_from(random.below(64)).unwrap(),
                _ => u32::try_from(random.next() >> 32).unwrap(),
            };
            bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
            count(survives(&bytes));
        }
        for cut in (0..good.len()).step_by(7) {
            assert!(!survives(&good[..cut]), "{path} cut at {cut}");
        }
    }
    assert!(accepted > 100 && refused > 1000, "{accepted} accepted, {refused} refused");
}
