//! FlatBuffers accessors made from `schema/*.fbs` by `cargo xtask schema`.
//!
//! Sound only behind the verifier: the one way to a root table is [`verified_root`].
#![allow(
    clippy::all,
    clippy::cast_possible_truncation,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    dead_code,
    mismatched_lifetime_syntaxes,
    missing_docs,
    non_snake_case,
    unreachable_pub,
    unsafe_code,
    unsafe_op_in_unsafe_fn,
    unused_imports,
    reason = "written by flatc"
)]

use flatbuffers::{Follow, InvalidFlatbuffer, Verifiable, VerifierOptions};

#[rustfmt::skip]
#[path = "generated/bundled_program_generated.rs"]
pub(crate) mod bundled_program;
#[rustfmt::skip]
#[path = "generated/flat_tensor_generated.rs"]
pub(crate) mod flat_tensor;
#[rustfmt::skip]
#[path = "generated/program_generated.rs"]
pub(crate) mod program;

/// Nesting allowed, as upstream.
const MAX_DEPTH: usize = 64;
/// Tables allowed: above upstream's million, as one value takes two or three of them.
const MAX_TABLES: usize = 16_000_000;

/// The root table of a FlatBuffer that passed the verifier.
///
/// `buffer` may have any alignment: offsets are checked to be aligned in the file, and scalars are read bytewise.
pub(crate) fn verified_root<'a, T>(buffer: &'a [u8]) -> Result<T::Inner, InvalidFlatbuffer>
where
    T: 'a + Follow<'a> + Verifiable,
{
    let options = VerifierOptions {
        max_depth: MAX_DEPTH,
        max_tables: MAX_TABLES,
        // Tables and strings may be shared. A fixed factor keeps verification linear in the file's size where
        // every entry of a long vector names one long string.
        max_apparent_size: buffer.len().saturating_mul(64).saturating_add(1 << 16),
        ignore_missing_null_terminator: false,
    };
    flatbuffers::root_with_opts::<T>(&options, buffer)
}
