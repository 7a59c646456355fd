//! `cargo xtask schema`: makes the FlatBuffers accessors under `crates/*/src/generated/` from `schema/`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// Each schema and the crate that owns its accessors.
const OWNERS: [(&str, &str); 4] =
    [("program", "pte"), ("flat_tensor", "pte"), ("bundled_program", "pte"), ("vkgraph", "vkgraph")];

/// What `flatc --version` must print: another release writes other text.
const VERSION: &str = "flatc version 24.3.25";

/// Runs the command with the arguments after `schema`: `[--flatc PATH] [--check]`.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let mut flatc = PathBuf::from("flatc");
    let mut check = false;
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--flatc" => flatc = PathBuf::from(rest.next().context("--flatc needs a path")?),
            "--check" => check = true,
            other => bail!("unknown argument {other}; usage: cargo xtask schema [--flatc PATH] [--check]"),
        }
    }
    let version = output(Command::new(&flatc).arg("--version"))?;
    ensure!(version.trim() == VERSION, "{} is {}, needed: {VERSION}", flatc.display(), version.trim());

    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let fresh = root.join("target/schema");
    fs::create_dir_all(&fresh)?;
    let mut stale = Vec::new();
    for (schema, owner) in OWNERS {
        let source = root.join("schema").join(schema).with_extension("fbs");
        output(Command::new(&flatc).arg("--rust").arg("-o").arg(&fresh).arg(source))?;
        let name = format!("{schema}_generated.rs");
        let made = fs::read_to_string(fresh.join(&name)).with_context(|| format!("flatc made no {name}"))?;
        let committed = root.join("crates").join(owner).join("src/generated").join(&name);
        if fs::read_to_string(&committed).is_ok_and(|committed| committed == made) {
            continue;
        }
        if check {
            stale.push(name);
        } else {
            fs::write(&committed, made).with_context(|| format!("cannot write {name}"))?;
            println!("wrote {name} in crates/{owner}/src/generated");
        }
    }
    ensure!(stale.is_empty(), "not what schema/ says: {}; run cargo xtask schema", stale.join(", "));
    Ok(())
}

/// Runs `command` and returns what it printed.
fn output(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let result = command.output().with_context(|| format!("cannot run {program}"))?;
    ensure!(result.status.success(), "{program} failed: {}", String::from_utf8_lossy(&result.stderr));
    Ok(String::from_utf8(result.stdout)?)
}
