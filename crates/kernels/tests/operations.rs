//! The operations of the enums are the constants of the shaders, by name and value.

#![cfg(test)]

use std::fmt::Debug;
use std::fs;
use std::path::Path;

use etvk_kernels::map::MapOp;
use etvk_kernels::reduce::ReduceOp;

/// `GeluTanh` → `GELU_TANH`.
fn screaming(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_uppercase());
    }
    out
}

fn constants(file: &str) -> Vec<(String, u32)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shaders/include").join(file);
    let constant = |line: &str| {
        let (name, value) = line.strip_prefix("const uint OP_")?.split_once(" = ")?;
        Some((name.to_owned(), value.strip_suffix("u;")?.parse().unwrap()))
    };
    fs::read_to_string(path).unwrap().lines().filter_map(constant).collect()
}

fn operations<T: Copy + Debug>(all: &[T], value: impl Fn(T) -> u32) -> Vec<(String, u32)> {
    all.iter().map(|&op| (screaming(&format!("{op:?}")), value(op))).collect()
}

#[test]
fn map_operations_match_the_shader() {
    assert_eq!(operations(MapOp::ALL, |op| op as u32), constants("map_ops.glsl"));
}

#[test]
fn reduce_operations_match_the_shader() {
    assert_eq!(operations(ReduceOp::ALL, |op| op as u32), constants("reduce_ops.glsl"));
}
