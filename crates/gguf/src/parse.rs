//! From bytes to metadata and tensors.

use std::collections::{HashMap, HashSet};

use crate::metadata::{Array, Metadata, Value};
use crate::{Error, Result, TensorType};

/// Bytes of the smallest tensor entry, of the smallest key with its value.
const LEAST_TENSOR: u64 = 8 + 4 + 4 + 8;
const LEAST_KEY: u64 = 8 + 4 + 1;
/// Dimensions of a tensor.
const MAX_RANK: u32 = 4;

/// A tensor in the table of a file.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) kind: TensorType,
    /// Outermost first.
    pub(crate) dims: Vec<u64>,
    /// Place in the file, and length.
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// Everything in front of the data.
pub(crate) fn parse(file: &[u8]) -> Result<(Metadata, Vec<Entry>)> {
    let mut reader = Reader { file, at: 0 };
    let magic = reader.array("the magic")?;
    if magic != *b"GGUF" {
        return Err(Error::Magic { found: magic });
    }
    let version = reader.u32("the version")?;
    if !(2..=3).contains(&version) {
        return Err(Error::Version { found: version });
    }
    let tensors = reader.u64("the number of tensors")?;
    let keys = reader.u64("the number of keys")?;
    reader.room("keys", keys, LEAST_KEY)?;
    let mut values = HashMap::new();
    for _ in 0..keys {
        let key = reader.string("a key")?;
        let value = reader.value(&key)?;
        if values.insert(key.clone(), value).is_some() {
            return Err(Error::Duplicate { what: "key", name: key });
        }
    }
    let metadata = Metadata { values };
    let entries = table(&mut reader, tensors, &metadata)?;
    Ok((metadata, entries))
}

fn table(reader: &mut Reader<'_>, count: u64, metadata: &Metadata) -> Result<Vec<Entry>> {
    let alignment = metadata.u64("general.alignment")?.unwrap_or(32);
    if !alignment.is_power_of_two() || alignment > 1 << 20 {
        return Err(Error::Alignment { found: alignment });
    }
    reader.room("tensors", count, LEAST_TENSOR)?;
    let mut names = HashSet::new();
    let mut entries = Vec::new();
    for _ in 0..count {
        let entry = reader.entry()?;
        if !names.insert(entry.name.clone()) {
            return Err(Error::Duplicate { what: "tensor", name: entry.name });
        }
        entries.push(entry);
    }
    let size = reader.file.len() as u64;
    // The data may be absent where there are no tensors.
    let base = (reader.at as u64).next_multiple_of(alignment);
    for entry in &mut entries {
        let within = entry.offset.checked_add(entry.length).and_then(|end| base.checked_add(end));
        if within.is_none_or(|end| end > size) || entry.offset % alignment != 0 {
            return Err(Error::Place {
                name: entry.name.clone(),
                offset: entry.offset,
                end: entry.offset.saturating_add(entry.length),
                size: size.saturating_sub(base),
                alignment,
            });
        }
        entry.offset += base;
    }
    Ok(entries)
}

struct Reader<'a> {
    file: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn bytes(&mut self, what: &'static str, count: u64) -> Result<&'a [u8]> {
        let end = usize::try_from(count).ok().and_then(|count| self.at.checked_add(count));
        let found = end.and_then(|end| self.file.get(self.at..end)).ok_or(Error::Truncated {
            what,
            offset: self.at as u64,
            needed: count,
            size: self.file.len() as u64,
        })?;
        self.at += found.len();
        Ok(found)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N]> {
        Ok(self.bytes(what, N as u64)?.first_chunk().copied().unwrap_or([0; N]))
    }

    fn u32(&mut self, what: &'static str) -> Result<u32> {
        self.array(what).map(u32::from_le_bytes)
    }

    fn u64(&mut self, what: &'static str) -> Result<u64> {
        self.array(what).map(u64::from_le_bytes)
    }

    fn string(&mut self, what: &'static str) -> Result<String> {
        let length = self.u64(what)?;
        let offset = self.at as u64;
        let bytes = self.bytes(what, length)?;
        str::from_utf8(bytes).map(str::to_owned).map_err(|_| Error::Utf8 { what, offset })
    }

    /// Fails if the rest of the file cannot hold `count` items of at least `least` bytes.
    fn room(&self, what: &'static str, count: u64, least: u64) -> Result<()> {
        let left = (self.file.len() - self.at) as u64;
        match count.checked_mul(least) {
            Some(needed) if needed <= left => Ok(()),
            _ => Err(Error::Count { what, found: count, offset: self.at as u64, left }),
        }
    }

    fn value(&mut self, key: &str) -> Result<Value> {
        let kind = self.u32("the type of a value")?;
        if kind == ARRAY {
            let kind = self.u32("the type of an array")?;
            let count = self.u64("the length of an array")?;
            return self.items(key, kind, count).map(Value::Array);
        }
        Ok(match self.items(key, kind, 1)? {
            Array::Unsigned(mut items) => Value::Unsigned(items.pop().unwrap_or_default()),
            Array::Signed(mut items) => Value::Signed(items.pop().unwrap_or_default()),
            Array::Float(mut items) => Value::Float(items.pop().unwrap_or_default()),
            Array::Bool(mut items) => Value::Bool(items.pop().unwrap_or_default()),
            Array::String(mut items) => Value::String(items.pop().unwrap_or_default()),
        })
    }

    fn items(&mut self, key: &str, kind: u32, count: u64) -> Result<Array> {
        Ok(match kind {
            0 => Array::Unsigned(self.numbers(count, |bytes: [u8; 1]| u8::from_le_bytes(bytes).into())?),
            1 => Array::Signed(self.numbers(count, |bytes: [u8; 1]| i8::from_le_bytes(bytes).into())?),
            2 => Array::Unsigned(self.numbers(count, |bytes| u16::from_le_bytes(bytes).into())?),
            3 => Array::Signed(self.numbers(count, |bytes| i16::from_le_bytes(bytes).into())?),
            4 => Array::Unsigned(self.numbers(count, |bytes| u32::from_le_bytes(bytes).into())?),
            5 => Array::Signed(self.numbers(count, |bytes| i32::from_le_bytes(bytes).into())?),
            6 => Array::Float(self.numbers(count, |bytes| f32::from_le_bytes(bytes).into())?),
            7 => Array::Bool(self.numbers(count, |[byte]: [u8; 1]| byte != 0)?),
            8 => {
                self.room("texts", count, 8)?;
                Array::String((0..count).map(|_| self.string("text")).collect::<Result<_>>()?)
            }
            ARRAY => return Err(Error::Nested { key: key.to_owned() }),
            10 => Array::Unsigned(self.numbers(count, u64::from_le_bytes)?),
            11 => Array::Signed(self.numbers(count, i64::from_le_bytes)?),
            12 => Array::Float(self.numbers(count, f64::from_le_bytes)?),
            found => return Err(Error::ValueType { key: key.to_owned(), found }),
        })
    }

    fn numbers<const N: usize, T>(&mut self, count: u64, convert: impl Fn([u8; N]) -> T) -> Result<Vec<T>> {
        self.room("numbers", count, N as u64)?;
        let bytes = self.bytes("an array", count * N as u64)?;
        Ok(bytes.as_chunks().0.iter().map(|&bytes| convert(bytes)).collect())
    }

    fn entry(&mut self) -> Result<Entry> {
        let name = self.string("the name of a tensor")?;
        let rank = self.u32("the rank of a tensor")?;
        if rank > MAX_RANK {
            return Err(Error::Rank { name, found: rank });
        }
        let mut dims = (0..rank).map(|_| self.u64("the sizes of a tensor")).collect::<Result<Vec<_>>>()?;
        dims.reverse();
        let raw = self.u32("the type of a tensor")?;
        let offset = self.u64("the place of a tensor")?;
        let Some(kind) = TensorType::from_raw(raw) else {
            return Err(Error::TensorType { name, found: raw });
        };
        match length(kind, &dims) {
            Some(length) => Ok(Entry { name, kind, dims, offset, length }),
            None => Err(Error::Sizes { name, dims, block: kind.block().0 }),
        }
    }
}

/// Number of the type of arrays.
const ARRAY: u32 = 9;

/// Bytes of a tensor, whose rows are whole blocks.
pub(crate) fn length(kind: TensorType, dims: &[u64]) -> Option<u64> {
    let (elements, bytes) = kind.block();
    if dims.last().copied().unwrap_or(1) % elements != 0 {
        return None;
    }
    let count = dims.iter().try_fold(1_u64, |count, &dim| count.checked_mul(dim))?;
    (count / elements).checked_mul(bytes)
}
