//! Resampling of planes.

use crate::Fault;
use crate::frame::{self, Frame};
use crate::tensor::{Tensor, collect, flat, single, truncate};

/// Output size and input step of an axis.
#[derive(Clone, Copy, Debug)]
struct Axis {
    input: usize,
    output: usize,
    /// Input positions for one output position, in single precision.
    step: f64,
}

/// Both axes of `x [N,C,H,W]`, from output sizes or, where those are Null, scale factors.
fn axes(frame: &Frame<'_>, x: &Tensor, sizes: usize, factors: usize) -> Result<[Axis; 2], Fault> {
    let inputs = [x.dims()[2], x.dims()[3]];
    if inputs.contains(&0) {
        return Err(Fault::Length { slot: 0, expected: 1, found: 0 });
    }
    let axis =
        |axis: usize, output: usize, step: f64| Axis { input: inputs[axis], output, step: single(step) };
    if let Some(sizes) = frame.optional_ints(sizes)? {
        let &[rows, columns] = &sizes[..] else {
            return Err(Fault::Length { slot: 1, expected: 2, found: sizes.len() });
        };
        let sized = |index: usize, size| {
            let output = frame::size(1, size)?;
            Ok(axis(index, output, inputs[index] as f64 / output as f64))
        };
        return Ok([sized(0, rows)?, sized(1, columns)?]);
    }
    let found = frame.optional_floats(factors)?.unwrap_or_default();
    let &[rows, columns] = &found[..] else {
        return Err(Fault::Length { slot: factors, expected: 2, found: found.len() });
    };
    let scaled = |index: usize, factor: f64| {
        let output = usize::try_from(truncate(inputs[index] as f64 * factor)).unwrap_or(0);
        axis(index, output, 1.0 / factor)
    };
    Ok([scaled(0, rows), scaled(1, columns)])
}

/// `upsample_nearest2d(x, sizes?, factors?)`.
pub(crate) fn nearest(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.ranked(0, 4)?;
    let axes = axes(frame, &x, 1, 2)?;
    let dims = [x.dims()[0], x.dims()[1], axes[0].output, axes[1].output];
    let source = |axis: Axis, at: usize| {
        let position = truncate(single(at as f64 * axis.step));
        usize::try_from(position).unwrap_or(0).min(axis.input - 1)
    };
    let result = x.pick(&dims, |at| {
        Ok(flat(&[at[0], at[1], source(axes[0], at[2]), source(axes[1], at[3])], x.dims()))
    })?;
    frame.set(result)
}

/// `upsample_bilinear2d(x, sizes?, align_corners, factors?)`.
pub(crate) fn bilinear(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let x = frame.ranked(0, 4)?;
    let align = frame.truth(2)?;
    let axes = axes(frame, &x, 1, 3)?;
    let source = |axis: Axis, at: usize| match (align, axis.output) {
        (true, 1) => 0.0,
        (true, output) => at as f64 * ((axis.input - 1) as f64 / (output - 1) as f64),
        (false, _) => ((at as f64 + 0.5) * axis.step - 0.5).max(0.0),
    };
    let dims = vec![x.dims()[0], x.dims()[1], axes[0].output, axes[1].output];
    let plane = Plane::new(&x);
    let items = collect(&dims, |at| {
        Ok(plane.blend([at[0], at[1]], source(axes[0], at[2]), source(axes[1], at[3]), true))
    })?;
    frame.set(Tensor::wide(dims, items))
}

/// `[N,C,H,W]`, read between its elements.
struct Plane<'x> {
    dims: &'x [usize],
    values: std::borrow::Cow<'x, [f64]>,
}

impl<'x> Plane<'x> {
    fn new(x: &'x Tensor) -> Self {
        Self { dims: x.dims(), values: x.floats() }
    }

    /// The element of a plane; outside, 0 or the nearest one.
    fn at(&self, [n, c]: [usize; 2], y: i64, z: i64, clamp: bool) -> f64 {
        let inside = |position: i64, size: usize| {
            let last = i64::try_from(size).unwrap_or(i64::MAX) - 1;
            let position = if clamp { position.clamp(0, last) } else { position };
            usize::try_from(position).ok().filter(|&position| position < size)
        };
        match (inside(y, self.dims[2]), inside(z, self.dims[3])) {
            (Some(y), Some(z)) => self.values[flat(&[n, c, y, z], self.dims)],
            _ => 0.0,
        }
    }

    /// The four elements around a position, by their nearness.
    fn blend(&self, plane: [usize; 2], y: f64, z: f64, clamp: bool) -> f64 {
        let (top, left) = (truncate(y.floor()), truncate(z.floor()));
        let (down, right) = (y - y.floor(), z - z.floor());
        let at = |row: i64, column: i64| {
            self.at(plane, top.saturating_add(row), left.saturating_add(column), clamp)
        };
        (at(0, 0) * (1.0 - right) + at(0, 1) * right) * (1.0 - down)
            + (at(1, 0) * (1.0 - right) + at(1, 1) * right) * down
    }
}

/// `grid_sampler_2d(x [N,C,H,W], grid [N,Ho,Wo,2], mode, padding, align_corners)`; modes bilinear (0) and
/// nearest (1), paddings zeros (0), border (1) and reflection (2).
pub(crate) fn grid_sampler(frame: &mut Frame<'_>) -> Result<(), Fault> {
    let (x, grid) = (frame.ranked(0, 4)?, frame.ranked(1, 4)?);
    let [rows, columns] = [grid.dims()[1], grid.dims()[2]];
    frame.sized(1, &[x.dims()[0], rows, columns, 2])?;
    let (mode, padding, align) = (frame.int(2)?, frame.int(3)?, frame.truth(4)?);
    if !(0..=1).contains(&mode) || !(0..=2).contains(&padding) {
        let found = format!("mode {mode}, padding {padding}");
        return Err(Fault::Value { slot: 2, expected: "mode 0 or 1 and padding 0 to 2", found });
    }
    if x.dims()[2..].contains(&0) {
        return Err(Fault::Length { slot: 0, expected: 1, found: 0 });
    }
    let position = |value: f64, size: usize| {
        let last = size as f64 - 1.0;
        let at = if align { (value + 1.0) / 2.0 * last } else { ((value + 1.0) * size as f64 - 1.0) / 2.0 };
        let at = match padding {
            0 => return at,
            1 => at,
            _ if align => reflected(at, 0.0, last),
            _ => reflected(at, -0.5, last + 0.5),
        };
        // NaN becomes 0: the lower bound is taken first.
        at.max(0.0).min(last)
    };
    let (plane, points) = (Plane::new(&x), grid.floats());
    let dims = vec![x.dims()[0], x.dims()[1], rows, columns];
    let items = collect(&dims, |at| {
        let point = flat(&[at[0], at[2], at[3], 0], grid.dims());
        let z = position(points[point], x.dims()[3]);
        let y = position(points[point + 1], x.dims()[2]);
        Ok(match mode {
            0 => plane.blend([at[0], at[1]], y, z, padding != 0),
            _ => {
                let nearest = |at: f64| truncate(at.round_ties_even());
                plane.at([at[0], at[1]], nearest(y), nearest(z), padding != 0)
            }
        })
    })?;
    frame.set(Tensor::wide(dims, items))
}

/// A position reflected at two bounds until it is between them.
fn reflected(at: f64, low: f64, high: f64) -> f64 {
    let span = high - low;
    if span <= 0.0 {
        return low;
    }
    let offset = (at - low).abs() % (2.0 * span);
    low + if offset > span { 2.0 * span - offset } else { offset }
}
