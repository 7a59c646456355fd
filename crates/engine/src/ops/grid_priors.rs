//! Centres of a detection grid.

use etvk_kernels::{Dims, grid_priors};

use super::call::{Call, Result as Lowered};
use super::{Kind, Op, OutSizes, one};
use crate::error::{Error, Fault};
use crate::host::{Shapes, shape_fault};
use crate::ir::Node;
use crate::record::{Bind, Record};

/// Points of x's plane, column first: \[H · W, 2\]. Input: x \[…, H, W\], of which only the sizes count.
#[derive(Clone, Debug)]
pub struct GridPriors {
    pub(crate) stride: f32,
    pub(crate) offset: f32,
}

impl Kind for GridPriors {
    fn infer(&self, node: &Node, shapes: &Shapes<'_>) -> Result<OutSizes, Fault> {
        let x = shapes.sizes(node.inputs[0]);
        let misfit = || shape_fault("plane of a detection grid", &[1, 1], x);
        let &[.., height, width] = x else { return Err(misfit()) };
        let points = height.checked_mul(width).ok_or_else(misfit)?;
        Ok(one(Dims::from_iter([points, 2])))
    }

    fn record(&self, node: &Node, record: &mut Record<'_>) -> Result<(), Error> {
        let &[.., height, width] = record.layout(node.inputs[0]).sizes.as_slice() else { return Ok(()) };
        let launch = grid_priors::grid_priors(height, width, self.stride, self.offset, record.limits);
        record.launch(&launch, &[Bind::Write(node.outputs[0])])
    }
}

/// `et_vk.grid_priors.default [x, stride, offset, out]`
pub(super) fn priors(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[4], "4")?;
    let x = call.tensor(0)?;
    #[expect(clippy::cast_possible_truncation, reason = "device arithmetic is single precision")]
    let op = GridPriors { stride: call.float(1)? as f32, offset: call.float(2)? as f32 };
    call.emit(Op::GridPriors(op), vec![x], 3)
}
