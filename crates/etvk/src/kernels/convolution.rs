//! Convolution of any number of dimensions, also transposed.

use crate::error::KernelFault;
use crate::kernels::call::{Call, Input, each_index, strides};
use crate::kernels::elements::Elements;

type Fault<T = ()> = Result<T, KernelFault>;

/// What a convolution does along each spatial dimension, and in how many groups.
struct Geometry {
    stride: Vec<usize>,
    padding: Vec<usize>,
    dilation: Vec<usize>,
    extra: Vec<usize>,
    groups: usize,
    transposed: bool,
}

/// `convolution.out(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, out)`.
pub(crate) fn convolution(call: &mut Call<'_>) -> Fault {
    call.takes(10)?;
    let (input, weight) = (call.tensor(0)?, call.tensor(1)?);
    let rank = input.sizes.len();
    if rank < 3 || weight.sizes.len() != rank {
        return Err(shape("rank of input and weight", "equal, at least 3", &weight.sizes));
    }
    let geometry = Geometry {
        stride: spatial(call, 3, rank - 2, 1)?,
        padding: spatial(call, 4, rank - 2, 0)?,
        dilation: spatial(call, 5, rank - 2, 1)?,
        transposed: call.flag(6)?,
        extra: spatial(call, 7, rank - 2, 0)?,
        groups: usize::try_from(call.int(8)?).unwrap_or(0),
    };
    let sizes = geometry.output_sizes(&input.sizes, &weight.sizes)?;
    let channels = sizes[1];
    let bias = match call.is_null(2)? {
        true => vec![0.0; channels],
        false => call.tensor(2)?.elements.floats(),
    };
    if bias.len() != channels {
        return Err(shape("bias", &format!("[{channels}]"), &[bias.len()]));
    }
    call.resize(9, &sizes)?;
    let out = geometry.run(&input, &weight, &bias, &sizes);
    call.put(9, &sizes, &Elements::Floats(out))
}

/// A list with one entry a spatial dimension, or one for all of them.
fn spatial(call: &Call<'_>, at: usize, dims: usize, low: i64) -> Fault<Vec<usize>> {
    let list = call.ints(at)?;
    let mut out = Vec::with_capacity(dims);
    for dim in 0..dims {
        let found = match list.as_slice() {
            [one] => *one,
            list => *list
                .get(dim)
                .ok_or_else(|| shape("convolution options", "one a dimension", &[list.len()]))?,
        };
        let range = KernelFault::Range { what: "convolution option", low, high: i64::from(u32::MAX), found };
        out.push(u32::try_from(found).ok().filter(|_| found >= low).ok_or(range)? as usize);
    }
    Ok(out)
}

fn shape(what: &'static str, expected: &str, found: &[usize]) -> KernelFault {
    KernelFault::Shape { what, expected: expected.to_owned(), found: format!("{found:?}") }
}

impl Geometry {
    fn output_sizes(&self, input: &[usize], weight: &[usize]) -> Fault<Vec<usize>> {
        let groups = self.groups;
        // Weights are [out, in / groups, ..], or [in, out / groups, ..] if transposed.
        let fits = groups > 0
            && match self.transposed {
                false => weight[1].checked_mul(groups) == Some(input[1]) && weight[0].is_multiple_of(groups),
                true => weight[0] == input[1] && input[1].is_multiple_of(groups),
            };
        if !fits {
            return Err(shape("channels of the weight", &format!("{} in {groups} groups", input[1]), weight));
        }
        let channels = if self.transposed { weight[1].saturating_mul(groups) } else { weight[0] };
        let mut sizes = vec![input[0], channels];
        for dim in 0..input.len() - 2 {
            let (size, kernel) = (input[dim + 2], weight[dim + 2]);
            let reach = kernel.checked_sub(1).and_then(|k| k.checked_mul(self.dilation[dim]));
            let reach = reach.ok_or_else(|| shape("kernel", "not empty", weight))?;
            let size = match self.transposed {
                false => {
                    (size + 2 * self.padding[dim]).checked_sub(reach + 1).map(|s| s / self.stride[dim] + 1)
                }
                true => size
                    .checked_sub(1)
                    .and_then(|s| s.checked_mul(self.stride[dim]))
                    .and_then(|s| (s + reach + self.extra[dim] + 1).checked_sub(2 * self.padding[dim])),
            };
            sizes.push(size.ok_or_else(|| shape("input against kernel", "large enough", input))?);
        }
        Ok(sizes)
    }

    /// Walks over every product of an input element and a weight; where they meet follows from the geometry.
    fn run(&self, input: &Input, weight: &Input, bias: &[f64], sizes: &[usize]) -> Vec<f64> {
        let (data, weights) = (input.elements.floats(), weight.elements.floats());
        let (in_strides, weight_strides, out_strides) =
            (strides(&input.sizes), strides(&weight.sizes), strides(sizes));
        let spatial = &sizes[2..];
        let mut out = vec![0.0; sizes.iter().product()];
        let (per_in, per_out) = (input.sizes[1] / self.groups, sizes[1] / self.groups);
        let plane = out_strides.get(1).copied().unwrap_or(1).max(1);
        for (at, value) in out.iter_mut().enumerate() {
            *value = bias[at / plane % sizes[1]];
        }
        // The side that is walked densely: outputs, or inputs if transposed.
        let dense = if self.transposed { &input.sizes[2..] } else { spatial };
        let sparse = if self.transposed { spatial } else { &input.sizes[2..] };
        let (dense_strides, sparse_strides) = match self.transposed {
            true => (&in_strides[2..], &out_strides[2..]),
            false => (&out_strides[2..], &in_strides[2..]),
        };
        each_index(dense, |dense_index| {
            let dense_at: usize = dense_index.iter().zip(dense_strides).map(|(i, s)| i * s).sum();
            each_index(&weight.sizes[2..], |tap| {
                let mut sparse_at = 0;
                for dim in 0..tap.len() {
                    let shifted = dense_index[dim] * self.stride[dim] + tap[dim] * self.dilation[dim];
                    match shifted.checked_sub(self.padding[dim]).filter(|&at| at < sparse[dim]) {
                        Some(at) => sparse_at += at * sparse_strides[dim],
                        None => return,
                    }
                }
                let tap_at: usize = tap.iter().zip(&weight_strides[2..]).map(|(i, s)| i * s).sum();
                let (in_at, out_at) = match self.transposed {
                    true => (dense_at, sparse_at),
                    false => (sparse_at, dense_at),
                };
                for batch in 0..sizes[0] {
                    for out_channel in 0..sizes[1] {
                        let group = out_channel / per_out;
                        let target = batch * out_strides[0] + out_channel * out_strides[1] + out_at;
                        for channel in 0..per_in {
                            let in_channel = group * per_in + channel;
                            let (row, column) = match self.transposed {
                                true => (in_channel, out_channel % per_out),
                                false => (out_channel, channel),
                            };
                            let w = weights[row * weight_strides[0] + column * weight_strides[1] + tap_at];
                            let x = data[batch * in_strides[0] + in_channel * in_strides[1] + in_at];
                            out[target] += w * x;
                        }
                    }
                }
            });
        });
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(sizes: &[usize], values: &[f64]) -> Input {
        Input { sizes: sizes.to_vec(), elements: Elements::Floats(values.to_vec()) }
    }

    fn geometry(stride: usize, padding: usize, groups: usize, transposed: bool) -> Geometry {
        Geometry {
            stride: vec![stride],
            padding: vec![padding],
            dilation: vec![1],
            extra: vec![0],
            groups,
            transposed,
        }
    }

    #[test]
    fn a_padded_strided_convolution() {
        let (x, w) = (input(&[1, 1, 4], &[1.0, 2.0, 3.0, 4.0]), input(&[1, 1, 3], &[1.0, 10.0, 100.0]));
        let geometry = geometry(2, 1, 1, false);
        let sizes = geometry.output_sizes(&x.sizes, &w.sizes).unwrap();
        assert_eq!(sizes, [1, 1, 2]);
        assert_eq!(geometry.run(&x, &w, &[0.5], &sizes), [210.5, 432.5]);
    }

    #[test]
    fn groups_see_their_own_channels() {
        let (x, w) = (input(&[1, 2, 2], &[1.0, 2.0, 3.0, 4.0]), input(&[2, 1, 1], &[10.0, 100.0]));
        let geometry = geometry(1, 0, 2, false);
        let sizes = geometry.output_sizes(&x.sizes, &w.sizes).unwrap();
        assert_eq!(geometry.run(&x, &w, &[0.0, 0.0], &sizes), [10.0, 20.0, 300.0, 400.0]);
    }

    #[test]
    fn a_transposed_convolution_spreads() {
        let (x, w) = (input(&[1, 1, 2], &[1.0, 2.0]), input(&[1, 1, 2], &[1.0, 10.0]));
        let geometry = geometry(2, 0, 1, true);
        let sizes = geometry.output_sizes(&x.sizes, &w.sizes).unwrap();
        assert_eq!(sizes, [1, 1, 4]);
        assert_eq!(geometry.run(&x, &w, &[0.0], &sizes), [1.0, 10.0, 2.0, 20.0]);
    }

    #[test]
    fn channels_that_do_not_fit_are_refused() {
        let geometry = geometry(1, 0, 2, false);
        assert!(matches!(geometry.output_sizes(&[1, 3, 4], &[2, 1, 1]), Err(KernelFault::Shape { .. })));
        assert!(matches!(geometry.output_sizes(&[1, 2, 1], &[2, 1, 3]), Err(KernelFault::Shape { .. })));
    }
}
