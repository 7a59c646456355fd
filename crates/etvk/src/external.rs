//! Data outside the program: `.ptd` files, and where named blobs are looked up.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use etvk_pte::{Blob, Container, FlatTensor, Map};

use crate::bytes::Bytes;
use crate::error::{Error, Result};

/// The `.ptd` files of a module, mapped and known to have no key in common.
#[derive(Debug, Default)]
pub(crate) struct ExternalFiles(Vec<(PathBuf, Bytes)>);

impl ExternalFiles {
    /// Maps and checks files.
    pub(crate) fn open(paths: &[PathBuf]) -> Result<Self> {
        let mut files = Vec::with_capacity(paths.len());
        for path in paths {
            let file = Bytes::whole(open(path)?);
            let found = Container::detect(file.get());
            if found != Container::FlatTensor {
                return Err(Error::FileKind { path: path.clone(), expected: "external data (.ptd)", found });
            }
            files.push((path.clone(), file));
        }
        let files = Self(files);
        files.check()?;
        Ok(files)
    }

    fn check(&self) -> Result<()> {
        let parsed = self.parse()?;
        let mut owners = HashMap::new();
        for ((path, _), file) in self.0.iter().zip(&parsed) {
            for (key, _) in file.data.blobs().iter() {
                if let Some(first) = owners.insert(key, path) {
                    let (first, second) = (first.clone(), path.clone());
                    return Err(Error::DuplicateKey { key: key.to_owned(), first, second });
                }
            }
        }
        Ok(())
    }

    /// The files' contents.
    pub(crate) fn parse(&self) -> Result<Vec<ExternalFile<'_>>> {
        self.0.iter().map(|(path, bytes)| ExternalFile::parse(path, bytes)).collect()
    }
}

/// One parsed `.ptd` file.
#[derive(Debug)]
pub(crate) struct ExternalFile<'a> {
    bytes: &'a Bytes,
    data: FlatTensor<'a>,
}

impl<'a> ExternalFile<'a> {
    fn parse(path: &Path, bytes: &'a Bytes) -> Result<Self> {
        Ok(Self { bytes, data: FlatTensor::parse(bytes.get()).map_err(failed(path))? })
    }
}

/// Where names are looked up: the `.ptd` files first, then the program.
#[derive(Clone, Copy)]
pub(crate) struct Names<'a> {
    pub(crate) external: &'a [ExternalFile<'a>],
    pub(crate) program: &'a etvk_pte::NamedData<'a>,
}

impl<'a> Names<'a> {
    /// An external blob and the file it is in.
    pub(crate) fn external(&self, key: &str) -> Option<(&'a Bytes, Blob<'a>)> {
        self.external.iter().find_map(|file| Some((file.bytes, file.data.get(key)?)))
    }
}

impl etvk_vkgraph::NamedData for Names<'_> {
    fn get(&self, key: &str) -> Option<&[u8]> {
        match self.external(key) {
            Some((_, blob)) => Some(blob.bytes),
            None => self.program.get(key),
        }
    }
}

/// Maps a file.
pub(crate) fn open(path: &Path) -> Result<Map> {
    Map::open(path).map_err(failed(path))
}

/// An error of the file at `path`.
pub(crate) fn failed(path: &Path) -> impl FnOnce(etvk_pte::Error) -> Error {
    let path = path.to_owned();
    |source| Error::File { path, source }
}
