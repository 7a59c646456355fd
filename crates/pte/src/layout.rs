//! Element type and shape of a tensor, checked.

use flatbuffers::Vector;

use crate::error::LayoutFault;
use crate::list::List;
use crate::scalar_type::ScalarType;

/// The highest rank a program may use.
pub const MAX_RANK: usize = 16;

/// Element type, sizes and dimension order of a tensor. Its bytes are known to fit in memory.
#[derive(Clone, Copy)]
pub struct Layout<'a> {
    scalar_type: ScalarType,
    sizes: List<'a, i32>,
    dim_order: &'a [u8],
    numel: usize,
}

impl<'a> Layout<'a> {
    pub(crate) fn checked(
        scalar_type: i8,
        sizes: Option<Vector<'a, i32>>,
        dim_order: Option<Vector<'a, u8>>,
    ) -> Result<Self, LayoutFault> {
        let scalar_type =
            ScalarType::from_raw(scalar_type).ok_or(LayoutFault::ScalarType { found: scalar_type })?;
        let sizes: List<'a, i32> = List::new(Some(sizes.ok_or(LayoutFault::NoSizes)?));
        let dim_order = dim_order.ok_or(LayoutFault::NoDimOrder)?.bytes();
        let rank = sizes.len();
        if rank != dim_order.len() {
            return Err(LayoutFault::Ranks { sizes: rank, dim_order: dim_order.len() });
        }
        if rank > MAX_RANK {
            return Err(LayoutFault::Rank { rank, limit: MAX_RANK });
        }
        let mut seen = [false; MAX_RANK];
        for &dim in dim_order {
            match seen.get_mut(..rank).and_then(|seen| seen.get_mut(usize::from(dim))) {
                Some(new @ false) => *new = true,
                _ => return Err(LayoutFault::DimOrder { found: dim_order.to_vec() }),
            }
        }
        // The extent counts an empty dimension as one, as strides do: neither may overflow.
        let (mut numel, mut extent) = (1_usize, scalar_type.size());
        for (dim, size) in sizes.iter().enumerate() {
            let size = usize::try_from(size).map_err(|_| LayoutFault::NegativeSize { dim, size })?;
            extent = extent.checked_mul(size.max(1)).ok_or(LayoutFault::Overflow)?;
            numel = numel.checked_mul(size).ok_or(LayoutFault::Overflow)?;
        }
        if isize::try_from(extent).is_err() {
            return Err(LayoutFault::Overflow);
        }
        Ok(Self { scalar_type, sizes, dim_order, numel })
    }

    /// Element type.
    #[must_use]
    pub fn scalar_type(&self) -> ScalarType {
        self.scalar_type
    }

    /// Number of dimensions, at most [`MAX_RANK`].
    #[must_use]
    pub fn rank(&self) -> usize {
        self.dim_order.len()
    }

    /// Sizes in logical order.
    pub fn sizes(&self) -> impl ExactSizeIterator<Item = usize> + DoubleEndedIterator + Clone + use<'a> {
        self.sizes.iter().map(|size| size.unsigned_abs() as usize)
    }

    /// Dimensions from the slowest to the fastest in memory: a permutation of `0..rank`.
    #[must_use]
    pub fn dim_order(&self) -> &'a [u8] {
        self.dim_order
    }

    /// True if memory order is logical order.
    #[must_use]
    pub fn is_contiguous(&self) -> bool {
        self.dim_order.iter().enumerate().all(|(at, &dim)| at == usize::from(dim))
    }

    /// Number of elements; 1 at rank 0.
    #[must_use]
    pub fn numel(&self) -> usize {
        self.numel
    }

    /// Bytes of the elements.
    #[must_use]
    pub fn nbytes(&self) -> usize {
        // Cannot wrap: checked with the extent.
        self.numel.saturating_mul(self.scalar_type.size())
    }

    /// The first [`nbytes`](Self::nbytes) of `data`.
    pub(crate) fn take(&self, data: &'a [u8]) -> Result<&'a [u8], LayoutFault> {
        let needed = self.nbytes();
        data.get(..needed).ok_or(LayoutFault::TooFewBytes { needed, found: data.len() })
    }
}

/// Same element type, sizes and dimension order.
impl PartialEq for Layout<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.scalar_type == other.scalar_type
            && self.sizes().eq(other.sizes())
            && self.dim_order == other.dim_order
    }
}

impl std::fmt::Debug for Layout<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{:?}", self.scalar_type, self.sizes)?;
        if self.is_contiguous() { Ok(()) } else { write!(f, " in order {:?}", self.dim_order) }
    }
}
