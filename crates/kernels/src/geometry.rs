//! Shapes and strides as kernels see them: no buffers, no device.

use arrayvec::ArrayVec;

use crate::{contiguous_strides, numel};

/// Highest rank of a tensor.
pub const MAX_RANK: usize = 8;

/// Sizes of a tensor, outermost first.
pub type Dims = ArrayVec<u32, MAX_RANK>;

/// How a tensor's elements lie in its buffer: element `[i0, i1, …]` is 32-bit word (or packed element)
/// `offset + dynamic + Σ i·stride`. Strides may be 0 (broadcast) or negative (flip).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strided {
    /// Current sizes.
    pub sizes: Dims,
    /// Elements between neighbours of each dimension.
    pub strides: ArrayVec<i32, MAX_RANK>,
    /// Elements before the first one, known when commands are recorded.
    pub offset: u32,
    /// Word of the executor's dynamic buffer that holds a further element offset, rewritten by the host
    /// at every execution (a slice that starts at a SymInt).
    pub dynamic_offset: Option<u32>,
}

/// Why operands cannot be expressed for a kernel. The engine makes contiguous copies of them then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsupported {
    /// Too many dimensions are left after merging.
    #[error("{left} dimensions are left after merging, the kernel takes {most}")]
    Rank {
        /// Dimensions left.
        left: usize,
        /// Dimensions the kernel takes.
        most: usize,
    },
    /// An operand's sizes do not broadcast to the output's.
    #[error("sizes {from:?} do not broadcast to {to:?}")]
    Broadcast {
        /// Sizes of the operand.
        from: Dims,
        /// Sizes of the output.
        to: Dims,
    },
    /// A dimension that the operand does not have.
    #[error("dimension {dim} of a tensor of rank {rank}")]
    Dim {
        /// The dimension asked for.
        dim: usize,
        /// Rank of the operand.
        rank: usize,
    },
    /// More elements than kernels count.
    #[error("more than 2^32 - 1 elements in {sizes:?}")]
    Elements {
        /// Sizes of the tensor.
        sizes: Dims,
    },
}

impl Strided {
    /// A whole tensor of `sizes`, row-major.
    #[must_use]
    pub fn contiguous(sizes: &Dims) -> Self {
        Self { sizes: sizes.clone(), strides: contiguous_strides(sizes), offset: 0, dynamic_offset: None }
    }

    /// Strides of this operand along the dimensions of `sizes`: aligned from the right, 0 where it is repeated.
    ///
    /// # Errors
    /// [`Unsupported::Broadcast`] when a size is neither 1 nor that of the output.
    pub fn broadcast_strides(&self, sizes: &Dims) -> Result<ArrayVec<i32, MAX_RANK>, Unsupported> {
        let mismatch = || Unsupported::Broadcast { from: self.sizes.clone(), to: sizes.clone() };
        let missing = sizes.len().checked_sub(self.sizes.len()).ok_or_else(mismatch)?;
        let mut strides: ArrayVec<i32, MAX_RANK> = std::iter::repeat_n(0, missing).collect();
        for ((&size, &stride), &wanted) in
            self.sizes.iter().zip(&self.strides).zip(sizes.iter().skip(missing))
        {
            match size {
                _ if size == wanted => strides.push(stride),
                1 => strides.push(0),
                _ => return Err(mismatch()),
            }
        }
        Ok(strides)
    }
}

/// The number of elements of `sizes`.
pub(crate) fn elements(sizes: &Dims) -> Result<u32, Unsupported> {
    numel(sizes).ok_or_else(|| Unsupported::Elements { sizes: sizes.clone() })
}

/// Dimensions that `N` operands of equal sizes share, after neighbours that are contiguous in all of them became
/// one and dimensions of size 1 went away. The row-major order of elements stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Merged<const N: usize> {
    pub(crate) sizes: Dims,
    pub(crate) strides: [ArrayVec<i32, MAX_RANK>; N],
}

impl<const N: usize> Merged<N> {
    /// Merges `sizes`, of which each operand has one stride a dimension.
    pub(crate) fn new(sizes: &[u32], strides: [&[i32]; N]) -> Self {
        let mut merged = Self { sizes: Dims::new(), strides: std::array::from_fn(|_| ArrayVec::new()) };
        for (dim, &size) in sizes.iter().enumerate() {
            let inner = strides.map(|s| s.get(dim).copied().unwrap_or(0));
            if size != 1 && !merged.absorb(size, inner) {
                merged.sizes.push(size);
                for (all, stride) in merged.strides.iter_mut().zip(inner) {
                    all.push(stride);
                }
            }
        }
        merged
    }

    /// Lets the innermost dimension so far take in the next one; false if it cannot.
    fn absorb(&mut self, size: u32, inner: [i32; N]) -> bool {
        let Some(last) = self.sizes.last_mut() else { return false };
        let Some(product) = last.checked_mul(size) else { return false };
        let follows = |(all, stride): (&ArrayVec<i32, MAX_RANK>, i32)| {
            all.last().is_some_and(|&outer| i64::from(outer) == i64::from(stride) * i64::from(size))
        };
        if !self.strides.iter().zip(inner).all(follows) {
            return false;
        }
        *last = product;
        for (all, stride) in self.strides.iter_mut().zip(inner) {
            all.pop();
            all.push(stride);
        }
        true
    }

    /// The number of dimensions left, checked against what a kernel takes.
    pub(crate) fn rank(&self, most: usize) -> Result<u32, Unsupported> {
        let left = self.sizes.len();
        match u32::try_from(left) {
            Ok(rank) if left <= most => Ok(rank),
            _ => Err(Unsupported::Rank { left, most }),
        }
    }

    /// Sizes as shaders take them: of `rank` dimensions but the outermost, innermost last.
    pub(crate) fn inner_sizes(&self, rank: usize) -> impl Iterator<Item = u32> {
        let skipped = (self.sizes.len() + 1).saturating_sub(rank);
        let inner = self.sizes.iter().copied().skip(skipped);
        std::iter::repeat_n(1, rank.saturating_sub(1 + inner.len())).chain(inner)
    }

    /// Strides of an operand as shaders take them: of `rank` dimensions, innermost last.
    pub(crate) fn padded_strides(&self, operand: usize, rank: usize) -> impl Iterator<Item = u32> {
        let strides = self.strides.get(operand).map_or(&[] as &[i32], |s| s);
        let padding = std::iter::repeat_n(0, rank.saturating_sub(strides.len()));
        padding.chain(strides.iter().map(|stride| stride.cast_unsigned()))
    }

    /// Whether elements follow each other without gaps in `operand`.
    pub(crate) fn is_flat(&self, operand: usize) -> bool {
        match self.strides.get(operand).map(|s| s.as_slice()) {
            Some([]) => true,
            Some([stride]) => *stride == 1,
            _ => false,
        }
    }
}

/// Workgroups for `items` pieces of work, `each` a workgroup: enough to fill any device. Kernels stride over the rest.
pub(crate) fn strided_groups(items: u32, each: u32) -> u64 {
    u64::from(items.div_ceil(each).min(16384))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Flat indices of all elements in row-major order.
    fn enumerate(sizes: &[u32], strides: &[i32]) -> Vec<i64> {
        let mut all = vec![0i64];
        for (&size, &stride) in sizes.iter().zip(strides) {
            all = all
                .iter()
                .flat_map(|&at| (0..size).map(move |i| at + i64::from(i) * i64::from(stride)))
                .collect();
        }
        all
    }

    /// What shaders do with the words of `inner_sizes` and `padded_strides`.
    fn shader_enumerate<const N: usize>(
        merged: &Merged<N>,
        operand: usize,
        rank: usize,
        total: u32,
    ) -> Vec<i64> {
        let sizes: Vec<u32> = merged.inner_sizes(rank).collect();
        let strides: Vec<i32> = merged.padded_strides(operand, rank).map(u32::cast_signed).collect();
        assert_eq!((sizes.len(), strides.len()), (rank - 1, rank));
        let outermost = rank - merged.sizes.len();
        let element = |i: u32| {
            let (mut rest, mut at) = (i, 0i64);
            for d in (outermost..rank).rev() {
                let index = if d > outermost { rest % sizes[d - 1] } else { rest };
                rest = if d > outermost { rest / sizes[d - 1] } else { 0 };
                at += i64::from(index) * i64::from(strides[d]);
            }
            at
        };
        (0..total).map(element).collect()
    }

    /// Strides of a permuted, sliced, flipped or broadcast view.
    fn view() -> impl Strategy<Value = (Vec<u32>, Vec<i32>, Vec<i32>)> {
        let dim = (1u32..4, prop_oneof![Just(-1i32), Just(0), Just(1), Just(1), Just(1)], prop::bool::ANY);
        prop::collection::vec(dim, 0..=MAX_RANK).prop_map(|dims| {
            let sizes: Vec<u32> = dims.iter().map(|d| d.0).collect();
            let (mut a, mut b, mut step_a, mut step_b) = (Vec::new(), Vec::new(), 1i32, 1i32);
            for &(size, sign, gap) in dims.iter().rev() {
                a.insert(0, step_a * sign);
                b.insert(0, step_b);
                step_a *= size.cast_signed() + i32::from(gap);
                step_b *= size.cast_signed();
            }
            (sizes, a, b)
        })
    }

    proptest! {
        #[test]
        fn merging_keeps_every_element((sizes, a, b) in view()) {
            let total: u32 = sizes.iter().product();
            let merged = Merged::new(&sizes, [&a, &b]);
            for (operand, strides) in [&a, &b].into_iter().enumerate() {
                let expected = enumerate(&sizes, strides);
                prop_assert_eq!(&enumerate(&merged.sizes, &merged.strides[operand]), &expected);
                prop_assert_eq!(shader_enumerate(&merged, operand, MAX_RANK, total), expected);
            }
            prop_assert!(Merged::new(&sizes, [&b]).sizes.len() <= 1);
        }
    }

    #[test]
    fn merging_needs_all_operands() {
        let merged = Merged::new(&[2, 1, 3, 4], [&[12, 12, 4, 1], &[4, 0, 0, 1]]);
        assert_eq!(merged.sizes.as_slice(), [2, 3, 4]);
        let merged = Merged::new(&[2, 1, 3, 4], [&[12, 12, 4, 1], &[0, 0, 0, 0]]);
        assert_eq!(merged.sizes.as_slice(), [24]);
        assert_eq!(merged.rank(0), Err(Unsupported::Rank { left: 1, most: 0 }));
    }

    #[test]
    fn broadcasting_aligns_from_the_right() {
        let sizes: Dims = [2, 3, 4].into_iter().collect();
        let row = Strided::contiguous(&[3, 1].into_iter().collect());
        assert_eq!(row.broadcast_strides(&sizes).unwrap().as_slice(), [0, 1, 0]);
        let scalar = Strided::default();
        assert_eq!(scalar.broadcast_strides(&sizes).unwrap().as_slice(), [0, 0, 0]);
        let wrong = Strided::contiguous(&[2, 4].into_iter().collect());
        assert!(matches!(wrong.broadcast_strides(&sizes), Err(Unsupported::Broadcast { .. })));
    }
}
