//! An opened file and its tensors.

use std::collections::HashMap;
use std::path::Path;

use memmap2::Mmap;

use crate::parse::{self, Entry};
use crate::{Error, Metadata, Result, TensorType, blocks};

/// An opened file.
#[derive(Debug)]
pub struct Gguf {
    map: Mmap,
    metadata: Metadata,
    entries: Vec<Entry>,
    names: HashMap<String, usize>,
}

/// A tensor of a file.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    /// Its name.
    pub name: &'a str,
    /// How its elements are stored.
    pub kind: TensorType,
    /// Its sizes, outermost first.
    pub dims: &'a [u64],
    /// Its blocks, row after row.
    pub bytes: &'a [u8],
}

impl Gguf {
    /// Maps and checks a file, which must not be changed while it is open.
    ///
    /// # Errors
    /// [`Error`] for a file that cannot be read, is of another kind or version, or is damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let map = crate::map::open(path.as_ref())?;
        let (metadata, entries) = parse::parse(&map)?;
        let names = entries.iter().enumerate().map(|(index, entry)| (entry.name.clone(), index)).collect();
        Ok(Self { map, metadata, entries, names })
    }

    /// Its keys and values.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// All tensors, in the order of the file.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = Tensor<'_>> {
        self.entries.iter().map(|entry| self.view(entry))
    }

    /// The tensor of this name.
    #[must_use]
    pub fn tensor(&self, name: &str) -> Option<Tensor<'_>> {
        self.names.get(name).and_then(|&index| self.entries.get(index)).map(|entry| self.view(entry))
    }

    fn view<'a>(&'a self, entry: &'a Entry) -> Tensor<'a> {
        let range = usize::try_from(entry.offset).ok().zip(usize::try_from(entry.length).ok());
        // Parsing made sure that there are so many bytes.
        let bytes = range.and_then(|(offset, length)| self.map.get(offset..)?.get(..length)).unwrap_or(&[]);
        Tensor { name: &entry.name, kind: entry.kind, dims: &entry.dims, bytes }
    }
}

impl<'a> Tensor<'a> {
    /// Number of rows: all dimensions but the last.
    #[must_use]
    pub fn rows(&self) -> u64 {
        let (_, outer) = self.dims.split_last().unwrap_or((&1, &[]));
        outer.iter().product()
    }

    /// Elements of a row.
    #[must_use]
    pub fn columns(&self) -> u64 {
        self.dims.last().copied().unwrap_or(1)
    }

    /// The blocks of the `count` rows from `first` on, if there are so many.
    #[must_use]
    pub fn row_bytes(&self, first: u64, count: u64) -> Option<&'a [u8]> {
        let (elements, bytes) = self.kind.block();
        let row = self.columns() / elements * bytes;
        let place = |rows: u64| usize::try_from(rows.checked_mul(row)?).ok();
        self.bytes.get(place(first)?..)?.get(..place(count)?)
    }

    /// Decodes as many whole rows, from row `first` on, as `out` has room for.
    ///
    /// # Errors
    /// [`Error::Codes`] for a type that is not decoded, [`Error::Rows`] unless `out` is as long as rows that there are.
    pub fn read_rows(&self, first: u64, out: &mut [f32]) -> Result<()> {
        let rows = Error::Rows {
            name: self.name.to_owned(),
            rows: self.rows(),
            columns: self.columns(),
            first,
            count: out.len(),
        };
        let count = (out.len() as u64).checked_div(self.columns()).unwrap_or(0);
        let Some(bytes) = self.row_bytes(first, count) else { return Err(rows) };
        if count * self.columns() != out.len() as u64 || first + count > self.rows() {
            return Err(rows);
        }
        blocks::decode(self.kind, bytes, out)
            .ok_or_else(|| Error::Codes { name: self.name.to_owned(), kind: self.kind.name() })
    }
}
