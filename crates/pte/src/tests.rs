//! Files made to be wrong in one way, and the exact error each must give; and files that are right.
#![expect(clippy::cast_possible_truncation, reason = "small numbers")]

mod build;
mod external;
mod header;
mod method;
mod write;

use crate::{Error, MethodFault, Program, Result};

/// Parses the program and its methods.
fn load(file: &[u8]) -> Result<()> {
    Program::parse(file)?.methods().try_for_each(|method| method.map(drop))
}

/// What is wrong with the method of the default program after `edit`.
fn fault(edit: impl FnOnce(&mut build::Spec)) -> MethodFault {
    match load(&build::pte(edit)) {
        Err(Error::Method { method, fault }) => {
            assert_eq!(method, "forward");
            fault
        }
        other => panic!("{other:?}"),
    }
}
