//! Tensors inside larger ones of one value.

use etvk_kernels::fill::{self, Filling};
use etvk_kernels::{Dims, Strided};
use etvk_vkgraph::DType;

use super::call::{Call, Result as Lowered};
use super::{Kind, Op, OutSizes, map, one};
use crate::error::{Error, Fault};
use crate::host::{Shapes, shape_fault};
use crate::ir::{Elem, Index, Node, SymId, TensorId};
use crate::record::{Bind, Record};

/// x with `low` elements of `value` before and `high` behind it, in its last dimensions; negative counts crop.
/// Input: x.
#[derive(Clone, Debug)]
pub struct Pad {
    /// (low, high) of each dimension, outermost first. The low count is recorded, so it never changes.
    pub(crate) pads: Vec<(i64, Index)>,
    /// What surrounds x, as a device word.
    pub(crate) value: u32,
}

impl Kind for Pad {
    fn infer(&self, node: &Node, shapes: &Shapes<'_>) -> Result<OutSizes, Fault> {
        let x = shapes.sizes(node.inputs[0]);
        let mut out = Dims::new();
        for (&size, &(low, high)) in x.iter().zip(&self.pads) {
            let padded = low.checked_add(shapes.index(high));
            let padded = padded.and_then(|pads| pads.checked_add(i64::from(size)));
            match padded.and_then(|size| u32::try_from(size).ok()) {
                Some(size) => out.push(size),
                None => return Err(shape_fault("padded sizes", x, &out)),
            }
        }
        Ok(one(out))
    }

    fn syms(&self) -> Vec<SymId> {
        self.pads.iter().filter_map(|(_, high)| high.sym()).collect()
    }

    fn record(&self, node: &Node, record: &mut Record<'_>) -> Result<(), Error> {
        let mut from = record.layout(node.inputs[0]).clone();
        let whole = record.layout(node.outputs[0]).clone();
        let launch = fill::fill(Filling::Word(self.value), &whole, record.limits);
        let launch = launch.map_err(|unsupported| record.unsupported(node, &unsupported))?;
        record.launch(&launch, &[Bind::Write(node.outputs[0]), Bind::Dynamic])?;
        let mut to = whole;
        for (dim, &(low, _)) in self.pads.iter().enumerate() {
            overlap(dim, low, &mut from, &mut to);
        }
        if from.sizes.contains(&0) {
            return Ok(());
        }
        record.copy(node.inputs[0], &from, node.outputs[0], &to)
    }
}

/// Cuts both sides to what they share when element 0 of `from` is element `low` of `to`.
fn overlap(dim: usize, low: i64, from: &mut Strided, to: &mut Strided) {
    let (x, out) = (i64::from(from.sizes[dim]), i64::from(to.sizes[dim]));
    let first = (-low).clamp(0, x);
    let end = (out - low).clamp(first, x);
    let size = u32::try_from(end - first).unwrap_or(0);
    // A stride may be negative, so the sum is signed; both ends lie inside the tensors.
    let moved = |offset: u32, by: i64, stride: i32| {
        u32::try_from(i64::from(offset) + by * i64::from(stride)).unwrap_or(0)
    };
    if size > 0 {
        from.offset = moved(from.offset, first, from.strides[dim]);
        to.offset = moved(to.offset, first + low, to.strides[dim]);
    }
    from.sizes[dim] = size;
    to.sizes[dim] = size;
}

/// Emits a padding of `x` whose result stays inside the lowering.
pub(super) fn inner(
    call: &mut Call<'_, '_>,
    x: TensorId,
    pads: Vec<(i64, Index)>,
    value: u32,
    bound: &[u32],
) -> TensorId {
    let dtype = call.builder.program.tensor(x).dtype;
    call.emit_inner(Op::Pad(Pad { pads, value }), vec![x], dtype, bound)
}

/// `aten.constant_pad_nd.default [self, pad, value, out]`: (low, high) pairs from the last dimension on.
pub(super) fn constant(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[4], "4")?;
    let (x, list) = (call.tensor(0)?, call.indices(1)?);
    let rank = call.rank(x);
    let (pairs, rest) = list.as_chunks::<2>();
    if !rest.is_empty() || pairs.len() > rank {
        let (what, expected, found) = ("pad", "a pair for some of the dimensions", list.len().to_string());
        return Err(Fault::Argument { slot: 1, what, expected, found });
    }
    let mut pads = vec![(0, Index::Const(0)); rank];
    for (pad, &[low, high]) in pads.iter_mut().rev().zip(pairs) {
        let Index::Const(low) = low else {
            return Err(Fault::Kind { slot: 1, expected: "literal counts in front", found: "SymInt" });
        };
        *pad = (low, high);
    }
    let info = call.info(3)?;
    let value = if call.is_null(2) { 0.0 } else { call.float(2)? };
    let word = match (Elem::of(info.dtype), info.dtype) {
        (Elem::F32, _) => map::word(value),
        (Elem::I32, DType::Bool) => u32::from(value != 0.0),
        #[expect(clippy::cast_possible_truncation, reason = "float to integer saturates, as a value should")]
        (Elem::I32, _) => (value as i32).cast_unsigned(),
    };
    let x = call.builder.convert(x, info.dtype);
    call.emit(Op::Pad(Pad { pads, value: word }), vec![x], 3)
}
