//! What kind of file it is, and the extended headers.

use crate::{Error, Result};

/// Kind of file, told from its identifier alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Container {
    /// A program, `.pte`.
    Program,
    /// External tensors and blobs, `.ptd`.
    FlatTensor,
    /// A program with test cases, `.bpte`.
    BundledProgram,
    /// None of these.
    Unknown,
}

impl Container {
    /// The kind that the identifier in bytes 4 to 8 names. Any `ET..` is a program, of whatever version.
    #[must_use]
    pub fn detect(file: &[u8]) -> Self {
        match array(file, 4) {
            Some([b'E', b'T', _, _]) => Self::Program,
            Some(FLAT_TENSOR) => Self::FlatTensor,
            Some(BUNDLED) => Self::BundledProgram,
            _ => Self::Unknown,
        }
    }
}

pub(crate) const PROGRAM: [u8; 4] = *b"ET12";
pub(crate) const FLAT_TENSOR: [u8; 4] = *b"FT01";
pub(crate) const BUNDLED: [u8; 4] = *b"BP08";

/// Fewest bytes of a `.pte` or `.ptd`: upstream probes that many for the header.
const PROBE: usize = 64;

/// The block that says where a file's FlatBuffer ends and its segments lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExtendedHeader {
    /// Length of the header in bytes, counted from its magic.
    pub length: u32,
    /// End of the FlatBuffer, from the start of the file.
    pub flatbuffer_end: u64,
    /// File offset of the first segment; 0 without segments.
    pub segment_base: u64,
    /// Bytes of all segments; `None` in headers older than release 1.0.
    pub segment_size: Option<u64>,
}

impl ExtendedHeader {
    /// The header of a `.pte`, or `None` if the file is a FlatBuffer without segments.
    pub(crate) fn of_program(file: &[u8]) -> Result<Option<Self>> {
        at_least("program", file, PROBE)?;
        match array(file, 4) {
            Some(PROGRAM) => {}
            Some(found @ [b'E', b'T', _, _]) => return Err(Error::ProgramVersion { found }),
            found => {
                return Err(Error::Identifier { expected: PROGRAM, found: found.unwrap_or_default() });
            }
        }
        if array(file, 8) != Some(*b"eh00") {
            return Ok(None);
        }
        let length = header_length(file, 24)?;
        let header = Self {
            length,
            flatbuffer_end: word(file, 16),
            segment_base: word(file, 24),
            segment_size: (length >= 32).then(|| word(file, 32)),
        };
        let end = match header.segment_size.unwrap_or(0) {
            0 if header.segment_base == 0 => header.flatbuffer_end,
            // Older writers give no size: each segment is checked on its own.
            0 => 0,
            size => sum("segment base + segment size", header.segment_base, size)?,
        };
        within("segment data", end, file)?;
        within("FlatBuffer", header.flatbuffer_end, file)?;
        Ok(Some(header))
    }

    /// The header of a `.ptd`.
    pub(crate) fn of_flat_tensor(file: &[u8]) -> Result<Self> {
        at_least("external data", file, PROBE)?;
        identified(file, FLAT_TENSOR)?;
        let magic = array(file, 8).unwrap_or_default();
        if magic != *b"FH01" {
            return Err(Error::HeaderMagic { found: magic });
        }
        let length = header_length(file, 40)?;
        let header = Self {
            length,
            flatbuffer_end: sum("FlatBuffer offset + size", word(file, 16), word(file, 24))?,
            segment_base: word(file, 32),
            segment_size: Some(word(file, 40)),
        };
        within("FlatBuffer", header.flatbuffer_end, file)?;
        let end = sum("segment base + segment size", header.segment_base, word(file, 40))?;
        within("segment data", end, file)?;
        Ok(header)
    }
}

pub(crate) fn identified(file: &[u8], expected: [u8; 4]) -> Result<()> {
    match array(file, 4) {
        Some(found) if found == expected => Ok(()),
        found => Err(Error::Identifier { expected, found: found.unwrap_or_default() }),
    }
}

pub(crate) fn at_least(kind: &'static str, file: &[u8], needed: usize) -> Result<()> {
    if file.len() < needed { Err(Error::TooShort { kind, needed, found: file.len() }) } else { Ok(()) }
}

/// The FlatBuffer at the start of `file`, with a root offset inside it.
pub(crate) fn flatbuffer(file: &[u8], end: u64) -> Result<&[u8]> {
    let end = usize::try_from(end).unwrap_or(usize::MAX);
    let buffer = file.get(..end).unwrap_or(file);
    let offset = u32::from_le_bytes(array(buffer, 0).unwrap_or_default());
    if offset as usize >= buffer.len() {
        return Err(Error::RootOffset { offset, size: buffer.len() });
    }
    Ok(buffer)
}

fn header_length(file: &[u8], needed: u32) -> Result<u32> {
    let found = u32::from_le_bytes(array(file, 12).unwrap_or_default());
    if found < needed { Err(Error::HeaderLength { needed, found }) } else { Ok(found) }
}

fn sum(what: &'static str, left: u64, right: u64) -> Result<u64> {
    left.checked_add(right).ok_or(Error::HeaderOverflow { what, left, right })
}

fn within(what: &'static str, end: u64, file: &[u8]) -> Result<()> {
    let file = file.len() as u64;
    if end > file { Err(Error::FileTruncated { what, end, file }) } else { Ok(()) }
}

/// The `N` bytes at `offset`.
fn array<const N: usize>(file: &[u8], offset: usize) -> Option<[u8; N]> {
    file.get(offset..)?.first_chunk().copied()
}

/// The number at `offset` of a file known to reach beyond it.
fn word(file: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(array(file, offset).unwrap_or_default())
}
