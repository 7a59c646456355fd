//! `cargo xtask shaders`: compiles `shaders/` into `crates/kernels/spirv/` and writes the manifest and the table.
//!
//! `shaders/variants.toml` says what is compiled. A module whose sources and defines are those of the manifest is not
//! compiled again, unless another program made it and the library is asked to. One that fails keeps its last good
//! SPIR-V (and the manifest test fails).

mod compile;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use self::compile::Compiler;

/// One row of `variants.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FamilyRow {
    /// Source below `shaders/`; `<family>.comp` if absent.
    file: Option<String>,
    bindings: u32,
    push_words: u32,
    /// Macros defined for each tier's module; a tier without an entry uses the one below it.
    tiers: BTreeMap<String, Vec<String>>,
}

/// `manifest.json`: what the committed SPIR-V was made from.
#[derive(Default, Serialize, Deserialize)]
struct Manifest {
    modules: BTreeMap<String, Module>,
}

/// One SPIR-V module of the manifest.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct Module {
    family: String,
    tier: String,
    bindings: u32,
    push_words: u32,
    defines: Vec<String>,
    /// SHA-256 of the source and of all files it includes, by path below `shaders/`.
    sources: BTreeMap<String, String>,
    compiler: String,
    /// SHA-256 of the module.
    spirv: String,
}

const TIERS: [&str; 3] = ["plain", "middle", "full"];

/// Runs the command with the arguments after `shaders`: `[--glslc PATH] [--force]`.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let mut glslc = None;
    let mut force = false;
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--glslc" => glslc = Some(PathBuf::from(rest.next().context("--glslc needs a path")?)),
            "--force" => force = true,
            other => bail!("unknown argument {other}; usage: cargo xtask shaders [--glslc PATH] [--force]"),
        }
    }
    let Some(compiler) = Compiler::open(glslc, args)? else { return Ok(()) };

    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let shaders = root.join("shaders");
    let spirv = root.join("crates/kernels/spirv");
    let text = fs::read_to_string(shaders.join("variants.toml")).context("shaders/variants.toml")?;
    let families: BTreeMap<String, FamilyRow> = toml::from_str(&text)?;
    let old = read_manifest(&spirv)?;
    fs::create_dir_all(&spirv)?;

    let mut manifest = Manifest::default();
    let mut failed = Vec::new();
    for (family, row) in &families {
        ensure!(row.tiers.contains_key("plain"), "{family}: there must be a plain tier");
        for (tier, defines) in &row.tiers {
            ensure!(TIERS.contains(&tier.as_str()), "{family}: unknown tier {tier}");
            let name = if tier == "plain" { family.clone() } else { format!("{family}.{tier}") };
            let file = row.file.clone().unwrap_or_else(|| format!("{family}.comp"));
            let known = old.modules.get(&name);
            match build(&compiler, &shaders, &spirv, &name, &file, defines, known.filter(|_| !force)) {
                Ok(built) => {
                    let module = Module {
                        family: family.clone(),
                        tier: tier.clone(),
                        bindings: row.bindings,
                        push_words: row.push_words,
                        defines: defines.clone(),
                        sources: built.sources,
                        compiler: built.compiler,
                        spirv: built.spirv,
                    };
                    manifest.modules.insert(name, module);
                }
                Err(error) => {
                    eprintln!("{name}: {error:#}");
                    if let Some(known) = known {
                        manifest.modules.insert(name.clone(), known.clone());
                    }
                    failed.push(name);
                }
            }
        }
    }
    remove_stale(&spirv, &manifest)?;
    fs::write(spirv.join("manifest.json"), serde_json::to_string_pretty(&manifest)? + "\n")?;
    fs::write(root.join("crates/kernels/src/table.rs"), table(&manifest)?)?;
    ensure!(failed.is_empty(), "did not compile: {}", failed.join(", "));
    Ok(())
}

fn read_manifest(spirv: &Path) -> Result<Manifest> {
    match fs::read(spirv.join("manifest.json")) {
        Ok(bytes) => serde_json::from_slice(&bytes).context("crates/kernels/spirv/manifest.json"),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Manifest::default()),
        Err(error) => Err(error).context("crates/kernels/spirv/manifest.json"),
    }
}

/// What the manifest records of a module: the hashes of its sources, which compiler made it, its own hash.
struct Built {
    sources: BTreeMap<String, String>,
    compiler: String,
    spirv: String,
}

/// Compiles one module unless `known` says that it is up to date.
fn build(
    compiler: &Compiler,
    shaders: &Path,
    spirv: &Path,
    name: &str,
    file: &str,
    defines: &[String],
    known: Option<&Module>,
) -> Result<Built> {
    let mut sources = BTreeMap::new();
    hash_sources(shaders, file, &mut sources)?;
    let path = spirv.join(format!("{name}.spv"));
    if let Some(known) = known
        && known.sources == sources
        && known.defines == defines
        && (compiler.is_provisional() || known.compiler == compiler.name())
        && fs::read(&path).is_ok_and(|bytes| sha256(&bytes) == known.spirv)
    {
        return Ok(Built { sources, compiler: known.compiler.clone(), spirv: known.spirv.clone() });
    }
    let bytes = compiler.compile(shaders, file, defines)?;
    fs::write(&path, &bytes)?;
    eprintln!("{name}: {} bytes", bytes.len());
    Ok(Built { sources, compiler: compiler.name().to_owned(), spirv: sha256(&bytes) })
}

/// Hashes `file` and what it includes; paths are relative to `shaders/`.
fn hash_sources(shaders: &Path, file: &str, sources: &mut BTreeMap<String, String>) -> Result<()> {
    if sources.contains_key(file) {
        return Ok(());
    }
    let text = fs::read_to_string(shaders.join(file)).with_context(|| format!("shaders/{file}"))?;
    sources.insert(file.to_owned(), sha256(text.as_bytes()));
    for line in text.lines() {
        if let Some(rest) = line.trim_start().strip_prefix("#include") {
            let included = rest.trim().trim_matches('"');
            hash_sources(shaders, included, sources).with_context(|| format!("included by {file}"))?;
        }
    }
    Ok(())
}

fn remove_stale(spirv: &Path, manifest: &Manifest) -> Result<()> {
    for entry in fs::read_dir(spirv)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|n| n.to_str()).and_then(|n| n.strip_suffix(".spv"));
        if name.is_some_and(|name| !manifest.modules.contains_key(name)) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// The text of `crates/kernels/src/table.rs`.
fn table(manifest: &Manifest) -> Result<String> {
    let mut text = String::from(
        "//! The embedded modules. Written by `cargo xtask shaders` from `shaders/variants.toml`; not edited by hand.\n\n\
         use crate::{Family, Shader};\n",
    );
    let families: BTreeSet<&str> = manifest
        .modules
        .values()
        .filter(|module| module.tier == "plain")
        .map(|module| module.family.as_str())
        .collect();
    for family in &families {
        writeln!(text, "\n/// The modules of family `{family}`.")?;
        writeln!(text, "pub static {}: Family = Family {{", family.to_uppercase())?;
        for tier in TIERS {
            let found = manifest.modules.iter().find(|(_, m)| m.family == *family && m.tier == tier);
            let Some((name, module)) = found else {
                writeln!(text, "    {tier}: None,")?;
                continue;
            };
            let (open, close) = if tier == "plain" { ("", "") } else { ("Some(", ")") };
            writeln!(text, "    {tier}: {open}Shader {{")?;
            writeln!(text, "        name: \"{name}\",")?;
            writeln!(text, "        spirv: include_bytes!(\"../spirv/{name}.spv\"),")?;
            writeln!(text, "        bindings: {},", module.bindings)?;
            writeln!(text, "        push_words: {},", module.push_words)?;
            writeln!(text, "    }}{close},")?;
        }
        writeln!(text, "}};")?;
    }
    writeln!(text, "\n/// Every family by name.")?;
    writeln!(text, "pub static FAMILIES: &[(&str, &Family)] = &[")?;
    for family in &families {
        writeln!(text, "    (\"{family}\", &{}),", family.to_uppercase())?;
    }
    writeln!(text, "];")?;
    Ok(text)
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
