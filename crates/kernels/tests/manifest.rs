//! The committed SPIR-V, the table and the manifest agree with the sources. Needs no shader compiler: when this
//! fails, run `cargo xtask shaders` and commit what it writes.

#![cfg(test)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use etvk_kernels::Shader;
use etvk_kernels::table::FAMILIES;
use serde::Deserialize;
use sha2::{Digest, Sha256};

#[derive(Deserialize)]
struct FamilyRow {
    file: Option<String>,
    bindings: u32,
    push_words: u32,
    tiers: BTreeMap<String, Vec<String>>,
}

#[derive(Deserialize)]
struct Manifest {
    modules: BTreeMap<String, Module>,
}

#[derive(Deserialize)]
struct Module {
    family: String,
    tier: String,
    bindings: u32,
    push_words: u32,
    defines: Vec<String>,
    sources: BTreeMap<String, String>,
    spirv: String,
}

fn crate_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn shaders() -> PathBuf {
    crate_dir().join("../../shaders")
}

fn manifest() -> Manifest {
    serde_json::from_slice(&fs::read(crate_dir().join("spirv/manifest.json")).unwrap()).unwrap()
}

fn variants() -> BTreeMap<String, FamilyRow> {
    toml::from_str(&fs::read_to_string(shaders().join("variants.toml")).unwrap()).unwrap()
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The modules of the table with the names of their families and tiers.
fn table() -> Vec<(&'static str, &'static str, &'static Shader)> {
    let tiers = |&(name, family): &(&'static str, &'static etvk_kernels::Family)| {
        [("plain", Some(&family.plain)), ("middle", family.middle.as_ref()), ("full", family.full.as_ref())]
            .into_iter()
            .filter_map(move |(tier, shader)| Some((name, tier, shader?)))
    };
    FAMILIES.iter().flat_map(tiers).collect()
}

#[test]
fn sources_are_those_of_the_manifest() {
    for (name, module) in &manifest().modules {
        for (file, expected) in &module.sources {
            let text = fs::read_to_string(shaders().join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
            assert_eq!(&sha256(text.as_bytes()), expected, "{name}: {file} changed since it was compiled");
            for included in text.lines().filter_map(|line| line.trim_start().strip_prefix("#include")) {
                let included = included.trim().trim_matches('"');
                assert!(module.sources.contains_key(included), "{name}: {included} is not in the manifest");
            }
        }
    }
}

#[test]
fn manifest_has_what_variants_toml_asks_for() {
    let mut modules = manifest().modules;
    for (family, row) in variants() {
        for (tier, defines) in row.tiers {
            let name = if tier == "plain" { family.clone() } else { format!("{family}.{tier}") };
            let module = modules.remove(&name).unwrap_or_else(|| panic!("{name} was never compiled"));
            let file = row.file.clone().unwrap_or_else(|| format!("{family}.comp"));
            assert!(module.sources.contains_key(&file), "{name}: not made from {file}");
            assert_eq!((&module.family, &module.tier), (&family, &tier), "{name}");
            assert_eq!((module.bindings, module.push_words), (row.bindings, row.push_words), "{name}");
            assert_eq!(module.defines, defines, "{name}");
        }
    }
    assert_eq!(modules.keys().collect::<Vec<_>>(), Vec::<&String>::new(), "not in variants.toml");
}

#[test]
fn table_has_the_modules_of_the_manifest() {
    let mut modules = manifest().modules;
    for (family, tier, shader) in table() {
        let module = modules.remove(shader.name).unwrap_or_else(|| panic!("{} unknown", shader.name));
        assert_eq!((module.family.as_str(), module.tier.as_str()), (family, tier), "{}", shader.name);
        assert_eq!(sha256(shader.spirv), module.spirv, "{}", shader.name);
        assert_eq!(
            (shader.bindings, shader.push_words),
            (module.bindings, module.push_words),
            "{}",
            shader.name
        );
    }
    assert_eq!(modules.keys().collect::<Vec<_>>(), Vec::<&String>::new(), "not in the table");
}

/// Every committed file belongs to the manifest, and every source is used.
#[test]
fn nothing_is_left_over() {
    let modules = manifest().modules;
    for entry in fs::read_dir(crate_dir().join("spirv")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let module = name.strip_suffix(".spv");
        assert!(
            name == "manifest.json" || module.is_some_and(|m| modules.contains_key(m)),
            "spirv/{name} is left over"
        );
    }
    for dir in ["", "include/"] {
        for entry in fs::read_dir(shaders().join(dir)).unwrap() {
            let name = format!("{dir}{}", entry.unwrap().file_name().into_string().unwrap());
            let used = modules.values().any(|module| module.sources.contains_key(&name));
            assert!(used || !name.ends_with(".comp") && !name.ends_with(".glsl"), "shaders/{name} is unused");
        }
    }
}

/// What the modules declare fits what the table says about them.
#[test]
fn interfaces_match_the_table() {
    for (_, _, shader) in table() {
        let interface = Interface::of(shader.spirv);
        assert!(interface.bindings <= shader.bindings, "{}: {} bindings", shader.name, interface.bindings);
        assert_eq!(interface.push_words, shader.push_words, "{}: push words", shader.name);
        assert!(shader.push_words <= 32, "{}: push constants beyond 128 bytes", shader.name);
    }
}

/// The resources of a SPIR-V module.
struct Interface {
    /// Highest binding, plus one.
    bindings: u32,
    /// Words of the push-constant block.
    push_words: u32,
}

impl Interface {
    fn of(spirv: &[u8]) -> Self {
        let words: Vec<u32> =
            spirv.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        assert_eq!(words[0], 0x0723_0203, "not SPIR-V");
        let mut instructions = Vec::new();
        let mut at = 5;
        while at < words.len() {
            let length = (words[at] >> 16) as usize;
            instructions.push((words[at] & 0xFFFF, &words[at + 1..at + length]));
            at += length;
        }
        let (decorate, binding) = (71, 33);
        let bindings = instructions.iter().filter(|(op, args)| *op == decorate && args[1] == binding);
        let bindings = bindings.map(|(_, args)| args[2] + 1).max().unwrap_or(0);
        Self { bindings, push_words: push_words(&instructions) }
    }
}

/// The block's last member ends it: a 32-bit scalar, or an array of them or of structures.
fn push_words(instructions: &[(u32, &[u32])]) -> u32 {
    let (variable, pointer, structure, array, constant, member_decorate) = (59, 32, 30, 28, 43, 72);
    let (decorate, array_stride) = (71, 6);
    let (push_constant_class, offset) = (9, 35);
    let defines = |id: u32, op: u32, at: usize| {
        instructions.iter().find(move |(o, args)| *o == op && args[at] == id).map(|(_, args)| *args)
    };
    let block = instructions.iter().find(|(op, args)| *op == variable && args[2] == push_constant_class);
    let Some((_, block)) = block else { return 0 };
    let block = defines(block[0], pointer, 0).unwrap()[2];
    let members = &defines(block, structure, 0).unwrap()[1..];
    let last = u32::try_from(members.len() - 1).unwrap();
    let start = instructions
        .iter()
        .find(|(op, args)| *op == member_decorate && args[..3] == [block, last, offset])
        .map(|(_, args)| args[3] / 4)
        .unwrap();
    let length = match defines(members[members.len() - 1], array, 0) {
        Some(array) => {
            let stride = instructions
                .iter()
                .find(|(op, args)| *op == decorate && args[..2] == [array[0], array_stride])
                .map(|(_, args)| args[2] / 4)
                .unwrap();
            defines(array[2], constant, 1).unwrap()[2] * stride
        }
        None => 1,
    };
    start + length
}
