//! Tensors of the interpreter, and walks over their elements.

use std::borrow::Cow;

use etvk_vkgraph::DType;
use half::f16;

use crate::{Error, Fault};

/// Largest number of elements of a tensor; what a payload may declare.
const MAX_ELEMENTS: usize = u32::MAX as usize;

/// A dense tensor in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    dtype: DType,
    dims: Vec<usize>,
    data: Data,
}

/// The elements of a tensor, held wider than its element type.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// Of the floating-point types. `Float32` elements are singles; so are `Float16` ones, which stay wide.
    F64(Vec<f64>),
    /// Of the integer types and of truth values (0 or 1), inside their type's range.
    I64(Vec<i64>),
}

impl Data {
    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Data::F64(items) => items.len(),
            Data::I64(items) => items.len(),
        }
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Tensor {
    /// A tensor of these elements, converted to `dtype` as [`Tensor::to`] does.
    ///
    /// # Errors
    /// [`Error::Elements`] where their number is not the product of `dims`.
    pub fn new(dtype: DType, dims: &[usize], data: Data) -> Result<Self, Error> {
        let expected = saturating_count(dims);
        if data.len() != expected {
            let (dims, unit, found) = (dims.to_vec(), "elements", data.len());
            return Err(Error::Elements { dtype, dims, unit, expected, found });
        }
        Ok(Self { dtype, dims: dims.to_vec(), data: store(data, dtype) })
    }

    /// A tensor from little-endian elements of `dtype.size()` bytes each.
    ///
    /// # Errors
    /// [`Error::Elements`] where there are fewer or more bytes.
    pub fn from_le_bytes(dtype: DType, dims: &[usize], bytes: &[u8]) -> Result<Self, Error> {
        let expected = saturating_count(dims).saturating_mul(dtype.size());
        if bytes.len() != expected {
            let (dims, unit, found) = (dims.to_vec(), "bytes", bytes.len());
            return Err(Error::Elements { dtype, dims, unit, expected, found });
        }
        Ok(Self { dtype, dims: dims.to_vec(), data: load(dtype, bytes) })
    }

    /// The elements as little-endian bytes of [`Tensor::dtype`], halves rounded to nearest even.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "elements are inside their type's range")]
    pub fn to_le_bytes(&self) -> Vec<u8> {
        match &self.data {
            Data::F64(items) => match self.dtype {
                DType::Float16 => items.iter().flat_map(|&x| f16::from_f64(x).to_le_bytes()).collect(),
                DType::Float64 => items.iter().flat_map(|x| x.to_le_bytes()).collect(),
                _ => items.iter().flat_map(|&x| (x as f32).to_le_bytes()).collect(),
            },
            Data::I64(items) => match self.dtype {
                DType::Int64 => items.iter().flat_map(|x| x.to_le_bytes()).collect(),
                DType::Int32 => items.iter().flat_map(|&x| (x as i32).to_le_bytes()).collect(),
                _ => items.iter().map(|&x| x as u8).collect(),
            },
        }
    }

    /// Element type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Sizes, outermost first.
    #[must_use]
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// Elements.
    #[must_use]
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// The tensor with another element type.
    ///
    /// Floats become integers by truncation, saturating at the type's range, and NaN becomes 0; integers wrap;
    /// what is not 0 becomes true. `Float16` rounds to single like `Float32`.
    #[must_use]
    pub fn to(self, dtype: DType) -> Self {
        if dtype == self.dtype {
            self
        } else {
            Self { dtype, dims: self.dims, data: store(self.data, dtype) }
        }
    }

    /// The tensor with floats rounded to half precision, to nearest even.
    pub(crate) fn halved(mut self) -> Self {
        if let Data::F64(items) = &mut self.data {
            items.iter_mut().for_each(|x| *x = f16::from_f64(*x).to_f64());
        }
        self
    }

    /// The elements as floats.
    #[must_use]
    pub fn floats(&self) -> Cow<'_, [f64]> {
        match &self.data {
            Data::F64(items) => Cow::Borrowed(items),
            Data::I64(items) => Cow::Owned(items.iter().map(|&x| x as f64).collect()),
        }
    }

    /// The elements as integers, floats truncated.
    #[must_use]
    pub fn integers(&self) -> Cow<'_, [i64]> {
        match &self.data {
            Data::F64(items) => Cow::Owned(items.iter().map(|&x| truncate(x)).collect()),
            Data::I64(items) => Cow::Borrowed(items),
        }
    }

    /// Unrounded results; the output they are written to decides the element type.
    pub(crate) fn wide(dims: Vec<usize>, items: Vec<f64>) -> Self {
        Self { dtype: DType::Float64, dims, data: Data::F64(items) }
    }

    /// Unwrapped results; the output they are written to decides the element type.
    pub(crate) fn whole(dims: Vec<usize>, items: Vec<i64>) -> Self {
        Self { dtype: DType::Int64, dims, data: Data::I64(items) }
    }

    pub(crate) fn rank(&self) -> usize {
        self.dims.len()
    }

    pub(crate) fn count(&self) -> usize {
        self.data.len()
    }

    pub(crate) fn is_integer(&self) -> bool {
        matches!(self.data, Data::I64(_))
    }

    /// The last size; 1 for rank 0.
    pub(crate) fn width(&self) -> usize {
        self.dims.last().copied().unwrap_or(1)
    }

    /// The same elements under other sizes of the same count.
    pub(crate) fn reshaped(&self, dims: Vec<usize>) -> Self {
        debug_assert_eq!(saturating_count(&dims), self.count());
        Self { dtype: self.dtype, dims, data: self.data.clone() }
    }

    /// The tensor of sizes `dims` whose element at a coordinate is this one's at the flat index given for it.
    pub(crate) fn pick(
        &self,
        dims: &[usize],
        mut index: impl FnMut(&[usize]) -> Result<usize, Fault>,
    ) -> Result<Self, Fault> {
        let data = match &self.data {
            Data::F64(items) => Data::F64(collect(dims, |at| Ok(items[index(at)?]))?),
            Data::I64(items) => Data::I64(collect(dims, |at| Ok(items[index(at)?]))?),
        };
        Ok(Self { dtype: self.dtype, dims: dims.to_vec(), data })
    }
}

/// The result for every coordinate of `dims`, in row-major order.
pub(crate) fn collect<T>(
    dims: &[usize],
    mut element: impl FnMut(&[usize]) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    let count = count(dims)?;
    let mut at = vec![0; dims.len()];
    let mut items = Vec::with_capacity(count);
    for _ in 0..count {
        items.push(element(&at)?);
        for (position, &size) in at.iter_mut().zip(dims).rev() {
            *position += 1;
            if *position < size {
                break;
            }
            *position = 0;
        }
    }
    Ok(items)
}

/// Number of elements.
pub(crate) fn count(dims: &[usize]) -> Result<usize, Fault> {
    match saturating_count(dims) {
        count if count <= MAX_ELEMENTS => Ok(count),
        _ => Err(Fault::TooLarge { dims: dims.to_vec() }),
    }
}

/// Row-major index of a coordinate.
pub(crate) fn flat(at: &[usize], dims: &[usize]) -> usize {
    at.iter().zip(dims).fold(0, |index, (&position, &size)| index * size + position)
}

/// Row-major index, in an operand of sizes `dims`, of the element broadcast to a coordinate of the result.
pub(crate) fn broadcast_flat(at: &[usize], dims: &[usize]) -> usize {
    let missing = at.len() - dims.len();
    at[missing..]
        .iter()
        .zip(dims)
        .fold(0, |index, (&position, &size)| index * size + if size == 1 { 0 } else { position })
}

/// Sizes that operands of these sizes broadcast to.
pub(crate) fn broadcast(operands: &[&[usize]]) -> Result<Vec<usize>, Fault> {
    let rank = operands.iter().map(|dims| dims.len()).max().unwrap_or(0);
    let mut result = vec![1; rank];
    for dims in operands {
        for (size, &own) in result.iter_mut().rev().zip(dims.iter().rev()) {
            if own != 1 && *size != 1 && own != *size {
                return Err(Fault::Broadcast { dims: operands.iter().map(|dims| dims.to_vec()).collect() });
            }
            if own != 1 {
                *size = own;
            }
        }
    }
    Ok(result)
}

/// A number rounded to single precision.
#[expect(clippy::cast_possible_truncation, reason = "rounding is what is wanted")]
pub(crate) fn single(x: f64) -> f64 {
    f64::from(x as f32)
}

/// A number as an integer, truncated and saturated; 0 for NaN.
#[expect(clippy::cast_possible_truncation, reason = "truncation is what is wanted")]
pub(crate) fn truncate(x: f64) -> i64 {
    x as i64
}

fn saturating_count(dims: &[usize]) -> usize {
    if dims.contains(&0) { 0 } else { dims.iter().fold(1, |count: usize, &dim| count.saturating_mul(dim)) }
}

/// Elements as `dtype` holds them.
fn store(data: Data, dtype: DType) -> Data {
    if dtype.is_float() {
        let items = match data {
            Data::F64(items) => items,
            Data::I64(items) => items.into_iter().map(|x| x as f64).collect(),
        };
        return Data::F64(match dtype {
            DType::Float64 => items,
            _ => items.into_iter().map(single).collect(),
        });
    }
    Data::I64(match data {
        Data::F64(items) => items.into_iter().map(|x| saturate(x, dtype)).collect(),
        Data::I64(items) => items.into_iter().map(|x| wrap(x, dtype)).collect(),
    })
}

fn saturate(x: f64, dtype: DType) -> i64 {
    match dtype {
        DType::Bool => i64::from(x != 0.0),
        DType::UInt8 => truncate(x).clamp(0, u8::MAX.into()),
        DType::Int8 => truncate(x).clamp(i8::MIN.into(), i8::MAX.into()),
        DType::Int32 => truncate(x).clamp(i32::MIN.into(), i32::MAX.into()),
        _ => truncate(x),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "integers wrap")]
fn wrap(x: i64, dtype: DType) -> i64 {
    match dtype {
        DType::Bool => i64::from(x != 0),
        DType::UInt8 => i64::from(x as u8),
        DType::Int8 => i64::from(x as i8),
        DType::Int32 => i64::from(x as i32),
        _ => x,
    }
}

fn load(dtype: DType, bytes: &[u8]) -> Data {
    match dtype {
        DType::Bool => Data::I64(bytes.iter().map(|&x| i64::from(x != 0)).collect()),
        DType::UInt8 => Data::I64(bytes.iter().map(|&x| i64::from(x)).collect()),
        DType::Int8 => Data::I64(bytes.iter().map(|&x| i64::from(x.cast_signed())).collect()),
        DType::Int32 => Data::I64(elements(bytes, |x| i64::from(i32::from_le_bytes(x)))),
        DType::Int64 => Data::I64(elements(bytes, i64::from_le_bytes)),
        DType::Float16 => Data::F64(elements(bytes, |x| f16::from_le_bytes(x).to_f64())),
        DType::Float64 => Data::F64(elements(bytes, f64::from_le_bytes)),
        _ => Data::F64(elements(bytes, |x| f64::from(f32::from_le_bytes(x)))),
    }
}

fn elements<const N: usize, T>(bytes: &[u8], element: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().map(|&chunk| element(chunk)).collect()
}
