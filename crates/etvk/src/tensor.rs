//! Tensors that callers give and get.

use etvk_pte::ScalarType;
use half::{bf16, f16};

use crate::error::{Error, Result};

/// An owned tensor: contiguous, row-major, elements in little-endian bytes.
#[derive(Clone, PartialEq)]
pub struct Tensor {
    scalar_type: ScalarType,
    sizes: Vec<usize>,
    data: Vec<u8>,
}

/// Type and sizes, without the elements.
impl std::fmt::Debug for Tensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{:?}", self.scalar_type, self.sizes)
    }
}

/// A Rust type that is the element type of a tensor.
pub trait Element: Copy + private::Sealed {
    /// The element type.
    const SCALAR_TYPE: ScalarType;
}

mod private {
    pub trait Sealed: Sized {
        fn put(self, out: &mut Vec<u8>);
        /// `raw` has as many bytes as the type.
        fn take(raw: &[u8]) -> Self;
    }
}

macro_rules! elements {
    ($($type:ty => $scalar_type:ident),* $(,)?) => {$(
        impl Element for $type {
            const SCALAR_TYPE: ScalarType = ScalarType::$scalar_type;
        }
        impl private::Sealed for $type {
            fn put(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn take(raw: &[u8]) -> Self {
                Self::from_le_bytes(raw.try_into().unwrap_or_default())
            }
        }
    )*};
}

elements! {
    u8 => UInt8, i8 => Int8, i16 => Int16, i32 => Int32, i64 => Int64, u16 => UInt16, u32 => UInt32, u64 => UInt64,
    f16 => Float16, bf16 => BFloat16, f32 => Float32, f64 => Float64,
}

impl Element for bool {
    const SCALAR_TYPE: ScalarType = ScalarType::Bool;
}

impl private::Sealed for bool {
    fn put(self, out: &mut Vec<u8>) {
        out.push(u8::from(self));
    }
    fn take(raw: &[u8]) -> Self {
        raw.first().is_some_and(|&byte| byte != 0)
    }
}

impl Tensor {
    /// A tensor of `sizes` over row-major little-endian `data`.
    ///
    /// # Errors
    /// [`Error::TensorBytes`] if `data` is not exactly as long as its elements.
    pub fn new(scalar_type: ScalarType, sizes: &[usize], data: Vec<u8>) -> Result<Self> {
        let expected = nbytes(scalar_type, sizes);
        if expected != Some(data.len()) {
            return Err(Error::TensorBytes {
                scalar_type,
                sizes: sizes.to_vec(),
                expected: expected.unwrap_or(usize::MAX),
                found: data.len(),
            });
        }
        Ok(Self { scalar_type, sizes: sizes.to_vec(), data })
    }

    /// A tensor of `sizes` with these elements, row-major.
    ///
    /// # Errors
    /// [`Error::TensorBytes`] if there are more or fewer elements than `sizes` say.
    pub fn from_slice<T: Element>(sizes: &[usize], elements: &[T]) -> Result<Self> {
        let mut data = Vec::with_capacity(size_of_val(elements));
        elements.iter().for_each(|element| element.put(&mut data));
        Self::new(T::SCALAR_TYPE, sizes, data)
    }

    /// A tensor of rank 0.
    #[must_use]
    pub fn scalar<T: Element>(value: T) -> Self {
        let mut data = Vec::new();
        value.put(&mut data);
        Self { scalar_type: T::SCALAR_TYPE, sizes: Vec::new(), data }
    }

    /// Element type.
    #[must_use]
    pub fn scalar_type(&self) -> ScalarType {
        self.scalar_type
    }

    /// Sizes, outermost first.
    #[must_use]
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// Number of elements; 1 at rank 0.
    #[must_use]
    pub fn numel(&self) -> usize {
        self.data.len() / self.scalar_type.size()
    }

    /// The elements, row-major, little-endian.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// The elements, row-major, little-endian.
    #[must_use]
    pub fn into_data(self) -> Vec<u8> {
        self.data
    }

    /// The elements as Rust values.
    ///
    /// # Errors
    /// [`Error::ElementType`] if the element type is another one.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        if T::SCALAR_TYPE != self.scalar_type {
            return Err(Error::ElementType { expected: T::SCALAR_TYPE, found: self.scalar_type });
        }
        Ok(self.data.chunks_exact(self.scalar_type.size()).map(T::take).collect())
    }
}

/// Bytes of the elements; `None` if they do not fit in memory.
pub(crate) fn nbytes(scalar_type: ScalarType, sizes: &[usize]) -> Option<usize> {
    sizes.iter().try_fold(scalar_type.size(), |bytes, &size| bytes.checked_mul(size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_come_back() {
        let tensor = Tensor::from_slice(&[2, 2], &[1_i64, -2, 3, i64::MIN]).unwrap();
        assert_eq!(tensor.to_vec::<i64>().unwrap(), [1, -2, 3, i64::MIN]);
        assert_eq!((tensor.numel(), tensor.data().len()), (4, 32));
        assert_eq!(Tensor::scalar(true).to_vec::<bool>().unwrap(), [true]);
        assert!(matches!(
            tensor.to_vec::<f32>(),
            Err(Error::ElementType { expected: ScalarType::Float32, found: ScalarType::Int64 })
        ));
    }

    #[test]
    fn sizes_must_match_the_data() {
        let short = Tensor::from_slice(&[3], &[1.0_f32, 2.0]);
        assert!(matches!(short, Err(Error::TensorBytes { expected: 12, found: 8, .. })));
        let huge = Tensor::new(ScalarType::Float32, &[usize::MAX, 2], Vec::new());
        assert!(matches!(huge, Err(Error::TensorBytes { found: 0, .. })));
    }
}
