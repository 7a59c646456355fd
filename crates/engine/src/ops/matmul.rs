//! Float matrix products: `aten.linear`, `mm`, `bmm`, `addmm`.

use etvk_kernels::matmul::{self, Matmul};
use etvk_kernels::{Dims, Storage, Strided, contiguous_strides};
use etvk_vkgraph::DType;

use super::call::{Call, Result as Lowered};
use super::{Kind, Op, OutSizes, broadcast, one};
use crate::error::{Error, Fault};
use crate::host::{Shapes, shape_fault};
use crate::ir::{Form, Node, TensorId, WeightId};
use crate::record::{Bind, Record};

/// Where B comes from.
#[derive(Clone, Debug)]
pub(crate) enum Factor {
    /// Input 1 of the node.
    Tensor,
    /// A constant in its serialised form.
    Weight { id: WeightId, dims: Dims, storage: Storage },
}

/// out\[…, m, n\] = alpha · Σₖ A\[…, m, k\] · B\[…, n, k\] + beta · C. Inputs: A, (B), (bias), (C).
#[derive(Clone, Debug)]
pub struct MatMul {
    pub(crate) factor: Factor,
    /// B is \[…, K, N\] instead of \[…, N, K\].
    pub(crate) transposed: bool,
    pub(crate) bias: bool,
    pub(crate) addend: bool,
    pub(crate) alpha: f32,
    pub(crate) beta: f32,
}

impl MatMul {
    fn factor_sizes<'a>(&'a self, node: &Node, sizes: impl Fn(TensorId) -> &'a [u32]) -> &'a [u32] {
        match &self.factor {
            Factor::Tensor => sizes(node.inputs[1]),
            Factor::Weight { dims, .. } => dims,
        }
    }

    /// N and K of B.
    fn n_k(&self, b: &[u32]) -> Option<(u32, u32)> {
        let &[.., first, second] = b else { return None };
        Some(if self.transposed { (second, first) } else { (first, second) })
    }

    fn optional(&self, node: &Node) -> (Option<TensorId>, Option<TensorId>) {
        let mut rest = node.inputs.iter().skip(if matches!(self.factor, Factor::Tensor) { 2 } else { 1 });
        let bias = if self.bias { rest.next().copied() } else { None };
        let addend = if self.addend { rest.next().copied() } else { None };
        (bias, addend)
    }

    /// Checks that the operands fit each other; gives N.
    fn check(&self, node: &Node, a: &[u32], b: &[u32], shapes: &Shapes<'_>) -> Result<u32, Fault> {
        let mismatch = || shape_fault("factors of a matrix product", a, b);
        let (n, k) = self.n_k(b).ok_or_else(mismatch)?;
        let (Some(&depth), batched) = (a.last(), b.len() == 3) else { return Err(mismatch()) };
        let batches_fit = !batched || (a.len() == 3 && a[0] == b[0]);
        if depth != k || !batches_fit || (b.len() != 2 && b.len() != 3) {
            return Err(mismatch());
        }
        let m = if batched { a[1] } else { a[..a.len() - 1].iter().product() };
        let (bias, addend) = self.optional(node);
        // Exporters pad a bias; a shorter one cannot be right.
        if let Some(bias) = bias
            && shapes.sizes(bias).iter().product::<u32>() < n
        {
            return Err(shape_fault("bias of a linear layer", &[n], shapes.sizes(bias)));
        }
        if let Some(addend) = addend {
            let c = shapes.sizes(addend);
            if broadcast(&[c, &[m, n]])?.as_slice() != [m, n] {
                return Err(shape_fault("addend of a matrix product", &[m, n], c));
            }
        }
        Ok(n)
    }
}

impl Kind for MatMul {
    fn weights(&self) -> Vec<WeightId> {
        match self.factor {
            Factor::Tensor => Vec::new(),
            Factor::Weight { id, .. } => vec![id],
        }
    }

    fn infer(&self, node: &Node, shapes: &Shapes<'_>) -> Result<OutSizes, Fault> {
        let a = shapes.sizes(node.inputs[0]);
        let b = match &self.factor {
            Factor::Tensor => shapes.sizes(node.inputs[1]),
            Factor::Weight { dims, .. } => dims.as_slice(),
        };
        let columns = self.check(node, a, b, shapes)?;
        let mut out: Dims = a.iter().copied().collect();
        if let Some(last) = out.last_mut() {
            *last = columns;
        }
        Ok(one(out))
    }

    fn record(&self, node: &Node, record: &mut Record<'_>) -> Result<(), Error> {
        let from = record.layout(node.inputs[0]);
        let b_sizes = self.factor_sizes(node, |id| &record.layout(id).sizes);
        let Some((n, k)) = self.n_k(b_sizes) else { return Ok(()) };
        let a = if b_sizes.len() == 3 { from.clone() } else { flat_rows(from, k) };
        let (mut b, storage) = match &self.factor {
            Factor::Tensor => (record.layout(node.inputs[1]).clone(), Storage::Word),
            Factor::Weight { dims, storage, .. } => (dense(dims), *storage),
        };
        if self.transposed {
            swap_last(&mut b);
        }
        let (bias, addend) = self.optional(node);
        let c = addend.map(|id| record.layout(id).clone());
        let launch = matmul::matmul(
            &Matmul {
                a: &a,
                b: &b,
                b_storage: storage,
                bias: bias.is_some(),
                c: c.as_ref(),
                alpha: self.alpha,
                beta: self.beta,
                first_column: 0,
                out_row: n,
            },
            record.limits,
        );
        let factor = match &self.factor {
            Factor::Tensor => Bind::Read(node.inputs[1]),
            Factor::Weight { id, .. } => Bind::Weight(*id),
        };
        let optional = |id: Option<TensorId>| id.map_or(Bind::Absent, Bind::Read);
        let out = Bind::Write(node.outputs[0]);
        let binds =
            [Bind::Read(node.inputs[0]), factor, optional(bias), optional(addend), out, Bind::Dynamic];
        record.launch(&launch, &binds)
    }
}

/// A contiguous tensor's rows of `width` elements as a matrix.
fn flat_rows(from: &Strided, width: u32) -> Strided {
    if from.sizes.len() == 2 {
        return from.clone();
    }
    let count = from.sizes.iter().rev().skip(1).product();
    let sizes = Dims::from_iter([count, width]);
    Strided { strides: contiguous_strides(&sizes), sizes, ..from.clone() }
}

fn dense(dims: &Dims) -> Strided {
    crate::host::contiguous(dims.clone())
}

fn swap_last(layout: &mut Strided) {
    let rank = layout.sizes.len();
    if rank >= 2 {
        layout.sizes.swap(rank - 1, rank - 2);
        layout.strides.swap(rank - 1, rank - 2);
    }
}

fn storage_of(dtype: DType) -> Option<Storage> {
    match dtype {
        DType::Float16 => Some(Storage::Half),
        DType::Float32 => Some(Storage::Word),
        _ => None,
    }
}

struct Product {
    transposed: bool,
    bias: Option<usize>,
    addend: Option<usize>,
    alpha: f64,
    beta: f64,
}

fn emit(call: &mut Call<'_, '_>, a: usize, b: usize, product: &Product) -> Lowered<()> {
    let mut inputs = vec![call.float_tensor(a)?];
    let (a_rank, b_rank) = (call.rank(inputs[0]), call.info(b)?.dims.len());
    if a_rank != 2 && b_rank == 2 {
        inputs[0] = call.builder.contiguous(inputs[0]);
    }
    let factor = match call.constant(b)? {
        Some(info) if let Some(storage) = storage_of(info.dtype) => {
            let dims = crate::lower::dims(&info.dims);
            Factor::Weight { id: call.weight(b, Form::Raw)?, dims, storage }
        }
        _ => {
            inputs.push(call.float_tensor(b)?);
            Factor::Tensor
        }
    };
    let bias = match product.bias {
        Some(slot) => call.optional_tensor(slot)?,
        None => None,
    };
    if let Some(bias) = bias {
        let bias = call.builder.convert(bias, DType::Float32);
        inputs.push(call.builder.dense(bias));
    }
    if let Some(slot) = product.addend {
        inputs.push(call.float_tensor(slot)?);
    }
    #[expect(clippy::cast_possible_truncation, reason = "device arithmetic is single precision")]
    let op = MatMul {
        factor,
        transposed: product.transposed,
        bias: bias.is_some(),
        addend: product.addend.is_some(),
        alpha: product.alpha as f32,
        beta: product.beta as f32,
    };
    call.emit(Op::MatMul(op), inputs, call.last())
}

/// a\[b, m, k\] · b\[b, n, k\] whose result stays inside the lowering.
pub(super) fn inner(call: &mut Call<'_, '_>, a: TensorId, b: TensorId, bound: &[u32]) -> TensorId {
    let factor = Factor::Tensor;
    let op = MatMul { factor, transposed: false, bias: false, addend: false, alpha: 1.0, beta: 0.0 };
    call.emit_inner(Op::MatMul(op), vec![a, b], DType::Float32, bound)
}

/// `a` times `b` as the last value: `b` is \[N, K\], or \[K, N\] where `transposed`; both are floats.
pub(super) fn product(call: &mut Call<'_, '_>, a: TensorId, b: TensorId, transposed: bool) -> Lowered<()> {
    let a = if call.rank(a) == 2 { a } else { call.builder.contiguous(a) };
    let factor = Factor::Tensor;
    let op = MatMul { factor, transposed, bias: false, addend: false, alpha: 1.0, beta: 0.0 };
    call.emit(Op::MatMul(op), vec![a, b], call.last())
}

/// `aten.linear.default [x, weight, bias, out]`
pub(super) fn linear(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[4], "4")?;
    let product = Product { transposed: false, bias: Some(2), addend: None, alpha: 1.0, beta: 0.0 };
    emit(call, 0, 1, &product)
}

/// `aten.mm.default [a, b, out]`, `aten.bmm.default [a, b, out]`
pub(super) fn mm(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[3], "3")?;
    emit(call, 0, 1, &Product { transposed: true, bias: None, addend: None, alpha: 1.0, beta: 0.0 })
}

/// `aten.addmm.default [self, a, b, beta, alpha, out]`
pub(super) fn addmm(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[6], "6")?;
    let (beta, alpha) = (call.float(3)?, call.float(4)?);
    emit(call, 1, 2, &Product { transposed: true, bias: None, addend: Some(0), alpha, beta })
}
