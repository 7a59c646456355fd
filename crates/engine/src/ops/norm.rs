//! Normalisation of rows.

use etvk_kernels::Dims;
use etvk_kernels::norm::{self, NormOp};
use etvk_vkgraph::DType;

use super::call::{Call, Result as Lowered};
use super::{Kind, Op, OutSizes};
use crate::error::{Error, Fault};
use crate::host::{Shapes, shape_fault};
use crate::ir::{Node, TensorId};
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
        let op = norm::Norm {
            op: self.op,
            eps: self.eps,
            weight: self.weight,
            bias: self.bias,
            stats: self.stats,
        };
        let launch = norm::norm(&op, record.layout(node.inputs[0]), record.limits);
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

#[expect(clippy::cast_possible_truncation, reason = "device arithmetic is single precision")]
fn rms(call: &mut Call<'_, '_>, weight: usize, eps: f64) -> Lowered<()> {
    let x = call.float_tensor(0)?;
    let mut inputs = vec![normalisable(call, x)];
    let weight = call.optional_tensor(weight)?;
    if let Some(weight) = weight {
        let weight = call.floats(weight);
        inputs.push(call.builder.dense(weight));
    }
    let op = Norm { op: NormOp::Rms, eps: eps as f32, weight: weight.is_some(), bias: false, stats: false };
    call.emit(Op::Norm(op), inputs, call.last())
}

/// Rows the kernel can address: strided ones of up to four independent dimensions.
fn normalisable(call: &mut Call<'_, '_>, x: TensorId) -> TensorId {
    if call.rank(x) > 4 { call.builder.contiguous(x) } else { x }
}

/// `et_vk.rms_norm.default [x, weight, eps, out]`
pub(super) fn rms_norm(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[4], "4")?;
    let eps = call.float(2)?;
    rms(call, 1, eps)
}

/// `aten.rms_norm.default [x, normalized_shape, weight, eps, out]`; a Null eps is the machine epsilon of x's type.
pub(super) fn aten_rms_norm(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[5], "5")?;
    one_dimension(call)?;
    let machine = if call.info(0)?.dtype == DType::Float16 {
        f64::from(half::f16::EPSILON)
    } else {
        f64::from(f32::EPSILON)
    };
    let eps = call.optional_float(3)?.unwrap_or(machine);
    rms(call, 2, eps)
}

fn one_dimension(call: &mut Call<'_, '_>) -> Lowered<()> {
    let shape = call.ints(1)?;
    if shape.len() == 1 {
        return Ok(());
    }
    let found = format!("{shape:?}");
    Err(Fault::Argument { slot: 1, what: "normalized_shape", expected: "one dimension", found })
}

/// `aten.native_layer_norm.default [x, normalized_shape, weight, bias, eps, outs]`: result, mean, rstd.
pub(super) fn layer_norm(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[6], "6")?;
    one_dimension(call)?;
    let x = call.float_tensor(0)?;
    let mut inputs = vec![normalisable(call, x)];
    let mut present = [false; 2];
    for (slot, present) in [2, 3].into_iter().zip(&mut present) {
        if let Some(operand) = call.optional_tensor(slot)? {
            let operand = call.floats(operand);
            inputs.push(call.builder.dense(operand));
            *present = true;
        }
    }
    #[expect(clippy::cast_possible_truncation, reason = "device arithmetic is single precision")]
    let eps = call.float(4)? as f32;
    let bound = call.builder.program.tensor(x).bound.to_vec();
    let Some((_, leading)) = bound.split_last() else {
        return Err(shape_fault("normalised tensor", &[1], &bound));
    };
    let infos = call.list_infos(5)?;
    // Unused statistics may be declared with dims [0].
    let wanted = |i: usize| infos.get(i).is_some_and(|info| info.dims.len() == bound.len());
    let stats = wanted(1) && wanted(2);
    let op = Norm { op: NormOp::Layer, eps, weight: present[0], bias: present[1], stats };
    let row = [(DType::Float32, leading), (DType::Float32, leading)];
    let outputs = [(DType::Float32, bound.as_slice()), row[0], row[1]];
    let count = if stats { 3 } else { 1 };
    let results = call.builder.node_outputs(Op::Norm(op), inputs, &outputs[..count]);
    let value = |i: usize| match call.value(5) {
        Ok(etvk_vkgraph::Value::ValueList(items)) => items.get(i).copied(),
        _ => None,
    };
    let targets = [value(0), value(1), value(2)];
    for (i, &result) in results.iter().enumerate() {
        let (Some(target), Some(info)) = (targets[i], infos.get(i)) else { continue };
        // Statistics keep the normalised dimension as 1.
        let result = if i == 0 {
            result
        } else {
            let dim = leading.len();
            call.builder.view(result, crate::ir::View::Unsqueeze { dim }, &info.dims)?
        };
        call.builder.bind(target, info, result)?;
    }
    Ok(())
}
