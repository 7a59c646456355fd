//! Pooling over windows of a plane.

use crate::Fault;
use crate::conv::pair;
use crate::frame::Frame;
use crate::tensor::{Tensor, collect, count};

/// How the window moves; height first.
struct Window {
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
    ceil: bool,
}

impl Window {
    /// Kernel, stride and padding in slots 1 to 3; an empty stride is the kernel.
    fn read(frame: &Frame<'_>, dilation: [usize; 2], ceil: usize) -> Result<Self, Fault> {
        let kernel = pair(frame, 1, None)?;
        let stride = if frame.sizes(2)?.is_empty() { kernel } else { pair(frame, 2, None)? };
        let padding = pair(frame, 3, None)?;
        for (slot, pair) in [(1, kernel), (2, stride), (4, dilation)] {
            if pair.contains(&0) {
                return Err(Fault::Value { slot, expected: "positive numbers", found: format!("{pair:?}") });
            }
        }
        Ok(Self { kernel, stride, padding, dilation, ceil: frame.truth(ceil)? })
    }

    /// Output size along an axis.
    fn output(&self, axis: usize, input: usize) -> Option<usize> {
        let (stride, padding) = (self.stride[axis], self.padding[axis]);
        let reach = self.dilation[axis].checked_mul(self.kernel[axis] - 1)?.checked_add(1)?;
        let room = input.checked_add(padding.checked_mul(2)?)?.checked_sub(reach)?;
        if !self.ceil {
            return Some(room / stride + 1);
        }
        let steps = room.div_ceil(stride);
        // A last window that starts beyond the input and its padding does not count.
        Some(if steps.checked_mul(stride)? >= input + padding { steps } else { steps + 1 })
    }

    /// Sizes of the output of `x [..,H,W]`.
    fn outputs(&self, x: &Tensor) -> Result<Vec<usize>, Fault> {
        let mut dims = x.dims().to_vec();
        let [.., height, width] = dims.as_mut_slice() else {
            return Err(Fault::Rank { slot: 0, expected: 4, found: x.rank() });
        };
        match (self.output(0, *height), self.output(1, *width)) {
            (Some(rows), Some(columns)) => (*height, *width) = (rows, columns),
            _ => {
                let found = format!("{:?}", x.dims());
                return Err(Fault::Value { slot: 0, expected: "sizes that the window fits", found });
            }
        }
        count(&dims)?;
        Ok(dims)
    }

    /// Positions inside the input that a window covers along an axis.
    fn inside(&self, axis: usize, at: usize, input: usize) -> impl Iterator<Item = usize> + Clone + use<> {
        let (start, padding, dilation) = (at * self.stride[axis], self.padding[axis], self.dilation[axis]);
        (0..self.kernel[axis])
            .filter_map(move |tap| (start + tap * dilation).checked_sub(padding))
            .filter(move |&position| position < input)
    }

    /// Length of a window along an axis, clipped to the padded input.
    fn padded(&self, axis: usize, at: usize, input: usize) -> usize {
        let start = at * self.stride[axis];
        (start + self.kernel[axis]).min(input + 2 * self.padding[axis]).saturating_sub(start)
    }
}

/// The plane, of sizes `dims`, that an output coordinate belongs to: its first element, and its height and width.
fn plane(at: &[usize], dims: &[usize]) -> (usize, usize, usize) {
    let split = dims.len() - 2;
    let (height, width) = (dims[split], dims[split + 1]);
    (crate::tensor::flat(&at[..split], &dims[..split]) * height * width, height, width)
}

/// `avg_pool2d(x, kernel, stride, padding, ceil_mode, count_include_pad, divisor?)`.
pub(crate) fn average(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let window = Window::read(frame, [1, 1], 4)?;
    let include_padding = frame.truth(5)?;
    let divisor = frame.optional_float(6)?;
    let dims = window.outputs(&x)?;
    let values = x.floats();
    let items = collect(&dims, |at| {
        let (first, height, width) = plane(at, x.dims());
        let &[.., row, column] = at else { return Ok(0.0) };
        let (mut sum, mut real) = (0.0, 0_usize);
        for y in window.inside(0, row, height) {
            for z in window.inside(1, column, width) {
                sum += values[first + y * width + z];
                real += 1;
            }
        }
        let padded = window.padded(0, row, height) * window.padded(1, column, width);
        let default = if include_padding { padded } else { real };
        Ok(if real == 0 { 0.0 } else { sum / divisor.unwrap_or(default as f64) })
    })?;
    frame.set(Tensor::wide(dims, items))
}

/// `max_pool2d(x, kernel, stride, padding, dilation, ceil_mode)`, with the places of the largest in the plane.
pub(crate) fn maximum(frame: &mut Frame<'_>, with_indices: bool) -> Result<(), Fault> {
    let x = frame.tensor(0)?;
    let window = Window::read(frame, pair(frame, 4, None)?, 5)?;
    let dims = window.outputs(&x)?;
    let values = x.floats();
    let found = collect(&dims, |at| {
        let (first, height, width) = plane(at, x.dims());
        let &[.., row, column] = at else { return Ok((0.0, 0)) };
        let mut best: Option<(f64, usize)> = None;
        for y in window.inside(0, row, height) {
            for z in window.inside(1, column, width) {
                let place = y * width + z;
                let value = values[first + place];
                if best.is_none_or(|(best, _)| value > best || value.is_nan()) {
                    best = Some((value, place));
                }
            }
        }
        Ok(best.unwrap_or((f64::NEG_INFINITY, 0)))
    })?;
    let largest = Tensor::wide(dims.clone(), found.iter().map(|&(value, _)| value).collect());
    if !with_indices {
        return frame.set(largest);
    }
    let places = found.iter().map(|&(_, place)| i64::try_from(place).unwrap_or(i64::MAX)).collect();
    frame.set_list(vec![largest, Tensor::whole(dims, places)])
}
