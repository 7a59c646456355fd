//! Memory orders of the caller's tensors.

/// Where the elements of a tensor are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) sizes: Vec<usize>,
    /// Elements from one index to the next of each dimension.
    pub(crate) strides: Vec<usize>,
}

impl Layout {
    /// Row-major.
    #[cfg(test)]
    pub(crate) fn contiguous(sizes: &[usize]) -> Self {
        let order: Vec<usize> = (0..sizes.len()).collect();
        Self { sizes: sizes.to_vec(), strides: dense(sizes, &order).unwrap_or_default() }
    }

    /// Number of elements; `None` beyond the address space.
    pub(crate) fn count(&self) -> Option<usize> {
        self.sizes.iter().try_fold(1, |count: usize, &size| count.checked_mul(size))
    }

    /// Elements of memory from the first element to the end of the last.
    pub(crate) fn extent(&self) -> Option<usize> {
        if self.sizes.contains(&0) {
            return Some(0);
        }
        let last =
            |end: usize, (&size, &stride): (&usize, &usize)| end.checked_add((size - 1).checked_mul(stride)?);
        self.sizes.iter().zip(&self.strides).try_fold(1, last)
    }

    /// Whether the elements lie in row-major order without gaps.
    pub(crate) fn is_row_major(&self) -> bool {
        let order: Vec<usize> = (0..self.sizes.len()).collect();
        self.sizes.contains(&0) || dense(&self.sizes, &order).is_some_and(|strides| self.agrees(&strides))
    }

    /// Whether the elements lie in some order without gaps or overlap.
    pub(crate) fn is_dense(&self) -> bool {
        let mut order: Vec<usize> = (0..self.sizes.len()).collect();
        // Dimensions of size 1 may have any stride, and have no say.
        order.retain(|&dim| self.sizes[dim] != 1);
        order.sort_by_key(|&dim| std::cmp::Reverse(self.strides[dim]));
        self.sizes.contains(&0) || dense(&self.sizes, &order).is_some_and(|strides| self.agrees(&strides))
    }

    /// Whether the strides are these, as far as they matter.
    pub(crate) fn agrees(&self, strides: &[usize]) -> bool {
        let same = |dim: usize| self.sizes[dim] <= 1 || self.strides[dim] == strides[dim];
        self.sizes.contains(&0) || (0..self.sizes.len()).all(same)
    }

    /// Visits runs of elements: (row-major place, place in memory). A run is one row of the last dimension if that is
    /// dense, else one element.
    fn runs(&self, mut visit: impl FnMut(usize, usize, usize)) {
        let (Some(count), rank) = (self.count(), self.sizes.len()) else { return };
        if count == 0 {
            return;
        }
        let row = match (self.sizes.last(), self.strides.last()) {
            (Some(&size), Some(&1)) => size,
            _ => 1,
        };
        let outer = if row > 1 { rank - 1 } else { rank };
        let mut index = vec![0; outer];
        let mut memory = 0;
        for first in (0..count).step_by(row) {
            visit(first, memory, row);
            for dim in (0..outer).rev() {
                index[dim] += 1;
                memory += self.strides[dim];
                if index[dim] < self.sizes[dim] {
                    break;
                }
                memory -= self.strides[dim] * self.sizes[dim];
                index[dim] = 0;
            }
        }
    }

    /// Elements in row-major order, read from memory that holds [`extent`](Self::extent) of them.
    pub(crate) fn gather(&self, memory: &[u8], element: usize) -> Vec<u8> {
        let mut out = vec![0; self.count().unwrap_or(0) * element];
        self.runs(|row_major, at, run| {
            let from = memory.get(at * element..(at + run) * element);
            if let (Some(from), Some(to)) =
                (from, out.get_mut(row_major * element..(row_major + run) * element))
            {
                to.copy_from_slice(from);
            }
        });
        out
    }

    /// Writes elements in row-major order to such memory.
    pub(crate) fn scatter(&self, elements: &[u8], memory: &mut [u8], element: usize) {
        self.runs(|row_major, at, run| {
            let from = elements.get(row_major * element..(row_major + run) * element);
            if let (Some(from), Some(to)) = (from, memory.get_mut(at * element..(at + run) * element)) {
                to.copy_from_slice(from);
            }
        });
    }
}

/// Strides without gaps, where `order` lists the dimensions from slowest to fastest.
pub(crate) fn dense(sizes: &[usize], order: &[usize]) -> Option<Vec<usize>> {
    let mut strides = vec![1; sizes.len()];
    let mut next: usize = 1;
    for &dim in order.iter().rev() {
        *strides.get_mut(dim)? = next;
        next = next.checked_mul((*sizes.get(dim)?).max(1))?;
    }
    Some(strides)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_last_goes_both_ways() {
        let sizes = vec![1, 2, 1, 3];
        let layout = Layout { strides: dense(&sizes, &[0, 2, 3, 1]).unwrap(), sizes };
        assert!(layout.is_dense() && !layout.is_row_major());
        let memory = [0, 10, 1, 11, 2, 12];
        let row_major = layout.gather(&memory, 1);
        assert_eq!(row_major, [0, 1, 2, 10, 11, 12]);
        let mut back = [0; 6];
        layout.scatter(&row_major, &mut back, 1);
        assert_eq!(back, memory);
    }

    #[test]
    fn gaps_and_overlaps_are_seen() {
        let layout =
            |sizes: &[usize], strides: &[usize]| Layout { sizes: sizes.into(), strides: strides.into() };
        assert!(layout(&[2, 3], &[3, 1]).is_row_major());
        assert!(layout(&[1, 3], &[77, 1]).is_row_major());
        assert!(layout(&[2, 3], &[1, 2]).is_dense());
        assert!(!layout(&[2, 3], &[4, 1]).is_dense());
        assert!(!layout(&[2, 3], &[0, 1]).is_dense());
        assert!(!layout(&[2, 2], &[1, 1]).is_dense());
        assert_eq!(layout(&[2, 3], &[4, 1]).extent(), Some(7));
        assert_eq!(layout(&[2, 0], &[4, 1]).extent(), Some(0));
        assert_eq!(layout(&[2, 3], &[usize::MAX, 1]).extent(), None);
        assert_eq!(layout(&[2, 3], &[4, 1]).gather(&[0, 1, 2, 9, 3, 4, 5], 1), [0, 1, 2, 3, 4, 5]);
        assert_eq!(layout(&[2, 2], &[0, 1]).gather(&[7, 8], 1), [7, 8, 7, 8]);
        assert_eq!(Layout::contiguous(&[]).gather(&[7, 8], 2), [7, 8]);
    }
}
