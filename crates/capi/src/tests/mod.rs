//! The interface as C callers see it: every call goes through the exported functions.

#![expect(
    clippy::cast_possible_truncation,
    clippy::undocumented_unsafe_blocks,
    reason = "test code: pointers are to values that the test owns"
)]

mod buffers;
mod create_faults;
mod events;
mod execute_faults;
mod fixtures;
mod goldens;
mod memory;
mod mixed;
mod other_faults;
mod shapes;
mod support;
mod threads;
