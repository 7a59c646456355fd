//! What the host works out before an execution: symbolic integers, sizes, strides, dynamic words.

use arrayvec::ArrayVec;
use etvk_kernels::{Dims, MAX_RANK, Strided, contiguous_strides};

use crate::error::{CallFault, Fault};
use crate::ir::{HostStep, Index, Origin, Port, Program, SymDef, SymId, TensorId, View};
use crate::ops::OutSizes;

/// Integer inputs of one execution, and integer elements of tensor inputs.
pub(crate) trait HostInputs {
    /// The integer passed as delegate input `input`.
    fn int(&self, input: u32) -> Result<i64, Fault>;
    /// Element `index` of dimension `dim` (both may be negative) of integer tensor input `input`.
    fn element(&self, input: u32, dim: i64, index: i64) -> Result<i64, Fault>;
}

/// Sizes, strides and dynamic words that hold for the current inputs.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostState {
    /// Layout of every tensor.
    pub(crate) layouts: Vec<Strided>,
    /// Contents of the dynamic buffer.
    pub(crate) words: Vec<i32>,
}

/// What a node may look at while its sizes are worked out.
pub(crate) struct Shapes<'a> {
    pub(crate) program: &'a Program,
    layouts: &'a [Strided],
    words: &'a [i32],
}

impl<'a> Shapes<'a> {
    /// Current sizes of a tensor.
    pub(crate) fn sizes(&self, id: TensorId) -> &'a [u32] {
        &self.layouts[id.index()].sizes
    }

    /// Current value of an integer.
    pub(crate) fn index(&self, index: Index) -> i64 {
        match index {
            Index::Const(value) => value,
            Index::Sym(sym) => self.sym(sym),
        }
    }

    /// Current value of a symbolic integer.
    pub(crate) fn sym(&self, sym: SymId) -> i64 {
        i64::from(self.words[sym.index()])
    }
}

impl HostState {
    pub(crate) fn new(program: &Program) -> Self {
        Self {
            layouts: vec![Strided::default(); program.tensors.len()],
            words: vec![0; program.dynamic_words as usize],
        }
    }

    /// Sets the current sizes of a tensor input.
    pub(crate) fn set_input(&mut self, id: TensorId, sizes: &[u32]) {
        let sizes: Dims = sizes.iter().copied().collect();
        self.layouts[id.index()] = contiguous(sizes);
    }

    /// Works out everything from the current input sizes.
    pub(crate) fn evaluate(&mut self, program: &Program, inputs: &dyn HostInputs) -> Result<(), CallFault> {
        for (index, tensor) in program.tensors.iter().enumerate() {
            match tensor.origin {
                Origin::Weight(_) | Origin::State(_) => {
                    self.layouts[index] = contiguous(tensor.bound.clone());
                }
                Origin::Sym(sym) => {
                    self.layouts[index] = Strided { offset: sym.0, ..contiguous(Dims::new()) };
                }
                Origin::Input(_) | Origin::Node | Origin::View { .. } => {}
            }
        }
        for &(step, call) in &program.steps {
            self.step(program, step, inputs, false).map_err(|fault| attach(program, call, fault))?;
        }
        Ok(())
    }

    /// Recomputes only what can change while all input sizes stay as they were. Returns `false` as soon as
    /// a size or stride comes out different, in which case [`HostState::evaluate`] has to run.
    pub(crate) fn refresh(
        &mut self,
        program: &Program,
        dynamic: &[(HostStep, u32)],
        inputs: &dyn HostInputs,
    ) -> Result<bool, CallFault> {
        for &(step, call) in dynamic {
            if !self.step(program, step, inputs, true).map_err(|fault| attach(program, call, fault))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Runs one step; with `keep`, layouts are compared instead of stored and a difference gives `false`.
    fn step(
        &mut self,
        program: &Program,
        step: HostStep,
        inputs: &dyn HostInputs,
        keep: bool,
    ) -> Result<bool, Fault> {
        match step {
            HostStep::Sym(sym) => {
                let value = self.sym_value(program, sym, inputs)?;
                self.words[sym.index()] = i32::try_from(value).map_err(|_| Fault::SymOverflow(value))?;
                Ok(true)
            }
            HostStep::View(id) => {
                let layout = self.view_layout(program, id)?;
                check_bound(program, id, &layout.sizes)?;
                Ok(self.store(id, layout, keep))
            }
            HostStep::Node(index) => {
                let node = &program.nodes[index as usize];
                let shapes = Shapes { program, layouts: &self.layouts, words: &self.words };
                let sizes: OutSizes = node.op.kind().infer(node, &shapes)?;
                let mut same = true;
                for (&id, sizes) in node.outputs.iter().zip(sizes) {
                    check_bound(program, id, &sizes)?;
                    same &= self.store(id, contiguous(sizes), keep);
                }
                let shapes = Shapes { program, layouts: &self.layouts, words: &self.words };
                if let Some((word, value)) = node.op.kind().dynamic_word(node, &shapes)? {
                    self.words[word as usize] = value;
                }
                Ok(same)
            }
        }
    }

    fn store(&mut self, id: TensorId, layout: Strided, keep: bool) -> bool {
        let slot = &mut self.layouts[id.index()];
        let same = *slot == layout;
        if !keep {
            *slot = layout;
        }
        same
    }

    fn sym_value(&self, program: &Program, sym: SymId, inputs: &dyn HostInputs) -> Result<i64, Fault> {
        let shapes = Shapes { program, layouts: &self.layouts, words: &self.words };
        let overflow = |value: Option<i64>| value.ok_or(Fault::SymOverflow(i64::MAX));
        match &program.syms[sym.index()] {
            SymDef::Const(value) => Ok(*value),
            SymDef::Input(input) => inputs.int(*input),
            SymDef::Select { input, dim, index } => inputs.element(*input, *dim, *index),
            SymDef::Size { tensor, dim } => {
                let sizes = shapes.sizes(*tensor);
                Ok(i64::from(sizes[normalise_dim(*dim, sizes.len())?]))
            }
            SymDef::Add(a, b) => overflow(shapes.index(*a).checked_add(shapes.index(*b))),
            SymDef::Sub(a, b) => overflow(shapes.index(*a).checked_sub(shapes.index(*b))),
            SymDef::Mul(a, b) => overflow(shapes.index(*a).checked_mul(shapes.index(*b))),
            SymDef::FloorDiv(a, b) => {
                let (a, b) = (shapes.index(*a), shapes.index(*b));
                if b == 0 {
                    return Err(Fault::DivisionByZero);
                }
                let quotient = a.wrapping_div(b);
                Ok(if a % b != 0 && (a < 0) != (b < 0) { quotient - 1 } else { quotient })
            }
            SymDef::Less(a, b) => Ok(i64::from(shapes.index(*a) < shapes.index(*b))),
            SymDef::AtMost(a, b) => Ok(i64::from(shapes.index(*a) <= shapes.index(*b))),
            SymDef::Equal(a, b) => Ok(i64::from(shapes.index(*a) == shapes.index(*b))),
        }
    }

    fn view_layout(&mut self, program: &Program, id: TensorId) -> Result<Strided, Fault> {
        let Origin::View { base, view, dynamic } = &program.tensor(id).origin else {
            return Ok(self.layouts[id.index()].clone());
        };
        let shapes = Shapes { program, layouts: &self.layouts, words: &self.words };
        let from = &self.layouts[base.index()];
        let (mut layout, start) = apply(view, from, &shapes)?;
        match dynamic {
            Some(word) => {
                let outer = from.dynamic_offset.map_or(0, |w| i64::from(self.words[w as usize]));
                let offset = outer + start;
                self.words[*word as usize] = i32::try_from(offset).map_err(|_| Fault::SymOverflow(offset))?;
                layout.dynamic_offset = Some(*word);
            }
            None => {
                let offset = i64::from(layout.offset) + start;
                layout.offset = u32::try_from(offset).map_err(|_| Fault::SymOverflow(offset))?;
            }
        }
        Ok(layout)
    }
}

fn attach(program: &Program, call: u32, fault: Fault) -> CallFault {
    CallFault { call, name: program.call_name(call).to_owned(), fault }
}

/// The layout of a contiguous tensor.
pub(crate) fn contiguous(sizes: Dims) -> Strided {
    let strides = contiguous_strides(&sizes);
    Strided { sizes, strides, offset: 0, dynamic_offset: None }
}

/// Every size must stay within the payload's bound: memory and structure were decided from it.
fn check_bound(program: &Program, id: TensorId, sizes: &[u32]) -> Result<(), Fault> {
    let bound = &program.tensor(id).bound;
    let within = sizes.len() == bound.len() && sizes.iter().zip(bound).all(|(size, bound)| size <= bound);
    if within {
        return Ok(());
    }
    Err(shape_fault("sizes against the payload's upper bound", bound, sizes))
}

/// A fault that shows two lists of sizes.
pub(crate) fn shape_fault(what: &'static str, expected: &[u32], found: &[u32]) -> Fault {
    Fault::Shape { what, expected: format!("{expected:?}"), found: format!("{found:?}") }
}

/// A dimension number with negatives counted from the end.
pub(crate) fn normalise_dim(dim: i64, rank: usize) -> Result<usize, Fault> {
    let high = i64::try_from(rank).unwrap_or(i64::MAX);
    let positive = if dim < 0 { dim + high } else { dim };
    usize::try_from(positive).ok().filter(|&d| d < rank).ok_or(Fault::Range {
        what: "dimension",
        low: -high,
        high: high - 1,
        found: dim,
    })
}

/// Resolves `view` of `base`: the new layout without the view's own start, and that start in elements.
fn apply(view: &View, base: &Strided, shapes: &Shapes<'_>) -> Result<(Strided, i64), Fault> {
    let mut out = base.clone();
    let mut start = 0i64;
    match view {
        View::Reshape(sizes) => {
            out.sizes = reshape(sizes, &base.sizes, shapes)?;
            out.strides = contiguous_strides(&out.sizes);
        }
        View::Permute(order) => {
            if order.len() != base.sizes.len() {
                return Err(shape_fault("permutation rank", &base.sizes, &[]));
            }
            out.sizes = order.iter().map(|&d| base.sizes[d]).collect();
            out.strides = order.iter().map(|&d| base.strides[d]).collect();
        }
        View::Slice { dim, start: from, end, step } => {
            let size = i64::from(base.sizes[*dim]);
            let clamp = |index: i64| (if index < 0 { index + size } else { index }).clamp(0, size);
            let from = clamp(shapes.index(*from));
            let to = end.map_or(size, |end| clamp(shapes.index(end))).max(from);
            let length = (to - from + i64::from(*step) - 1) / i64::from(*step);
            out.sizes[*dim] = u32::try_from(length).unwrap_or(0);
            start = from * i64::from(base.strides[*dim]);
            out.strides[*dim] = base.strides[*dim].saturating_mul(i32::try_from(*step).unwrap_or(i32::MAX));
        }
        View::Select { dim, index } => {
            let size = i64::from(base.sizes[*dim]);
            let found = shapes.index(*index);
            let positive = if found < 0 { found + size } else { found };
            if !(0..size).contains(&positive) {
                return Err(Fault::Range { what: "index", low: -size, high: size - 1, found });
            }
            start = positive * i64::from(base.strides[*dim]);
            out.sizes.remove(*dim);
            out.strides.remove(*dim);
        }
        View::Unsqueeze { dim } => {
            out.sizes.insert(*dim, 1);
            out.strides.insert(*dim, 0);
        }
        View::Squeeze(dims) => {
            for dim in (0..base.sizes.len()).rev() {
                if dims.contains(&dim) && base.sizes[dim] == 1 {
                    out.sizes.remove(dim);
                    out.strides.remove(dim);
                }
            }
        }
        View::Expand(sizes) => (out.sizes, out.strides) = expand(sizes, base, shapes)?,
        View::Flip(dims) => {
            for &dim in dims {
                start += i64::from(base.strides[dim]) * i64::from(base.sizes[dim].saturating_sub(1));
                out.strides[dim] = base.strides[dim].saturating_neg();
            }
        }
        View::Unfold { dim, size, step } => {
            let extent = base.sizes[*dim];
            let Some(rest) = extent.checked_sub(*size) else {
                return Err(shape_fault("windows of a dimension", &[*size], &[extent]));
            };
            let stride = base.strides[*dim];
            out.sizes[*dim] = rest / step + 1;
            out.strides[*dim] = stride.saturating_mul(i32::try_from(*step).unwrap_or(i32::MAX));
            let full = out.sizes.try_push(*size).is_err() || out.strides.try_push(stride).is_err();
            if full {
                return Err(shape_fault("rank of unfolded windows", &base.sizes, &[*size]));
            }
        }
    }
    Ok((out, start))
}

fn reshape(sizes: &[Index], base: &Dims, shapes: &Shapes<'_>) -> Result<Dims, Fault> {
    let total: u64 = base.iter().map(|&d| u64::from(d)).product();
    let mut out = Dims::new();
    let mut inferred = None;
    for (position, &size) in sizes.iter().enumerate() {
        match shapes.index(size) {
            -1 if inferred.is_none() => {
                inferred = Some(position);
                out.push(1);
            }
            value => out.push(u32::try_from(value).map_err(|_| Fault::Range {
                what: "size",
                low: -1,
                high: i64::from(u32::MAX),
                found: value,
            })?),
        }
    }
    let known: u64 = out.iter().try_fold(1u64, |n, &d| n.checked_mul(u64::from(d))).unwrap_or(u64::MAX);
    if let Some(position) = inferred {
        let size = total.checked_div(known).unwrap_or(0);
        out[position] = u32::try_from(size).unwrap_or(u32::MAX);
    }
    let found = out.iter().try_fold(1u64, |n, &d| n.checked_mul(u64::from(d)));
    if found == Some(total) { Ok(out) } else { Err(shape_fault("elements of a view", base, &out)) }
}

type ExpandedLayout = (Dims, ArrayVec<i32, MAX_RANK>);

fn expand(sizes: &[Index], base: &Strided, shapes: &Shapes<'_>) -> Result<ExpandedLayout, Fault> {
    let mismatch = |out: &Dims| shape_fault("expanded sizes", &base.sizes, out);
    let added = sizes.len().checked_sub(base.sizes.len()).ok_or_else(|| mismatch(&Dims::new()))?;
    let (mut out, mut strides) = (Dims::new(), ArrayVec::new());
    for (position, &size) in sizes.iter().enumerate() {
        let inner = position.checked_sub(added).map(|dim| (base.sizes[dim], base.strides[dim]));
        let asked = shapes.index(size);
        let (size, stride) = match (inner, asked) {
            (Some(kept), -1) => kept,
            (Some((have, stride)), asked) if asked == i64::from(have) => (have, stride),
            (Some((1, _)) | None, asked) => (u32::try_from(asked).map_err(|_| mismatch(&out))?, 0),
            _ => return Err(mismatch(&out)),
        };
        out.push(size);
        strides.push(stride);
    }
    Ok((out, strides))
}

/// The steps that can come out different while all input sizes stay the same.
pub(crate) fn dynamic_steps(program: &Program) -> Vec<(HostStep, u32)> {
    let symbolic = |index: &Index| matches!(index, Index::Sym(_));
    let view_changes = |view: &View| match view {
        View::Reshape(sizes) | View::Expand(sizes) => sizes.iter().any(symbolic),
        View::Slice { start, end, .. } => symbolic(start) || end.as_ref().is_some_and(symbolic),
        View::Select { index, .. } => symbolic(index),
        View::Permute(_) | View::Unsqueeze { .. } | View::Squeeze(_) => false,
        View::Flip(_) | View::Unfold { .. } => false,
    };
    let changes = |step: &HostStep| match step {
        HostStep::Sym(sym) => !matches!(program.syms[sym.index()], SymDef::Const(_) | SymDef::Size { .. }),
        HostStep::View(id) => match &program.tensor(*id).origin {
            Origin::View { view, dynamic, .. } => dynamic.is_some() || view_changes(view),
            _ => false,
        },
        HostStep::Node(index) => !program.nodes[*index as usize].op.kind().syms().is_empty(),
    };
    program.steps.iter().filter(|(step, _)| changes(step)).copied().collect()
}

/// The tensor inputs of a program with their ids.
pub(crate) fn tensor_inputs(program: &Program) -> impl Iterator<Item = (usize, TensorId)> + '_ {
    program.inputs.iter().enumerate().filter_map(|(index, port)| match port {
        Port::Tensor(id) => Some((index, *id)),
        Port::Sym(_) => None,
    })
}
