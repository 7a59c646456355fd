//! Writes files, for tests and tools.

use std::io::{self, Write};

use crate::TensorType;
use crate::metadata::{Array, Value};
use crate::parse::length;

/// What tensors are aligned to.
const ALIGNMENT: u64 = 32;

/// Writes GGUF files of version 3. Nothing is checked: a wrong file is written as it is.
#[derive(Clone, Debug, Default)]
pub struct GgufWriter {
    values: Vec<(String, Value)>,
    tensors: Vec<(String, TensorType, Vec<u64>)>,
}

impl GgufWriter {
    /// A file without keys and tensors.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a key. Unsigned and signed integers are written in 32 bits where they fit, floats always.
    pub fn key(&mut self, key: impl Into<String>, value: Value) -> &mut Self {
        self.values.push((key.into(), value));
        self
    }

    /// Adds a tensor of these sizes, outermost first; its bytes are asked for when the file is written.
    pub fn tensor(&mut self, name: impl Into<String>, kind: TensorType, dims: &[u64]) -> &mut Self {
        self.tensors.push((name.into(), kind, dims.to_vec()));
        self
    }

    /// Writes the file; `data` writes the blocks of the tensor of the index that it is given.
    ///
    /// # Errors
    /// What `out` or `data` fail with; [`io::ErrorKind::InvalidInput`] for sizes that are no whole blocks.
    pub fn write(
        &self,
        out: &mut dyn Write,
        mut data: impl FnMut(usize, &mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut head = Vec::new();
        head.extend(b"GGUF");
        head.extend(3_u32.to_le_bytes());
        head.extend((self.tensors.len() as u64).to_le_bytes());
        head.extend((self.values.len() as u64).to_le_bytes());
        for (key, value) in &self.values {
            text(&mut head, key);
            put(&mut head, value);
        }
        let mut lengths = Vec::new();
        let mut offset = 0_u64;
        for (name, kind, dims) in &self.tensors {
            text(&mut head, name);
            head.extend(u32::try_from(dims.len()).unwrap_or(u32::MAX).to_le_bytes());
            head.extend(dims.iter().rev().flat_map(|dim| dim.to_le_bytes()));
            head.extend((*kind as u32).to_le_bytes());
            head.extend(offset.to_le_bytes());
            let length = length(*kind, dims).ok_or(io::ErrorKind::InvalidInput)?;
            offset = (offset + length).next_multiple_of(ALIGNMENT);
            lengths.push(length);
        }
        let zeros =
            |length: u64| vec![0; usize::try_from(length.next_multiple_of(ALIGNMENT) - length).unwrap_or(0)];
        out.write_all(&head)?;
        out.write_all(&zeros(head.len() as u64))?;
        for (index, length) in lengths.into_iter().enumerate() {
            data(index, out)?;
            out.write_all(&zeros(length))?;
        }
        out.flush()
    }
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

fn put(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Array(array) => {
            out.extend(9_u32.to_le_bytes());
            items(out, array, true);
        }
        Value::Unsigned(item) => items(out, &Array::Unsigned(vec![*item]), false),
        Value::Signed(item) => items(out, &Array::Signed(vec![*item]), false),
        Value::Float(item) => items(out, &Array::Float(vec![*item]), false),
        Value::Bool(item) => items(out, &Array::Bool(vec![*item]), false),
        Value::String(item) => items(out, &Array::String(vec![item.clone()]), false),
    }
}

/// The type of the items, their number if they are an array, and the items.
fn items(out: &mut Vec<u8>, array: &Array, counted: bool) {
    let mut begin = |kind: u32, count: usize| {
        out.extend(kind.to_le_bytes());
        if counted {
            out.extend((count as u64).to_le_bytes());
        }
    };
    match array {
        Array::Unsigned(items) => {
            let short: Option<Vec<u32>> = items.iter().map(|&item| item.try_into().ok()).collect();
            begin(if short.is_some() { 4 } else { 10 }, items.len());
            match short {
                Some(short) => out.extend(short.into_iter().flat_map(u32::to_le_bytes)),
                None => out.extend(items.iter().flat_map(|item| item.to_le_bytes())),
            }
        }
        Array::Signed(items) => {
            let short: Option<Vec<i32>> = items.iter().map(|&item| item.try_into().ok()).collect();
            begin(if short.is_some() { 5 } else { 11 }, items.len());
            match short {
                Some(short) => out.extend(short.into_iter().flat_map(i32::to_le_bytes)),
                None => out.extend(items.iter().flat_map(|item| item.to_le_bytes())),
            }
        }
        Array::Float(items) => {
            begin(6, items.len());
            #[expect(clippy::cast_possible_truncation, reason = "documented")]
            out.extend(items.iter().flat_map(|&item| (item as f32).to_le_bytes()));
        }
        Array::Bool(items) => {
            begin(7, items.len());
            out.extend(items.iter().map(|&item| u8::from(item)));
        }
        Array::String(items) => {
            begin(8, items.len());
            for item in items {
                text(out, item);
            }
        }
    }
}
