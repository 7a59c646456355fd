//! Operands that broadcast together.

use etvk_reference::Arg;
use etvk_tests::{Draw, Fill, Outcome, Tolerance, Twin};
use etvk_vkgraph::{DType, GraphBuilder, ValueId};

/// Operands that broadcast together, at sizes that change from one execution to the next.
pub(crate) struct Broadcast {
    bound: Vec<u32>,
    /// Dimensions that stay at their bound, because a constant has them.
    fixed: Vec<bool>,
    /// Dimensions that some operand has.
    kept: Vec<bool>,
    /// Rank of the largest operand.
    rank: usize,
    inputs: Vec<Operand>,
}

struct Operand {
    dtype: DType,
    fill: Fill,
    /// For each of the last dimensions, whether the operand has it or is 1 there.
    keeps: Vec<bool>,
}

impl Operand {
    fn dims(&self, sizes: &[u32]) -> Vec<u32> {
        let own = &sizes[sizes.len() - self.keeps.len()..];
        own.iter().zip(&self.keeps).map(|(&size, &keep)| if keep { size } else { 1 }).collect()
    }
}

impl Broadcast {
    /// Bounds of up to five dimensions.
    pub(crate) fn new(draw: &mut Draw<'_>) -> Self {
        let bound = draw.dims(0, 5);
        let none = vec![false; bound.len()];
        Self { fixed: none.clone(), kept: none, rank: 0, inputs: Vec::new(), bound }
    }

    /// An operand of random broadcast, now and then a constant.
    pub(crate) fn operand(
        &mut self,
        draw: &mut Draw<'_>,
        graph: &mut GraphBuilder,
        dtype: DType,
        fill: Fill,
    ) -> ValueId {
        let rank = self.bound.len();
        let own =
            if draw.once_in(3) { draw.between(0, u32::try_from(rank).unwrap_or(0)) as usize } else { rank };
        let keeps = (0..own).map(|_| !draw.once_in(4)).collect();
        let constant = draw.once_in(4);
        self.add(draw, graph, Operand { dtype, fill, keeps }, constant)
    }

    /// An input of all dimensions.
    pub(crate) fn whole(
        &mut self,
        draw: &mut Draw<'_>,
        graph: &mut GraphBuilder,
        dtype: DType,
        fill: Fill,
    ) -> ValueId {
        let keeps = vec![true; self.bound.len()];
        self.add(draw, graph, Operand { dtype, fill, keeps }, false)
    }

    fn add(
        &mut self,
        draw: &mut Draw<'_>,
        graph: &mut GraphBuilder,
        operand: Operand,
        constant: bool,
    ) -> ValueId {
        let missing = self.bound.len() - operand.keeps.len();
        self.rank = self.rank.max(operand.keeps.len());
        for (dim, _) in operand.keeps.iter().enumerate().filter(|(_, keep)| **keep) {
            self.kept[missing + dim] = true;
            self.fixed[missing + dim] |= constant;
        }
        let dims = operand.dims(&self.bound);
        if constant {
            let bytes = draw.tensor(operand.dtype, &dims, operand.fill).to_le_bytes();
            return graph.constant(operand.dtype, &dims, bytes);
        }
        let (dtype, input) = (operand.dtype, &dims);
        self.inputs.push(operand);
        graph.input(dtype, input)
    }

    /// Bounds of the result.
    pub(crate) fn result(&self) -> Vec<u32> {
        let all = self.bound.iter().zip(&self.kept).map(|(&size, &kept)| if kept { size } else { 1 });
        all.skip(self.bound.len() - self.rank).collect()
    }

    /// Inputs of the next execution.
    fn inputs(&self, draw: &mut Draw<'_>, whole: bool) -> Vec<Arg> {
        let mut sizes = if whole { self.bound.clone() } else { draw.shrunk(&self.bound) };
        for (dim, size) in sizes.iter_mut().enumerate() {
            if self.fixed[dim] {
                *size = self.bound[dim];
            }
        }
        let tensor =
            |o: &Operand, draw: &mut Draw<'_>| Arg::Tensor(draw.tensor(o.dtype, &o.dims(&sizes), o.fill));
        self.inputs.iter().map(|operand| tensor(operand, draw)).collect()
    }

    /// Executes at the bounds, then at smaller sizes.
    pub(crate) fn run(&self, draw: &mut Draw<'_>, graph: &GraphBuilder, tolerance: Tolerance) -> Outcome {
        let mut twin = Twin::new(graph)?;
        for whole in [true, false, false] {
            twin.run(&self.inputs(draw, whole), tolerance)?;
        }
        Ok(())
    }
}
