//! Any bytes as a `.pte`, `.ptd` or `.bpte` file: read and visit everything in it.
#![no_main]

#[path = "../../crates/pte/tests/common/walk.rs"]
mod walk;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| {
    let _ = walk::walk(file);
});
