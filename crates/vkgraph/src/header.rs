//! The fixed header of a payload, and the layout of 0.2 that shares its magic numbers.

use crate::{Error, HeaderFault};

/// Bytes of the header's fields, from the payload's start.
pub(crate) const HEADER_SIZE: u16 = 30;
/// Sits where a FlatBuffer's identifier would.
pub(crate) const MAGIC: &[u8; 4] = b"VH00";
/// Identifier of the FlatBuffer inside.
pub(crate) const IDENTIFIER: &[u8; 4] = b"VK00";
/// A root offset and an identifier.
const MIN_FLATBUFFER: u32 = 8;

/// The two regions of a payload.
pub(crate) struct Regions<'a> {
    pub(crate) flatbuffer: &'a [u8],
    pub(crate) constants: &'a [u8],
}

/// Splits a payload along its header.
///
/// # Errors
/// [`Error::Header`] where the header is cut, foreign or points outside the payload;
/// [`Error::Identifier`] where the FlatBuffer is of another kind.
pub(crate) fn split(payload: &[u8]) -> Result<Regions<'_>, Error> {
    let regions = locate(payload).map_err(Error::Header)?;
    match bytes_at(regions.flatbuffer, 4) {
        Some(found) if found == *IDENTIFIER => Ok(regions),
        found => Err(Error::Identifier { found: found.unwrap_or_default() }),
    }
}

fn locate(payload: &[u8]) -> Result<Regions<'_>, HeaderFault> {
    let truncated = HeaderFault::Truncated { expected: HEADER_SIZE.into(), found: payload.len() };
    let Some(fields) = payload.first_chunk::<{ HEADER_SIZE as usize }>() else {
        return Err(truncated);
    };
    let field = |at| u32_at(fields, at).unwrap_or_default();

    let magic = bytes_at(fields, 4).unwrap_or_default();
    if magic != *MAGIC {
        return Err(HeaderFault::Magic { found: magic });
    }
    let header_size = bytes_at(fields, 8).map_or(0, u16::from_le_bytes);
    if header_size < HEADER_SIZE {
        return Err(HeaderFault::Size { expected: HEADER_SIZE, found: header_size });
    }
    let (flatbuffer_offset, flatbuffer_size, bytes_offset) = (field(10), field(14), field(18));
    let bytes_size = bytes_at(fields, 22).map_or(0, u64::from_le_bytes);
    let payload_size = payload.len() as u64;

    if flatbuffer_offset < u32::from(header_size) {
        return Err(HeaderFault::FlatBufferOffset { expected: header_size.into(), found: flatbuffer_offset });
    }
    if flatbuffer_size < MIN_FLATBUFFER {
        return Err(HeaderFault::FlatBufferSize { expected: MIN_FLATBUFFER, found: flatbuffer_size });
    }
    let flatbuffer_end = u64::from(flatbuffer_offset) + u64::from(flatbuffer_size);
    let flatbuffer = range(payload, flatbuffer_offset.into(), flatbuffer_size.into())
        .ok_or(HeaderFault::FlatBufferRange { end: flatbuffer_end, payload: payload_size })?;
    if u64::from(bytes_offset) < flatbuffer_end {
        return Err(HeaderFault::BytesOffset { expected: flatbuffer_end, found: bytes_offset });
    }
    // Some writers leave the size at 0 and let the region run to the payload's end.
    let size = match bytes_size {
        0 => payload_size.saturating_sub(bytes_offset.into()),
        size => size,
    };
    let constants = range(payload, bytes_offset.into(), size).ok_or(HeaderFault::BytesRange {
        offset: bytes_offset,
        size: bytes_size,
        payload: payload_size,
    })?;
    Ok(Regions { flatbuffer, constants })
}

/// `bytes[offset..offset + length]`, if it exists.
pub(crate) fn range(bytes: &[u8], offset: u64, length: u64) -> Option<&[u8]> {
    let end = usize::try_from(offset.checked_add(length)?).ok()?;
    bytes.get(usize::try_from(offset).ok()?..end)
}

fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes_at(bytes, at).map(u32::from_le_bytes)
}

/// Whether the first operator call has the layout of 0.2: name in slot 0, arguments in slot 1, nothing in
/// slot 2. Such a FlatBuffer has today's identifier but does not verify against today's schema, so this reads
/// it by hand; anything unreadable counts as not old.
pub(crate) fn is_older_than_0_3(flatbuffer: &[u8]) -> bool {
    const CHAIN: usize = 1;
    let first_call = || {
        let root = follow(flatbuffer, 0)?;
        let chain = follow(flatbuffer, slot(flatbuffer, root, CHAIN)?)?;
        (u32_at(flatbuffer, chain)? > 0).then_some(())?;
        follow(flatbuffer, chain.checked_add(4)?)
    };
    let is_old = |call: usize| {
        let name = follow(flatbuffer, slot(flatbuffer, call, 0)?)?;
        let args = follow(flatbuffer, slot(flatbuffer, call, 1)?)?;
        let name = range(flatbuffer, name as u64 + 4, u32_at(flatbuffer, name)?.into())?;
        range(flatbuffer, args as u64 + 4, u64::from(u32_at(flatbuffer, args)?) * 4)?;
        Some(slot(flatbuffer, call, 2).is_none() && !name.is_empty() && name.iter().all(u8::is_ascii_graphic))
    };
    first_call().and_then(is_old).unwrap_or(false)
}

/// Where the offset stored at `at` points.
fn follow(flatbuffer: &[u8], at: usize) -> Option<usize> {
    at.checked_add(u32_at(flatbuffer, at)? as usize)
}

/// Position of a table's field, `None` where it is absent.
fn slot(flatbuffer: &[u8], table: usize, slot: usize) -> Option<usize> {
    let back = u32_at(flatbuffer, table)?.cast_signed();
    let vtable = table.checked_add_signed(isize::try_from(back).ok()?.checked_neg()?)?;
    let at = 4 + 2 * slot;
    if at + 2 > bytes_at(flatbuffer, vtable).map(u16::from_le_bytes)?.into() {
        return None;
    }
    match bytes_at(flatbuffer, vtable.checked_add(at)?).map(u16::from_le_bytes)? {
        0 => None,
        field => table.checked_add(field.into()),
    }
}
