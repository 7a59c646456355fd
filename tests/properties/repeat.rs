//! Repetition, padding, windows and pieces of a tensor.

use etvk_reference::Arg;
use etvk_tests::{Draw, Fill, Outcome, Tolerance, Twin, property, result};
use etvk_vkgraph::{DType, GraphBuilder, ValueId};

use crate::source::Source;

const NAMES: &[&str] = &[
    "aten.constant_pad_nd.default",
    "aten.copy.default",
    "aten.repeat.default",
    "aten.repeat_interleave.self_int",
    "aten.split.Tensor",
    "aten.unfold_copy.default",
];

/// Every operator these properties compare.
pub(crate) fn names() -> Vec<&'static str> {
    [NAMES, &["aten.arange.start_step"]].concat()
}

const WHOLE: Fill = Fill::Grid { low: -60.0, high: 60.0, step: 1.0 };

/// One operator on one tensor.
struct One {
    graph: GraphBuilder,
    dtype: DType,
    bound: Vec<u32>,
    source: Source,
    x: ValueId,
}

impl One {
    fn new(draw: &mut Draw<'_>, ranks: (u32, u32)) -> Self {
        let (mut graph, bound) = (GraphBuilder::new(), draw.dims(ranks.0, ranks.1));
        let dtype = draw.pick(&[DType::Float32, DType::Int32, DType::Float16, DType::Bool, DType::Int8]);
        let (source, x) = Source::new(draw, &mut graph, dtype, &bound, WHOLE);
        Self { graph, dtype, bound, source, x }
    }

    fn output(&mut self, dims: &[u32]) -> ValueId {
        result(&mut self.graph, self.dtype, dims)
    }

    /// A dimension as an argument: from the front or from the back.
    fn dim(&mut self, draw: &mut Draw<'_>, dim: usize) -> ValueId {
        let rank = int(self.bound.len());
        let number = int(dim) - if draw.once_in(2) { rank } else { 0 };
        self.graph.int(number)
    }

    /// Executes at the bounds, then at smaller sizes of which none is below that in `least`.
    fn run(&self, draw: &mut Draw<'_>, least: &[u32]) -> Outcome {
        let mut twin = Twin::new(&self.graph)?;
        for whole in [true, false, false] {
            let mut sizes = if whole { self.bound.clone() } else { draw.shrunk(&self.bound) };
            sizes.iter_mut().zip(least).for_each(|(size, &least)| *size = (*size).max(least));
            let input = self.source.arg(draw, &sizes);
            twin.run(&[input], Tolerance::EXACT)?;
        }
        Ok(())
    }
}

fn int(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

#[test]
fn tiles() -> anyhow::Result<()> {
    property(&["aten.repeat.default"], 24, |draw| {
        let mut one = One::new(draw, (0, 3));
        let added = draw.below(3);
        let counts: Vec<u32> = (0..added + one.bound.len()).map(|_| draw.pick(&[1, 2, 3, 1, 0])).collect();
        let own = [vec![1; added], one.bound.clone()].concat();
        let dims: Vec<u32> = own.iter().zip(&counts).map(|(&size, &count)| size * count).collect();
        let list: Vec<i64> = counts.iter().map(|&count| i64::from(count)).collect();
        let (list, out) = (one.graph.int_list(&list), one.output(&dims));
        one.graph.call("aten.repeat.default", &[one.x, list, out]);
        one.graph.outputs(&[out]);
        one.run(draw, &[])
    })
}

#[test]
fn elements_several_times() -> anyhow::Result<()> {
    let name = "aten.repeat_interleave.self_int";
    property(&[name], 24, |draw| {
        let mut one = One::new(draw, (0, 4));
        let count = draw.pick(&[2, 1, 3, 5, 0]);
        let (mut dims, dim) = (one.bound.clone(), draw.below(one.bound.len().max(1)));
        let dim = if one.bound.is_empty() || draw.once_in(3) {
            dims = vec![one.bound.iter().product::<u32>() * count];
            one.graph.null()
        } else {
            dims[dim] *= count;
            one.dim(draw, dim)
        };
        let (count, null, out) = (one.graph.int(i64::from(count)), one.graph.null(), one.output(&dims));
        one.graph.call(name, &[one.x, count, dim, null, out]);
        one.graph.outputs(&[out]);
        one.run(draw, &[])
    })
}

#[test]
fn windows() -> anyhow::Result<()> {
    let name = "aten.unfold_copy.default";
    property(&[name], 24, |draw| {
        let mut one = One::new(draw, (1, 4));
        let dim = draw.below(one.bound.len());
        if one.bound[dim] == 0 {
            return Ok(());
        }
        let (size, step) = (draw.between(1, one.bound[dim]), draw.between(1, 4));
        let mut dims = one.bound.clone();
        dims[dim] = (one.bound[dim] - size) / step + 1;
        dims.push(size);
        let mut least = vec![0; one.bound.len()];
        least[dim] = size;
        let (number, out) = (one.dim(draw, dim), one.output(&dims));
        let numbers = [one.graph.int(i64::from(size)), one.graph.int(i64::from(step))];
        one.graph.call(name, &[one.x, number, numbers[0], numbers[1], out]);
        one.graph.outputs(&[out]);
        one.run(draw, &least)
    })
}

#[test]
fn pieces() -> anyhow::Result<()> {
    let name = "aten.split.Tensor";
    property(&[name], 16, |draw| {
        let mut one = One::new(draw, (1, 4));
        let dim = draw.below(one.bound.len());
        let total = one.bound[dim];
        if total == 0 {
            return Ok(());
        }
        let piece = draw.between(1, total);
        let mut outs = Vec::new();
        for start in (0..total).step_by(piece as usize) {
            let mut dims = one.bound.clone();
            dims[dim] = piece.min(total - start);
            let out = one.output(&dims);
            outs.push(out);
        }
        let (size, number) = (one.graph.int(i64::from(piece)), one.dim(draw, dim));
        let list = one.graph.value_list(&outs);
        one.graph.call(name, &[one.x, size, number, list]);
        one.graph.outputs(&outs);
        // The number of pieces is part of the graph.
        let mut least = vec![0; one.bound.len()];
        least[dim] = total;
        one.run(draw, &least)
    })
}

#[test]
fn borders() -> anyhow::Result<()> {
    let name = "aten.constant_pad_nd.default";
    property(&[name], 32, |draw| {
        let mut one = One::new(draw, (1, 5));
        let (mut dims, mut list) = (one.bound.clone(), Vec::new());
        let mut least = vec![0; dims.len()];
        for dim in (0..dims.len()).rev().take(draw.below(5)) {
            let pads = [(); 2].map(|()| i64::from(draw.pick(&[1_i8, 0, 3, -1, -2])));
            let (size, sum) = (i64::from(dims[dim]), pads[0] + pads[1]);
            let pads = if size + sum < 0 { [0, 1] } else { pads };
            dims[dim] = u32::try_from(size + pads[0] + pads[1]).unwrap_or(0);
            least[dim] = u32::try_from(-(pads[0] + pads[1])).unwrap_or(0);
            list.extend(pads);
        }
        let value = match one.dtype {
            DType::Bool => one.graph.bool(draw.once_in(2)),
            dtype if dtype.is_float() => one.graph.double(draw.pick(&[0.0, -1.5, f64::INFINITY])),
            _ => one.graph.int(draw.pick(&[0, -7, 100])),
        };
        let (list, out) = (one.graph.int_list(&list), one.output(&dims));
        one.graph.call(name, &[one.x, list, value, out]);
        one.graph.outputs(&[out]);
        one.run(draw, &least)
    })
}

#[test]
fn copies_in_the_sizes_of_another() -> anyhow::Result<()> {
    let name = "aten.copy.default";
    property(&[name], 12, |draw| {
        let mut one = One::new(draw, (1, 4));
        let dtype = draw.pick(&[DType::Float32, DType::Int32]);
        let source = draw.tensor(dtype, &[1], WHOLE).to_le_bytes();
        let source = one.graph.constant(dtype, &[1], source);
        let no = one.graph.bool(false);
        let dims = one.bound.clone();
        let out = one.output(&dims);
        one.graph.call(name, &[one.x, source, no, out]);
        one.graph.outputs(&[out]);
        one.run(draw, &[])
    })
}

#[test]
fn ranges() -> anyhow::Result<()> {
    let name = "aten.arange.start_step";
    property(&[name], 24, |draw| {
        let mut graph = GraphBuilder::new();
        let symbolic = draw.once_in(2);
        let step = draw.pick(&[1.0, 2.0, -1.0, -3.0, 0.5, 7.0]);
        let most = 40;
        let (start, end) = if symbolic {
            (graph.sym_int_input(), graph.sym_int_input())
        } else {
            let start = f64::from(draw.between(0, 20)) - 10.0;
            let end = start + f64::from(draw.between(0, most)) * step;
            (graph.double(start), graph.double(end))
        };
        let dtype = if draw.once_in(2) { DType::Float32 } else { DType::Int32 };
        let step_id = graph.double(step);
        let nulls: Vec<ValueId> = (0..4).map(|_| graph.null()).collect();
        let out = graph.tensor(dtype, &[200]);
        graph.call(name, &[&[start, end, step_id], &nulls[..], &[out]].concat());
        graph.outputs(&[out]);
        let mut twin = Twin::new(&graph)?;
        for _ in 0..3 {
            let mut inputs = Vec::new();
            if symbolic {
                let start = i64::from(draw.between(0, 40)) - 20;
                let length = i64::from(draw.between(0, most));
                inputs.push(Arg::Int(start));
                inputs.push(Arg::Int(if step > 0.0 { start + length } else { start - length }));
            }
            twin.run(&inputs, Tolerance::EXACT)?;
        }
        Ok(())
    })
}
