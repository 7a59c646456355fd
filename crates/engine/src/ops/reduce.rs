//! Reductions over dimensions.

use etvk_kernels::reduce::{self, ReduceOp};
use etvk_kernels::{Dims, MAX_RANK};
use etvk_vkgraph::DType;

use super::call::{Call, Result as Lowered};
use super::{Kind, Op, OutSizes, one};
use crate::error::{Error, Fault};
use crate::host::Shapes;
use crate::ir::{Elem, Index, Node, SymDef, View};
use crate::record::{Bind, Record};

/// Reduction of x over `dims`, which disappear. Input: x.
#[derive(Clone, Debug)]
pub struct Reduce {
    pub(crate) op: ReduceOp,
    pub(crate) dims: Vec<usize>,
    /// Subtracted from the count by a variance.
    pub(crate) correction: f32,
}

impl Kind for Reduce {
    fn infer(&self, node: &Node, shapes: &Shapes<'_>) -> Result<OutSizes, Fault> {
        let kept = shapes.sizes(node.inputs[0]).iter().enumerate().filter(|(d, _)| !self.dims.contains(d));
        Ok(one(kept.map(|(_, &size)| size).collect()))
    }

    fn record(&self, node: &Node, record: &mut Record<'_>) -> Result<(), Error> {
        let x = record.layout(node.inputs[0]);
        let launch = reduce::reduce(self.op, x, |d| self.dims.contains(&d), self.correction, record.limits);
        let launch = launch.map_err(|unsupported| record.unsupported(node, &unsupported))?;
        record.launch(&launch, &[Bind::Read(node.inputs[0]), Bind::Write(node.outputs[0]), Bind::Dynamic])
    }
}

/// A reduction over `dims`.
pub(super) fn node(op: ReduceOp, dims: Vec<usize>) -> Op {
    Op::Reduce(Reduce { op, dims, correction: 0.0 })
}

/// Reduces `self` over `dims` (all of them when empty) and binds the result in the last slot, with the reduced
/// dimensions as ones where `keepdim` asks for it.
fn emit(
    call: &mut Call<'_, '_>,
    op: ReduceOp,
    mut x: crate::ir::TensorId,
    mut dims: Vec<usize>,
    keepdim: bool,
    correction: f32,
) -> Lowered<()> {
    let out = call.last();
    let rank = call.rank(x);
    if dims.is_empty() {
        dims = (0..rank).collect();
    }
    if rank > 4 {
        x = call.builder.contiguous(x);
    }
    let bound = call.builder.program.tensor(x).bound.clone();
    let kept: Dims = (0..rank).filter(|d| !dims.contains(d)).map(|d| bound[d]).collect();
    let info = call.info(out)?;
    let integer = matches!(
        op,
        ReduceOp::SumI | ReduceOp::AmaxI | ReduceOp::AminI | ReduceOp::ProdI | ReduceOp::Any | ReduceOp::All
    ) || matches!(
        op,
        ReduceOp::ArgmaxF | ReduceOp::ArgminF | ReduceOp::ArgmaxI | ReduceOp::ArgminI
    );
    let dtype = if integer { DType::Int32 } else { DType::Float32 };
    let node = Op::Reduce(Reduce { op, dims: dims.clone(), correction });
    let reduced = call.emit_inner(node, vec![x], dtype, &kept);
    if !keepdim {
        return call.bind(out, reduced);
    }
    if info.dims.len() > MAX_RANK || info.dims.len() != rank {
        return Err(crate::host::shape_fault("rank of a reduction", &bound, &info.dims));
    }
    let size = |dim: usize| SymDef::Size { tensor: x, dim: i64::try_from(dim).unwrap_or(0) };
    let sizes = (0..rank)
        .map(|d| if dims.contains(&d) { Index::Const(1) } else { Index::Sym(call.builder.sym(size(d))) })
        .collect();
    call.emit_view(reduced, View::Reshape(sizes), out)
}

/// `[self, dims, keepdim, dtype, out]`: sum and mean; integers are summed exactly.
pub(super) fn sum_like(call: &mut Call<'_, '_>, ops: Forms) -> Lowered<()> {
    call.arity(&[5], "5")?;
    let x = call.tensor(0)?;
    let dims = optional_dims(call, 1, x)?;
    let keepdim = call.optional_bool(2)?.unwrap_or(false);
    let float = call.elem(x) == Elem::F32 || Elem::of(call.info(4)?.dtype) == Elem::F32;
    let x = if float { call.floats(x) } else { x };
    emit(call, if float { ops.float } else { ops.int }, x, dims, keepdim, 0.0)
}

/// `[self, dims, keepdim, out]`: amax, amin, any.
pub(super) fn extremum(call: &mut Call<'_, '_>, ops: Forms) -> Lowered<()> {
    call.arity(&[4], "4")?;
    let x = call.tensor(0)?;
    let dims = optional_dims(call, 1, x)?;
    let keepdim = call.optional_bool(2)?.unwrap_or(false);
    let op = if call.elem(x) == Elem::F32 { ops.float } else { ops.int };
    emit(call, op, x, dims, keepdim, 0.0)
}

/// `[self, dim, keepdim, out]`: argmax, argmin; a Null dim flattens.
pub(super) fn arg_extremum(call: &mut Call<'_, '_>, ops: Forms) -> Lowered<()> {
    call.arity(&[4], "4")?;
    let x = call.tensor(0)?;
    let dims = if call.is_null(1) { Vec::new() } else { vec![call.dim(1, call.rank(x))?] };
    let keepdim = call.optional_bool(2)?.unwrap_or(false);
    let op = if call.elem(x) == Elem::F32 { ops.float } else { ops.int };
    emit(call, op, x, dims, keepdim, 0.0)
}

/// `aten.var.dim [self, dims, unbiased, keepdim, out]`
pub(super) fn var(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[5], "5")?;
    let x = call.float_tensor(0)?;
    let dims = optional_dims(call, 1, x)?;
    let correction = if call.optional_bool(2)?.unwrap_or(true) { 1.0 } else { 0.0 };
    let keepdim = call.optional_bool(3)?.unwrap_or(false);
    emit(call, ReduceOp::VarF, x, dims, keepdim, correction)
}

/// The float and integer forms of a reduction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Forms {
    /// For float tensors.
    pub(crate) float: ReduceOp,
    /// For integer ones.
    pub(crate) int: ReduceOp,
}

fn optional_dims(call: &mut Call<'_, '_>, slot: usize, x: crate::ir::TensorId) -> Lowered<Vec<usize>> {
    let rank = call.rank(x);
    if call.is_null(slot) || rank == 0 { Ok(Vec::new()) } else { call.dims(slot, rank) }
}
