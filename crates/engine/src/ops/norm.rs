//! Normalisation of rows.

use etvk_kernels::map::MapOp;
use etvk_kernels::norm::{self, NormOp};
use etvk_kernels::residual::RowNorm;
use etvk_kernels::{Dims, Strided};
use etvk_vkgraph::DType;

use super::call::{Call, Result as Lowered};
use super::{Kind, Op, OutSizes, map, repeat};
use crate::error::{Error, Fault};
use crate::host::{Shapes, shape_fault};
use crate::ir::{Index, Node, TensorId, View};
use crate::record::{Bind, Record};

/// Normalises the last dimension of x. Inputs: x, (weight), (bias). Outputs: result, (mean, rstd).
#[derive(Clone, Debug)]
pub struct Norm {
    pub(crate) op: NormOp,
    pub(crate) eps: f32,
    pub(crate) weight: bool,
    pub(crate) bias: bool,
    pub(crate) stats: bool,
}

impl Norm {
    fn operands(&self, node: &Node) -> (Option<TensorId>, Option<TensorId>) {
        let mut rest = node.inputs.iter().skip(1).copied();
        let weight = if self.weight { rest.next() } else { None };
        let bias = if self.bias { rest.next() } else { None };
        (weight, bias)
    }

    /// Records the normalisation of `x`'s rows.
    fn launch(&self, op: NormOp, node: &Node, x: &Strided, record: &mut Record<'_>) -> Result<(), Error> {
        let op = norm::Norm { op, eps: self.eps, weight: self.weight, bias: self.bias, stats: self.stats };
        let launch = norm::norm(&op, x, record.limits);
        let launch = launch.map_err(|unsupported| record.unsupported(node, &unsupported))?;
        let (weight, bias) = self.operands(node);
        let optional = |id: Option<TensorId>| id.map_or(Bind::Absent, Bind::Read);
        // Absent statistics are bound to the result: the module declares them writable.
        let output = |i: usize| Bind::Write(node.outputs[if i < node.outputs.len() { i } else { 0 }]);
        let binds = [
            Bind::Read(node.inputs[0]),
            optional(weight),
            optional(bias),
            output(0),
            output(1),
            output(2),
            Bind::Dynamic,
        ];
        record.launch(&launch, &binds)
    }
}

impl Kind for Norm {
    fn infer(&self, node: &Node, shapes: &Shapes<'_>) -> Result<OutSizes, Fault> {
        let x = shapes.sizes(node.inputs[0]);
        let Some((&row, leading)) = x.split_last() else {
            return Err(shape_fault("normalised tensor", &[1], x));
        };
        let (weight, bias) = self.operands(node);
        for operand in [weight, bias].into_iter().flatten() {
            let sizes = shapes.sizes(operand);
            if sizes.iter().product::<u32>() != row {
                return Err(shape_fault("weight of a normalisation", &[row], sizes));
            }
        }
        let sizes: Dims = x.iter().copied().collect();
        let stats: Dims = leading.iter().copied().collect();
        let all = [sizes, stats.clone(), stats];
        Ok(all.into_iter().take(if self.stats { 3 } else { 1 }).collect())
    }

    fn record(&self, node: &Node, record: &mut Record<'_>) -> Result<(), Error> {
        self.launch(self.op, node, record.layout(node.inputs[0]), record)
    }
}

/// Records the normalised rows of `x` \[x, out\] outside of a node of their own.
pub(crate) fn rows(
    norm: RowNorm,
    node: &Node,
    [x, out]: [TensorId; 2],
    weight: Option<TensorId>,
    record: &mut Record<'_>,
) -> Result<(), Error> {
    let op = Norm { op: NormOp::Rms, eps: norm.eps, weight: norm.weight, bias: false, stats: false };
    let inputs = [x].into_iter().chain(weight).collect();
    let rows = Node { op: Op::Norm(op.clone()), inputs, outputs: vec![out], call: node.call };
    op.launch(NormOp::Rms, &rows, record.layout(x), record)
}

/// Normalises the channels of each group together. Inputs: x \[N, C, …\] (contiguous), (weight), (bias), one a channel.
/// Outputs: result, (mean, rstd, one a group).
#[derive(Clone, Debug)]
pub struct GroupNorm {
    pub(crate) groups: u32,
    /// `op` is not used: the elements of a channel are known at every execution.
    pub(crate) norm: Norm,
}

impl Kind for GroupNorm {
    fn infer(&self, node: &Node, shapes: &Shapes<'_>) -> Result<OutSizes, Fault> {
        let x = shapes.sizes(node.inputs[0]);
        let &[batch, channels, ..] = x else { return Err(shape_fault("normalised tensor", &[1, 1], x)) };
        if !channels.is_multiple_of(self.groups) {
            return Err(shape_fault("channels in groups of a normalisation", &[self.groups], &[channels]));
        }
        let (weight, bias) = self.norm.operands(node);
        for operand in [weight, bias].into_iter().flatten() {
            let sizes = shapes.sizes(operand);
            if sizes.iter().product::<u32>() != channels {
                return Err(shape_fault("weight of a normalisation", &[channels], sizes));
            }
        }
        let stats = Dims::from_iter([batch, self.groups]);
        let all = [x.iter().copied().collect(), stats.clone(), stats];
        Ok(all.into_iter().take(node.outputs.len()).collect())
    }

    fn record(&self, node: &Node, record: &mut Record<'_>) -> Result<(), Error> {
        let from = record.layout(node.inputs[0]);
        let &[batch, channels, ref spatial @ ..] = from.sizes.as_slice() else { return Ok(()) };
        let area = spatial.iter().product::<u32>();
        let sizes = Dims::from_iter([batch * self.groups, channels / self.groups * area]);
        let strides = etvk_kernels::contiguous_strides(&sizes);
        let x = Strided { sizes, strides, ..from.clone() };
        let op = NormOp::Group { groups: self.groups, area };
        self.norm.launch(op, node, &x, record)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "device arithmetic is single precision")]
fn rms(call: &mut Call<'_, '_>, rows: TensorId, weight: usize, eps: f64) -> Lowered<TensorId> {
    let mut inputs = vec![normalisable(call, rows)];
    let weight = call.optional_tensor(weight)?;
    if let Some(weight) = weight {
        let weight = call.floats(weight);
        inputs.push(call.builder.dense(weight));
    }
    let op = Norm { op: NormOp::Rms, eps: eps as f32, weight: weight.is_some(), bias: false, stats: false };
    let bound = call.builder.program.tensor(rows).bound.clone();
    Ok(call.emit_inner(Op::Norm(op), inputs, DType::Float32, &bound))
}

/// Rows the kernel can address: strided ones of up to four independent dimensions.
fn normalisable(call: &mut Call<'_, '_>, x: TensorId) -> TensorId {
    if call.rank(x) > 4 { call.builder.contiguous(x) } else { x }
}

/// `et_vk.rms_norm.default [x, weight, eps, out]`
pub(super) fn rms_norm(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[4], "4")?;
    let eps = call.float(2)?;
    let x = call.float_tensor(0)?;
    let result = rms(call, x, 1, eps)?;
    call.bind(3, result)
}

/// `aten.rms_norm.default [x, normalized_shape, weight, eps, out]`; a Null eps is the machine epsilon of x's type.
pub(super) fn aten_rms_norm(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[5], "5")?;
    let machine = if call.info(0)?.dtype == DType::Float16 {
        f64::from(half::f16::EPSILON)
    } else {
        f64::from(f32::EPSILON)
    };
    let eps = call.optional_float(3)?.unwrap_or(machine);
    let x = call.float_tensor(0)?;
    let rows = flattened(call, x)?;
    let result = rms(call, rows, 2, eps)?;
    let result = if rows == x { result } else { restored(call, result, x)? };
    call.bind(4, result)
}

/// A result in x's sizes.
fn restored(call: &mut Call<'_, '_>, result: TensorId, x: TensorId) -> Lowered<TensorId> {
    let bound = call.builder.program.tensor(x).bound.to_vec();
    let sizes = repeat::sizes(call, x);
    call.builder.view(result, View::Reshape(sizes), &bound)
}

/// x with the dimensions that slot 1 says are normalised as one.
fn flattened(call: &mut Call<'_, '_>, x: TensorId) -> Lowered<TensorId> {
    let shape = call.ints(1)?;
    let bound = call.builder.program.tensor(x).bound.to_vec();
    let leading = bound.len().checked_sub(shape.len()).filter(|&leading| {
        !shape.is_empty() && shape.iter().zip(&bound[leading..]).all(|(&size, &most)| size == i64::from(most))
    });
    let Some(leading) = leading else {
        let found = format!("{shape:?}");
        return Err(Fault::Argument { slot: 1, what: "normalized_shape", expected: "x's last sizes", found });
    };
    if shape.len() == 1 {
        return Ok(x);
    }
    let overflow = || shape_fault("normalised tensor", &[], &bound);
    let row = etvk_kernels::numel(&bound[leading..]).ok_or_else(overflow)?;
    let mut sizes = repeat::sizes(call, x);
    sizes.truncate(leading);
    sizes.push(Index::Const(i64::from(row)));
    let rows = [&bound[..leading], &[row]].concat();
    call.builder.view(x, View::Reshape(sizes), &rows)
}

/// `aten.native_layer_norm.default [x, normalized_shape, weight, bias, eps, outs]`: result, mean, rstd.
pub(super) fn layer_norm(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[6], "6")?;
    let x = call.float_tensor(0)?;
    let rows = flattened(call, x)?;
    let mut inputs = vec![normalisable(call, rows)];
    let [weight, bias] = affine(call, [2, 3], &mut inputs)?;
    #[expect(clippy::cast_possible_truncation, reason = "device arithmetic is single precision")]
    let eps = call.float(4)? as f32;
    let bound = call.builder.program.tensor(rows).bound.to_vec();
    let Some((_, leading)) = bound.split_last() else {
        return Err(shape_fault("normalised tensor", &[1], &bound));
    };
    let infos = call.list_infos(5)?;
    // Unused statistics may be declared with dims [0].
    let rank = call.rank(x);
    let stats = infos.len() == 3 && infos[1..].iter().all(|info| info.dims.len() == rank);
    let op = Norm { op: NormOp::Layer, eps, weight, bias, stats };
    let row = (DType::Float32, leading);
    let outputs = [(DType::Float32, bound.as_slice()), row, row];
    let count = if stats { 3 } else { 1 };
    let mut results = call.builder.node_outputs(Op::Norm(op), inputs, &outputs[..count]);
    if rows != x {
        results[0] = restored(call, results[0], x)?;
    }
    // Statistics keep the normalised dimensions as ones.
    let mut sizes = repeat::sizes(call, rows);
    sizes.truncate(leading.len());
    sizes.resize(rank, Index::Const(1));
    for (result, info) in results.iter_mut().zip(&infos).skip(1) {
        *result = call.builder.view(*result, View::Reshape(sizes.clone()), &info.dims)?;
    }
    bind_first(call, 5, &results)
}

/// Weight and bias in two slots, dense, added to `inputs`; which of them are there.
fn affine(call: &mut Call<'_, '_>, slots: [usize; 2], inputs: &mut Vec<TensorId>) -> Lowered<[bool; 2]> {
    let mut present = [false; 2];
    for (slot, present) in slots.into_iter().zip(&mut present) {
        if let Some(operand) = call.optional_tensor(slot)? {
            let operand = call.floats(operand);
            inputs.push(call.builder.dense(operand));
            *present = true;
        }
    }
    Ok(present)
}

/// `aten.native_group_norm.default [x, weight, bias, N, C, HxW, group, eps, outs]`: result, mean, rstd.
pub(super) fn group_norm(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[9], "9")?;
    let x = call.float_tensor(0)?;
    let mut inputs = vec![call.builder.contiguous(x)];
    let [weight, bias] = affine(call, [1, 2], &mut inputs)?;
    let groups = super::linear_q::positive(call, 6, "group")?;
    #[expect(clippy::cast_possible_truncation, reason = "device arithmetic is single precision")]
    let eps = call.float(7)? as f32;
    let infos = call.list_infos(8)?;
    // Unused statistics may be declared with dims [0].
    let stats = infos.len() == 3 && infos[1..].iter().all(|info| info.dims.len() == 2);
    let op = Norm { op: NormOp::Layer, eps, weight, bias, stats };
    let outputs: Vec<(DType, &[u32])> = infos
        .iter()
        .take(if stats { 3 } else { 1 })
        .map(|info| (DType::Float32, info.dims.as_slice()))
        .collect();
    let op = Op::GroupNorm(GroupNorm { groups, norm: op });
    let results = call.builder.node_outputs(op, inputs, &outputs);
    bind_first(call, 8, &results)
}

/// Makes tensors the first items of the output list in `slot`; further items that are declared empty stay so.
pub(super) fn bind_first(call: &mut Call<'_, '_>, slot: usize, results: &[TensorId]) -> Lowered<()> {
    let mut all = results.to_vec();
    for info in call.list_infos(slot)?.into_iter().skip(results.len()) {
        let nothing = call.builder.literal(info.dtype, 0);
        let sizes = info.dims.iter().map(|&size| Index::Const(i64::from(size))).collect();
        all.push(call.builder.view(nothing, View::Expand(sizes), &info.dims)?);
    }
    call.bind_list(slot, &all)
}

/// `aten._native_batch_norm_legit_no_training.default
/// [x, weight, bias, running_mean, running_var, momentum, eps, outs]`: result and two empty tensors.
///
/// out = x · a + (bias − mean · a) with a = weight / √(var + eps), one of each a channel.
pub(super) fn batch_norm(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[8], "8")?;
    let x = call.float_tensor(0)?;
    let rank = call.rank(x);
    let (variance, mean) = (call.float_tensor(4)?, call.float_tensor(3)?);
    let eps = call.builder.literal(DType::Float32, map::word(call.float(6)?));
    let plus = [map::word(1.0), 0];
    let variance = map::inner(call, MapOp::AddF, plus, vec![variance, eps], DType::Float32)?;
    let mut factor = map::inner(call, MapOp::Rsqrt, [0; 2], vec![variance], DType::Float32)?;
    if let Some(weight) = call.optional_tensor(1)? {
        let weight = call.floats(weight);
        factor = map::inner(call, MapOp::MulF, plus, vec![factor, weight], DType::Float32)?;
    }
    let shift = map::inner(call, MapOp::MulF, plus, vec![mean, factor], DType::Float32)?;
    let shift = match call.optional_tensor(2)? {
        Some(bias) => {
            let bias = call.floats(bias);
            map::inner(call, MapOp::SubF, plus, vec![bias, shift], DType::Float32)?
        }
        None => map::inner(call, MapOp::NegF, [0; 2], vec![shift], DType::Float32)?,
    };
    let (factor, shift) = (per_channel(call, factor, rank)?, per_channel(call, shift, rank)?);
    let scaled = map::inner(call, MapOp::MulF, plus, vec![x, factor], DType::Float32)?;
    let result = map::inner(call, MapOp::AddF, plus, vec![scaled, shift], DType::Float32)?;
    bind_first(call, 7, &[result])
}

/// A vector as \[C, 1, …\], which broadcasts along the channels of a tensor of rank `rank`.
fn per_channel(call: &mut Call<'_, '_>, id: TensorId, rank: usize) -> Lowered<TensorId> {
    let mut bound: Vec<u32> = call.builder.program.tensor(id).bound.to_vec();
    if bound.len() != 1 || rank < 2 {
        return Err(shape_fault("statistics of a batch normalisation", &[1], &bound));
    }
    let mut sizes = vec![Index::Const(-1)];
    sizes.resize(rank - 1, Index::Const(1));
    bound.resize(rank - 1, 1);
    call.builder.view(id, View::Reshape(sizes), &bound)
}
