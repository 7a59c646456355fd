//! Byte ranges behind the FlatBuffer.

use crate::{Error, Result};

/// Every segment of a file, each known to lie inside it.
#[derive(Clone, Default)]
pub(crate) struct Segments<'a>(Vec<&'a [u8]>);

impl<'a> Segments<'a> {
    /// Resolves the (offset, size) pairs of a segment table. A `base` of 0 stands for a file without segment data.
    pub(crate) fn resolve(
        file: &'a [u8],
        base: u64,
        table: impl Iterator<Item = (u64, u64)>,
    ) -> Result<Self> {
        let segment = |(index, (offset, size))| {
            if size == 0 {
                return Ok(Default::default());
            }
            if base == 0 {
                return Err(Error::NoSegmentBase { index, size });
            }
            (|| {
                let start = base.checked_add(offset)?;
                let end = usize::try_from(start.checked_add(size)?).ok()?;
                file.get(usize::try_from(start).ok()?..end)
            })()
            .ok_or(Error::SegmentRange { index, offset, size, base, file: file.len() })
        };
        table.enumerate().map(segment).collect::<Result<_>>().map(Self)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn get(&self, index: u32) -> Option<&'a [u8]> {
        self.0.get(index as usize).copied()
    }

    /// Segment `index`, which `user` refers to.
    pub(crate) fn of(&self, user: &'static str, index: u32) -> Result<&'a [u8]> {
        self.get(index).ok_or(Error::SegmentIndex { user, index, count: self.len() })
    }
}
