//! Rows of a 4-bit table: `shaders/embedding_q4.comp`.

use arrayvec::ArrayVec;

use crate::gather::{Rows, Unsupported};
use crate::push::Push;
use crate::table::EMBEDDING_Q4;
use crate::{Launch, Limits, Storage, Strided};

/// Highest rank of the index tensor.
const RANK: usize = 4;
/// Invocations of a workgroup.
const THREADS: u64 = 128;

/// out\[j…, e\] = code\[index\[j…\], e\] · scale\[index\[j…\], e / group_size\], f32.
#[derive(Clone, Debug)]
pub struct EmbeddingQ4<'a> {
    /// E: elements of a row.
    pub width: u32,
    /// V: rows of the whole table.
    pub table_rows: u32,
    /// The rows of it that are bound.
    pub rows: Rows,
    /// Bytes of a row.
    pub row_bytes: u32,
    /// Even e in the high half of its byte, else in the low one.
    pub high_first: bool,
    /// Neighbouring e that share a scale.
    pub group_size: u32,
    /// How the scales are stored.
    pub scale_storage: Storage,
    /// Elements between the scales of neighbouring rows.
    pub scale_row: u32,
    /// Elements between the scales of neighbouring groups.
    pub scale_group: u32,
    /// i32 indices; negative ones count from the end.
    pub index: &'a Strided,
    /// Told in the fault buffer when an index is out of range.
    pub tag: u32,
}

/// Launches a row gather. Bindings: weight, scales, index, out (contiguous), dyn, fault.
///
/// # Errors
/// [`Unsupported`] when the index tensor has too many dimensions.
pub fn embedding_q4(op: &EmbeddingQ4<'_>, limits: &Limits) -> Result<Launch, Unsupported> {
    let index = op.index;
    let rank = index.sizes.len();
    if rank > RANK || index.strides.len() != rank {
        return Err(Unsupported::Rank { rank, most: RANK });
    }
    let count = index.sizes.iter().fold(1u64, |n, &size| n * u64::from(size));
    let total = count * u64::from(op.width);
    let (Ok(count), true) = (u32::try_from(count), u32::try_from(total).is_ok()) else {
        return Err(Unsupported::Shape);
    };
    let mut sizes: ArrayVec<u32, RANK> = std::iter::repeat_n(1, RANK - rank).collect();
    sizes.extend(index.sizes.iter().copied());
    let mut strides: ArrayVec<u32, RANK> = std::iter::repeat_n(0, RANK - rank).collect();
    strides.extend(index.strides.iter().map(|stride| stride.cast_unsigned()));
    let push = Push::new()
        .words([count, op.width, op.tag, op.table_rows, op.rows.first, op.rows.count])
        .words([op.row_bytes, op.group_size.max(1), op.scale_row, op.scale_group])
        .word(index.offset)
        .dynamic(index.dynamic_offset)
        .words(sizes)
        .words(strides);
    let specialization = [op.scale_storage as u32, op.high_first.into()];
    Ok(push.launch(EMBEDDING_Q4.pick(limits.tier), &specialization, total.div_ceil(THREADS), limits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::tests::PLAIN;

    #[test]
    fn one_invocation_an_element() {
        let index = Strided {
            sizes: [2u32, 3].into_iter().collect(),
            strides: [3, 1].into_iter().collect(),
            ..Strided::default()
        };
        let op = EmbeddingQ4 {
            width: 100,
            table_rows: 1000,
            rows: Rows { first: 0, count: 1000 },
            row_bytes: 50,
            high_first: false,
            group_size: 20,
            scale_storage: Storage::Half,
            scale_row: 5,
            scale_group: 1,
            index: &index,
            tag: 0,
        };
        let launch = embedding_q4(&op, &PLAIN).unwrap();
        assert_eq!(launch.groups, [600u32.div_ceil(128), 1, 1]);
        assert_eq!(&launch.push[12..16], [1, 1, 2, 3]);
        let deep = Strided {
            sizes: [1; 5].into_iter().collect(),
            strides: [1; 5].into_iter().collect(),
            ..Strided::default()
        };
        let refused = embedding_q4(&EmbeddingQ4 { index: &deep, ..op }, &PLAIN);
        assert_eq!(refused, Err(Unsupported::Rank { rank: 5, most: 4 }));
    }
}
