//! The caller's tensors: what they say is checked, then their elements are read or written.

use std::borrow::Cow;

use etvk::payload::DType;

use crate::abi::EtvkTensor;
use crate::error::Error;
use crate::layout::{Layout, dense};

/// Most dimensions that a tensor of ExecuTorch has.
const MAX_RANK: u32 = 16;

/// A tensor whose description was checked.
pub(crate) struct Tensor {
    pub(crate) dtype: DType,
    pub(crate) layout: Layout,
    data: *mut u8,
    /// Bytes from the first element to the end of the last.
    bytes: usize,
}

/// What a tensor is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Input,
    Output,
}

/// Refuses argument `at`.
pub(crate) fn refuse<T>(
    at: usize,
    what: &'static str,
    expected: impl Into<String>,
    found: impl Into<String>,
) -> Result<T, Error> {
    Err(Error::Argument { at, what, expected: expected.into(), found: found.into() })
}

/// The element type that a number means.
pub(crate) fn dtype(at: usize, scalar_type: i32) -> Result<DType, Error> {
    Ok(match scalar_type {
        0 => DType::UInt8,
        1 => DType::Int8,
        3 => DType::Int32,
        4 => DType::Int64,
        5 => DType::Float16,
        6 => DType::Float32,
        7 => DType::Float64,
        11 => DType::Bool,
        found => {
            return refuse(
                at,
                "scalar type",
                "BYTE, CHAR, INT, LONG, HALF, FLOAT, DOUBLE or BOOL",
                found.to_string(),
            );
        }
    })
}

/// Whether elements of type `caller` may be given for, or taken from, a graph's `graph`.
pub(crate) fn fits(caller: DType, graph: DType) -> bool {
    let integer = |dtype| matches!(dtype, DType::Int32 | DType::Int64);
    caller == graph || (caller.is_float() && graph.is_float()) || (integer(caller) && integer(graph))
}

impl Tensor {
    /// Checks the description of argument `at`.
    ///
    /// # Safety
    /// What `tensor` points at is there for as long as the result is used.
    pub(crate) unsafe fn read(at: usize, tensor: &EtvkTensor, usage: Use) -> Result<Self, Error> {
        let dtype = dtype(at, tensor.scalar_type)?;
        // SAFETY: as this function's.
        let layout = unsafe { layout(at, tensor) }?;
        let bytes = layout.extent().and_then(|extent| extent.checked_mul(dtype.size()));
        let counted = layout.count().and_then(|count| count.checked_mul(dtype.size()));
        let (Some(bytes), Some(_)) = (bytes, counted) else {
            return refuse(at, "sizes", "a tensor that fits in memory", format!("{:?}", layout.sizes));
        };
        if bytes > tensor.nbytes {
            return refuse(at, "nbytes", format!("at least {bytes}"), tensor.nbytes.to_string());
        }
        if bytes > 0 && tensor.data.is_null() {
            return refuse(at, "data", format!("{bytes} bytes"), "null");
        }
        if usage == Use::Output && !layout.is_dense() {
            let found = format!("sizes {:?} with strides {:?}", layout.sizes, layout.strides);
            return refuse(at, "strides", "no gaps and no overlap", found);
        }
        Ok(Self { dtype, layout, data: tensor.data.cast(), bytes })
    }

    /// Sizes as the engine has them.
    pub(crate) fn sizes(&self) -> Vec<u32> {
        // They came from positive `i32`s.
        self.layout.sizes.iter().map(|&size| u32::try_from(size).unwrap_or(u32::MAX)).collect()
    }

    /// The elements in row-major order, borrowed where they lie so.
    ///
    /// # Safety
    /// Nothing writes to the tensor while the result is used.
    pub(crate) unsafe fn elements(&self) -> Cow<'_, [u8]> {
        if self.bytes == 0 {
            return Cow::Borrowed(&[]);
        }
        // SAFETY: `data` is not null and has at least so many bytes, as the caller says.
        let memory = unsafe { std::slice::from_raw_parts(self.data.cast_const(), self.bytes) };
        match self.layout.is_row_major() {
            true => Cow::Borrowed(memory),
            false => Cow::Owned(self.layout.gather(memory, self.dtype.size())),
        }
    }

    /// Has `fill` write the elements in row-major order.
    ///
    /// # Safety
    /// Nothing else uses the tensor's memory meanwhile.
    pub(crate) unsafe fn write(
        &mut self,
        fill: impl FnOnce(&mut [u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.bytes == 0 {
            return fill(&mut []);
        }
        // SAFETY: `data` is not null and has at least so many bytes, as the caller says.
        let memory = unsafe { std::slice::from_raw_parts_mut(self.data, self.bytes) };
        if self.layout.is_row_major() {
            return fill(memory);
        }
        let mut elements = vec![0; self.bytes];
        fill(&mut elements)?;
        self.layout.scatter(&elements, memory, self.dtype.size());
        Ok(())
    }
}

/// # Safety
/// As [`Tensor::read`].
unsafe fn layout(at: usize, tensor: &EtvkTensor) -> Result<Layout, Error> {
    if tensor.rank > MAX_RANK {
        return refuse(at, "rank", format!("at most {MAX_RANK}"), tensor.rank.to_string());
    }
    let rank = tensor.rank as usize;
    if rank == 0 {
        return Ok(Layout { sizes: Vec::new(), strides: Vec::new() });
    }
    if tensor.sizes.is_null() {
        return refuse(at, "sizes", format!("{rank} numbers"), "null");
    }
    // SAFETY: not null, and as this function's.
    let sizes = unsafe { numbers(at, "sizes", tensor.sizes, rank) }?;
    let order: Vec<usize> = match tensor.dim_order.is_null() {
        true => (0..rank).collect(),
        // SAFETY: not null, and as this function's.
        false => unsafe { std::slice::from_raw_parts(tensor.dim_order, rank) }
            .iter()
            .map(|&dim| usize::from(dim))
            .collect(),
    };
    if (0..rank).any(|dim| !order.contains(&dim)) {
        return refuse(at, "dim_order", format!("each of 0 to {} once", rank - 1), format!("{order:?}"));
    }
    let Some(ordered) = dense(&sizes, &order) else {
        return refuse(at, "sizes", "a tensor that fits in memory", format!("{sizes:?}"));
    };
    if tensor.strides.is_null() {
        return Ok(Layout { sizes, strides: ordered });
    }
    // SAFETY: not null, and as this function's.
    let strides = unsafe { numbers(at, "strides", tensor.strides, rank) }?;
    let layout = Layout { sizes, strides };
    if !tensor.dim_order.is_null() && !layout.agrees(&ordered) {
        let found = format!("{:?}", layout.strides);
        return refuse(at, "strides", format!("{ordered:?} for dim_order {order:?}"), found);
    }
    Ok(layout)
}

/// `rank` numbers that must not be negative.
///
/// # Safety
/// `first` points at that many.
unsafe fn numbers(
    at: usize,
    what: &'static str,
    first: *const i32,
    rank: usize,
) -> Result<Vec<usize>, Error> {
    // SAFETY: as this function's.
    let numbers = unsafe { std::slice::from_raw_parts(first, rank) };
    match numbers.iter().map(|&number| usize::try_from(number)).collect() {
        Ok(numbers) => Ok(numbers),
        Err(_) => refuse(at, what, "no negative numbers", format!("{numbers:?}")),
    }
}

/// Checks that every finite double of argument `at` stays finite in single precision.
#[expect(clippy::cast_possible_truncation, reason = "the question is what the truncation gives")]
pub(crate) fn check_doubles(at: usize, elements: &[u8]) -> Result<(), Error> {
    let doubles = elements.as_chunks::<8>().0.iter().map(|raw| f64::from_le_bytes(*raw));
    let beyond = |&(_, value): &(usize, f64)| value.is_finite() && !(value as f32).is_finite();
    match doubles.enumerate().find(beyond) {
        Some((element, value)) => Err(Error::DoubleRange { at, element, value }),
        None => Ok(()),
    }
}
