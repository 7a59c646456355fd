//! Reductions and running sums, accumulated in `f64` or `i64`.

use crate::error::KernelFault;
use crate::kernels::call::{Call, Input, each_index, strides};
use crate::kernels::elements::Elements;

type Fault<T = ()> = Result<T, KernelFault>;

/// How the elements of a tensor fall into groups that are reduced to one element each.
struct Groups {
    /// Sizes of the output.
    sizes: Vec<usize>,
    /// Number of groups.
    count: usize,
    /// The group of each element, in row-major order.
    of: Vec<usize>,
}

impl Groups {
    fn new(sizes: &[usize], reduced: &[bool], keep: bool) -> Self {
        let kept: Vec<usize> =
            sizes.iter().zip(reduced).map(|(&size, &reduced)| if reduced { 1 } else { size }).collect();
        let strides = strides(&kept);
        let mut of = Vec::with_capacity(sizes.iter().product());
        each_index(sizes, |index| {
            let along = |dim: usize| if reduced[dim] { 0 } else { index[dim] * strides[dim] };
            of.push((0..index.len()).map(along).sum());
        });
        let count = kept.iter().product();
        let sizes = match keep {
            true => kept,
            false => (0..sizes.len()).filter(|&dim| !reduced[dim]).map(|dim| sizes[dim]).collect(),
        };
        Self { sizes, count, of }
    }

    fn fold<T: Copy>(&self, start: T, elements: &[T], step: impl Fn(T, T) -> T) -> Vec<T> {
        let mut out = vec![start; self.count];
        for (&group, &element) in self.of.iter().zip(elements) {
            out[group] = step(out[group], element);
        }
        out
    }

    /// Elements in each group.
    #[expect(clippy::cast_precision_loss, reason = "a count of elements in memory")]
    fn members(&self) -> f64 {
        self.of.len() as f64 / self.count.max(1) as f64
    }

    fn means(&self, elements: &[f64]) -> Vec<f64> {
        let members = self.members();
        self.fold(0.0, elements, |sum, x| sum + x).iter().map(|sum| sum / members).collect()
    }
}

/// Groups of `input` over the dimensions of argument `at`; all of them where it is absent or empty.
fn over(call: &Call<'_>, input: &Input, at: usize, keep: bool) -> Fault<Groups> {
    let rank = input.sizes.len();
    let mut reduced = vec![false; rank];
    match call.optional_ints(at)? {
        None => reduced.fill(true),
        Some(dims) => {
            for dim in dims {
                let dim = call.dim(dim, rank)?;
                if let Some(reduced) = reduced.get_mut(dim) {
                    *reduced = true;
                }
            }
        }
    }
    Ok(Groups::new(&input.sizes, &reduced, keep))
}

/// `sum.IntList_out(self, dim, keepdim, dtype, out)`.
pub(crate) fn sum(call: &mut Call<'_>) -> Fault {
    call.takes(5)?;
    let input = call.tensor(0)?;
    let groups = over(call, &input, 1, call.flag(2)?)?;
    let sums = match &input.elements {
        Elements::Ints(values) => Elements::Ints(groups.fold(0, values, i64::wrapping_add)),
        Elements::Floats(values) => Elements::Floats(groups.fold(0.0, values, |sum, x| sum + x)),
    };
    call.put(4, &groups.sizes, &sums)
}

/// `mean.out(self, dim, keepdim, dtype, out)`.
pub(crate) fn mean(call: &mut Call<'_>) -> Fault {
    call.takes(5)?;
    let input = call.tensor(0)?;
    let groups = over(call, &input, 1, call.flag(2)?)?;
    let means = groups.means(&input.elements.floats());
    call.put(4, &groups.sizes, &Elements::Floats(means))
}

/// `mean.dtype_out(self, dtype, out)`: over all elements.
pub(crate) fn mean_all(call: &mut Call<'_>) -> Fault {
    call.takes(3)?;
    let input = call.tensor(0)?;
    let groups = Groups::new(&input.sizes, &vec![true; input.sizes.len()], false);
    let means = groups.means(&input.elements.floats());
    call.put(2, &groups.sizes, &Elements::Floats(means))
}

/// `var.correction_out(self, dim, correction, keepdim, out)`; an absent correction is 1.
pub(crate) fn var(call: &mut Call<'_>) -> Fault {
    call.takes(5)?;
    let input = call.tensor(0)?;
    let correction = if call.is_null(2)? { 1.0 } else { call.scalar(2)?.as_f64() };
    let groups = over(call, &input, 1, call.flag(3)?)?;
    let values = input.elements.floats();
    let means = groups.means(&values);
    let squares: Vec<f64> =
        values.iter().zip(&groups.of).map(|(x, &group)| (x - means[group]).powi(2)).collect();
    let divisor = (groups.members() - correction).max(0.0);
    let vars = groups.fold(0.0, &squares, |sum, x| sum + x).iter().map(|sum| sum / divisor).collect();
    call.put(4, &groups.sizes, &Elements::Floats(vars))
}

/// `any.out(self, dim, keepdim, out)`.
pub(crate) fn any(call: &mut Call<'_>) -> Fault {
    call.takes(4)?;
    let (input, keep) = (call.tensor(0)?, call.flag(2)?);
    let rank = input.sizes.len();
    let dim = call.dim(call.int(1)?, rank)?;
    let reduced: Vec<bool> = (0..rank).map(|at| at == dim).collect();
    let groups = Groups::new(&input.sizes, &reduced, keep);
    let set: Vec<i64> = match &input.elements {
        Elements::Ints(values) => values.iter().map(|&x| i64::from(x != 0)).collect(),
        Elements::Floats(values) => values.iter().map(|&x| i64::from(x != 0.0)).collect(),
    };
    call.put(3, &groups.sizes, &Elements::Ints(groups.fold(0, &set, |any, x| any | x)))
}

/// `cumsum.out(self, dim, dtype, out)`.
pub(crate) fn cumsum(call: &mut Call<'_>) -> Fault {
    call.takes(4)?;
    let input = call.tensor(0)?;
    let dim = call.dim(call.int(1)?, input.sizes.len())?;
    let length = input.sizes.get(dim).copied().unwrap_or(1);
    let stride = strides(&input.sizes).get(dim).copied().unwrap_or(1);
    let sums = match input.elements {
        Elements::Ints(values) => Elements::Ints(running(values, length, stride, i64::wrapping_add)),
        Elements::Floats(values) => Elements::Floats(running(values, length, stride, |sum, x| sum + x)),
    };
    call.put(3, &input.sizes, &sums)
}

fn running<T: Copy>(mut values: Vec<T>, length: usize, stride: usize, add: impl Fn(T, T) -> T) -> Vec<T> {
    for at in 0..values.len() {
        if !(at / stride).is_multiple_of(length) {
            values[at] = add(values[at - stride], values[at]);
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_keep_or_drop_dimensions() {
        let groups = Groups::new(&[2, 3], &[false, true], true);
        assert_eq!((groups.sizes.as_slice(), groups.count), (&[2, 1][..], 2));
        assert_eq!(groups.fold(0, &[1, 2, 3, 4, 5, 6], |sum, x| sum + x), [6, 15]);
        let groups = Groups::new(&[2, 3], &[true, false], false);
        assert_eq!(groups.sizes, [3]);
        assert_eq!(groups.means(&[1.0, 2.0, 3.0, 3.0, 4.0, 5.0]), [2.0, 3.0, 4.0]);
    }

    #[test]
    fn sums_run_along_one_dimension() {
        assert_eq!(running(vec![1, 2, 3, 4, 5, 6], 3, 1, |a, b| a + b), [1, 3, 6, 4, 9, 15]);
        assert_eq!(running(vec![1, 2, 3, 4, 5, 6], 2, 3, |a, b| a + b), [1, 2, 3, 5, 7, 9]);
        assert_eq!(running(Vec::<i64>::new(), 0, 1, |a, b| a + b), [0_i64; 0]);
    }
}
