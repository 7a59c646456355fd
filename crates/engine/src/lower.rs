//! From a checked graph to a [`Program`]: constants found, operators lowered, every fault collected.

use std::collections::HashMap;

use etvk_kernels::Dims;
use etvk_vkgraph::{ConstantId, DType, Graph, TensorInfo, Value, ValueId};

use crate::buffers::{self, Replaced, Surplus};
use crate::error::{CallFault, Error, Fault};
use crate::ir::{
    Content, Elem, Form, HostStep, Index, Node, Origin, Port, Program, State, SymDef, SymId, Tensor,
    TensorId, View, Weight, WeightId,
};
use crate::ops::{self, Call, Op};

/// The operator through which calls read constants.
pub(crate) const PREPACK: &str = "et_vk.prepack.default";

/// What a payload value is in the program so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// Nothing wrote it yet.
    Unset,
    /// A tensor.
    Tensor(TensorId),
    /// A symbolic integer.
    Sym(SymId),
    /// The call that should have written it could not be lowered; its users are not reported again.
    Poisoned,
}

/// A program under construction.
pub(crate) struct Builder<'g> {
    pub(crate) graph: &'g Graph,
    pub(crate) program: Program,
    slots: Vec<Slot>,
    states: HashMap<ValueId, ConstantId>,
    weights: HashMap<Weight, WeightId>,
    weight_tensors: HashMap<ConstantId, TensorId>,
    materialised: HashMap<TensorId, TensorId>,
    call: u32,
}

/// Lowers a graph without needing a device.
///
/// # Errors
/// [`Error::Unsupported`] with every call that cannot run, or [`Error::Output`].
pub fn lower(graph: &Graph) -> Result<Program, Error> {
    lower_with(graph, Surplus::Known(0))
}

/// As [`lower`], for calls that have no value for the first outputs, the new values of buffers.
///
/// # Errors
/// As [`lower`], and [`Error::Buffer`] for such an output whose buffer is not known.
pub fn lower_with(graph: &Graph, surplus: Surplus) -> Result<Program, Error> {
    let count = match surplus {
        Surplus::Known(count) => count,
        Surplus::Unknown => graph.outputs.len(),
    };
    let (replaced, unknown) = buffers::replaced(graph, count);
    if let (Surplus::Known(_), Some(error)) = (surplus, &unknown) {
        return Err(error.clone().into());
    }
    let mut builder = Builder::new(graph, &replaced);
    builder.ports_in();
    let mut faults = Vec::new();
    for (index, call) in graph.calls.iter().enumerate() {
        builder.call = u32::try_from(index).unwrap_or(u32::MAX);
        if let Err(fault) = builder.lower_call(&call.name, &call.args) {
            builder.poison(&call.args);
            faults.push(CallFault { call: builder.call, name: call.name.clone(), fault });
        }
    }
    if !faults.is_empty() {
        return Err(Error::Unsupported(faults));
    }
    builder.ports_out()?;
    builder.carry(&replaced)?;
    builder.program.not_carried = unknown;
    Ok(builder.finish())
}

impl<'g> Builder<'g> {
    fn new(graph: &'g Graph, replaced: &[Replaced]) -> Self {
        let program = Program {
            call_names: graph.calls.iter().map(|c| c.name.clone()).collect(),
            ..Program::default()
        };
        Self {
            graph,
            program,
            slots: vec![Slot::Unset; graph.values.len()],
            states: mutated_constants(graph, replaced),
            weights: HashMap::new(),
            weight_tensors: HashMap::new(),
            materialised: HashMap::new(),
            call: 0,
        }
    }

    fn ports_in(&mut self) {
        for (index, &id) in self.graph.inputs.iter().enumerate() {
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            let port = match self.graph.tensor(id) {
                Some(info) => {
                    let tensor = self.tensor(info.dtype, dims(&info.dims), Origin::Input(index));
                    self.slots[id.index()] = Slot::Tensor(tensor);
                    Port::Tensor(tensor)
                }
                None => {
                    let sym = self.sym(SymDef::Input(index));
                    self.slots[id.index()] = Slot::Sym(sym);
                    Port::Sym(sym)
                }
            };
            self.program.inputs.push(port);
        }
    }

    fn ports_out(&mut self) -> Result<(), Error> {
        for (index, &id) in self.graph.outputs.iter().enumerate() {
            let unwritten = Error::Output { index, value: id.0, reason: "no call writes it" };
            let port = match self.graph.value(id) {
                Some(Value::SymInt) => match self.slot(id) {
                    Slot::Sym(sym) => Port::Sym(sym),
                    _ => return Err(unwritten),
                },
                Some(Value::Tensor(_)) => {
                    let tensor = self.read(id, 0).map_err(|_| unwritten)?;
                    Port::Tensor(self.output(tensor))
                }
                _ => {
                    let reason = "it is neither a tensor nor a symbolic integer";
                    return Err(Error::Output { index, value: id.0, reason });
                }
            };
            self.program.outputs.push(port);
        }
        Ok(())
    }

    /// Pairs the outputs that replace constants with the states that those are.
    fn carry(&mut self, replaced: &[Replaced]) -> Result<(), Error> {
        for (index, (buffer, value)) in replaced.iter().zip(&self.graph.outputs).enumerate() {
            // A buffer that is only written has no tensor yet.
            let state = self.read(buffer.read_as, 0).map(|id| self.program.tensor(id).origin.clone());
            let Ok(Origin::State(state)) = state else {
                let reason = "its buffer cannot be written";
                return Err(Error::Output { index, value: value.0, reason });
            };
            self.program.carried.push(state);
        }
        Ok(())
    }

    /// Outputs are copied out as one range: anything without its own planned memory is materialised.
    fn output(&mut self, id: TensorId) -> TensorId {
        match self.program.tensor(id).origin {
            Origin::Node => id,
            _ => self.copy(id),
        }
    }

    fn finish(mut self) -> Program {
        let syms = u32::try_from(self.program.syms.len()).unwrap_or(u32::MAX);
        // Words of views and nodes were numbered from zero while the number of integers was not known.
        for tensor in &mut self.program.tensors {
            if let Origin::View { dynamic: Some(word), .. } = &mut tensor.origin {
                *word += syms;
            }
        }
        for node in &mut self.program.nodes {
            if let Op::StateWrite(write) = &mut node.op {
                write.word += syms;
            }
        }
        self.program.dynamic_words += syms;
        self.program
    }

    fn lower_call(&mut self, name: &str, args: &'g [ValueId]) -> ops::LowerResult<()> {
        if self.is_poisoned(args) {
            self.poison(args);
            return Ok(());
        }
        let operator = ops::find(name).ok_or(Fault::UnknownOperator)?;
        operator.lower(&mut Call { builder: self, args })
    }

    fn is_poisoned(&self, args: &[ValueId]) -> bool {
        args.iter().any(|&id| match self.graph.value(id) {
            Some(Value::ValueList(items)) => items.iter().any(|&id| self.slot(id) == Slot::Poisoned),
            _ => self.slot(id) == Slot::Poisoned,
        })
    }

    fn poison(&mut self, args: &[ValueId]) {
        let Some(&last) = args.last() else { return };
        let written = match self.graph.value(last) {
            Some(Value::ValueList(items)) => items.as_slice(),
            _ => &[last],
        };
        for id in written {
            self.slots[id.index()] = Slot::Poisoned;
        }
    }

    pub(crate) fn slot(&self, id: ValueId) -> Slot {
        self.slots.get(id.index()).copied().unwrap_or(Slot::Unset)
    }

    pub(crate) fn set_slot(&mut self, id: ValueId, slot: Slot) {
        self.slots[id.index()] = slot;
    }

    /// Whether a tensor may be written after it was read.
    pub(crate) fn is_state_tensor(&self, id: TensorId) -> bool {
        matches!(self.program.tensor(id).origin, Origin::State(_))
    }

    /// `id` itself when its rows are contiguous and nothing moves its start between executions, else a copy.
    pub(crate) fn rows(&mut self, id: TensorId) -> TensorId {
        if self.has_rows(id) { id } else { self.copy(id) }
    }

    fn has_rows(&self, id: TensorId) -> bool {
        let tensor = self.program.tensor(id);
        match &tensor.origin {
            Origin::View { dynamic: Some(_), .. } => false,
            Origin::View { base, view: View::Permute(order), .. } => {
                order.last().is_some_and(|&last| last + 1 == order.len()) && self.has_rows(*base)
            }
            _ => tensor.contiguous,
        }
    }

    /// Whether a value is a constant that some call mutates.
    pub(crate) fn is_state(&self, id: ValueId) -> bool {
        self.states.contains_key(&id)
    }

    /// The tensor of a value as words.
    pub(crate) fn read(&mut self, id: ValueId, slot: usize) -> ops::LowerResult<TensorId> {
        match self.slot(id) {
            Slot::Tensor(tensor) => return Ok(tensor),
            Slot::Unset => {}
            Slot::Sym(_) | Slot::Poisoned => return Err(Fault::Unwritten { slot, value: id.0 }),
        }
        let info = self.graph.tensor(id).ok_or(Fault::Unwritten { slot, value: id.0 })?;
        if let Some(&constant) = self.states.get(&id) {
            return Ok(self.state(id, info, constant));
        }
        if info.constant.is_none() {
            return Err(Fault::Unwritten { slot, value: id.0 });
        }
        let tensor = self.weight_tensor(info)?;
        self.slots[id.index()] = Slot::Tensor(tensor);
        Ok(tensor)
    }

    fn state(&mut self, id: ValueId, info: &TensorInfo, constant: ConstantId) -> TensorId {
        let index = u32::try_from(self.program.states.len()).unwrap_or(u32::MAX);
        let tensor = self.tensor(info.dtype, dims(&info.dims), Origin::State(index));
        self.program.states.push(State { value: id, constant, tensor });
        self.slots[id.index()] = Slot::Tensor(tensor);
        tensor
    }

    fn weight_tensor(&mut self, info: &TensorInfo) -> ops::LowerResult<TensorId> {
        let constant =
            info.constant.ok_or(Fault::Kind { slot: 0, expected: "a constant", found: "Tensor" })?;
        if let Some(&tensor) = self.weight_tensors.get(&constant)
            && *self.program.tensor(tensor).bound == *info.dims
            && self.program.tensor(tensor).dtype == info.dtype
        {
            return Ok(tensor);
        }
        let weight = self.weight(info, Form::Words);
        let tensor = self.tensor(info.dtype, dims(&info.dims), Origin::Weight(weight));
        self.weight_tensors.insert(constant, tensor);
        Ok(tensor)
    }

    /// A constant in a device form.
    pub(crate) fn weight(&mut self, info: &TensorInfo, form: Form) -> WeightId {
        let content = Content::Constant(info.constant.unwrap_or(ConstantId(u32::MAX)));
        self.push_weight(Weight { content, dtype: info.dtype, dims: dims(&info.dims), form })
    }

    /// A rank-0 tensor of one word.
    pub(crate) fn literal(&mut self, dtype: DType, word: u32) -> TensorId {
        let (content, dims) = (Content::Literal(word), Dims::new());
        let weight = self.push_weight(Weight { content, dtype, dims, form: Form::Words });
        self.tensor(dtype, Dims::new(), Origin::Weight(weight))
    }

    /// Equal weights share one id.
    fn push_weight(&mut self, weight: Weight) -> WeightId {
        if let Some(&id) = self.weights.get(&weight) {
            return id;
        }
        let id = WeightId(u32::try_from(self.program.weights.len()).unwrap_or(u32::MAX));
        self.program.weights.push(weight.clone());
        self.weights.insert(weight, id);
        id
    }

    /// A tensor with memory of its own.
    fn tensor(&mut self, dtype: DType, bound: Dims, origin: Origin) -> TensorId {
        self.push_tensor(Tensor { dtype, bound, origin, contiguous: true, dense: true })
    }

    fn push_tensor(&mut self, tensor: Tensor) -> TensorId {
        let id = TensorId(u32::try_from(self.program.tensors.len()).unwrap_or(u32::MAX));
        self.program.tensors.push(tensor);
        id
    }

    /// A symbolic integer; equal definitions share one.
    pub(crate) fn sym(&mut self, def: SymDef) -> SymId {
        let known = self.program.syms.iter().position(|other| *other == def);
        let index = known.unwrap_or(self.program.syms.len());
        let id = SymId(u32::try_from(index).unwrap_or(u32::MAX));
        if known.is_none() {
            self.program.syms.push(def);
            self.program.steps.push((HostStep::Sym(id), self.call));
        }
        id
    }

    /// A symbolic integer read as a rank-0 tensor.
    pub(crate) fn sym_tensor(&mut self, sym: SymId) -> TensorId {
        self.tensor(DType::Int32, Dims::new(), Origin::Sym(sym))
    }

    /// A further word of the dynamic buffer, numbered after the symbolic integers.
    pub(crate) fn dynamic_word(&mut self) -> u32 {
        let word = self.program.dynamic_words;
        self.program.dynamic_words += 1;
        word
    }

    /// Adds a node with one output.
    pub(crate) fn node(&mut self, op: Op, inputs: Vec<TensorId>, dtype: DType, bound: &[u32]) -> TensorId {
        let output = self.tensor(dtype, dims(bound), Origin::Node);
        self.push(op, inputs, vec![output]);
        output
    }

    /// Adds a node with several outputs.
    pub(crate) fn node_outputs(
        &mut self,
        op: Op,
        inputs: Vec<TensorId>,
        outputs: &[(DType, &[u32])],
    ) -> Vec<TensorId> {
        let outputs: Vec<TensorId> =
            outputs.iter().map(|&(dtype, bound)| self.tensor(dtype, dims(bound), Origin::Node)).collect();
        self.push(op, inputs, outputs.clone());
        outputs
    }

    /// Adds a node that writes into existing tensors.
    pub(crate) fn push(&mut self, op: Op, inputs: Vec<TensorId>, outputs: Vec<TensorId>) {
        let index = u32::try_from(self.program.nodes.len()).unwrap_or(u32::MAX);
        self.program.nodes.push(Node { op, inputs, outputs, call: self.call });
        self.program.steps.push((HostStep::Node(index), self.call));
    }

    /// A view of `base` with the given upper bound. A view of a state is a copy: the state may change
    /// before the view is read.
    pub(crate) fn view(&mut self, base: TensorId, view: View, bound: &[u32]) -> ops::LowerResult<TensorId> {
        let base = match (&view, self.program.tensor(base).contiguous) {
            (View::Reshape(_), false) => self.copy(base),
            _ if matches!(self.program.tensor(base).origin, Origin::State(_)) => self.copy(base),
            _ => base,
        };
        let from = self.program.tensor(base);
        let moves = match &view {
            View::Slice { start, .. } => matches!(start, Index::Sym(_)),
            View::Select { index, .. } => matches!(index, Index::Sym(_)),
            _ => false,
        };
        let inherits = matches!(from.origin, Origin::View { dynamic: Some(_), .. });
        let contiguous = from.contiguous && keeps_contiguous(&view, &from.bound, bound);
        let starts_later = matches!(view, View::Slice { .. } | View::Select { .. } | View::Flip(_));
        let (dtype, dense) = (from.dtype, from.dense && contiguous && !starts_later);
        let dynamic = (moves || inherits).then(|| self.dynamic_word());
        let origin = Origin::View { base, view, dynamic };
        let id = self.push_tensor(Tensor { dtype, bound: dims(bound), origin, contiguous, dense });
        self.program.steps.push((HostStep::View(id), self.call));
        Ok(id)
    }

    /// `id` itself when its words lie row-major without gaps, else a copy.
    pub(crate) fn contiguous(&mut self, id: TensorId) -> TensorId {
        if self.program.tensor(id).contiguous { id } else { self.copy(id) }
    }

    /// `id` itself when it is contiguous from the first word of its memory, else a copy: for kernels that take
    /// no offset.
    pub(crate) fn dense(&mut self, id: TensorId) -> TensorId {
        if self.program.tensor(id).dense { id } else { self.copy(id) }
    }

    /// A materialised copy, made once for each tensor that never changes.
    pub(crate) fn copy(&mut self, id: TensorId) -> TensorId {
        if let Some(&copy) = self.materialised.get(&id) {
            return copy;
        }
        let tensor = self.program.tensor(id).clone();
        let copy = self.node(Op::Copy(ops::copy_op()), vec![id], tensor.dtype, &tensor.bound);
        if !matches!(tensor.origin, Origin::State(_)) {
            self.materialised.insert(id, copy);
        }
        copy
    }

    /// Makes `id` the tensor of value `value`, converting between float and integer words where the payload's
    /// type asks for it; a state is written back.
    pub(crate) fn bind(&mut self, value: ValueId, info: &TensorInfo, id: TensorId) -> ops::LowerResult<()> {
        let id = self.convert(id, info.dtype);
        let rank = self.program.tensor(id).bound.len();
        if rank != info.dims.len() {
            let fault = crate::host::shape_fault;
            return Err(fault("rank of the output", &self.program.tensor(id).bound, &info.dims));
        }
        if self.is_state(value) {
            let state = self.read(value, 0)?;
            if state != id {
                let word = self.dynamic_word();
                let start = self.sym(SymDef::Const(0));
                self.push(ops::state_write(start, word), vec![id], vec![state]);
            }
            return Ok(());
        }
        self.slots[value.index()] = Slot::Tensor(id);
        Ok(())
    }

    /// `id` with the device element of `dtype`.
    pub(crate) fn convert(&mut self, id: TensorId, dtype: DType) -> TensorId {
        let from = self.program.tensor(id);
        if from.elem() == Elem::of(dtype) && (from.dtype == dtype || dtype.is_float()) {
            return id;
        }
        let bound = from.bound.clone();
        match ops::cast(from.dtype, dtype) {
            Some(op) => self.node(op, vec![id], dtype, &bound),
            None => id,
        }
    }
}

/// Sizes of a checked graph always have rank ≤ 8.
pub(crate) fn dims(sizes: &[u32]) -> Dims {
    sizes.iter().copied().take(etvk_kernels::MAX_RANK).collect()
}

/// Whether a view of a contiguous tensor is contiguous for every permitted shape.
fn keeps_contiguous(view: &View, base: &[u32], bound: &[u32]) -> bool {
    let outer_is_one = |dim: usize| base[..dim].iter().all(|&size| size <= 1);
    match view {
        View::Reshape(_) | View::Unsqueeze { .. } | View::Squeeze(_) => true,
        View::Slice { dim, step, .. } => *step == 1 && outer_is_one(*dim),
        View::Select { dim, .. } => outer_is_one(*dim),
        View::Permute(order) => {
            let wide: Vec<usize> = order.iter().copied().filter(|&d| base[d] > 1).collect();
            wide.is_sorted()
        }
        View::Expand(_) => base.iter().product::<u32>() == bound.iter().product::<u32>(),
        View::Flip(dims) => dims.iter().all(|&d| base[d] <= 1),
        View::Unfold { .. } => false,
    }
}

/// Constants that some call mutates or some output replaces, by the value that names the variable: the constant itself,
/// or the prepack output through which it is mutated.
fn mutated_constants(graph: &Graph, replaced: &[Replaced]) -> HashMap<ValueId, ConstantId> {
    let constant_of = |id: ValueId| graph.tensor(id).and_then(|info| info.constant);
    let mut prepacked = HashMap::new();
    let named = |buffer: &Replaced| Some((buffer.read_as, constant_of(buffer.constant)?));
    let mut states: HashMap<_, _> = replaced.iter().filter_map(named).collect();
    for call in &graph.calls {
        let output = call.args.last().copied();
        if call.name == PREPACK {
            if let (Some(&from), Some(to)) = (call.args.first(), output)
                && let Some(constant) = constant_of(from)
            {
                prepacked.insert(to, constant);
            }
            continue;
        }
        let slots = ops::find(&call.name).map_or(&[][..], |operator| operator.mutates);
        let targets = slots.iter().filter_map(|&slot| call.args.get(slot).copied()).chain(output);
        for id in targets {
            if let Some(constant) = prepacked.get(&id).copied().or_else(|| constant_of(id)) {
                states.insert(id, constant);
            }
        }
    }
    states
}
