//! Resampling of planes: up-sampling and sampling by a grid.

use etvk_kernels::Dims;
use etvk_kernels::resample::{self, Grid, Outside, Sampling};
use etvk_vkgraph::Value;

use super::call::{Call, Result as Lowered};
use super::{Kind, Op, OutSizes, one};
use crate::error::{Error, Fault};
use crate::host::{Shapes, shape_fault};
use crate::ir::{Index, Node, SymId};
use crate::record::{Bind, Record};

/// x \[N, C, H, W\] read between its elements. Inputs: x (contiguous), (grid \[N, H, W, 2\], contiguous).
#[derive(Clone, Debug)]
pub struct Resample {
    pub(crate) rule: Rule,
}

/// Where outputs are read.
#[derive(Clone, Debug)]
pub(crate) enum Rule {
    /// At ⌊index · step⌋.
    Nearest(Target),
    /// Between elements.
    Bilinear {
        /// How many outputs there are.
        target: Target,
        /// Whether the outer elements' centres meet.
        align: bool,
    },
    /// Where input 1 says.
    Grid(Grid),
}

/// How many outputs there are along height and width.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// That many.
    Sizes([Index; 2]),
    /// Input sizes times these factors, rounded down.
    Factors([f64; 2]),
}

impl Target {
    fn output(&self, axis: usize, input: u32, shapes: &Shapes<'_>) -> Option<u32> {
        match self {
            Self::Sizes(sizes) => u32::try_from(shapes.index(sizes[axis])).ok(),
            #[expect(clippy::cast_possible_truncation, reason = "rounds down, and saturates out of range")]
            Self::Factors(factors) => u32::try_from((f64::from(input) * factors[axis]) as i64).ok(),
        }
    }

    /// Input elements for one of the output, in single precision.
    #[expect(clippy::cast_possible_truncation, reason = "device arithmetic is single precision")]
    fn step(&self, axis: usize, input: u32, output: u32) -> f32 {
        match self {
            Self::Sizes(_) => (f64::from(input) / f64::from(output.max(1))) as f32,
            Self::Factors(factors) => (1.0 / factors[axis]) as f32,
        }
    }
}

impl Kind for Resample {
    fn infer(&self, node: &Node, shapes: &Shapes<'_>) -> Result<OutSizes, Fault> {
        let x = shapes.sizes(node.inputs[0]);
        let &[batch, channels, height, width] = x else {
            return Err(shape_fault("rank of a resampled tensor", &[4], x));
        };
        let (rows, columns) = match &self.rule {
            Rule::Grid(_) => {
                let grid = shapes.sizes(node.inputs[1]);
                match *grid {
                    [n, rows, columns, 2] if n == batch => (rows, columns),
                    _ => return Err(shape_fault("grid of a sampler", &[batch, 0, 0, 2], grid)),
                }
            }
            Rule::Nearest(target) | Rule::Bilinear { target, .. } => {
                let sizes = (target.output(0, height, shapes), target.output(1, width, shapes));
                let (Some(rows), Some(columns)) = sizes else {
                    return Err(shape_fault("output of a resampling", &[], x));
                };
                (rows, columns)
            }
        };
        let elements = u64::from(rows) * u64::from(columns);
        if height.min(width) == 0 && elements > 0 {
            return Err(shape_fault("input of a resampling", &[batch, channels, 1, 1], x));
        }
        Ok(one(Dims::from_iter([batch, channels, rows, columns])))
    }

    fn syms(&self) -> Vec<SymId> {
        match &self.rule {
            Rule::Nearest(Target::Sizes(sizes)) | Rule::Bilinear { target: Target::Sizes(sizes), .. } => {
                sizes.iter().filter_map(|size| size.sym()).collect()
            }
            _ => Vec::new(),
        }
    }

    fn record(&self, node: &Node, record: &mut Record<'_>) -> Result<(), Error> {
        let (x, out) = (record.layout(node.inputs[0]), record.layout(node.outputs[0]));
        let (&[.., height, width], &[.., rows, columns]) = (x.sizes.as_slice(), out.sizes.as_slice()) else {
            return Ok(());
        };
        let steps = |target: &Target| [target.step(0, height, rows), target.step(1, width, columns)];
        let sampling = match &self.rule {
            Rule::Nearest(target) => Sampling::Nearest { step: steps(target) },
            Rule::Bilinear { target, align: false } => {
                Sampling::Bilinear { step: steps(target), align: false }
            }
            Rule::Bilinear { align: true, .. } => {
                Sampling::Bilinear { step: [aligned(height, rows), aligned(width, columns)], align: true }
            }
            Rule::Grid(grid) => Sampling::Grid(*grid),
        };
        let grid = node.inputs.get(1).map(|&id| record.layout(id));
        let op = resample::Resample { sampling, x, grid, output: [rows, columns] };
        let launch = resample::resample(&op, record.limits);
        let grid = node.inputs.get(1).map_or(Bind::Absent, |&id| Bind::Read(id));
        let binds = [Bind::Read(node.inputs[0]), grid, Bind::Write(node.outputs[0]), Bind::Dynamic];
        record.launch(&launch, &binds)
    }
}

/// Step at which the outer elements of input and output meet; a single output reads the first element.
#[expect(clippy::cast_possible_truncation, reason = "device arithmetic is single precision")]
fn aligned(input: u32, output: u32) -> f32 {
    if output <= 1 { 0.0 } else { (f64::from(input.saturating_sub(1)) / f64::from(output - 1)) as f32 }
}

/// Output sizes in slot `sizes`, or factors in slot `factors`.
fn target(call: &mut Call<'_, '_>, sizes: usize, factors: usize) -> Lowered<Target> {
    let two = |slot: usize, found: usize| Fault::Argument {
        slot,
        what: "output",
        expected: "two numbers",
        found: found.to_string(),
    };
    if !call.is_null(sizes) {
        let list = call.indices(sizes)?;
        let [rows, columns] = list[..] else { return Err(two(sizes, list.len())) };
        return Ok(Target::Sizes([rows, columns]));
    }
    let list = match call.value(factors)? {
        Value::DoubleList(list) => list.clone(),
        #[expect(clippy::cast_precision_loss, reason = "factors are small numbers")]
        Value::IntList(list) => list.iter().map(|&factor| factor as f64).collect(),
        _ => Vec::new(),
    };
    let [rows, columns] = list[..] else { return Err(two(factors, list.len())) };
    if rows > 0.0 && columns > 0.0 {
        return Ok(Target::Factors([rows, columns]));
    }
    let found = format!("{list:?}");
    Err(Fault::Argument { slot: factors, what: "scale_factors", expected: "positive numbers", found })
}

/// `aten.upsample_nearest2d.vec [x, output_size, scale_factors, out]`
pub(super) fn nearest(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[4], "4")?;
    let rule = Rule::Nearest(target(call, 1, 2)?);
    emit(call, rule)
}

/// `aten.upsample_bilinear2d.vec [x, output_size, align_corners, scale_factors, out]`
pub(super) fn bilinear(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[5], "5")?;
    let align = call.optional_bool(2)?.unwrap_or(false);
    let rule = Rule::Bilinear { target: target(call, 1, 3)?, align };
    emit(call, rule)
}

fn emit(call: &mut Call<'_, '_>, rule: Rule) -> Lowered<()> {
    let x = call.float_tensor(0)?;
    let x = call.builder.contiguous(x);
    call.emit(Op::Resample(Resample { rule }), vec![x], call.last())
}

/// `aten.grid_sampler_2d.default [x, grid, interpolation_mode, padding_mode, align_corners, out]`
pub(super) fn grid_sampler(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[6], "6")?;
    let choice = |slot: usize, what: &'static str, expected: &'static str, found: i64| Fault::Argument {
        slot,
        what,
        expected,
        found: found.to_string(),
    };
    let nearest = match call.int(2)? {
        0 => false,
        1 => true,
        other => return Err(choice(2, "interpolation_mode", "0 (bilinear) or 1 (nearest)", other)),
    };
    let outside = match call.int(3)? {
        0 => Outside::Zeros,
        1 => Outside::Border,
        2 => Outside::Reflection,
        other => return Err(choice(3, "padding_mode", "0 to 2", other)),
    };
    let grid = Grid { nearest, outside, align: call.optional_bool(4)?.unwrap_or(false) };
    let (x, points) = (call.float_tensor(0)?, call.float_tensor(1)?);
    let inputs = vec![call.builder.contiguous(x), call.builder.contiguous(points)];
    call.emit(Op::Resample(Resample { rule: Rule::Grid(grid) }), inputs, 5)
}
