//! The header that is checked in is the one that the Rust code says.
#![expect(clippy::unwrap_used, reason = "test code")]

use std::path::Path;

const HEADER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ffi/include/etvk.h");

fn generated() -> String {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(here.join("cbindgen.toml")).unwrap();
    let source = |name| here.join("src").join(name);
    let bindings = cbindgen::Builder::new()
        .with_config(config)
        .with_src(source("abi.rs"))
        .with_src(source("api.rs"))
        .generate()
        .unwrap();
    let mut text = Vec::new();
    bindings.write(&mut text);
    String::from_utf8(text).unwrap()
}

#[test]
fn header_is_up_to_date() {
    let want = generated();
    if std::env::var_os("ETVK_BLESS").is_some() {
        std::fs::write(HEADER, &want).unwrap();
    }
    let found = std::fs::read_to_string(HEADER).unwrap_or_default();
    assert!(found == want, "ffi/include/etvk.h is not what crates/capi says; rewrite it with ETVK_BLESS=1");
}
