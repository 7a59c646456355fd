//! Tensors made of numbers. A constant one is a literal read with stride zero and costs nothing.

use etvk_kernels::Dims;
use etvk_kernels::fill::{self, Filling};
use etvk_kernels::map::MapOp;
use etvk_vkgraph::{DType, Value};

use super::call::{Call, Result};
use super::{Kind, Op, OutSizes, map, one};
use crate::error::{Error, Fault};
use crate::host::Shapes;
use crate::ir::{Elem, Index, Node, SymDef, SymId, TensorId, View};
use crate::record::{Bind, Record};

/// A number known at load or an integer worked out at every execution.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    Const(f64),
    Sym(SymId),
}

/// i · step (+ start where that is a literal) for every i below ⌈(end − start) / step⌉. No inputs.
#[derive(Clone, Debug)]
pub struct Arange {
    pub(crate) start: Number,
    pub(crate) end: Number,
    pub(crate) step: f64,
    /// Whether the elements are ints.
    pub(crate) ints: bool,
}

impl Kind for Arange {
    fn infer(&self, _node: &Node, shapes: &Shapes<'_>) -> std::result::Result<OutSizes, Fault> {
        let number = |number| match number {
            Number::Const(number) => number,
            Number::Sym(sym) => shapes.sym(sym) as f64,
        };
        let length = ((number(self.end) - number(self.start)) / self.step).ceil().max(0.0);
        if length.is_nan() || length > f64::from(i32::MAX) {
            let (what, expected) = ("length of a range", format!("at most {}", i32::MAX));
            return Err(Fault::Shape { what, expected, found: length.to_string() });
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 2³¹")]
        Ok(one(Dims::from_iter([length as u32])))
    }

    fn syms(&self) -> Vec<SymId> {
        let symbolic = |number| if let Number::Sym(sym) = number { Some(sym) } else { None };
        [self.start, self.end].into_iter().filter_map(symbolic).collect()
    }

    #[expect(clippy::cast_possible_truncation, reason = "device arithmetic has 32 bits")]
    fn record(&self, node: &Node, record: &mut Record<'_>) -> std::result::Result<(), Error> {
        let start = if let Number::Const(start) = self.start { start } else { 0.0 };
        let filling = match self.ints {
            true => Filling::Ints { start: start as i64 as i32, step: self.step as i64 as i32 },
            false => Filling::Floats { start: start as f32, step: self.step as f32 },
        };
        let launch = fill::fill(filling, record.layout(node.outputs[0]), record.limits);
        let launch = launch.map_err(|unsupported| record.unsupported(node, &unsupported))?;
        record.launch(&launch, &[Bind::Write(node.outputs[0]), Bind::Dynamic])
    }
}

/// 0, 1, … below `end`, of which there are at most `bound`.
pub(super) fn counting(call: &mut Call<'_, '_>, end: Index, bound: u32) -> TensorId {
    let end = match end {
        Index::Const(end) => Number::Const(end as f64),
        Index::Sym(sym) => Number::Sym(sym),
    };
    let op = Arange { start: Number::Const(0.0), end, step: 1.0, ints: true };
    call.emit_inner(Op::Arange(op), Vec::new(), DType::Int32, &[bound])
}

/// `aten.arange.start_step [start, end, step, …, out]`
pub(super) fn arange(call: &mut Call<'_, '_>) -> Result<()> {
    let out = call.last();
    let number = |call: &mut Call<'_, '_>, slot: usize| match call.value(slot)? {
        Value::SymInt => call.sym(slot).map(Number::Sym),
        _ => call.float(slot).map(Number::Const),
    };
    let (start, end, step) = (number(call, 0)?, number(call, 1)?, call.float(2)?);
    if step == 0.0 || !step.is_finite() {
        let found = step.to_string();
        return Err(Fault::Argument { slot: 2, what: "step", expected: "a number that is not 0", found });
    }
    let whole = |number| if let Number::Const(number) = number { number.fract() == 0.0 } else { true };
    let info = call.info(out)?;
    let ints = Elem::of(info.dtype) == Elem::I32 && whole(start) && step.fract() == 0.0;
    let dtype = if ints { DType::Int32 } else { DType::Float32 };
    let op = Arange { start, end, step, ints };
    let mut range = call.emit_inner(Op::Arange(op), Vec::new(), dtype, &info.dims);
    if let Number::Sym(start) = start {
        let start = call.builder.sym_tensor(start);
        let start = call.builder.convert(start, dtype);
        let (op, one) = if ints { (MapOp::AddI, 1) } else { (MapOp::AddF, map::word(1.0)) };
        range = map::inner(call, op, [one, 0], vec![range, start], dtype)?;
    }
    call.bind(out, range)
}

fn literal(call: &mut Call<'_, '_>, value: f64, slot: usize) -> Result<TensorId> {
    let dtype = call.info(slot)?.dtype;
    #[expect(clippy::cast_possible_truncation, reason = "float to integer saturates, as a fill value should")]
    let word = match (Elem::of(dtype), dtype) {
        (Elem::F32, _) => map::word(value),
        (Elem::I32, DType::Bool) => u32::from(value != 0.0),
        (Elem::I32, _) => (value as i32).cast_unsigned(),
    };
    Ok(call.builder.literal(dtype, word))
}

/// `[size, value, …, out]`
pub(super) fn full(call: &mut Call<'_, '_>) -> Result<()> {
    let (sizes, value, out) = (call.indices(0)?, call.float(1)?, call.last());
    let scalar = literal(call, value, out)?;
    call.emit_view(scalar, View::Expand(sizes), out)
}

/// `[size, …, out]` of one value.
pub(super) fn filled(call: &mut Call<'_, '_>, value: f64) -> Result<()> {
    let (sizes, out) = (call.indices(0)?, call.last());
    let scalar = literal(call, value, out)?;
    call.emit_view(scalar, View::Expand(sizes), out)
}

/// `[self, value, …, out]`
pub(super) fn full_like(call: &mut Call<'_, '_>) -> Result<()> {
    let value = call.float(1)?;
    like(call, value)
}

/// `[self, …, out]` of one value.
pub(super) fn like(call: &mut Call<'_, '_>, value: f64) -> Result<()> {
    let (x, out) = (call.tensor(0)?, call.last());
    let rank = i64::try_from(call.rank(x)).unwrap_or(0);
    let size = |dim| SymDef::Size { tensor: x, dim };
    let sizes = (0..rank).map(|dim| Index::Sym(call.builder.sym(size(dim)))).collect();
    let scalar = literal(call, value, out)?;
    call.emit_view(scalar, View::Expand(sizes), out)
}

/// `aten.scalar_tensor.default [value, …, out]`
pub(super) fn scalar_tensor(call: &mut Call<'_, '_>) -> Result<()> {
    let (value, out) = (call.float(0)?, call.last());
    let scalar = literal(call, value, out)?;
    call.bind(out, scalar)
}
