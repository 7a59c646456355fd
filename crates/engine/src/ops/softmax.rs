//! Softmax and its logarithm along one dimension.

use etvk_kernels::softmax::{self, SoftmaxOp};

use super::call::{Call, Result as Lowered};
use super::{Kind, Op, OutSizes, one};
use crate::error::{Error, Fault};
use crate::host::Shapes;
use crate::ir::Node;
use crate::record::{Bind, Record};

/// op(x) along `dim`. Input: x.
#[derive(Clone, Debug)]
pub struct Softmax {
    pub(crate) op: SoftmaxOp,
    pub(crate) dim: usize,
}

impl Kind for Softmax {
    fn infer(&self, node: &Node, shapes: &Shapes<'_>) -> Result<OutSizes, Fault> {
        Ok(one(shapes.sizes(node.inputs[0]).iter().copied().collect()))
    }

    fn record(&self, node: &Node, record: &mut Record<'_>) -> Result<(), Error> {
        let launch = softmax::softmax(self.op, record.layout(node.inputs[0]), self.dim, record.limits);
        let launch = launch.map_err(|unsupported| record.unsupported(node, &unsupported))?;
        record.launch(&launch, &[Bind::Read(node.inputs[0]), Bind::Write(node.outputs[0]), Bind::Dynamic])
    }
}

/// `aten._softmax.default`, `aten._log_softmax.default [self, dim, half_to_float, out]`
pub(super) fn softmax(call: &mut Call<'_, '_>, op: SoftmaxOp) -> Lowered<()> {
    call.arity(&[4], "4")?;
    let x = call.float_tensor(0)?;
    let dim = call.dim(1, call.rank(x).max(1))?;
    call.emit(Op::Softmax(Softmax { op, dim }), vec![x], 3)
}
