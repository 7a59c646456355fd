//! Texts across the C interface.

use std::ffi::{CStr, CString, c_char};

use crate::error::Error;

/// A text of the caller.
///
/// # Safety
/// `text` is null or NUL-terminated and stays so for `'a`.
pub(crate) unsafe fn read<'a>(what: &'static str, text: *const c_char) -> Result<&'a str, Error> {
    if text.is_null() {
        return Err(Error::Null { what });
    }
    // SAFETY: as this function's.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| Error::Utf8 { what })
}

/// A text for the caller; NULs inside it become spaces.
pub(crate) fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}
