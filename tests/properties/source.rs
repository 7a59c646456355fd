//! Inputs that reach an operator through a view.

use etvk_reference::Arg;
use etvk_tests::{Draw, Fill};
use etvk_vkgraph::{DType, GraphBuilder, ValueId};

/// An input of which an operator sees all, a permutation, or all but the first of some dimension: kernels read
/// their operands where they are.
pub(crate) struct Source {
    dtype: DType,
    fill: Fill,
    /// Position in the input of each dimension that the operator sees.
    order: Option<Vec<usize>>,
    /// The dimension of the input of which the first is cut off.
    cut: Option<usize>,
}

impl Source {
    /// Adds the input, and the calls that give the tensor of bounds `dims` the operator sees.
    pub(crate) fn new(
        draw: &mut Draw<'_>,
        graph: &mut GraphBuilder,
        dtype: DType,
        dims: &[u32],
        fill: Fill,
    ) -> (Self, ValueId) {
        let rank = dims.len();
        let order = (rank > 1 && draw.once_in(3)).then(|| {
            let mut rest: Vec<usize> = (0..rank).collect();
            (0..rank).map(|_| rest.remove(draw.below(rest.len()))).collect()
        });
        let cut = (rank > 0 && draw.once_in(4)).then(|| draw.below(rank));
        let source = Self { dtype, fill, order, cut };
        let full = source.input_dims(dims);
        let mut id = graph.input(dtype, &full);
        if let Some(dim) = source.cut {
            let mut left = full;
            left[dim] -= 1;
            let args = [number(dim), 1, i64::MAX, 1].map(|number| graph.int(number));
            let out = graph.tensor(dtype, &left);
            graph.call("aten.slice_copy.Tensor", &[id, args[0], args[1], args[2], args[3], out]);
            id = out;
        }
        if let Some(order) = &source.order {
            let numbers: Vec<i64> = order.iter().map(|&dim| number(dim)).collect();
            let (list, out) = (graph.int_list(&numbers), graph.tensor(dtype, dims));
            graph.call("aten.permute_copy.default", &[id, list, out]);
            id = out;
        }
        (source, id)
    }

    fn input_dims(&self, dims: &[u32]) -> Vec<u32> {
        let mut own = dims.to_vec();
        for (to, &from) in self.order.iter().flatten().enumerate() {
            own[from] = dims[to];
        }
        if let Some(dim) = self.cut {
            own[dim] += 1;
        }
        own
    }

    /// Random elements where the operator is to see sizes `dims`.
    pub(crate) fn arg(&self, draw: &mut Draw<'_>, dims: &[u32]) -> Arg {
        Arg::Tensor(draw.tensor(self.dtype, &self.input_dims(dims), self.fill))
    }
}

fn number(dim: usize) -> i64 {
    i64::try_from(dim).unwrap_or(i64::MAX)
}
