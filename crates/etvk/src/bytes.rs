//! A range of a mapped file that keeps the mapping alive.

use std::ops::Range;
use std::sync::Arc;

use etvk_pte::Map;

/// Bytes of a mapped file. Clones share the mapping.
#[derive(Clone, Debug)]
pub(crate) struct Bytes {
    file: Arc<Map>,
    range: Range<usize>,
}

impl Bytes {
    /// The whole file.
    pub(crate) fn whole(file: Map) -> Self {
        let range = 0..file.len();
        Self { file: Arc::new(file), range }
    }

    /// The bytes.
    pub(crate) fn get(&self) -> &[u8] {
        self.file.get(self.range.clone()).unwrap_or_default()
    }

    /// `part` of the same file; `None` if it lies elsewhere.
    pub(crate) fn part(&self, part: &[u8]) -> Option<Self> {
        let range = match part.len() {
            0 => 0..0,
            length => {
                let start = part.as_ptr().addr().checked_sub(self.file.as_ptr().addr())?;
                start..start.checked_add(length)?
            }
        };
        (range.end <= self.file.len()).then(|| Self { file: self.file.clone(), range })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_found_by_its_address() {
        let file = Bytes::whole(Map::open(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap());
        let part = file.part(&file.get()[3..9]).unwrap();
        assert_eq!(part.get(), &file.get()[3..9]);
        assert_eq!(part.part(&part.get()[1..2]).unwrap().get(), &file.get()[4..5]);
        assert!(file.part(&[1, 2, 3]).is_none());
        assert_eq!(file.part(&[]).unwrap().get(), &[0_u8; 0]);
    }
}
