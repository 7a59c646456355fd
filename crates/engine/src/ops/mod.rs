//! Operators: one file a family, each with its lowering, its shape function and its recording.

mod attention_weights;
mod call;
mod conv;
pub(crate) mod copy;
mod fill;
mod fused;
mod gather;
mod grid_priors;
pub(crate) mod heads;
pub(crate) mod linear_q;
pub(crate) mod map;
mod matmul;
mod nibbles;
pub(crate) mod norm;
mod pad;
mod pixel_shuffle;
mod pool;
mod qparams;
mod quantize;
pub(crate) mod reduce;
mod release;
mod repeat;
mod resample;
pub(crate) mod residual;
pub(crate) mod rope;
pub(crate) mod sdpa;
mod softmax;
mod symbolic;
mod table;
mod training;
mod view;

use arrayvec::ArrayVec;
use etvk_kernels::Dims;

use crate::error::{Error, Fault};
use crate::host::Shapes;
use crate::ir::{Node, SymId, WeightId};
use crate::record::Record;

pub(crate) use call::{Call, Result as LowerResult};
pub(crate) use copy::{copy_op, state_write};
pub(crate) use map::cast;
pub use release::Release;
pub(crate) use table::find;
pub use table::{OPERATORS, Operator};

/// Sizes of a node's outputs, in order.
pub(crate) type OutSizes = ArrayVec<Dims, 5>;

/// What every node kind can do.
pub(crate) trait Kind {
    /// Sizes of the outputs for the current sizes of the inputs; checks that operands fit each other.
    fn infer(&self, node: &Node, shapes: &Shapes<'_>) -> Result<OutSizes, Fault>;

    /// The symbolic integers that [`Kind::infer`], [`Kind::dynamic_word`] or the kernels read.
    fn syms(&self) -> Vec<SymId> {
        Vec::new()
    }

    /// The constants that the kernels read in their packed form.
    fn weights(&self) -> Vec<WeightId> {
        Vec::new()
    }

    /// A word of the dynamic buffer that this node computes for its kernel, and its new value.
    fn dynamic_word(&self, _node: &Node, _shapes: &Shapes<'_>) -> Result<Option<(u32, i32)>, Fault> {
        Ok(None)
    }

    /// Records the dispatches for the current layouts.
    fn record(&self, node: &Node, record: &mut Record<'_>) -> Result<(), Error>;
}

/// The node kinds.
#[derive(Clone, Debug)]
pub enum Op {
    /// Numbers at equal distances.
    Arange(fill::Arange),
    /// Convolution.
    Conv(conv::Conv),
    /// Materialised strided reading.
    Copy(copy::Copy),
    /// Concatenation along one dimension.
    Cat(copy::Cat),
    /// Rows of a 4-bit table.
    EmbeddingQ4(gather::EmbeddingQ4),
    /// Rows or elements picked by an index.
    Gather(gather::Gather),
    /// Centres of a detection grid.
    GridPriors(grid_priors::GridPriors),
    /// Normalised, rotated rows of heads.
    Heads(heads::Heads),
    /// Normalised groups of channels.
    GroupNorm(norm::GroupNorm),
    /// Product with a quantised weight.
    LinearQ(linear_q::LinearQ),
    /// Element-wise function of up to three tensors.
    Map(map::Map),
    /// Float matrix product.
    MatMul(matmul::MatMul),
    /// Normalised rows.
    Norm(norm::Norm),
    /// A tensor inside a larger one.
    Pad(pad::Pad),
    /// Windows of planes.
    Pool(pool::Pool),
    /// Quantisation parameters of rows.
    Qparams(qparams::Qparams),
    /// Reduction over dimensions.
    Reduce(reduce::Reduce),
    /// Planes read between their elements.
    Resample(resample::Resample),
    /// A residual stream joined by a branch.
    Residual(residual::Residual),
    /// Rotary position embedding.
    Rope(rope::Rope),
    /// Attention.
    Sdpa(sdpa::Sdpa),
    /// Softmax along a dimension.
    Softmax(softmax::Softmax),
    /// Rows written into a state.
    StateWrite(copy::StateWrite),
}

impl Op {
    pub(crate) fn kind(&self) -> &dyn Kind {
        match self {
            Op::Arange(op) => op,
            Op::Conv(op) => op,
            Op::Copy(op) => op,
            Op::Cat(op) => op,
            Op::EmbeddingQ4(op) => op,
            Op::Gather(op) => op,
            Op::GridPriors(op) => op,
            Op::Heads(op) => op,
            Op::GroupNorm(op) => op,
            Op::LinearQ(op) => op,
            Op::Map(op) => op,
            Op::MatMul(op) => op,
            Op::Norm(op) => op,
            Op::Pad(op) => op,
            Op::Pool(op) => op,
            Op::Qparams(op) => op,
            Op::Reduce(op) => op,
            Op::Resample(op) => op,
            Op::Residual(op) => op,
            Op::Rope(op) => op,
            Op::Sdpa(op) => op,
            Op::Softmax(op) => op,
            Op::StateWrite(op) => op,
        }
    }
}

/// The sizes of a single output.
pub(crate) fn one(sizes: Dims) -> OutSizes {
    OutSizes::from_iter([sizes])
}

/// Right-aligned broadcasting of several operands (PyTorch's rule).
pub(crate) fn broadcast(operands: &[&[u32]]) -> Result<Dims, Fault> {
    let rank = operands.iter().map(|o| o.len()).max().unwrap_or(0);
    let mut out: Dims = std::iter::repeat_n(1, rank).collect();
    for operand in operands {
        let offset = rank - operand.len();
        for (dim, &size) in operand.iter().enumerate() {
            let slot = &mut out[offset + dim];
            match (*slot, size) {
                (have, size) if have == size || size == 1 => {}
                (1, size) => *slot = size,
                _ => return Err(crate::host::shape_fault("broadcast operands", operands[0], operand)),
            }
        }
    }
    Ok(out)
}
