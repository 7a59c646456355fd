//! Constants on their way into the program: in a file beside it, until all of them are known.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use etvk_vkgraph::constant_key;
use sha2::{Digest as _, Sha256};

/// Bytes of constants, in a file that is gone when this is dropped.
pub(crate) struct Constants {
    path: PathBuf,
    file: RefCell<File>,
    /// Where the next constant goes.
    end: u64,
    entries: Vec<Entry>,
    known: HashMap<String, usize>,
}

struct Entry {
    key: String,
    offset: u64,
    length: u64,
}

/// Where a constant that is still written goes.
pub(crate) struct Region {
    offset: u64,
    length: u64,
    written: u64,
    digest: Sha256,
}

/// A constant that is there.
pub(crate) struct Kept {
    pub(crate) key: String,
    pub(crate) length: u64,
}

impl Constants {
    /// An empty store in a new file.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let file = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
        Ok(Self {
            path: path.to_owned(),
            file: RefCell::new(file),
            end: 0,
            entries: Vec::new(),
            known: HashMap::new(),
        })
    }

    /// Room for a constant of `length` bytes; several can be written in turns.
    pub(crate) fn reserve(&mut self, length: u64) -> Region {
        let offset = self.end;
        self.end += length;
        Region { offset, length, written: 0, digest: Sha256::new() }
    }

    /// The next bytes of a constant.
    pub(crate) fn append(&self, region: &mut Region, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.file.borrow_mut();
        file.seek(SeekFrom::Start(region.offset + region.written))?;
        file.write_all(bytes)?;
        region.digest.update(bytes);
        region.written += bytes.len() as u64;
        Ok(())
    }

    /// Closes a constant. Equal ones are stored once.
    pub(crate) fn finish(&mut self, region: Region) -> io::Result<Kept> {
        let Region { offset, length, written, digest } = region;
        if written != length {
            let text = format!("a constant has {written} bytes, {length} were reserved");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let key = constant_key(&digest.finalize().into());
        if self.known.contains_key(&key) {
            if self.end == offset + length {
                self.end = offset;
            }
        } else if length > 0 {
            self.known.insert(key.clone(), self.entries.len());
            self.entries.push(Entry { key: key.clone(), offset, length });
        }
        Ok(Kept { key, length })
    }

    /// A constant whose bytes are at hand.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> io::Result<Kept> {
        let mut region = self.reserve(bytes.len() as u64);
        self.append(&mut region, bytes)?;
        self.finish(region)
    }

    /// Keys and lengths of all constants.
    pub(crate) fn named_data(&self) -> Vec<(String, u64)> {
        self.entries.iter().map(|entry| (entry.key.clone(), entry.length)).collect()
    }

    /// Writes a constant into `out`.
    pub(crate) fn copy(&self, index: usize, out: &mut dyn Write) -> io::Result<()> {
        let entry = self.entries.get(index).ok_or(io::ErrorKind::NotFound)?;
        let mut file = self.file.borrow_mut();
        file.seek(SeekFrom::Start(entry.offset))?;
        io::copy(&mut (&mut *file).take(entry.length), out).map(drop)
    }
}

impl Drop for Constants {
    fn drop(&mut self) {
        // What is left of a conversion is of no use to anyone; if it cannot be removed, nobody can be told here.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_come_back_once_each() {
        let path = std::env::temp_dir().join(format!("etvk-constants-{}", std::process::id()));
        let mut constants = Constants::create(&path).unwrap();
        let (mut a, mut b) = (constants.reserve(4), constants.reserve(2));
        constants.append(&mut a, b"on").unwrap();
        constants.append(&mut b, b"or").unwrap();
        constants.append(&mut a, b"ce").unwrap();
        constants.finish(b).unwrap();
        constants.finish(a).unwrap();
        let again = constants.add(b"once").unwrap();
        assert_eq!(constants.named_data().len(), 2);
        assert_eq!(constants.named_data()[1], (again.key, 4));
        let mut out = Vec::new();
        constants.copy(1, &mut out).unwrap();
        constants.copy(0, &mut out).unwrap();
        assert_eq!(out, b"onceor");
        let short = constants.reserve(3);
        assert_eq!(constants.finish(short).err().unwrap().kind(), io::ErrorKind::InvalidData);
        drop(constants);
        assert!(!path.exists());
    }
}
