//! The border of every function: panics end here, and the text of what went wrong stays with its thread.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::abi::EtvkStatus;
use crate::error::{Error, chain};
use crate::text::c_string;

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Runs the body of a function.
pub(crate) fn guard(work: impl FnOnce() -> Result<(), Error>) -> EtvkStatus {
    // What a panic may leave half done is behind locks that say so: see `handle.rs`.
    let result = catch_unwind(AssertUnwindSafe(work));
    let (status, text) = match result.unwrap_or_else(|panic| Err(Error::Panic(message(&*panic)))) {
        Ok(()) => (EtvkStatus::Ok, String::new()),
        Err(error) => {
            let text = chain(&error);
            tracing::error!(target: "etvk::capi", "{text}");
            (error.status(), text)
        }
    };
    // A thread that is about to end has no last error any more.
    let _ = LAST.try_with(|last| last.replace(c_string(&text)));
    status
}

/// The text of the last failure on this thread.
pub(crate) fn last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "panic".to_owned())
}
