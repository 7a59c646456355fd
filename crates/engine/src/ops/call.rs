//! Reading a call's arguments, and building the program while doing so.

use etvk_vkgraph::{DType, TensorInfo, Value, ValueId};

use crate::error::Fault;
use crate::host::normalise_dim;
use crate::ir::{Elem, Form, Index, SymDef, SymId, TensorId, View, WeightId};
use crate::lower::{Builder, Slot};
use crate::ops::Op;

/// Result of lowering one call.
pub(crate) type Result<T> = std::result::Result<T, Fault>;

/// One serialised call with the program under construction.
pub(crate) struct Call<'b, 'g> {
    pub(crate) builder: &'b mut Builder<'g>,
    pub(crate) args: &'g [ValueId],
}

impl<'g> Call<'_, 'g> {
    /// Checks the number of values, output included.
    pub(crate) fn arity(&self, counts: &[usize], expected: &'static str) -> Result<()> {
        if counts.contains(&self.args.len()) {
            return Ok(());
        }
        Err(Fault::Arity { expected, found: self.args.len() })
    }

    /// Slot of the (last) output.
    pub(crate) fn last(&self) -> usize {
        self.args.len().saturating_sub(1)
    }

    pub(crate) fn value(&self, slot: usize) -> Result<&'g Value> {
        let id = *self.args.get(slot).ok_or(Fault::Arity { expected: "more", found: self.args.len() })?;
        self.builder.graph.value(id).ok_or(Fault::Unwritten { slot, value: id.0 })
    }

    fn kind_fault(&self, slot: usize, expected: &'static str) -> Fault {
        let found = self.value(slot).map_or("nothing", Value::kind);
        Fault::Kind { slot, expected, found }
    }

    /// Whether the argument is absent.
    pub(crate) fn is_null(&self, slot: usize) -> bool {
        matches!(self.value(slot), Ok(Value::Null))
    }

    /// A tensor argument as words: a constant is realised, a symbolic integer read as a rank-0 tensor.
    pub(crate) fn tensor(&mut self, slot: usize) -> Result<TensorId> {
        let id = self.args.get(slot).copied();
        let id = id.ok_or(Fault::Arity { expected: "more", found: self.args.len() })?;
        self.tensor_value(slot, id)
    }

    /// A tensor argument as floats.
    pub(crate) fn float_tensor(&mut self, slot: usize) -> Result<TensorId> {
        let id = self.tensor(slot)?;
        Ok(self.floats(id))
    }

    /// A tensor as floats.
    pub(crate) fn floats(&mut self, id: TensorId) -> TensorId {
        self.builder.convert(id, DType::Float32)
    }

    /// A tensor argument that may be Null.
    pub(crate) fn optional_tensor(&mut self, slot: usize) -> Result<Option<TensorId>> {
        if self.is_null(slot) { Ok(None) } else { self.tensor(slot).map(Some) }
    }

    fn tensor_value(&mut self, slot: usize, id: ValueId) -> Result<TensorId> {
        match self.builder.graph.value(id) {
            Some(Value::Tensor(_)) => self.builder.read(id, slot),
            Some(Value::SymInt) => {
                let sym = self.sym_value(slot, id)?;
                Ok(self.builder.sym_tensor(sym))
            }
            _ => Err(self.kind_fault(slot, "a tensor")),
        }
    }

    /// The payload's description of a tensor argument.
    pub(crate) fn info(&self, slot: usize) -> Result<&'g TensorInfo> {
        match self.value(slot)? {
            Value::Tensor(info) => Ok(info),
            _ => Err(self.kind_fault(slot, "a tensor")),
        }
    }

    /// Tensors of a ValueList; Null entries are `None`.
    pub(crate) fn tensors(&mut self, slot: usize) -> Result<Vec<Option<TensorId>>> {
        let items: &'g [ValueId] = match self.value(slot)? {
            Value::ValueList(items) => items,
            Value::IntList(items) if items.is_empty() => &[],
            _ => return Err(self.kind_fault(slot, "a list of tensors")),
        };
        let read = |call: &mut Self, id: ValueId| match call.builder.graph.value(id) {
            Some(Value::Null) => Ok(None),
            _ => call.tensor_value(slot, id).map(Some),
        };
        items.iter().map(|&id| read(self, id)).collect()
    }

    /// The constant behind a tensor argument, if it is one that nothing mutates.
    pub(crate) fn constant(&self, slot: usize) -> Result<Option<&'g TensorInfo>> {
        let info = self.info(slot)?;
        let id = self.args[slot];
        let plain = info.constant.is_some() && !self.builder.is_state(id);
        Ok(plain.then_some(info))
    }

    /// A constant argument in a device form.
    pub(crate) fn weight(&mut self, slot: usize, form: Form) -> Result<WeightId> {
        match self.constant(slot)? {
            Some(info) => Ok(self.builder.weight(info, form)),
            None => Err(self.kind_fault(slot, "a constant")),
        }
    }

    /// A number, whatever its serialised kind.
    pub(crate) fn float(&self, slot: usize) -> Result<f64> {
        match self.value(slot)? {
            Value::Double(value) => Ok(*value),
            // 53 bits are enough for every number a payload carries as a float argument.
            Value::Int(value) => Ok(*value as f64),
            Value::Bool(value) => Ok(f64::from(u8::from(*value))),
            _ => Err(self.kind_fault(slot, "a number")),
        }
    }

    /// A number, or `None` for Null.
    pub(crate) fn optional_float(&self, slot: usize) -> Result<Option<f64>> {
        if self.is_null(slot) { Ok(None) } else { self.float(slot).map(Some) }
    }

    /// An integer, whatever its serialised kind; a fractional Double is refused.
    pub(crate) fn int(&self, slot: usize) -> Result<i64> {
        match self.value(slot)? {
            Value::Int(value) => Ok(*value),
            Value::Bool(value) => Ok(i64::from(*value)),
            Value::Double(value) => integral(*value).ok_or_else(|| Fault::Argument {
                slot,
                what: "integer",
                expected: "a whole number",
                found: value.to_string(),
            }),
            _ => Err(self.kind_fault(slot, "an integer")),
        }
    }

    /// A truth value, or `None` for Null.
    pub(crate) fn optional_bool(&self, slot: usize) -> Result<Option<bool>> {
        match self.value(slot)? {
            Value::Null => Ok(None),
            Value::Bool(value) => Ok(Some(*value)),
            Value::Int(value) => Ok(Some(*value != 0)),
            Value::Double(value) => Ok(Some(*value != 0.0)),
            _ => Err(self.kind_fault(slot, "a truth value")),
        }
    }

    /// Text.
    pub(crate) fn string(&self, slot: usize) -> Result<&'g str> {
        match self.value(slot)? {
            Value::String(text) => Ok(text),
            _ => Err(self.kind_fault(slot, "text")),
        }
    }

    /// An integer that may be symbolic.
    pub(crate) fn index(&mut self, slot: usize) -> Result<Index> {
        match self.value(slot)? {
            Value::SymInt => Ok(Index::Sym(self.sym_value(slot, self.args[slot])?)),
            _ => self.int(slot).map(Index::Const),
        }
    }

    /// An integer that may be symbolic or Null.
    pub(crate) fn optional_index(&mut self, slot: usize) -> Result<Option<Index>> {
        if self.is_null(slot) { Ok(None) } else { self.index(slot).map(Some) }
    }

    /// An integer as a symbolic one, literals included: for kernels that read it from the dynamic buffer.
    pub(crate) fn sym(&mut self, slot: usize) -> Result<SymId> {
        match self.index(slot)? {
            Index::Sym(sym) => Ok(sym),
            Index::Const(value) => Ok(self.builder.sym(SymDef::Const(value))),
        }
    }

    fn sym_value(&self, slot: usize, id: ValueId) -> Result<SymId> {
        match self.builder.slot(id) {
            Slot::Sym(sym) => Ok(sym),
            _ => Err(Fault::Unwritten { slot, value: id.0 }),
        }
    }

    /// A list of integers that may be symbolic (IntList, or ValueList of Int and SymInt).
    pub(crate) fn indices(&mut self, slot: usize) -> Result<Vec<Index>> {
        match self.value(slot)? {
            Value::IntList(items) => Ok(items.iter().map(|&i| Index::Const(i)).collect()),
            Value::ValueList(items) => items.iter().map(|&id| self.list_index(slot, id)).collect(),
            _ => Err(self.kind_fault(slot, "a list of integers")),
        }
    }

    fn list_index(&self, slot: usize, id: ValueId) -> Result<Index> {
        match self.builder.graph.value(id) {
            Some(Value::Int(value)) => Ok(Index::Const(*value)),
            Some(Value::SymInt) => self.sym_value(slot, id).map(Index::Sym),
            _ => Err(self.kind_fault(slot, "a list of integers")),
        }
    }

    /// A list of literal integers.
    pub(crate) fn ints(&mut self, slot: usize) -> Result<Vec<i64>> {
        let literal = |index| match index {
            Index::Const(value) => Ok(value),
            Index::Sym(_) => Err(Fault::Kind { slot, expected: "literal integers", found: "SymInt" }),
        };
        self.indices(slot)?.into_iter().map(literal).collect()
    }

    /// A dimension argument of a tensor of rank `rank`, negatives resolved.
    pub(crate) fn dim(&self, slot: usize, rank: usize) -> Result<usize> {
        normalise_dim(self.int(slot)?, rank)
    }

    /// A list of distinct dimensions of a tensor of rank `rank`, negatives resolved.
    pub(crate) fn dims(&mut self, slot: usize, rank: usize) -> Result<Vec<usize>> {
        let dims: Vec<usize> =
            self.ints(slot)?.into_iter().map(|d| normalise_dim(d, rank)).collect::<Result<_>>()?;
        let distinct = dims.iter().enumerate().all(|(i, d)| !dims[..i].contains(d));
        if distinct {
            return Ok(dims);
        }
        let found = format!("{dims:?}");
        Err(Fault::Argument { slot, what: "dims", expected: "distinct dimensions", found })
    }

    /// Rank of a lowered tensor.
    pub(crate) fn rank(&self, id: TensorId) -> usize {
        self.builder.program.tensor(id).bound.len()
    }

    /// Element kind of a lowered tensor.
    pub(crate) fn elem(&self, id: TensorId) -> Elem {
        self.builder.program.tensor(id).elem()
    }

    /// Adds a node with one output of the type and bound that the payload gives the value in `slot`, and
    /// makes it that value's tensor.
    pub(crate) fn emit(&mut self, op: Op, inputs: Vec<TensorId>, slot: usize) -> Result<()> {
        let info = self.info(slot)?;
        let id = self.builder.node(op, inputs, info.dtype, &info.dims);
        self.bind(slot, id)
    }

    /// Adds a node whose output stays inside the lowering.
    pub(crate) fn emit_inner(
        &mut self,
        op: Op,
        inputs: Vec<TensorId>,
        dtype: DType,
        bound: &[u32],
    ) -> TensorId {
        self.builder.node(op, inputs, dtype, bound)
    }

    /// Makes `id` the tensor of the value in `slot`, converted to that value's element kind.
    pub(crate) fn bind(&mut self, slot: usize, id: TensorId) -> Result<()> {
        let info = self.info(slot)?;
        self.builder.bind(self.args[slot], info, id)
    }

    /// Makes tensors the items of the output list in `slot`.
    pub(crate) fn bind_list(&mut self, slot: usize, ids: &[TensorId]) -> Result<()> {
        let Value::ValueList(items) = self.value(slot)? else {
            return Err(self.kind_fault(slot, "a list of outputs"));
        };
        if items.len() != ids.len() {
            return Err(Fault::Argument {
                slot,
                what: "number of outputs",
                expected: "one for each result",
                found: items.len().to_string(),
            });
        }
        for (&value, &id) in items.iter().zip(ids) {
            let Some(info) = self.builder.graph.tensor(value) else {
                return Err(self.kind_fault(slot, "a list of tensors"));
            };
            self.builder.bind(value, info, id)?;
        }
        Ok(())
    }

    /// The payload's description of the tensors in an output list.
    pub(crate) fn list_infos(&self, slot: usize) -> Result<Vec<&'g TensorInfo>> {
        let Value::ValueList(items) = self.value(slot)? else {
            return Err(self.kind_fault(slot, "a list of outputs"));
        };
        let info = |&id: &ValueId| self.builder.graph.tensor(id).ok_or(self.kind_fault(slot, "tensors"));
        items.iter().map(info).collect()
    }

    /// A view of `base` whose bound is what the payload declares for the value in `slot`, made its tensor.
    pub(crate) fn emit_view(&mut self, base: TensorId, view: View, slot: usize) -> Result<()> {
        let info = self.info(slot)?;
        let id = self.builder.view(base, view, &info.dims)?;
        self.bind(slot, id)
    }
}

fn integral(value: f64) -> Option<i64> {
    let whole = value.fract() == 0.0 && value.abs() < 9.0e15;
    #[expect(clippy::cast_possible_truncation, reason = "whole and far inside the range of i64")]
    whole.then_some(value as i64)
}
