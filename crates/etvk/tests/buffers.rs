//! Buffers that ordinary operators change, in programs that do not say which output is whose new value.
//!
//! `programs/` holds what upstream's exporter 1.5.1 wrote for a buffer that two delegates read
//! (`y = cumsum(buf + x); buf += y`, where cumsum stays on the CPU), for one that the method reads as well
//! (`y = cumsum(buf); buf += x`), and for two buffers of equal sizes (`a += x; b *= x`).
#![expect(clippy::unwrap_used, reason = "test code")]

use std::path::{Path, PathBuf};

use etvk::{EngineError, Problem};

fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn problems(path: &Path) -> Vec<Problem> {
    etvk::check(path).unwrap().methods.remove(0).problems
}

#[test]
fn a_buffer_that_another_delegate_reads_is_refused() {
    let found = problems(&here("tests/programs/shared_delegates.pte"));
    let [Problem::SharedBuffer { delegate: 1, output: 0, reader }] = found.as_slice() else {
        panic!("{found:?}")
    };
    assert_eq!(reader, "delegate 0");
}

#[test]
fn a_buffer_that_the_method_reads_is_refused() {
    let found = problems(&here("tests/programs/shared_outside.pte"));
    let [Problem::SharedBuffer { delegate: 0, output: 0, reader }] = found.as_slice() else {
        panic!("{found:?}")
    };
    assert_eq!(reader, "value 0 of the method");
}

#[test]
fn two_buffers_alike_are_refused() {
    let found = problems(&here("tests/programs/two_buffers.pte"));
    assert!(
        matches!(found.as_slice(), [Problem::Graph { delegate: 0, source: EngineError::Buffer(_) }]),
        "{found:?}"
    );
    let text = found[0].to_string();
    assert!(text.ends_with("nothing says which it is; export again with alias_buffer_mutations"), "{text}");
}

#[test]
fn a_result_in_place_of_an_input_is_refused() {
    let mut bytes = std::fs::read(here("../../tests/fixtures/ops/mutable_buffer_add.pte")).unwrap();
    // The values of the delegate's call with their number, in the program, which comes before the payload.
    let args: Vec<u8> = [2u32, 0, 1].iter().flat_map(|word| word.to_le_bytes()).collect();
    let place = (0..bytes.len()).find(|&at| bytes[at..].starts_with(&args)).unwrap();
    bytes[place + 8] = 0;
    let path = std::env::temp_dir().join(format!("etvk-buffers-{}.pte", std::process::id()));
    std::fs::write(&path, bytes).unwrap();
    let found = problems(&path);
    std::fs::remove_file(&path).unwrap();
    let [Problem::Argument { delegate: 0, at: 1, expected, .. }] = found.as_slice() else {
        panic!("{found:?}")
    };
    assert_eq!(expected, "a value that nothing sets before");
}
