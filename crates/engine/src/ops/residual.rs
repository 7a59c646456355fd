//! A residual stream joined by a branch.

use etvk_kernels::residual::{self, Residual as Kernel, RowNorm};

use super::{Kind, OutSizes};
use crate::error::{Error, Fault};
use crate::host::{Shapes, shape_fault};
use crate::ir::{Node, TensorId};
use crate::record::{Bind, Record};

/// h = clamp(base + norm(x)) · scale, and its normalised rows. Inputs: x, base, (weight of the branch), (scale), (weight
/// of the norm), all dense. Outputs: h, (norm(h)).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Residual {
    pub(crate) branch: Option<RowNorm>,
    pub(crate) clamp: Option<[f32; 2]>,
    pub(crate) scale: bool,
    pub(crate) norm: Option<RowNorm>,
}

/// The operands of a [`Residual`] that are there.
pub(crate) struct Operands {
    pub(crate) x: TensorId,
    pub(crate) base: TensorId,
    pub(crate) branch_weight: Option<TensorId>,
    pub(crate) scale: Option<TensorId>,
    pub(crate) norm_weight: Option<TensorId>,
}

impl Residual {
    pub(crate) fn operands(&self, inputs: &[TensorId]) -> Operands {
        let weight = |norm: Option<RowNorm>| norm.is_some_and(|norm| norm.weight);
        let mut rest = inputs.iter().skip(2).copied();
        let mut next = |present: bool| if present { rest.next() } else { None };
        Operands {
            x: inputs[0],
            base: inputs[1],
            branch_weight: next(weight(self.branch)),
            scale: next(self.scale),
            norm_weight: next(weight(self.norm)),
        }
    }

    /// Sizes of h, which are those of x and of the base.
    pub(crate) fn sizes<'a>(&self, inputs: &[TensorId], shapes: &Shapes<'a>) -> Result<&'a [u32], Fault> {
        let operands = self.operands(inputs);
        let (x, base) = (shapes.sizes(operands.x), shapes.sizes(operands.base));
        if x != base {
            return Err(shape_fault("sum with a residual stream", base, x));
        }
        let row = x.last().copied().unwrap_or(1);
        for (operand, wanted) in
            [(operands.branch_weight, row), (operands.norm_weight, row), (operands.scale, 1)]
        {
            let sizes = operand.map_or(&[][..], |id| shapes.sizes(id));
            if operand.is_some() && sizes.iter().product::<u32>() != wanted {
                return Err(shape_fault("weight of a normalisation", &[wanted], sizes));
            }
        }
        Ok(base)
    }

    /// Records the sum of `inputs`; `outputs` are h and, with a norm, its normalised rows.
    pub(crate) fn launch(
        &self,
        inputs: &[TensorId],
        outputs: &[TensorId],
        record: &mut Record<'_>,
    ) -> Result<(), Error> {
        let operands = self.operands(inputs);
        let sizes = &record.layout(operands.x).sizes;
        let width = sizes.last().copied().unwrap_or(1);
        let rows = sizes.iter().rev().skip(1).product();
        let &Self { branch, clamp, scale, norm } = self;
        let launch = residual::residual(&Kernel { rows, width, branch, clamp, scale, norm }, record.limits);
        let optional = |id: Option<TensorId>| id.map_or(Bind::Absent, Bind::Read);
        // An absent result is bound to h: the module declares it writable.
        let normalised = outputs.get(1).or(outputs.first()).copied().unwrap_or(operands.x);
        let binds = [
            Bind::Read(operands.x),
            Bind::Read(operands.base),
            optional(operands.branch_weight),
            optional(operands.scale),
            optional(operands.norm_weight),
            Bind::Write(outputs.first().copied().unwrap_or(operands.x)),
            Bind::Write(normalised),
        ];
        record.launch(&launch, &binds)
    }
}

impl Kind for Residual {
    fn infer(&self, node: &Node, shapes: &Shapes<'_>) -> Result<OutSizes, Fault> {
        let sizes = self.sizes(&node.inputs, shapes)?;
        Ok(node.outputs.iter().map(|_| sizes.iter().copied().collect()).collect())
    }

    fn record(&self, node: &Node, record: &mut Record<'_>) -> Result<(), Error> {
        self.launch(&node.inputs, &node.outputs, record)
    }
}
