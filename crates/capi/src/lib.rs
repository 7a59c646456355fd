//! The C interface of etvk: what `ffi/include/etvk.h` declares.
//!
//! Nothing here touches Vulkan before a function that has to. Every function catches panics; every handle is checked.

pub mod abi;
pub mod api;
mod constants;
mod create;
mod device;
mod error;
mod events;
mod execute;
mod fault;
mod guard;
mod handle;
mod layout;
mod log;
mod named;
mod option;
mod status;
mod tensor;
#[cfg(test)]
mod tests;
mod text;
