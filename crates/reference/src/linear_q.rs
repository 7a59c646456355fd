//! Linear layers with quantised weights.

use crate::Fault;
use crate::frame::Frame;
use crate::matmul::{dot, rows};
use crate::qparams::Scale;
use crate::tensor::{Tensor, collect, single};

/// Which nibble of a byte comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nibbles {
    LowFirst,
    HighFirst,
}

impl Nibbles {
    /// The signed code of element `index` of a row of bytes.
    pub(crate) fn code(self, bytes: &[i64], index: usize) -> f64 {
        let byte = bytes[index / 2];
        let low = index.is_multiple_of(2) == (self == Nibbles::LowFirst);
        ((if low { byte & 15 } else { byte >> 4 & 15 }) - 8) as f64
    }
}

/// A dequantised weight matrix, row-major.
struct Weight {
    n: usize,
    k: usize,
    items: Vec<f64>,
}

impl Weight {
    /// `[N, ⌈K/2⌉ or more]` bytes of two codes each; `scale(n, k)` is the scale of an element.
    fn of_nibbles(
        frame: &Frame<'_>,
        slot: usize,
        k: usize,
        order: Nibbles,
        scale: impl Fn(usize, usize) -> f64,
    ) -> Result<Self, Fault> {
        let bytes = frame.ranked(slot, 2)?;
        let (n, stride) = (bytes.dims()[0], bytes.width());
        if stride < k.div_ceil(2) {
            let (expected, found) = (vec![n, k.div_ceil(2)], bytes.dims().to_vec());
            return Err(Fault::Dims { slot, expected, found });
        }
        let bytes = bytes.integers();
        let item = |at: &[usize]| Ok(order.code(&bytes[at[0] * stride..], at[1]) * scale(at[0], at[1]));
        Ok(Self { n, k, items: collect(&[n, k], item)? })
    }

    /// `[N,K]` codes and a scale a row.
    fn of_bytes(frame: &Frame<'_>, slot: usize, scales: usize, k: usize) -> Result<Self, Fault> {
        let n = frame.ranked(slot, 2)?.dims()[0];
        let codes = frame.sized(slot, &[n, k])?;
        let (codes, scales) = (codes.floats(), frame.elements(scales, n)?);
        let item = |at: &[usize]| Ok(codes[at[0] * k + at[1]] * scales[at[0]]);
        Ok(Self { n, k, items: collect(&[n, k], item)? })
    }

    /// 4-bit weights in `slot`, with scales `[K / group, ⌈N⌉4]` in `scales` and the group size in the slot after.
    fn of_groups(frame: &Frame<'_>, slot: usize, scales: usize, k: usize) -> Result<Self, Fault> {
        let n = frame.ranked(slot, 2)?.dims()[0];
        let groups = Groups::at(frame, scales, n, k)?;
        Self::of_nibbles(frame, slot, k, Nibbles::LowFirst, |n, k| groups.scale(n, k))
    }

    /// `x · weightᵀ + bias`.
    fn product(&self, x: &Tensor, bias: Option<&[f64]>) -> Result<Tensor, Fault> {
        rows(x, self.n, |row| {
            let column = |n: usize| dot(row, &self.items[n * self.k..(n + 1) * self.k]);
            (0..self.n).map(|n| column(n) + bias.map_or(0.0, |bias| bias[n])).collect()
        })
    }
}

/// Scales of groups along K, for every row of a weight: `[groups, N or more]`.
struct Groups {
    scales: Vec<f64>,
    stride: usize,
    group: usize,
}

impl Groups {
    /// Scales in `slot`, the group size in the slot after.
    fn at(frame: &Frame<'_>, slot: usize, n: usize, k: usize) -> Result<Self, Fault> {
        let scales = frame.ranked(slot, 2)?;
        let (stride, group) = (scales.width(), frame.extent(slot + 1)?);
        let groups = k.div_ceil(group);
        if scales.dims()[0] < groups || stride < n {
            return Err(Fault::Dims { slot, expected: vec![groups, n], found: scales.dims().to_vec() });
        }
        Ok(Self { scales: scales.floats().into_owned(), stride, group })
    }

    fn scale(&self, n: usize, k: usize) -> f64 {
        self.scales[k / self.group * self.stride + n]
    }
}

/// `linear_q4gsw(x, weights, scales, group_size, bias?)`.
pub(crate) fn q4gsw(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let weight = Weight::of_groups(frame, 1, 2, x.width())?;
    let bias = frame.optional_elements(4, weight.n)?;
    let result = weight.product(&x, bias.as_deref())?;
    frame.set(result)
}

/// `linear_dq8ca_q4gsw(x, x_scales, x_zero_points, weights, sums, scales, group_size, bias?)`.
pub(crate) fn dq8ca_q4gsw(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let count = x.count().checked_div(x.width()).unwrap_or(0);
    let (scales, zero_points) = (frame.elements(1, count)?, frame.elements(2, count)?);
    let weight = Weight::of_groups(frame, 3, 5, x.width())?;
    let bias = frame.optional_elements(7, weight.n)?;
    let mut parameters = scales.into_iter().zip(zero_points);
    let x = rows(&x, x.width(), |row| match parameters.next() {
        Some((scale, zero_point)) => rounded(row, Scale { scale, zero_point }),
        None => Vec::new(),
    })?;
    let result = weight.product(&x, bias.as_deref())?;
    frame.set(result)
}

/// A row as eight bits represent it.
fn rounded(row: &[f64], scale: Scale) -> Vec<f64> {
    row.iter().map(|&x| scale.dequantise(scale.quantise_8(x) as f64)).collect()
}

/// `linear_qcs4w(x, weight, scales)`: one scale a row of the weight.
pub(crate) fn qcs4w(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let scales = frame.elements(2, frame.ranked(1, 2)?.dims()[0])?;
    let weight = Weight::of_nibbles(frame, 1, x.width(), Nibbles::HighFirst, |n, _| scales[n])?;
    let result = weight.product(&x, None)?;
    frame.set(result)
}

/// `_weight_int8pack_mm(x, weight, scales)`, or `linear_q8csw` with a bias in slot 3.
pub(crate) fn q8csw(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let weight = Weight::of_bytes(frame, 1, 2, x.width())?;
    let bias = if frame.len() > 4 { frame.optional_elements(3, weight.n)? } else { None };
    let result = weight.product(&x, bias.as_deref())?;
    frame.set(result)
}

/// `linear_q8ta_q8csw(x, scale, zp, weight, sums, scales, bias?)`: codes in, or floats that become codes; float out.
pub(crate) fn q8ta_q8csw(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let scale = Scale::at(frame, 1)?;
    let weight = Weight::of_bytes(frame, 3, 5, x.width())?;
    let bias = frame.optional_elements(6, weight.n)?;
    let result = weight.product(&scale.represented(&x), bias.as_deref())?;
    frame.set(result)
}

/// `q8ta_linear(x, scale, zp, weight, sums, scales, out_scale, out_zp, bias?, activation)`: int8 in, int8 out.
pub(crate) fn q8ta(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let (from, to) = (Scale::at(frame, 1)?, Scale::at(frame, 6)?);
    let weight = Weight::of_bytes(frame, 3, 5, x.width())?;
    let bias = frame.optional_elements(8, weight.n)?;
    let low = activation(frame, 9)?;
    let result = weight.product(&from.represented(&x), bias.as_deref())?;
    let items = result.floats().iter().map(|&y| to.quantise_8(y.max(low))).collect();
    frame.set(Tensor::whole(result.dims().to_vec(), items))
}

/// The lower bound that an activation name stands for.
pub(crate) fn activation(frame: &Frame<'_>, slot: usize) -> Result<f64, Fault> {
    match frame.text(slot)? {
        "none" => Ok(f64::NEG_INFINITY),
        "relu" => Ok(0.0),
        found => Err(Fault::Value { slot, expected: "\"none\" or \"relu\"", found: format!("{found:?}") }),
    }
}

/// `linear_weight_int4(x, weight, group_size, scales_and_zeros [K / group, N, 2], _)` of releases before 1.0.
pub(crate) fn weight_int4(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let (k, group) = (x.width(), frame.extent(2)?);
    let n = frame.ranked(1, 2)?.dims()[0];
    let parameters = frame.sized(3, &[k.div_ceil(group), n, 2])?;
    let parameters = parameters.floats();
    let mut weight = Weight::of_nibbles(frame, 1, k, Nibbles::HighFirst, |_, _| 1.0)?;
    for (index, item) in weight.items.iter_mut().enumerate() {
        let at = (index % k / group * n + index / k) * 2;
        *item = *item * parameters[at] + parameters[at + 1];
    }
    let result = weight.product(&x, None)?;
    frame.set(result)
}

/// `linear_q4gsw_backward(d_out [..,N], weights, scales, group_size)` to `[..,K]`.
pub(crate) fn q4gsw_backward(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let gradient = frame.tensor(0)?;
    let k = frame.ranked(1, 2)?.width() * 2;
    let weight = Weight::of_groups(frame, 1, 2, k)?;
    if gradient.width() != weight.n {
        let mut expected = gradient.dims().to_vec();
        expected.pop();
        expected.push(weight.n);
        return Err(Fault::Dims { slot: 0, expected, found: gradient.dims().to_vec() });
    }
    let result = rows(&gradient, k, |row| {
        (0..k)
            .map(|k| row.iter().enumerate().map(|(n, x)| x * weight.items[n * weight.k + k]).sum())
            .collect()
    })?;
    frame.set(result)
}

/// `q4gsw_requant(latent [N,K], scales, group_size)` to bytes of two codes.
pub(crate) fn q4gsw_requant(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let latent = frame.ranked(0, 2)?;
    let (n, k) = (latent.dims()[0], latent.dims()[1]);
    let groups = Groups::at(frame, 1, n, k)?;
    let values = latent.floats();
    let code = |n: usize, at: usize| {
        let scale = groups.scale(n, at.min(k - 1));
        if at >= k || scale == 0.0 {
            return 8;
        }
        let code = single(values[n * k + at] / scale).round_ties_even().clamp(-8.0, 7.0);
        crate::tensor::truncate(code) + 8
    };
    let dims = [n, k.div_ceil(2)];
    let items = collect(&dims, |at| Ok(code(at[0], 2 * at[1]) | code(at[0], 2 * at[1] + 1) << 4))?;
    frame.set(Tensor::whole(dims.to_vec(), items))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nibbles() {
        let row = [0xf0, 0x98, 0xa7, 0x6b];
        let codes: Vec<f64> = (0..8).map(|index| Nibbles::LowFirst.code(&row, index)).collect();
        assert_eq!(codes, [-8.0, 7.0, 0.0, 1.0, -1.0, 2.0, 3.0, -2.0]);
        assert_eq!(Nibbles::HighFirst.code(&row, 0), 7.0);
        assert_eq!(Nibbles::HighFirst.code(&row, 1), -8.0);
    }
}
