//! Developer tasks: `cargo xtask TASK`.

mod schema;
mod shaders;

use anyhow::{Result, bail};

const USAGE: &str = "usage: cargo xtask TASK
  schema [--flatc PATH] [--check]    make the FlatBuffers accessors from schema/
  shaders [--glslc PATH] [--force]   compile shaders/ into crates/kernels/spirv";

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.split_first() {
        Some((task, rest)) if task == "schema" => schema::run(rest),
        Some((task, rest)) if task == "shaders" => shaders::run(rest),
        _ => bail!("{USAGE}"),
    }
}
