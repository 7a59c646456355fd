//! Rows and elements picked by an index tensor.

use etvk_kernels::embedding_q4::{self, EmbeddingQ4 as TableKernel};
use etvk_kernels::gather::{self, Rows};
use etvk_kernels::map::MapOp;
use etvk_kernels::{Dims, Storage};
use etvk_vkgraph::DType;

use super::call::{Call, Result as Lowered};
use super::linear_q::{positive, scale_storage};
use super::nibbles::{self, Nibbles};
use super::repeat::bound;
use super::{Kind, Op, OutSizes, fill, map, one, repeat};
use crate::error::{Error, Fault};
use crate::host::{Shapes, shape_fault};
use crate::ir::{Elem, Form, Index, Node, TensorId, View, WeightId};
use crate::record::{Bind, Record};

/// Where the rows come from.
#[derive(Clone, Debug)]
pub(crate) enum Table {
    /// Input 1 of the node.
    Tensor,
    /// A constant of halves as serialised.
    Halves { id: WeightId, dims: Dims },
}

/// out\[o…, j…, i…\] = x\[o…, index\[j…\], i…\]. Inputs: index, (x).
#[derive(Clone, Debug)]
pub struct Gather {
    pub(crate) table: Table,
    pub(crate) dim: usize,
    /// `aten.gather`: the index has x's rank and picks single elements.
    pub(crate) elements: bool,
}

/// out\[j…, e\] = code\[index\[j…\], e\] · scale\[index\[j…\], e / group\]. Input: index.
#[derive(Clone, Debug)]
pub struct EmbeddingQ4 {
    pub(crate) weight: WeightId,
    pub(crate) scales: WeightId,
    pub(crate) scale_storage: Storage,
    pub(crate) rows: u32,
    pub(crate) width: u32,
    pub(crate) group_size: u32,
    pub(crate) high_first: bool,
    pub(crate) scale_row: u32,
    pub(crate) scale_group: u32,
}

impl Kind for Gather {
    fn weights(&self) -> Vec<WeightId> {
        match self.table {
            Table::Tensor => Vec::new(),
            Table::Halves { id, .. } => vec![id],
        }
    }

    fn infer(&self, node: &Node, shapes: &Shapes<'_>) -> Result<OutSizes, Fault> {
        let index = shapes.sizes(node.inputs[0]);
        let x = match &self.table {
            Table::Tensor => shapes.sizes(node.inputs[1]),
            Table::Halves { dims, .. } => dims.as_slice(),
        };
        if self.dim >= x.len() {
            return Err(shape_fault("indexed tensor", &[0], x));
        }
        if self.elements {
            let fits = |d: usize| d == self.dim || index[d] <= x[d];
            if index.len() != x.len() || !(0..x.len()).all(fits) {
                return Err(shape_fault("index of a gather", x, index));
            }
            return Ok(one(index.iter().copied().collect()));
        }
        let sizes = x[..self.dim].iter().chain(index).chain(&x[self.dim + 1..]);
        let mut out = Dims::new();
        for &size in sizes {
            out.try_push(size).map_err(|_| shape_fault("rank of an indexed result", x, index))?;
        }
        Ok(one(out))
    }

    fn record(&self, node: &Node, record: &mut Record<'_>) -> Result<(), Error> {
        let index = record.layout(node.inputs[0]).clone();
        let (x, storage, bind) = match &self.table {
            Table::Tensor => {
                (record.layout(node.inputs[1]).clone(), Storage::Word, Bind::Read(node.inputs[1]))
            }
            Table::Halves { id, dims } => {
                (crate::host::contiguous(dims.clone()), Storage::Half, Bind::Weight(*id))
            }
        };
        let rows = Rows { first: 0, count: x.sizes[self.dim] };
        let op = gather::Gather { x: &x, storage, dim: self.dim, rows, index: &index, tag: record.node };
        let launch = if self.elements {
            gather::gather_elements(&op, record.limits)
        } else {
            gather::gather_rows(&op, record.limits)
        };
        let launch = launch.map_err(|unsupported| record.unsupported(node, &unsupported))?;
        let out = Bind::Write(node.outputs[0]);
        let binds = [bind, Bind::Read(node.inputs[0]), out, Bind::Dynamic, Bind::Fault];
        // Of the table, what is copied.
        let copied = record.bytes(&[out]) / if storage == Storage::Half { 2 } else { 1 };
        let bytes = record.bytes(&binds[1..]).saturating_add(copied);
        record.launch_moving(&launch, &binds, bytes)
    }
}

impl Kind for EmbeddingQ4 {
    fn weights(&self) -> Vec<WeightId> {
        vec![self.weight, self.scales]
    }

    fn infer(&self, node: &Node, shapes: &Shapes<'_>) -> Result<OutSizes, Fault> {
        let index = shapes.sizes(node.inputs[0]);
        let mut out: Dims = index.iter().copied().collect();
        out.try_push(self.width).map_err(|_| shape_fault("rank of an embedding", &[], index))?;
        Ok(one(out))
    }

    fn record(&self, node: &Node, record: &mut Record<'_>) -> Result<(), Error> {
        let op = TableKernel {
            width: self.width,
            table_rows: self.rows,
            rows: Rows { first: 0, count: self.rows },
            row_bytes: self.width.div_ceil(2),
            high_first: self.high_first,
            group_size: self.group_size,
            scale_storage: self.scale_storage,
            scale_row: self.scale_row,
            scale_group: self.scale_group,
            index: record.layout(node.inputs[0]),
            tag: record.node,
        };
        let launch = embedding_q4::embedding_q4(&op, record.limits)
            .map_err(|unsupported| record.unsupported(node, &unsupported))?;
        let binds = [
            Bind::Weight(self.weight),
            Bind::Weight(self.scales),
            Bind::Read(node.inputs[0]),
            Bind::Write(node.outputs[0]),
            Bind::Dynamic,
            Bind::Fault,
        ];
        // Of the table and its scales, the rows of the index.
        let count = record.bytes(&[Bind::Read(node.inputs[0])]) / 4;
        let table = record.bytes(&binds[..2]) / u64::from(self.rows.max(1));
        let bytes = record.bytes(&binds[2..]).saturating_add(table.saturating_mul(count));
        record.launch_moving(&launch, &binds, bytes)
    }
}

fn index_tensor(call: &mut Call<'_, '_>, slot: usize) -> Lowered<TensorId> {
    let index = call.tensor(slot)?;
    check_index(call, index)
}

fn check_index(call: &Call<'_, '_>, index: TensorId) -> Lowered<TensorId> {
    let tensor = call.builder.program.tensor(index);
    if tensor.elem() == Elem::I32 && tensor.dtype != DType::Bool {
        return Ok(index);
    }
    Err(Fault::Dtype { what: "index", found: tensor.dtype })
}

/// The table in `slot`: a constant of halves stays packed.
fn table(call: &mut Call<'_, '_>, slot: usize, inputs: &mut Vec<TensorId>) -> Lowered<Table> {
    if let Some(info) = call.constant(slot)?
        && info.dtype == DType::Float16
    {
        return Ok(Table::Halves { id: call.weight(slot, Form::Raw)?, dims: crate::lower::dims(&info.dims) });
    }
    inputs.push(call.tensor(slot)?);
    Ok(Table::Tensor)
}

fn emit(call: &mut Call<'_, '_>, x: usize, index: TensorId, dim: usize, elements: bool) -> Lowered<()> {
    let mut inputs = vec![index];
    let table = table(call, x, &mut inputs)?;
    call.emit(Op::Gather(Gather { table, dim, elements }), inputs, call.last())
}

/// `aten.embedding.default [weight, indices, padding_idx, scale_grad_by_freq, sparse, out]`
pub(super) fn embedding(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[6], "6")?;
    let index = index_tensor(call, 1)?;
    emit(call, 0, index, 0, false)
}

/// `aten.index_select.default [x, dim, index, out]`
pub(super) fn index_select(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[4], "4")?;
    let dim = call.dim(1, call.info(0)?.dims.len())?;
    let index = index_tensor(call, 2)?;
    emit(call, 0, index, dim, false)
}

/// `aten.gather.default [x, dim, index, sparse_grad, out]`
pub(super) fn gather_elements(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[5], "5")?;
    let dim = call.dim(1, call.info(0)?.dims.len())?;
    let index = index_tensor(call, 2)?;
    emit(call, 0, index, dim, true)
}

/// Rows or elements of `x` whose result stays inside the lowering.
pub(super) fn inner(
    call: &mut Call<'_, '_>,
    x: TensorId,
    index: TensorId,
    dim: usize,
    elements: bool,
) -> Lowered<TensorId> {
    let (from, at) = (bound(call, x), bound(call, index));
    if dim >= from.len() {
        return Err(shape_fault("indexed tensor", &[0], &from));
    }
    let out = if elements { at } else { [&from[..dim], &at, &from[dim + 1..]].concat() };
    let dtype = call.builder.program.tensor(x).dtype;
    let op = Op::Gather(Gather { table: Table::Tensor, dim, elements });
    Ok(call.emit_inner(op, vec![index, x], dtype, &out))
}

/// `aten.index.Tensor [x, indices, out]`: the index tensors broadcast together; Null keeps a dimension.
pub(super) fn index_tensors(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[3], "3")?;
    let mut given = Vec::new();
    for (dim, index) in call.tensors(1)?.into_iter().enumerate() {
        if let Some(index) = index {
            given.push((dim, check_index(call, index)?));
        }
    }
    match given.as_slice() {
        [] => {
            let x = call.tensor(0)?;
            call.bind(2, x)
        }
        &[(dim, index)] => emit(call, 0, index, dim, false),
        _ => index_together(call, &given),
    }
}

/// Several index tensors: they become one into the merged dimensions, which first become neighbours.
fn index_together(call: &mut Call<'_, '_>, given: &[(usize, TensorId)]) -> Lowered<()> {
    let mut x = call.tensor(0)?;
    let (rank, count) = (call.rank(x), given.len());
    let first = given[0].0;
    let neighbours = given.iter().enumerate().all(|(at, &(dim, _))| dim == first + at);
    if given[count - 1].0 >= rank {
        return Err(shape_fault("dimensions of an indexed tensor", &bound(call, x), &[]));
    }
    // The common dimensions stand where the indices do; in front, if those are not neighbours.
    let place = if neighbours { first } else { 0 };
    if !neighbours {
        let indexed = given.iter().map(|&(dim, _)| dim);
        let kept = (0..rank).filter(|dim| given.iter().all(|(indexed, _)| indexed != dim));
        let order: Vec<usize> = indexed.chain(kept).collect();
        let from = bound(call, x);
        let limits: Vec<u32> = order.iter().map(|&dim| from[dim]).collect();
        x = call.builder.view(x, View::Permute(order), &limits)?;
    }
    let (mut sizes, mut limits) = (repeat::sizes(call, x), bound(call, x));
    let mut linear: Option<TensorId> = None;
    for (at, &(_, index)) in given.iter().enumerate() {
        // Read from a count of the dimension, an index is wrapped, and reported when it is out of range.
        let count = fill::counting(call, sizes[place + at], limits[place + at]);
        let index = inner(call, count, index, 0, false)?;
        linear = Some(match linear {
            None => index,
            Some(outer) => {
                let Index::Sym(size) = sizes[place + at] else { continue };
                let size = call.builder.sym_tensor(size);
                let outer = map::inner(call, MapOp::MulI, [0; 2], vec![outer, size], DType::Int32)?;
                map::inner(call, MapOp::AddI, [1, 0], vec![outer, index], DType::Int32)?
            }
        });
    }
    for _ in 1..count {
        let (size, limit) = (sizes.remove(place + 1), limits.remove(place + 1));
        sizes[place] = repeat::times(call, sizes[place], size);
        limits[place] = limits[place].saturating_mul(limit);
    }
    let x = call.builder.view(x, View::Reshape(sizes), &limits)?;
    let Some(linear) = linear else { return Ok(()) };
    call.emit(Op::Gather(Gather { table: Table::Tensor, dim: place, elements: false }), vec![linear, x], 2)
}

/// `quantized_decomposed.embedding_4bit.dtype
/// [weight, scales, zero_points, quant_min, quant_max, indices, dtype, out]`: even elements in high halves.
pub(super) fn embedding_4bit(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[8], "8")?;
    let index = index_tensor(call, 5)?;
    let (weight, scales) = (call.tensor(0)?, call.float_tensor(1)?);
    let (&[rows, row_bytes], table) = (bound(call, weight).as_slice(), bound(call, scales)) else {
        return Err(shape_fault("4-bit table", &[0, 0], &bound(call, weight)));
    };
    let width = row_bytes.saturating_mul(2);
    let groups = table.iter().product::<u32>().checked_div(rows).unwrap_or(0);
    if groups == 0 || table.first() != Some(&rows) || width % groups != 0 {
        return Err(shape_fault("scales of an embedding", &[rows, 1], &table));
    }
    let shape = [rows, groups];
    let by_group = View::Reshape(shape.iter().map(|&size| Index::Const(size.into())).collect());
    let parameters = |call: &mut Call<'_, '_>, table: TensorId| {
        let table = call.builder.view(table, by_group.clone(), &shape)?;
        let picked = inner(call, table, index, 0, false)?;
        let dim = call.rank(picked);
        let limits = [bound(call, picked), vec![1]].concat();
        call.builder.view(picked, View::Unsqueeze { dim }, &limits)
    };
    let scales = parameters(call, scales)?;
    let zeros = match call.optional_tensor(2)? {
        Some(zeros) => {
            let zeros = call.builder.convert(zeros, DType::Int32);
            let zeros = parameters(call, zeros)?;
            map::inner(call, MapOp::AddI, [8, 1], vec![zeros], DType::Int32)?
        }
        None => call.builder.literal(DType::Int32, 8),
    };
    let bytes = inner(call, weight, index, 0, false)?;
    let codes = nibbles::unpacked(call, bytes, Nibbles::HighFirst)?;
    let mut sizes = repeat::sizes(call, codes);
    let mut limits = bound(call, codes);
    sizes.pop();
    limits.pop();
    for size in [groups, width / groups] {
        sizes.push(Index::Const(size.into()));
        limits.push(size);
    }
    let codes = call.builder.view(codes, View::Reshape(sizes.clone()), &limits)?;
    let rows = map::inner(call, MapOp::Dequantize, [0; 2], vec![codes, scales, zeros], DType::Float32)?;
    sizes.truncate(sizes.len() - 2);
    sizes.push(Index::Const(width.into()));
    call.emit_view(rows, View::Reshape(sizes), 7)
}

/// `et_vk.embedding_q4gsw.default [weight, scales, group_size, indices, is_linear_weight, out]`
pub(super) fn embedding_q4gsw(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[6], "6")?;
    let group_size = positive(call, 2, "group_size")?;
    let mut index = index_tensor(call, 3)?;
    if call.rank(index) > 4 {
        index = call.builder.contiguous(index);
    }
    let low_first = call.optional_bool(4)?.unwrap_or(false);
    let info = call.info(0)?;
    let (&[rows, row_bytes], 1) = (info.dims.as_slice(), info.dtype.size()) else {
        return Err(Fault::Dtype { what: "4-bit table", found: info.dtype });
    };
    let width = row_bytes.saturating_mul(2);
    let groups = width.div_ceil(group_size);
    // Row-major [V, G] (or [V] for one group); a table shared with a linear layer has its [G, ⌈V⌉4].
    let scales = call.info(1)?.dims.as_slice();
    let (scale_row, scale_group) = match *scales {
        [v] if v >= rows && groups == 1 => (1, 0),
        [v, g] if v == rows && g == groups => (g, 1),
        [g, v] if g == groups && v >= rows => (1, v),
        _ => return Err(shape_fault("scales of an embedding", &[rows, groups], scales)),
    };
    let op = EmbeddingQ4 {
        weight: call.weight(0, Form::Raw)?,
        scales: call.weight(1, Form::Raw)?,
        scale_storage: scale_storage(call, 1)?,
        rows,
        width,
        group_size,
        high_first: !low_first,
        scale_row,
        scale_group,
    };
    call.emit(Op::EmbeddingQ4(op), vec![index], 5)
}
