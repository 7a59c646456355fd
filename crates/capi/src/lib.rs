//! The C interface of etvk.

mod abi;
