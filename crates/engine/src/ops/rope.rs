//! Rotary position embeddings.

use etvk_kernels::rope::{self, RopeForm, Table};
use etvk_vkgraph::DType;

use super::call::{Call, Result as Lowered};
use super::{Kind, Op, OutSizes, one};
use crate::error::{Error, Fault};
use crate::host::{Shapes, shape_fault};
use crate::ir::{Node, SymId, TensorId, View};
use crate::record::{Bind, Record};

/// Rotation of x \[B, S, H, D\]. Inputs: x, cosines, sines (the same tensor for [`RopeForm::Complex`]).
#[derive(Clone, Debug)]
pub struct Rope {
    pub(crate) form: RopeForm,
    /// Table row of the first position.
    pub(crate) start: Option<SymId>,
}

impl Rope {
    /// Elements of a row of x that a table row of `width` elements rotates.
    fn rotary(&self, width: u32) -> u32 {
        if self.form == RopeForm::Pairs { width * 2 } else { width }
    }
}

impl Kind for Rope {
    fn infer(&self, node: &Node, shapes: &Shapes<'_>) -> Result<OutSizes, Fault> {
        let x = shapes.sizes(node.inputs[0]);
        for &table in &node.inputs[1..] {
            let sizes = shapes.sizes(table);
            let (&[_, positions, _, width], &[rows, row]) = (x, sizes) else {
                return Err(shape_fault("x and table of a rotary embedding", x, sizes));
            };
            let rotary = self.rotary(row);
            if rotary > width || !rotary.is_multiple_of(2) {
                return Err(shape_fault("table of a rotary embedding", &[rows, width], sizes));
            }
            let start = self.start.map_or(0, |sym| shapes.sym(sym));
            super::copy::check_rows(start, positions, rows)?;
        }
        Ok(one(x.iter().copied().collect()))
    }

    fn syms(&self) -> Vec<SymId> {
        self.start.into_iter().collect()
    }

    fn record(&self, node: &Node, record: &mut Record<'_>) -> Result<(), Error> {
        let x = record.layout(node.inputs[0]);
        let (cos, sin) = (record.layout(node.inputs[1]), record.layout(node.inputs[2]));
        let (Some(&rows), Some(&row)) = (cos.sizes.first(), cos.sizes.get(1)) else { return Ok(()) };
        let table = |layout: &etvk_kernels::Strided| Table {
            offset: layout.offset,
            dynamic_offset: layout.dynamic_offset,
        };
        let op = rope::Rope {
            form: self.form,
            x,
            rotary: self.rotary(row),
            cos: table(cos),
            sin: table(sin),
            table_rows: rows,
            table_row: row,
            start: 0,
            start_dynamic: self.start.map(|sym| sym.0),
        };
        let Some(launch) = rope::rope(&op, record.limits) else { return Ok(()) };
        let read = |i: usize| Bind::Read(node.inputs[i]);
        record.launch(&launch, &[read(0), read(1), read(2), Bind::Write(node.outputs[0]), Bind::Dynamic])
    }
}

fn table(call: &mut Call<'_, '_>, slot: usize) -> Lowered<TensorId> {
    let tensor = call.float_tensor(slot)?;
    Ok(call.builder.contiguous(tensor))
}

fn pair(call: &mut Call<'_, '_>, op: &Rope) -> Lowered<()> {
    let (cos, sin) = (table(call, 2)?, table(call, 3)?);
    let out = call.last();
    let mut results = Vec::new();
    for slot in 0..2 {
        let x = call.float_tensor(slot)?;
        let bound = call.info(slot)?.dims.clone();
        results.push(call.emit_inner(Op::Rope(op.clone()), vec![x, cos, sin], DType::Float32, &bound));
    }
    call.bind_list(out, &results)
}

/// `et_vk.apply_rotary_emb.default [xq, xk, cos, sin, outs]`
pub(super) fn pairs(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[5], "5")?;
    pair(call, &Rope { form: RopeForm::Pairs, start: None })
}

/// `et_vk.apply_rotary_emb_hf.default [xq, xk, cos, sin, start_pos, outs]`
pub(super) fn halves(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[6], "6")?;
    let start = Some(call.sym(4)?);
    pair(call, &Rope { form: RopeForm::Halves, start })
}

/// `et_vk.apply_rotary_emb_interleaved.default [x, freqs_cis, out]`: x is \[B, N, C\], freqs hold N · C elements.
pub(super) fn interleaved(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[3], "3")?;
    let (x, freqs) = (call.float_tensor(0)?, call.float_tensor(1)?);
    let bound = call.info(0)?.dims.clone();
    let &[batch, rows, width] = bound.as_slice() else {
        return Err(shape_fault("x of a rotary embedding", &[0, 0, 0], &bound));
    };
    // Positions are rows: one head of `width` elements each.
    let x = call.builder.view(x, View::Unsqueeze { dim: 2 }, &[batch, rows, 1, width])?;
    let freqs = call.builder.contiguous(freqs);
    let sizes = [crate::ir::Index::Const(-1), crate::ir::Index::Const(i64::from(width))];
    let freqs = call.builder.view(freqs, View::Reshape(sizes.to_vec()), &[rows, width])?;
    let op = Op::Rope(Rope { form: RopeForm::Complex, start: None });
    let rotated = call.emit_inner(op, vec![x, freqs, freqs], DType::Float32, &[batch, rows, 1, width]);
    call.emit_view(rotated, View::Squeeze(vec![2]), 2)
}
