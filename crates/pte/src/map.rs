//! A file mapped into memory: the one place where bytes come from.

use std::fs::File;
use std::ops::Deref;
use std::path::Path;

use crate::{Error, Result};

/// A read-only mapping of a whole file. Everything parsed from it borrows from it.
#[derive(Debug)]
pub struct Map(memmap2::Mmap);

impl Map {
    /// Maps the file at `path`.
    ///
    /// The file must stay unchanged while it is mapped, as with any mapping: shrinking it makes later reads fault.
    ///
    /// # Errors
    /// [`Error::Open`] if the file cannot be opened or mapped.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let failed = |source| Error::Open { path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        // SAFETY: the mapping is private and read-only; that nobody writes to the file meanwhile is the documented
        // duty of the caller, which no program can check.
        #[expect(unsafe_code, reason = "mapping a file")]
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(failed)?;
        Ok(Self(map))
    }
}

impl Deref for Map {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}
