//! Blobs by name.

use std::collections::HashMap;

use crate::{Error, Result};

/// Blobs of a file by name, found in constant time and listed in file order.
#[derive(Clone)]
pub struct NamedData<'a, T = &'a [u8]> {
    entries: Vec<(&'a str, T)>,
    index: HashMap<&'a str, usize>,
}

/// The names.
impl<T> std::fmt::Debug for NamedData<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.entries.iter().map(|(key, _)| key)).finish()
    }
}

impl<T> Default for NamedData<'_, T> {
    fn default() -> Self {
        Self { entries: Vec::new(), index: HashMap::new() }
    }
}

impl<'a, T: Copy> NamedData<'a, T> {
    pub(crate) fn insert(&mut self, key: &'a str, blob: T) -> Result<()> {
        if self.index.insert(key, self.entries.len()).is_some() {
            return Err(Error::DuplicateKey { key: key.to_owned() });
        }
        self.entries.push((key, blob));
        Ok(())
    }

    /// The blob named `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<T> {
        self.index.get(key).and_then(|&at| self.entries.get(at)).map(|&(_, blob)| blob)
    }

    /// Number of blobs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True without blobs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Names and blobs in file order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&'a str, T)> {
        self.entries.iter().copied()
    }
}
