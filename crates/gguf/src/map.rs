//! Files mapped into memory.
#![expect(unsafe_code, reason = "mapping a file")]

use std::fs::File;
use std::path::Path;

use memmap2::{Advice, Mmap};

use crate::{Error, Result};

/// Maps a file for reading from one end to the other.
pub(crate) fn open(path: &Path) -> Result<Mmap> {
    let failed = |source| Error::Open { path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    // SAFETY: the map is only read. A file that another process shortens meanwhile ends this one with a signal, which is
    // documented at `Gguf::open`.
    let map = unsafe { Mmap::map(&file) }.map_err(failed)?;
    // Only advice: what it gains is speed.
    let _ = map.advise(Advice::Sequential);
    Ok(map)
}
