//! Choosing quantisation parameters, quantising and dequantising.

use etvk_vkgraph::DType;

use crate::Fault;
use crate::frame::Frame;
use crate::tensor::{Tensor, broadcast_flat, collect, count, flat, single, truncate};

/// What a tensor was, or is to be, quantised with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    pub(crate) scale: f64,
    pub(crate) zero_point: f64,
}

impl Scale {
    /// The scale and zero point in two number slots.
    pub(crate) fn at(frame: &Frame<'_>, slot: usize) -> Result<Self, Fault> {
        Ok(Self { scale: single(frame.float(slot)?), zero_point: frame.int(slot + 1)? as f64 })
    }

    /// Clamped code of a number; in single precision up to the rounding, as everybody does it.
    pub(crate) fn quantise(self, x: f64, low: f64, high: f64) -> i64 {
        let scaled = single(single(x) * single(1.0 / self.scale));
        truncate((scaled.round_ties_even() + self.zero_point).max(low).min(high))
    }

    /// Code of eight bits.
    pub(crate) fn quantise_8(self, x: f64) -> i64 {
        self.quantise(x, i8::MIN.into(), i8::MAX.into())
    }

    /// The numbers that eight bits represent: of codes, or of floats made codes.
    pub(crate) fn represented(self, x: &Tensor) -> Tensor {
        let codes = x.is_integer();
        let item = |&x: &f64| self.dequantise(if codes { x } else { self.quantise_8(x) as f64 });
        Tensor::wide(x.dims().to_vec(), x.floats().iter().map(item).collect())
    }

    pub(crate) fn dequantise(self, code: f64) -> f64 {
        (code - self.zero_point) * self.scale
    }
}

/// Bounds from two optional number slots, else the range of an integer type.
fn bounds(frame: &Frame<'_>, slot: usize, dtype: DType) -> Result<(f64, f64), Fault> {
    let (low, high) = match dtype {
        DType::UInt8 => (0.0, 255.0),
        DType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        _ => (i8::MIN.into(), i8::MAX.into()),
    };
    Ok((frame.optional_float(slot)?.unwrap_or(low), frame.optional_float(slot + 1)?.unwrap_or(high)))
}

/// A scale for every element of a tensor: `index` gives its place among the parameters in the two slots.
fn scales<'p>(
    scales: &'p [f64],
    zero_points: Option<&'p [f64]>,
    index: impl Fn(&[usize]) -> usize + 'p,
) -> impl Fn(&[usize]) -> Scale + 'p {
    move |at| {
        let index = index(at);
        Scale { scale: scales[index], zero_point: zero_points.map_or(0.0, |zero_points| zero_points[index]) }
    }
}

fn quantised(
    frame: &mut Frame<'_>,
    (low, high): (f64, f64),
    scale: impl Fn(&[usize]) -> Scale,
) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let values = x.floats();
    let item = |at: &[usize]| Ok(scale(at).quantise(values[flat(at, x.dims())], low, high));
    let items = collect(x.dims(), item)?;
    frame.set(Tensor::whole(x.dims().to_vec(), items))
}

fn dequantised(frame: &mut Frame<'_>, scale: impl Fn(&[usize]) -> Scale) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let values = x.floats();
    let items = collect(x.dims(), |at| Ok(scale(at).dequantise(values[flat(at, x.dims())])))?;
    frame.set(Tensor::wide(x.dims().to_vec(), items))
}

/// Quantise or dequantise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// With bounds in this slot and the next.
    Quantise {
        bounds: usize,
    },
    Dequantise,
}

fn convert(
    frame: &mut Frame<'_>,
    direction: Direction,
    scale: impl Fn(&[usize]) -> Scale,
) -> Result<(), Fault> {
    match direction {
        Direction::Quantise { bounds: slot } => {
            let bounds = bounds(frame, slot, frame.output_dtype()?)?;
            quantised(frame, bounds, scale)
        }
        Direction::Dequantise => dequantised(frame, scale),
    }
}

/// `(x, scale, zero_point, ..)` with numbers.
pub(crate) fn per_tensor(frame: &mut Frame<'_>, direction: Direction) -> Result<(), Fault> {
    let scale = Scale::at(frame, 1)?;
    convert(frame, direction, |_| scale)
}

/// `(x, scale, zero_point, ..)` with tensors of one element.
pub(crate) fn per_tensor_of_tensors(frame: &mut Frame<'_>, direction: Direction) -> Result<(), Fault> {
    let scale = Scale { scale: frame.elements(1, 1)?[0], zero_point: frame.elements(2, 1)?[0] };
    convert(frame, direction, |_| scale)
}

/// Zero points in a slot; `None` where it is Null or empty.
fn zero_points(frame: &Frame<'_>, slot: usize, count: usize) -> Result<Option<Vec<f64>>, Fault> {
    if frame.optional_tensor(slot)?.is_some_and(|tensor| tensor.count() == 0) {
        return Ok(None);
    }
    frame.optional_elements(slot, count)
}

/// `(x, scales, zero_points?, axis, ..)`.
pub(crate) fn per_channel(frame: &mut Frame<'_>, direction: Direction) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let axis = frame.dimension(3, x.rank())?;
    let count = x.dims().get(axis).copied().unwrap_or(1);
    let (values, zero_points) = (frame.elements(1, count)?, zero_points(frame, 2, count)?);
    convert(
        frame,
        direction,
        scales(&values, zero_points.as_deref(), |at| at.get(axis).copied().unwrap_or(0)),
    )
}

/// `(x, scales, zero_points, ..)` with one scale a row.
pub(crate) fn per_token(frame: &mut Frame<'_>, direction: Direction) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let leading = &x.dims()[..x.rank().saturating_sub(1)];
    let count = count(leading)?;
    let (values, zero_points) = (frame.elements(1, count)?, zero_points(frame, 2, count)?);
    convert(frame, direction, scales(&values, zero_points.as_deref(), |at| flat(at, leading)))
}

/// `(x, block_size, scales, zero_points?, ..)` with one scale a block.
pub(crate) fn affine(frame: &mut Frame<'_>, direction: Direction) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let blocks = block_counts(frame, &x, 1)?;
    let count = count(&blocks)?;
    let (values, zero_points) = (frame.elements(2, count)?, zero_points(frame, 3, count)?);
    let block = |at: &[usize]| {
        let at: Vec<usize> = at
            .iter()
            .zip(x.dims())
            .zip(&blocks)
            .map(|((&at, &size), &blocks)| at / (size / blocks))
            .collect();
        flat(&at, &blocks)
    };
    convert(frame, direction, scales(&values, zero_points.as_deref(), block))
}

/// Number of blocks in every dimension. A block as large as declared covers a smaller current size as well.
fn block_counts(frame: &Frame<'_>, x: &Tensor, slot: usize) -> Result<Vec<usize>, Fault> {
    let sizes = frame.ints(slot)?;
    if sizes.len() != x.rank() {
        return Err(Fault::Length { slot, expected: x.rank(), found: sizes.len() });
    }
    let count = |(&size, &block): (&usize, &i64)| match usize::try_from(block) {
        _ if block == 1 => Ok(size),
        _ if block == -1 || size == 0 => Ok(1),
        Ok(block) if block > 0 && size.is_multiple_of(block) => Ok(size / block),
        _ => {
            Err(Fault::Value { slot, expected: "blocks that divide the sizes", found: format!("{sizes:?}") })
        }
    };
    x.dims().iter().zip(&sizes).map(count).collect()
}

/// How scale and zero point follow from the extremes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mapping {
    Asymmetric,
    Symmetric,
    SymmetricNoClipping,
}

/// Parameters for numbers from `low` to `high` (0 among them) and codes from `bottom` to `top`.
fn choose(mapping: Mapping, (low, high): (f64, f64), (bottom, top): (f64, f64), eps: f64) -> Scale {
    let scale = match mapping {
        Mapping::Asymmetric => (high - low) / (top - bottom),
        Mapping::Symmetric => (-low).max(high) / ((top - bottom) / 2.0),
        Mapping::SymmetricNoClipping => (low / bottom).max(high / top),
    };
    let scale = single(scale.max(eps));
    let zero_point = match mapping {
        Mapping::Asymmetric => (bottom - (low / scale).round_ties_even()).clamp(bottom, top),
        _ => ((top + bottom + 1.0) / 2.0).trunc(),
    };
    Scale { scale, zero_point }
}

fn extremes(items: &[f64]) -> (f64, f64) {
    (crate::reduce::min(items).min(0.0), crate::reduce::max(items).max(0.0))
}

/// Range of codes in two slots; an error where it is empty.
fn range(frame: &Frame<'_>, slot: usize) -> Result<(f64, f64), Fault> {
    let (bottom, top) = bounds(frame, slot, DType::Int8)?;
    if bottom < top {
        return Ok((bottom, top));
    }
    Err(Fault::Value {
        slot,
        expected: "a lower bound below the upper one",
        found: format!("{bottom}, {top}"),
    })
}

fn outputs(scales: &[Scale], dims: &[usize]) -> Vec<Tensor> {
    let tensor = |item: fn(&Scale) -> f64| Tensor::wide(dims.to_vec(), scales.iter().map(item).collect());
    vec![tensor(|scale| scale.scale), tensor(|scale| scale.zero_point)]
}

/// `choose_qparams_affine(x, mapping, block_size, _, qmin?, qmax?, eps?, _, _, keepdim)`.
pub(crate) fn choose_affine(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let mapping = match frame.text(1)? {
        "ASYMMETRIC" => Mapping::Asymmetric,
        "SYMMETRIC" => Mapping::Symmetric,
        "SYMMETRIC_NO_CLIPPING_ERR" => Mapping::SymmetricNoClipping,
        found => {
            return Err(Fault::Value { slot: 1, expected: "a mapping type", found: format!("{found:?}") });
        }
    };
    let blocks = block_counts(frame, &x, 2)?;
    let range = range(frame, 4)?;
    let eps = frame.optional_float(6)?.unwrap_or(f32::MIN_POSITIVE.into());
    // The last argument before the output is keepdim, where the schema has it; dims of one block are dropped else.
    let keep = frame.len() > 10 && frame.truth(9)?;
    let block_sizes = frame.ints(2)?;
    if !keep && block_sizes.iter().all(|&size| size == 1) {
        // No dimension to reduce means all of them.
        return frame.set_list(outputs(&[choose(mapping, extremes(&x.floats()), range, eps)], &[]));
    }
    let mut items = vec![Vec::new(); count(&blocks)?];
    let values = x.floats();
    collect(x.dims(), |at| {
        let block: Vec<usize> = at
            .iter()
            .zip(x.dims())
            .zip(&blocks)
            .map(|((&at, &size), &blocks)| at / (size / blocks))
            .collect();
        items[flat(&block, &blocks)].push(values[flat(at, x.dims())]);
        Ok(())
    })?;
    let scales: Vec<Scale> = items.iter().map(|items| choose(mapping, extremes(items), range, eps)).collect();
    let kept = blocks.iter().zip(&block_sizes).filter(|&(&count, &block)| keep || block == 1 || count != 1);
    let dims: Vec<usize> = kept.map(|(&blocks, _)| blocks).collect();
    let dims = if count(&dims)? == scales.len() { dims } else { blocks };
    frame.set_list(outputs(&scales, &dims))
}

/// `choose_qparams.tensor(x, qmin, qmax, eps, _)` over the whole tensor.
pub(crate) fn choose_tensor(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let (range, eps) = (range(frame, 1)?, frame.float(3)?);
    let scale = choose(Mapping::Asymmetric, extremes(&x.floats()), range, eps);
    frame.set_list(outputs(&[scale], &[1]))
}

/// `choose_qparams_per_token_asymmetric(x, _)` for every row.
pub(crate) fn choose_per_token(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let (bottom, top) = (i8::MIN.into(), i8::MAX.into());
    let row = |row: &[f64]| {
        let (low, high) = extremes(row);
        let scale = choose(Mapping::Asymmetric, (low, high), (bottom, top), f32::EPSILON.into()).scale;
        let (below, above) = (low / scale, high / scale);
        // The end of the range with the smaller error decides.
        let zero_point = if (bottom + below) + (top + above) > 0.0 { bottom - below } else { top - above };
        Scale { scale, zero_point: zero_point.clamp(bottom, top).round_ties_even() }
    };
    let scales: Vec<Scale> = x.floats().chunks(x.width().max(1)).map(row).collect();
    let mut dims = x.dims().to_vec();
    if let Some(width) = dims.last_mut() {
        *width = 1;
    }
    frame.set_list(outputs(&scales, &dims))
}

/// `choose_qparams_per_row(x, qmin?, qmax?, scales, zero_points)`: two outputs without a list.
pub(crate) fn choose_per_row(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let range = range(frame, 1)?;
    let row = |row: &[f64]| choose(Mapping::Asymmetric, extremes(row), range, f32::EPSILON.into());
    let scales: Vec<Scale> = x.floats().chunks(x.width().max(1)).map(row).collect();
    for (slot, tensor) in [3, 4].into_iter().zip(outputs(&scales, &[scales.len()])) {
        frame.write(frame.id(slot)?, tensor)?;
    }
    Ok(())
}

/// `q8ta_add(a, b, a_scale, a_zp, b_scale, b_zp, out_scale, out_zp, alpha)`.
pub(crate) fn q8ta_add(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let (a, b) = (frame.tensor(0)?, frame.tensor(1)?);
    let [a_scale, b_scale, out_scale] = [Scale::at(frame, 2)?, Scale::at(frame, 4)?, Scale::at(frame, 6)?];
    let alpha = frame.float(8)?;
    let dims = crate::tensor::broadcast(&[a.dims(), b.dims()])?;
    let (x, y) = (a.floats(), b.floats());
    let items = collect(&dims, |at| {
        let a = a_scale.dequantise(x[broadcast_flat(at, a.dims())]);
        let b = b_scale.dequantise(y[broadcast_flat(at, b.dims())]);
        Ok(out_scale.quantise_8(a + alpha * b))
    })?;
    frame.set(Tensor::whole(dims, items))
}

/// `q8ta_relu(x, scale, zp, out_scale, out_zp)`.
pub(crate) fn q8ta_relu(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let (from, to) = (Scale::at(frame, 1)?, Scale::at(frame, 3)?);
    crate::map::unary(frame, |x| to.quantise_8(from.dequantise(x).max(0.0)) as f64)
}

/// `q8ta_pixel_shuffle(x, scale, zp, 1/out_scale, out_zp, factor)`.
pub(crate) fn q8ta_pixel_shuffle(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let (from, inverse) = (Scale::at(frame, 1)?, Scale::at(frame, 3)?);
    let to = Scale { scale: 1.0 / inverse.scale, ..inverse };
    let (x, factor) = (frame.tensor(0)?, frame.extent(5)?);
    let x = crate::copy::shuffled(&x, factor)?;
    let items = x.floats().iter().map(|&x| to.quantise_8(from.dequantise(x))).collect();
    frame.set(Tensor::whole(x.dims().to_vec(), items))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_round_to_even_and_saturate() {
        let scale = Scale { scale: 0.5, zero_point: 3.0 };
        assert_eq!(scale.quantise_8(0.25), 3);
        assert_eq!(scale.quantise_8(0.75), 5);
        assert_eq!(scale.quantise_8(f64::INFINITY), 127);
        assert_eq!(scale.quantise_8(-1e30), -128);
        assert_eq!(scale.dequantise(5.0), 1.0);
    }

    #[test]
    fn asymmetric_range_keeps_zero() {
        let scale = choose(Mapping::Asymmetric, (-1.0, 3.0), (-128.0, 127.0), 0.0);
        assert_eq!(scale.zero_point, -64.0);
        assert_eq!(scale.scale, single(4.0 / 255.0));
        assert_eq!(choose(Mapping::Symmetric, (-1.0, 3.0), (-128.0, 127.0), 0.0).zero_point, 0.0);
    }
}
