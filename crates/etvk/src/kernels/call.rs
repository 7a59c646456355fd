//! The arguments of one kernel call.

use etvk_pte::ScalarType;

use crate::error::KernelFault;
use crate::frame::{Frame, Slot, argument};
use crate::kernels::elements::{Elements, Scalar};

type Fault<T> = Result<T, KernelFault>;

/// A call of a kernel: ids of its inputs, then of its outputs.
pub(crate) struct Call<'a> {
    pub(crate) frame: &'a mut Frame,
    args: &'a [usize],
}

/// A tensor argument: row-major elements.
pub(crate) struct Input {
    pub(crate) sizes: Vec<usize>,
    pub(crate) elements: Elements,
}

impl<'a> Call<'a> {
    pub(crate) fn new(frame: &'a mut Frame, args: &'a [usize]) -> Self {
        Self { frame, args }
    }

    /// Checks the number of arguments: inputs and outputs. Programs name the result of an operator after them, which
    /// is its output once more.
    pub(crate) fn takes(&self, expected: usize) -> Fault<()> {
        let found = self.args.len();
        let repeated = expected.checked_sub(1).and_then(|last| self.args.get(last));
        if found == expected || (found == expected + 1 && self.args.last() == repeated) {
            return Ok(());
        }
        Err(KernelFault::ArgumentCount { expected, found })
    }

    /// Number of arguments.
    pub(crate) fn count(&self) -> usize {
        self.args.len()
    }

    /// The value that argument `at` names.
    pub(crate) fn id(&self, at: usize) -> Fault<usize> {
        let count = KernelFault::ArgumentCount { expected: at + 1, found: self.args.len() };
        self.args.get(at).copied().ok_or(count)
    }

    fn slot(&self, at: usize) -> Fault<&Slot> {
        Ok(self.frame.slot(self.id(at)?))
    }

    /// Whether an optional argument is absent.
    pub(crate) fn is_null(&self, at: usize) -> Fault<bool> {
        Ok(matches!(self.slot(at)?, Slot::Null))
    }

    /// A tensor.
    pub(crate) fn tensor(&self, at: usize) -> Fault<Input> {
        let id = self.id(at)?;
        let tensor = self.frame.tensor(at, id)?;
        let elements = Elements::decode(tensor.scalar_type, &self.frame.elements(at, id)?)?;
        Ok(Input { sizes: tensor.sizes.clone(), elements })
    }

    /// Element type of a tensor.
    pub(crate) fn scalar_type(&self, at: usize) -> Fault<ScalarType> {
        Ok(self.frame.tensor(at, self.id(at)?)?.scalar_type)
    }

    /// Sizes of a tensor.
    pub(crate) fn sizes(&self, at: usize) -> Fault<&[usize]> {
        Ok(&self.frame.tensor(at, self.id(at)?)?.sizes)
    }

    /// A number.
    pub(crate) fn scalar(&self, at: usize) -> Fault<Scalar> {
        match self.slot(at)? {
            Slot::Int(value) => Ok(Scalar::Int(*value)),
            Slot::Double(value) => Ok(Scalar::Double(*value)),
            Slot::Bool(value) => Ok(Scalar::Bool(*value)),
            other => Err(argument(at, "a number", other)),
        }
    }

    /// An integer.
    pub(crate) fn int(&self, at: usize) -> Fault<i64> {
        self.frame.int(at, self.id(at)?)
    }

    /// A truth value.
    pub(crate) fn flag(&self, at: usize) -> Fault<bool> {
        match self.slot(at)? {
            Slot::Bool(value) => Ok(*value),
            other => Err(argument(at, "Bool", other)),
        }
    }

    /// A list of integers.
    pub(crate) fn ints(&self, at: usize) -> Fault<Vec<i64>> {
        match self.slot(at)? {
            Slot::IntList(ids) => ids.iter().map(|&id| self.frame.int(at, id)).collect(),
            other => Err(argument(at, "IntList", other)),
        }
    }

    /// A list of integers that may be absent or empty.
    pub(crate) fn optional_ints(&self, at: usize) -> Fault<Option<Vec<i64>>> {
        if self.is_null(at)? {
            return Ok(None);
        }
        Ok(Some(self.ints(at)?).filter(|list| !list.is_empty()))
    }

    /// A dimension of a tensor of this rank, negatives counted from the end. Rank 0 has one dimension.
    pub(crate) fn dim(&self, dim: i64, rank: usize) -> Fault<usize> {
        let high = i64::try_from(rank.max(1)).unwrap_or(i64::MAX);
        let positive = if dim < 0 { dim.saturating_add(high) } else { dim };
        let range = KernelFault::Range { what: "dimension", low: -high, high: high - 1, found: dim };
        usize::try_from(positive).ok().filter(|&dim| dim < rank.max(1)).ok_or(range)
    }

    /// Gives tensor output `at` its sizes: before anything as large is made, so that sizes that do not fit are
    /// found first.
    pub(crate) fn resize(&mut self, at: usize, sizes: &[usize]) -> Fault<()> {
        let id = self.id(at)?;
        self.frame.resize(at, id, sizes)
    }

    /// Writes tensor output `at`, converted to its element type.
    pub(crate) fn put(&mut self, at: usize, sizes: &[usize], elements: &Elements) -> Fault<()> {
        let id = self.id(at)?;
        let bytes = elements.encode(self.scalar_type(at)?)?;
        self.frame.write(at, id, sizes, &bytes)
    }

    /// Writes number output `at`.
    pub(crate) fn put_scalar(&mut self, at: usize, value: Scalar) -> Fault<()> {
        let id = self.id(at)?;
        let slot = match value {
            Scalar::Int(value) => Slot::Int(value),
            Scalar::Double(value) => Slot::Double(value),
            Scalar::Bool(value) => Slot::Bool(value),
        };
        if let Slot::Tensor(_) = self.frame.slot(id) {
            return Err(argument(at, "a number", self.frame.slot(id)));
        }
        self.frame.set(id, slot);
        Ok(())
    }
}

/// Visits the elements of `sizes` in row-major order with their index.
pub(crate) fn each_index(sizes: &[usize], mut visit: impl FnMut(&[usize])) {
    let count: usize = sizes.iter().product();
    let mut index = vec![0; sizes.len()];
    for _ in 0..count {
        visit(&index);
        for dim in (0..sizes.len()).rev() {
            index[dim] += 1;
            if index[dim] < sizes[dim] {
                break;
            }
            index[dim] = 0;
        }
    }
}

/// Row-major elements between neighbours in each dimension.
pub(crate) fn strides(sizes: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; sizes.len()];
    for dim in (1..sizes.len()).rev() {
        strides[dim - 1] = strides[dim] * sizes[dim].max(1);
    }
    strides
}

/// Sizes that several tensors are broadcast to.
pub(crate) fn broadcast(all: &[&[usize]]) -> Fault<Vec<usize>> {
    let rank = all.iter().map(|sizes| sizes.len()).max().unwrap_or(0);
    let mut out = vec![1; rank];
    for sizes in all {
        for (out, &size) in out.iter_mut().rev().zip(sizes.iter().rev()) {
            if *out == 1 {
                *out = size;
            } else if size != 1 && size != *out {
                let (expected, found) = (format!("{:?}", all.first()), format!("{sizes:?}"));
                return Err(KernelFault::Shape { what: "broadcast sizes", expected, found });
            }
        }
    }
    Ok(out)
}

/// For each element of `to` in row-major order, the position of the element of `from` that is broadcast to it.
pub(crate) fn broadcast_positions(from: &[usize], to: &[usize]) -> Vec<usize> {
    let added = to.len() - from.len();
    let strides = strides(from);
    let mut positions = Vec::with_capacity(to.iter().product());
    each_index(to, |index| {
        let along = |(dim, &at): (usize, &usize)| if from[dim] == 1 { 0 } else { at * strides[dim] };
        positions.push(index[added..].iter().enumerate().map(along).sum());
    });
    positions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broadcasting_repeats_along_ones() {
        assert_eq!(broadcast(&[&[2, 1], &[3], &[]]).unwrap(), [2, 3]);
        assert_eq!(broadcast_positions(&[2, 1], &[2, 3]), [0, 0, 0, 1, 1, 1]);
        assert_eq!(broadcast_positions(&[3], &[2, 3]), [0, 1, 2, 0, 1, 2]);
        assert_eq!(broadcast_positions(&[], &[2]), [0, 0]);
        assert!(matches!(broadcast(&[&[2], &[3]]), Err(KernelFault::Shape { .. })));
    }
}
