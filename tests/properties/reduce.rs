//! Reductions.

use etvk_tests::{Draw, Fill, Outcome, Tolerance, Twin, property, result};
use etvk_vkgraph::{DType, GraphBuilder};

use crate::source::Source;

const FLOAT: &[&str] = &["aten.mean.dim", "aten.sum.dim_IntList", "aten.var.dim"];
const EXTREMA: &[&str] = &["aten.amax.default", "aten.amin.default"];
const POSITIONS: &[&str] = &["aten.argmax.default", "aten.argmin.default"];

/// Every operator these properties compare.
pub(crate) fn names() -> Vec<&'static str> {
    [FLOAT, EXTREMA, POSITIONS].concat()
}

/// Sizes, the dimensions that are reduced, and whether they stay as ones.
struct Shape {
    bound: Vec<u32>,
    reduced: Vec<usize>,
    keep: bool,
}

impl Shape {
    fn new(draw: &mut Draw<'_>, most: usize) -> Self {
        let mut bound = draw.dims(0, 5);
        let mut reduced: Vec<usize> =
            (0..bound.len()).filter(|_| draw.once_in(2)).take(most.min(bound.len())).collect();
        if reduced.is_empty() && !bound.is_empty() {
            reduced.push(draw.below(bound.len()));
        }
        // Long rows take another kernel than short ones.
        if let [only] = reduced[..]
            && bound.len() <= 3
            && draw.once_in(3)
        {
            bound[only] = draw.between(30, 300);
        }
        Self { bound, reduced, keep: draw.once_in(2) }
    }

    fn result(&self) -> Vec<u32> {
        let dims = self.bound.iter().enumerate();
        if self.keep {
            return dims.map(|(dim, &size)| if self.reduced.contains(&dim) { 1 } else { size }).collect();
        }
        dims.filter(|(dim, _)| !self.reduced.contains(dim)).map(|(_, &size)| size).collect()
    }

    /// Sizes at most the bounds, with at least `low` to reduce.
    fn shrunk(&self, draw: &mut Draw<'_>, low: u32) -> Vec<u32> {
        let mut sizes = draw.shrunk(&self.bound);
        for &dim in &self.reduced {
            sizes[dim] = sizes[dim].max(low.min(self.bound[dim]));
        }
        sizes
    }
}

fn reduction(draw: &mut Draw<'_>, name: &str, dtypes: (DType, DType), fill: Fill, low: u32) -> Outcome {
    let position = POSITIONS.contains(&name);
    let mut shape = Shape::new(draw, if position { 1 } else { 5 });
    for &dim in &shape.reduced {
        shape.bound[dim] = shape.bound[dim].max(low);
    }
    let mut graph = GraphBuilder::new();
    let (source, x) = Source::new(draw, &mut graph, dtypes.0, &shape.bound, fill);
    let rank = i64::try_from(shape.bound.len()).unwrap_or(0);
    let numbers: Vec<i64> = shape
        .reduced
        .iter()
        .map(|&dim| i64::try_from(dim).unwrap_or(0) - if draw.once_in(2) { rank } else { 0 })
        .collect();
    let dims = match numbers[..] {
        [] if position => graph.null(),
        [dim] if position => graph.int(dim),
        _ => graph.int_list(&numbers),
    };
    let (keep, out) = (graph.bool(shape.keep), result(&mut graph, dtypes.1, &shape.result()));
    let mut args = vec![x, dims];
    match name {
        "aten.var.dim" => args.extend([graph.bool(draw.once_in(2)), keep]),
        "aten.sum.dim_IntList" | "aten.mean.dim" => args.extend([keep, graph.null()]),
        _ => args.push(keep),
    }
    args.push(out);
    graph.call(name, &args);
    graph.outputs(&[out]);
    let mut twin = Twin::new(&graph)?;
    let bound = shape.bound.clone();
    for sizes in [bound, shape.shrunk(draw, low), shape.shrunk(draw, low)] {
        let input = source.arg(draw, &sizes);
        twin.run(&[input], Tolerance::SINGLE)?;
    }
    Ok(())
}

const TIES: Fill = Fill::Grid { low: -9.0, high: 9.0, step: 1.0 };

#[test]
fn sums_means_and_variances() -> anyhow::Result<()> {
    for &name in FLOAT {
        property(&[name], 18, |draw| {
            let dtype = draw.float();
            reduction(draw, name, (dtype, dtype), Fill::Uniform { low: -1.0, high: 3.0 }, 0)
        })?;
    }
    property(&["aten.sum.dim_IntList"], 12, |draw| {
        let dtype = draw.pick(&[DType::Int32, DType::Bool, DType::Int8]);
        reduction(draw, "aten.sum.dim_IntList", (dtype, DType::Int32), TIES, 0)
    })
}

#[test]
fn extrema_and_their_positions() -> anyhow::Result<()> {
    for &name in EXTREMA {
        property(&[name], 18, |draw| {
            let dtype = draw.pick(&[DType::Float32, DType::Int32, DType::Float16, DType::UInt8]);
            let fill =
                if dtype == DType::UInt8 { Fill::Grid { low: 0.0, high: 250.0, step: 1.0 } } else { TIES };
            reduction(draw, name, (dtype, dtype), fill, 1)
        })?;
    }
    for &name in POSITIONS {
        property(&[name], 18, |draw| {
            let dtypes =
                (draw.pick(&[DType::Float32, DType::Int32]), draw.pick(&[DType::Int64, DType::Int32]));
            reduction(draw, name, dtypes, TIES, 1)
        })?;
    }
    Ok(())
}
