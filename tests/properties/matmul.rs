//! Products of float matrices.

use etvk_reference::Arg;
use etvk_tests::{Draw, Fill, Outcome, Tolerance, Twin, property, result};
use etvk_vkgraph::{DType, GraphBuilder, ValueId};

use crate::source::Source;

const NAMES: &[&str] = &["aten.addmm.default", "aten.bmm.default", "aten.linear.default", "aten.mm.default"];

/// Every operator these properties compare.
pub(crate) fn names() -> Vec<&'static str> {
    NAMES.to_vec()
}

/// Operands that are inputs, with the sizes of each in terms of (batch, M, K, N).
struct Product {
    graph: GraphBuilder,
    inputs: Vec<(Source, Vec<Axis>)>,
    /// Whether an axis may not change because a constant has it.
    fixed: [bool; 4],
    bound: [u32; 4],
    dtype: DType,
}

#[derive(Clone, Copy, PartialEq)]
enum Axis {
    Batch = 0,
    M = 1,
    K = 2,
    N = 3,
    /// Always 1.
    One,
}

use Axis::{Batch, K, M, N, One};

fn dims(axes: &[Axis], sizes: &[u32; 4]) -> Vec<u32> {
    axes.iter().map(|&axis| if axis == One { 1 } else { sizes[axis as usize] }).collect()
}

impl Product {
    fn new(draw: &mut Draw<'_>) -> Self {
        let bound = [
            draw.between(1, 4),
            draw.pick(&[1, 3, 2, 5, 8, 17, 33, 64, 65, 70]),
            draw.pick(&[5, 1, 3, 4, 8, 31, 32, 64, 100, 130, 257]),
            draw.pick(&[3, 1, 5, 4, 7, 16, 33, 64, 70, 130]),
        ];
        let dtype = draw.float();
        Self { graph: GraphBuilder::new(), inputs: Vec::new(), fixed: [false; 4], bound, dtype }
    }

    fn input(&mut self, draw: &mut Draw<'_>, axes: &[Axis]) -> ValueId {
        let bound = dims(axes, &self.bound);
        let (source, id) = Source::new(draw, &mut self.graph, self.dtype, &bound, Fill::UNIT);
        self.inputs.push((source, axes.to_vec()));
        id
    }

    /// A constant, in single or half precision.
    fn constant(&mut self, draw: &mut Draw<'_>, axes: &[Axis]) -> ValueId {
        for &axis in axes.iter().filter(|axis| **axis != One) {
            self.fixed[axis as usize] = true;
        }
        let (bound, dtype) = (dims(axes, &self.bound), draw.float());
        let bytes = draw.tensor(dtype, &bound, Fill::UNIT).to_le_bytes();
        self.graph.constant(dtype, &bound, bytes)
    }

    fn either(&mut self, draw: &mut Draw<'_>, axes: &[Axis]) -> ValueId {
        if draw.once_in(2) { self.constant(draw, axes) } else { self.input(draw, axes) }
    }

    fn run(mut self, draw: &mut Draw<'_>, name: &str, mut args: Vec<ValueId>, axes: &[Axis]) -> Outcome {
        let out = result(&mut self.graph, self.dtype, &dims(axes, &self.bound));
        args.push(out);
        self.graph.call(name, &args);
        self.graph.outputs(&[out]);
        let mut twin = Twin::new(&self.graph)?;
        for whole in [true, false, false] {
            let mut sizes = self.bound;
            for (size, fixed) in sizes.iter_mut().zip(self.fixed) {
                if !whole && !fixed {
                    *size = draw.shrunk_size(*size);
                }
            }
            let inputs: Vec<Arg> =
                self.inputs.iter().map(|(source, axes)| source.arg(draw, &dims(axes, &sizes))).collect();
            twin.run(&inputs, Tolerance::SINGLE)?;
        }
        Ok(())
    }
}

#[test]
fn products_of_two_matrices() -> anyhow::Result<()> {
    property(&["aten.mm.default"], 36, |draw| {
        let mut product = Product::new(draw);
        let args = vec![product.input(draw, &[M, K]), product.either(draw, &[K, N])];
        product.run(draw, "aten.mm.default", args, &[M, N])
    })?;
    property(&["aten.bmm.default"], 36, |draw| {
        let mut product = Product::new(draw);
        let args = vec![product.input(draw, &[Batch, M, K]), product.either(draw, &[Batch, K, N])];
        product.run(draw, "aten.bmm.default", args, &[Batch, M, N])
    })
}

#[test]
fn products_with_an_addend() -> anyhow::Result<()> {
    property(&["aten.addmm.default"], 36, |draw| {
        let mut product = Product::new(draw);
        let own: &[Axis] = draw.pick(&[&[N][..], &[M, N], &[One, N], &[M, One], &[]]);
        let args =
            vec![product.either(draw, own), product.input(draw, &[M, K]), product.either(draw, &[K, N])];
        let (beta, alpha) = (draw.pick(&[1.0, 0.5, 0.0, -2.0]), draw.pick(&[1.0, 0.25, 0.0]));
        let numbers = [product.graph.double(beta), product.graph.double(alpha)];
        let args = [args, numbers.to_vec()].concat();
        product.run(draw, "aten.addmm.default", args, &[M, N])
    })
}

#[test]
fn linear_layers() -> anyhow::Result<()> {
    property(&["aten.linear.default"], 48, |draw| {
        let mut product = Product::new(draw);
        let leading: &[Axis] = draw.pick(&[&[M][..], &[], &[Batch, M], &[One, M], &[Batch, One, M]]);
        let axes = |last: Axis| [leading, &[last]].concat();
        let args = vec![
            product.input(draw, &axes(K)),
            product.either(draw, &[N, K]),
            match draw.below(3) {
                0 => product.graph.null(),
                1 => product.constant(draw, &[N]),
                _ => product.input(draw, &[N]),
            },
        ];
        product.run(draw, "aten.linear.default", args, &axes(N))
    })
}
