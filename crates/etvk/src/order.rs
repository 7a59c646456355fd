//! Between row-major order and the memory order of a tensor.

/// Elements in memory order as row-major ones.
pub(crate) fn to_row_major(from: &[u8], sizes: &[usize], order: &[u8], element: usize) -> Vec<u8> {
    let mut out = vec![0; from.len()];
    permute(sizes, order, |row_major, memory| copy(from, memory, &mut out, row_major, element));
    out
}

/// Row-major elements in memory order.
pub(crate) fn from_row_major(from: &[u8], sizes: &[usize], order: &[u8], element: usize, out: &mut [u8]) {
    permute(sizes, order, |row_major, memory| copy(from, row_major, out, memory, element));
}

fn copy(from: &[u8], source: usize, to: &mut [u8], target: usize, element: usize) {
    let (source, target) = (source * element, target * element);
    if let (Some(from), Some(to)) = (from.get(source..source + element), to.get_mut(target..target + element))
    {
        to.copy_from_slice(from);
    }
}

/// Visits every element with its row-major and its memory position.
fn permute(sizes: &[usize], order: &[u8], mut visit: impl FnMut(usize, usize)) {
    let strides = strides(sizes, order);
    let count: usize = sizes.iter().product();
    let mut index = vec![0; sizes.len()];
    let mut memory = 0;
    for row_major in 0..count {
        visit(row_major, memory);
        for dim in (0..sizes.len()).rev() {
            index[dim] += 1;
            memory += strides[dim];
            if index[dim] < sizes[dim] {
                break;
            }
            memory -= strides[dim] * sizes[dim];
            index[dim] = 0;
        }
    }
}

/// Elements between neighbours in each dimension, where `order` lists the dimensions from slowest to fastest.
pub(crate) fn strides(sizes: &[usize], order: &[u8]) -> Vec<usize> {
    let mut strides = vec![0; sizes.len()];
    let mut next = 1;
    for &dim in order.iter().rev() {
        let dim = usize::from(dim);
        strides[dim] = next;
        next *= sizes[dim].max(1);
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_last_goes_both_ways() {
        // Sizes N=1, C=2, H=1, W=3 in memory as (w, c) pairs.
        let (sizes, order) = ([1, 2, 1, 3], [0, 2, 3, 1]);
        assert_eq!(strides(&sizes, &order), [6, 1, 6, 2]);
        let memory = [0, 10, 1, 11, 2, 12];
        let row_major = to_row_major(&memory, &sizes, &order, 1);
        assert_eq!(row_major, [0, 1, 2, 10, 11, 12]);
        let mut back = [0; 6];
        from_row_major(&row_major, &sizes, &order, 1, &mut back);
        assert_eq!(back, memory);
    }

    #[test]
    fn rank_zero_and_empty_tensors() {
        assert_eq!(to_row_major(&[7, 8], &[], &[], 2), [7, 8]);
        assert!(to_row_major(&[], &[2, 0], &[1, 0], 4).is_empty());
    }
}
