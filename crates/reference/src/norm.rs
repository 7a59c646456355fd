//! Normalisations.

use etvk_vkgraph::DType;

use crate::Fault;
use crate::frame::Frame;
use crate::reduce::moments;
use crate::tensor::Tensor;

/// `rms_norm(x, weight, eps)`.
pub(crate) fn et_vk_rms_norm(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let eps = frame.float(2)?;
    let width = frame.tensor(0)?.width();
    rms_norm(frame, width, 1, eps)
}

/// `rms_norm(x, normalized_shape, weight?, eps?)` over the last dimensions.
pub(crate) fn aten_rms_norm(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let shape = frame.sizes(1)?;
    if shape.is_empty() || !x.dims().ends_with(&shape) {
        return Err(Fault::Dims { slot: 1, expected: x.dims().to_vec(), found: shape });
    }
    let epsilon = match x.dtype() {
        DType::Float16 => 2.0_f64.powi(-10),
        DType::Float64 => f64::EPSILON,
        _ => f32::EPSILON.into(),
    };
    let eps = frame.optional_float(3)?.unwrap_or(epsilon);
    rms_norm(frame, shape.iter().product(), 2, eps)
}

/// Normalises runs of `width` elements; the weight is in slot `weight`.
fn rms_norm(frame: &mut Frame<'_>, width: usize, weight: usize, eps: f64) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let weight = frame.optional_elements(weight, width)?;
    let mut items = x.floats().into_owned();
    for row in items.chunks_mut(width.max(1)) {
        let square: f64 = row.iter().map(|x| x * x).sum();
        let factor = 1.0 / (square / width as f64 + eps).sqrt();
        for (column, x) in row.iter_mut().enumerate() {
            *x *= factor * weight.as_ref().map_or(1.0, |weight| weight[column]);
        }
    }
    frame.set(Tensor::wide(x.dims().to_vec(), items))
}

/// `native_layer_norm(x, normalized_shape, weight?, bias?, eps)` to output, mean and 1/√variance.
pub(crate) fn layer_norm(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let shape = frame.sizes(1)?;
    let leading = x.rank().checked_sub(shape.len()).filter(|&leading| x.dims()[leading..] == shape);
    let Some(leading) = leading else {
        return Err(Fault::Dims { slot: 0, expected: shape, found: x.dims().to_vec() });
    };
    let width = shape.iter().product();
    let (weight, bias) = (frame.optional_elements(2, width)?, frame.optional_elements(3, width)?);
    let mut statistics_dims = x.dims()[..leading].to_vec();
    statistics_dims.resize(x.rank(), 1);
    let affine = |_, column: usize| {
        let item =
            |items: &Option<Vec<f64>>, otherwise| items.as_ref().map_or(otherwise, |items| items[column]);
        (item(&weight, 1.0), item(&bias, 0.0))
    };
    normalise(frame, &x, width, statistics_dims, 4, affine)
}

/// `native_group_norm(x, weight?, bias?, N, C, HxW, groups, eps)` to output, mean and 1/√variance.
pub(crate) fn group_norm(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let &[batch, channels, ref spatial @ ..] = x.dims() else {
        return Err(Fault::Rank { slot: 0, expected: 3, found: x.rank() });
    };
    let groups = frame.extent(6)?;
    if !channels.is_multiple_of(groups) {
        let found = groups.to_string();
        return Err(Fault::Value { slot: 6, expected: "a divisor of the channels", found });
    }
    let (weight, bias) = (frame.optional_elements(1, channels)?, frame.optional_elements(2, channels)?);
    let spatial: usize = spatial.iter().product();
    let width = channels / groups * spatial;
    let affine = |group: usize, column: usize| {
        let channel = group % groups * (channels / groups) + column / spatial.max(1);
        let item =
            |items: &Option<Vec<f64>>, otherwise| items.as_ref().map_or(otherwise, |items| items[channel]);
        (item(&weight, 1.0), item(&bias, 0.0))
    };
    normalise(frame, &x, width, vec![batch, groups], 7, affine)
}

/// Normalises runs of `width` elements; `affine(run, column)` is the weight and bias of an element.
fn normalise(
    frame: &mut Frame<'_>,
    x: &Tensor,
    width: usize,
    statistics_dims: Vec<usize>,
    eps: usize,
    affine: impl Fn(usize, usize) -> (f64, f64),
) -> Result<(), Fault> {
    let eps = frame.float(eps)?;
    let mut items = x.floats().into_owned();
    let runs = crate::tensor::count(&statistics_dims)?;
    let (mut means, mut factors) = (Vec::with_capacity(runs), Vec::with_capacity(runs));
    for run in 0..runs {
        let row = &mut items[run * width..(run + 1) * width];
        let (mean, squares) = moments(row);
        let factor = 1.0 / (squares / width as f64 + eps).sqrt();
        for (column, x) in row.iter_mut().enumerate() {
            let (weight, bias) = affine(run, column);
            *x = (*x - mean) * factor * weight + bias;
        }
        means.push(mean);
        factors.push(factor);
    }
    let output = Tensor::wide(x.dims().to_vec(), items);
    let (means, factors) =
        (Tensor::wide(statistics_dims.clone(), means), Tensor::wide(statistics_dims, factors));
    frame.set_list(vec![output, means, factors])
}

/// Batch norm for inference: `(x, weight?, bias?, mean, variance, momentum, eps)`; outputs 1 and 2 are empty.
pub(crate) fn batch_norm(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let channels = *x.dims().get(1).ok_or(Fault::Rank { slot: 0, expected: 2, found: x.rank() })?;
    let (weight, bias) = (frame.optional_elements(1, channels)?, frame.optional_elements(2, channels)?);
    let (mean, variance) = (frame.elements(3, channels)?, frame.elements(4, channels)?);
    let eps = frame.float(6)?;
    let spatial: usize = x.dims()[2..].iter().product();
    let mut items = x.floats().into_owned();
    for (index, plane) in items.chunks_mut(spatial.max(1)).enumerate() {
        let channel = index % channels;
        let factor = weight.as_ref().map_or(1.0, |weight| weight[channel]) / (variance[channel] + eps).sqrt();
        let bias = bias.as_ref().map_or(0.0, |bias| bias[channel]);
        plane.iter_mut().for_each(|x| *x = (*x - mean[channel]) * factor + bias);
    }
    let empty = || Tensor::wide(vec![0], Vec::new());
    frame.set_list(vec![Tensor::wide(x.dims().to_vec(), items), empty(), empty()])
}
