//! Tensors to integer codes and back, with one pair of scale and zero point for all elements or for each block.

use etvk_kernels::MAX_RANK;
use etvk_kernels::map::MapOp;
use etvk_vkgraph::DType;

use super::call::{Call, Result as Lowered};
use super::map;
use super::qparams::{code, literals};
use super::repeat::{bound, size, sizes};
use crate::host::shape_fault;
use crate::ir::{Index, SymDef, TensorId, View};

/// Current sizes with their upper bounds.
#[derive(Clone, Default)]
pub(super) struct Shape {
    sizes: Vec<Index>,
    bound: Vec<u32>,
}

impl Shape {
    fn push(&mut self, size: Index, bound: u32) {
        self.sizes.push(size);
        self.bound.push(bound);
    }

    /// The shape of a tensor.
    fn of(call: &mut Call<'_, '_>, id: TensorId) -> Self {
        Self { sizes: sizes(call, id), bound: bound(call, id) }
    }

    /// `id` in this shape.
    pub(super) fn apply(&self, call: &mut Call<'_, '_>, id: TensorId) -> Lowered<TensorId> {
        call.builder.view(id, View::Reshape(self.sizes.clone()), &self.bound)
    }
}

/// What one dimension of a tensor comes to in blocks.
struct Axis {
    /// Number of blocks.
    count: (Index, u32),
    /// Elements of a block.
    block: (Index, u32),
    /// Whether blocks have one element each.
    single: bool,
}

/// A tensor's division into blocks that share parameters.
pub(super) struct Blocks(Vec<Axis>);

impl Blocks {
    /// Blocks of the given sizes; −1, or the upper bound itself, is all of a dimension.
    pub(super) fn new(call: &mut Call<'_, '_>, x: TensorId, block: &[i64]) -> Lowered<Self> {
        let limits = bound(call, x);
        if block.len() != limits.len() {
            return Err(shape_fault("rank of the blocks of a tensor", &limits, &[]));
        }
        let mut axes = Vec::new();
        for (dim, (&most, &block)) in limits.iter().zip(block).enumerate() {
            let current = size(call, x, dim);
            let one = (Index::Const(1), 1);
            let axis = match u32::try_from(block) {
                Ok(1) => Axis { count: (current, most), block: one, single: true },
                _ if block == -1 || block == i64::from(most) => {
                    Axis { count: one, block: (current, most), single: false }
                }
                Ok(elements) if elements > 0 && most % elements == 0 => {
                    let count = SymDef::FloorDiv(current, Index::Const(block));
                    let count = Index::Sym(call.builder.sym(count));
                    let block = (Index::Const(block), elements);
                    Axis { count: (count, most / elements), block, single: false }
                }
                _ => return Err(shape_fault("blocks of a quantised tensor", &limits, &[])),
            };
            axes.push(axis);
        }
        Ok(Self(axes))
    }

    fn counts(&self) -> Shape {
        let mut shape = Shape::default();
        self.0.iter().for_each(|axis| shape.push(axis.count.0, axis.count.1));
        shape
    }

    /// Sizes with every divided dimension as (blocks, elements of a block), and those of the parameters beside it.
    fn apart(&self) -> Lowered<(Shape, Shape)> {
        let (mut split, mut shared) = (Shape::default(), Shape::default());
        for axis in &self.0 {
            if axis.count.0 != Index::Const(1) {
                split.push(axis.count.0, axis.count.1);
                shared.push(axis.count.0, axis.count.1);
            }
            if !axis.single {
                split.push(axis.block.0, axis.block.1);
                shared.push(Index::Const(1), 1);
            }
        }
        if split.sizes.len() > MAX_RANK {
            return Err(shape_fault("rank of a tensor in blocks", &[8], &split.bound));
        }
        Ok((split, shared))
    }

    /// `x` with a row for each block: the counts of blocks, then a block's elements.
    pub(super) fn rows(&self, call: &mut Call<'_, '_>, x: TensorId) -> Lowered<TensorId> {
        let (split, shared) = self.apart()?;
        let x = split.apply(call, x)?;
        let inside = |&dim: &usize| shared.sizes[dim] == Index::Const(1);
        let (within, mut order): (Vec<usize>, Vec<usize>) = (0..split.sizes.len()).partition(inside);
        order.extend(&within);
        let limits: Vec<u32> = order.iter().map(|&dim| split.bound[dim]).collect();
        let x = call.builder.view(x, View::Permute(order), &limits)?;
        let mut rows = self.counts();
        let elements = self.0.iter().map(|axis| axis.block);
        let mut all = (Index::Const(1), 1u32);
        for (index, most) in elements {
            all = (super::repeat::times(call, all.0, index), all.1.saturating_mul(most));
        }
        if rows.sizes.len() == MAX_RANK {
            return Err(shape_fault("rank of a tensor in blocks", &[8], &rows.bound));
        }
        rows.push(all.0, all.1);
        rows.apply(call, x)
    }

    /// Sizes of parameters chosen for each block: blocks of several elements lose their dimension if it holds only
    /// one block, unless it is kept.
    pub(super) fn chosen(&self, keep: bool) -> Shape {
        let mut shape = Shape::default();
        for axis in &self.0 {
            if keep || axis.single || axis.count.0 != Index::Const(1) {
                shape.push(axis.count.0, axis.count.1);
            }
        }
        shape
    }
}

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    /// To codes between bounds in this slot and the next.
    Quantize(usize),
    /// To floats.
    Dequantize,
}

/// x in slot 0 with parameters that broadcast against it, converted.
fn converted(
    call: &mut Call<'_, '_>,
    direction: Direction,
    [x, scale, zero]: [TensorId; 3],
) -> Lowered<TensorId> {
    let out = call.last();
    let Direction::Quantize(bounds) = direction else {
        let x = call.builder.convert(x, DType::Int32);
        return map::inner(call, MapOp::Dequantize, [0; 2], vec![x, scale, zero], DType::Float32);
    };
    let dtype = call.info(out)?.dtype;
    let (low, high) = match dtype {
        DType::UInt8 => (0, 255),
        DType::Int8 => (-128, 127),
        _ => (i32::MIN, i32::MAX),
    };
    let bounds = [code(call, bounds, low)?, code(call, bounds + 1, high)?].map(i32::cast_unsigned);
    let x = call.floats(x);
    map::inner(call, MapOp::Quantize, bounds, vec![x, scale, zero], dtype)
}

/// Scales and zero points in two slots, the latter 0 where they are Null or empty, in one shape.
fn parameters(call: &mut Call<'_, '_>, slot: usize, shape: &Shape) -> Lowered<[TensorId; 2]> {
    let scales = call.float_tensor(slot)?;
    let scales = shape.apply(call, scales)?;
    let zeros = match call.optional_tensor(slot + 1)? {
        Some(zeros) if !call.builder.program.tensor(zeros).bound.contains(&0) => {
            let zeros = call.builder.convert(zeros, DType::Int32);
            shape.apply(call, zeros)?
        }
        _ => call.builder.literal(DType::Int32, 0),
    };
    Ok([scales, zeros])
}

fn per_tensor(call: &mut Call<'_, '_>, direction: Direction) -> Lowered<()> {
    let x = call.tensor(0)?;
    let (scale, zero) = literals(call, 1, 2)?;
    let result = converted(call, direction, [x, scale, zero])?;
    call.bind(call.last(), result)
}

fn per_tensor_of_tensors(call: &mut Call<'_, '_>, direction: Direction) -> Lowered<()> {
    let x = call.tensor(0)?;
    let [scale, zero] = parameters(call, 1, &Shape::default())?;
    let result = converted(call, direction, [x, scale, zero])?;
    call.bind(call.last(), result)
}

fn per_channel(call: &mut Call<'_, '_>, direction: Direction) -> Lowered<()> {
    let x = call.tensor(0)?;
    let axis = call.dim(3, call.rank(x))?;
    let mut shape = Shape::default();
    for (dim, &most) in bound(call, x).iter().enumerate() {
        if dim == axis {
            let size = size(call, x, dim);
            shape.push(size, most);
        } else {
            shape.push(Index::Const(1), 1);
        }
    }
    let [scales, zeros] = parameters(call, 1, &shape)?;
    let result = converted(call, direction, [x, scales, zeros])?;
    call.bind(call.last(), result)
}

fn per_token(call: &mut Call<'_, '_>, direction: Direction) -> Lowered<()> {
    let x = call.tensor(0)?;
    let mut shape = Shape::of(call, x);
    if let (Some(size), Some(most)) = (shape.sizes.last_mut(), shape.bound.last_mut()) {
        (*size, *most) = (Index::Const(1), 1);
    }
    let [scales, zeros] = parameters(call, 1, &shape)?;
    let result = converted(call, direction, [x, scales, zeros])?;
    call.bind(call.last(), result)
}

/// Both sides are viewed with every dimension split into (blocks, elements of a block), where the parameters
/// broadcast.
fn affine(call: &mut Call<'_, '_>, direction: Direction) -> Lowered<()> {
    let (x, block) = (call.tensor(0)?, call.ints(1)?);
    let whole = Shape::of(call, x);
    let (split, shared) = Blocks::new(call, x, &block)?.apart()?;
    let x = split.apply(call, x)?;
    let mut pair = parameters(call, 2, &shared)?;
    if split.sizes.len() > map::RANK {
        for parameter in &mut pair {
            let all = View::Expand(split.sizes.clone());
            let view = call.builder.view(*parameter, all, &split.bound)?;
            *parameter = call.builder.contiguous(view);
        }
    }
    let [scales, zeros] = pair;
    let result = converted(call, direction, [x, scales, zeros])?;
    let result = whole.apply(call, result)?;
    call.bind(call.last(), result)
}

/// `quantized_decomposed.quantize_per_tensor.default [x, scale, zero_point, quant_min, quant_max, dtype, out]`
pub(super) fn quantize_per_tensor(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[7], "7")?;
    per_tensor(call, Direction::Quantize(3))
}

/// `quantized_decomposed.quantize_per_tensor.tensor [x, scale, zero_point, quant_min, quant_max, dtype, out]`, scale and
/// zero point tensors of one element.
pub(super) fn quantize_per_tensor_of_tensors(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[7], "7")?;
    per_tensor_of_tensors(call, Direction::Quantize(3))
}

/// `quantized_decomposed.quantize_per_channel.default
/// [x, scales, zero_points, axis, quant_min, quant_max, dtype, out]`
pub(super) fn quantize_per_channel(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[8], "8")?;
    per_channel(call, Direction::Quantize(4))
}

/// `quantized_decomposed.quantize_per_token.default [x, scales, zero_points, quant_min, quant_max, dtype, out]`
pub(super) fn quantize_per_token(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[7], "7")?;
    per_token(call, Direction::Quantize(3))
}

/// `torchao.quantize_affine.default [x, block_size, scale, zero_point, output_dtype, quant_min, quant_max, out]`
pub(super) fn quantize_affine(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[8], "8")?;
    affine(call, Direction::Quantize(5))
}

/// `quantized_decomposed.dequantize_per_tensor.default
/// [x, scale, zero_point, quant_min, quant_max, dtype, (out_dtype,) out]`
pub(super) fn dequantize_per_tensor(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[7, 8], "7 or 8")?;
    per_tensor(call, Direction::Dequantize)
}

/// `quantized_decomposed.dequantize_per_tensor.tensor
/// [x, scale, zero_point, quant_min, quant_max, dtype, (out_dtype,) out]`, scale and zero point tensors of one element.
pub(super) fn dequantize_per_tensor_of_tensors(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[7, 8], "7 or 8")?;
    per_tensor_of_tensors(call, Direction::Dequantize)
}

/// `quantized_decomposed.dequantize_per_channel.default
/// [x, scales, zero_points, axis, quant_min, quant_max, dtype, (out_dtype,) out]`
pub(super) fn dequantize_per_channel(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[8, 9], "8 or 9")?;
    per_channel(call, Direction::Dequantize)
}

/// `quantized_decomposed.dequantize_per_token.default
/// [x, scales, zero_points, quant_min, quant_max, dtype, (out_dtype,) out]`
pub(super) fn dequantize_per_token(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[7, 8], "7 or 8")?;
    per_token(call, Direction::Dequantize)
}

/// `torchao.dequantize_affine.default
/// [x, block_size, scale, zero_point, input_dtype, quant_min, quant_max, output_dtype, out]`
pub(super) fn dequantize_affine(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[9], "9")?;
    affine(call, Direction::Dequantize)
}
