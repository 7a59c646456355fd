//! Elements of any type as `f64` or `i64`, and back.

use etvk_pte::ScalarType;
use half::{bf16, f16};

use crate::error::KernelFault;

/// Elements of a tensor, widened.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Elements {
    /// Of a floating-point type.
    Floats(Vec<f64>),
    /// Of an integer type or bool.
    Ints(Vec<i64>),
}

/// A number from the program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scalar {
    Int(i64),
    Double(f64),
    Bool(bool),
}

impl Scalar {
    #[expect(clippy::cast_precision_loss, reason = "numbers of a program are converted as in torch")]
    pub(crate) fn as_f64(self) -> f64 {
        match self {
            Self::Int(value) => value as f64,
            Self::Double(value) => value,
            Self::Bool(value) => f64::from(u8::from(value)),
        }
    }

    /// The number if it is whole by type.
    pub(crate) fn as_int(self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(value),
            Self::Bool(value) => Some(i64::from(value)),
            Self::Double(_) => None,
        }
    }
}

impl Elements {
    /// Decodes little-endian bytes.
    pub(crate) fn decode(scalar_type: ScalarType, bytes: &[u8]) -> Result<Self, KernelFault> {
        use ScalarType as S;
        Ok(match scalar_type {
            S::Bool => ints(bytes, |[x]| i64::from(x != 0)),
            S::UInt8 => ints(bytes, |[x]| i64::from(x)),
            S::Int8 => ints(bytes, |[x]| i64::from(x.cast_signed())),
            S::Int16 => ints(bytes, |x| i64::from(i16::from_le_bytes(x))),
            S::UInt16 => ints(bytes, |x| i64::from(u16::from_le_bytes(x))),
            S::Int32 => ints(bytes, |x| i64::from(i32::from_le_bytes(x))),
            S::UInt32 => ints(bytes, |x| i64::from(u32::from_le_bytes(x))),
            S::Int64 => ints(bytes, i64::from_le_bytes),
            S::Float16 => floats(bytes, |x| f16::from_le_bytes(x).to_f64()),
            S::BFloat16 => floats(bytes, |x| bf16::from_le_bytes(x).to_f64()),
            S::Float32 => floats(bytes, |x| f64::from(f32::from_le_bytes(x))),
            S::Float64 => floats(bytes, f64::from_le_bytes),
            found => return Err(KernelFault::ScalarType { what: "input", found }),
        })
    }

    /// Encodes as little-endian bytes, rounded to nearest; integers keep their low bits, as in torch.
    pub(crate) fn encode(&self, scalar_type: ScalarType) -> Result<Vec<u8>, KernelFault> {
        use ScalarType as S;
        Ok(match scalar_type {
            S::Bool => match self {
                Self::Floats(values) => values.iter().map(|&x| u8::from(x != 0.0)).collect(),
                Self::Ints(values) => values.iter().map(|&x| u8::from(x != 0)).collect(),
            },
            S::UInt8 | S::Int8 | S::Int16 | S::UInt16 | S::Int32 | S::UInt32 | S::Int64 => {
                let width = scalar_type.size();
                self.ints().iter().flat_map(|x| x.to_le_bytes().into_iter().take(width)).collect()
            }
            S::Float16 => self.floats().iter().flat_map(|&x| f16::from_f64(x).to_le_bytes()).collect(),
            S::BFloat16 => self.floats().iter().flat_map(|&x| bf16::from_f64(x).to_le_bytes()).collect(),
            #[expect(clippy::cast_possible_truncation, reason = "rounding to the element type")]
            S::Float32 => self.floats().iter().flat_map(|&x| (x as f32).to_le_bytes()).collect(),
            S::Float64 => self.floats().iter().flat_map(|x| x.to_le_bytes()).collect(),
            found => return Err(KernelFault::ScalarType { what: "output", found }),
        })
    }

    /// The elements as floats.
    #[expect(clippy::cast_precision_loss, reason = "integers become floats as in torch")]
    pub(crate) fn floats(&self) -> Vec<f64> {
        match self {
            Self::Floats(values) => values.clone(),
            Self::Ints(values) => values.iter().map(|&x| x as f64).collect(),
        }
    }

    /// The elements as integers, floats cut towards zero.
    #[expect(clippy::cast_possible_truncation, reason = "floats become integers as in torch")]
    pub(crate) fn ints(&self) -> Vec<i64> {
        match self {
            Self::Floats(values) => values.iter().map(|&x| x as i64).collect(),
            Self::Ints(values) => values.clone(),
        }
    }

    /// Elements `index`, for each index.
    pub(crate) fn gather(&self, indices: &[usize]) -> Self {
        match self {
            Self::Floats(values) => Self::Floats(indices.iter().map(|&at| values[at]).collect()),
            Self::Ints(values) => Self::Ints(indices.iter().map(|&at| values[at]).collect()),
        }
    }
}

fn ints<const N: usize>(bytes: &[u8], decode: impl Fn([u8; N]) -> i64) -> Elements {
    Elements::Ints(bytes.as_chunks::<N>().0.iter().map(|&raw| decode(raw)).collect())
}

fn floats<const N: usize>(bytes: &[u8], decode: impl Fn([u8; N]) -> f64) -> Elements {
    Elements::Floats(bytes.as_chunks::<N>().0.iter().map(|&raw| decode(raw)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_convert_as_in_torch() {
        let values = Elements::Floats(vec![0.0, 1.5, -2.0]);
        assert_eq!(values.encode(ScalarType::Bool).unwrap(), [0, 1, 1]);
        assert_eq!(values.encode(ScalarType::Int8).unwrap(), [0, 1, 0xfe]);
        assert_eq!(values.encode(ScalarType::Float16).unwrap(), [0, 0, 0, 0x3e, 0, 0xc0]);
        let bytes = values.encode(ScalarType::Float32).unwrap();
        assert_eq!(Elements::decode(ScalarType::Float32, &bytes).unwrap(), values);
        assert_eq!(Elements::Ints(vec![257, -1]).encode(ScalarType::UInt8).unwrap(), [1, 255]);
        assert_eq!(
            Elements::decode(ScalarType::Complex64, &[]),
            Err(KernelFault::ScalarType { what: "input", found: ScalarType::Complex64 })
        );
    }
}
