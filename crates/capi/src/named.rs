//! Named data that a callback gives.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use etvk::payload::NamedData;

use crate::abi::{EtvkBlob, EtvkNamedData, EtvkStatus};
use crate::error::Error;

/// Bytes of the caller, given back when this is dropped.
struct Blob(EtvkBlob);

impl Drop for Blob {
    fn drop(&mut self) {
        if let Some(release) = self.0.release {
            // SAFETY: the callback gave both, and this is the only call.
            unsafe { release(self.0.owner) }
        }
    }
}

impl Blob {
    fn bytes(&self) -> &[u8] {
        match self.0.data.is_null() || self.0.len == 0 {
            true => &[],
            // SAFETY: the callback promised so many bytes until the release, which is in `drop`.
            false => unsafe { std::slice::from_raw_parts(self.0.data.cast(), self.0.len) },
        }
    }
}

/// The caller's named data, asked at most once a key.
pub(crate) struct Named {
    source: EtvkNamedData,
    /// Only grows, and the blobs do not move: they are boxed.
    blobs: RefCell<HashMap<String, Option<Box<Blob>>>>,
    failed: Cell<Option<(usize, u32)>>,
}

impl Named {
    /// # Safety
    /// `source` is what its documentation says.
    pub(crate) unsafe fn new(source: EtvkNamedData) -> Option<Self> {
        source.get?;
        Some(Self { source, blobs: RefCell::default(), failed: Cell::new(None) })
    }

    /// Whether the callback failed for another reason than that there is no such key.
    pub(crate) fn failure(&self) -> Option<Error> {
        let (length, found) = self.failed.get()?;
        Some(Error::Callback { what: format!("named data for a key of {length} bytes"), found })
    }

    fn ask(&self, key: &str) -> Option<Box<Blob>> {
        let mut blob =
            EtvkBlob { data: std::ptr::null(), len: 0, owner: std::ptr::null_mut(), release: None };
        let get = self.source.get?;
        // SAFETY: the callback was given with this context; the key and the blob live during the call.
        let status = unsafe { get(self.source.context, key.as_ptr().cast(), key.len(), &mut blob) };
        if status == EtvkStatus::Ok as u32 {
            return Some(Box::new(Blob(blob)));
        }
        if status != EtvkStatus::NotFound as u32 && self.failed.get().is_none() {
            self.failed.set(Some((key.len(), status)));
        }
        None
    }
}

impl NamedData for Named {
    fn get(&self, key: &str) -> Option<&[u8]> {
        if !self.blobs.borrow().contains_key(key) {
            let blob = self.ask(key);
            self.blobs.borrow_mut().insert(key.to_owned(), blob);
        }
        let blobs = self.blobs.borrow();
        let bytes: *const [u8] = blobs.get(key)?.as_ref()?.bytes();
        // SAFETY: blobs are never removed nor replaced while `self` is borrowed, and their bytes are the caller's until
        // the release in `Blob::drop`.
        Some(unsafe { &*bytes })
    }
}
