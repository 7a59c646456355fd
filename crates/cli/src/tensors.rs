//! Tensors in files: safetensors, and raw bytes.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, bail};
use etvk::{ScalarType, Tensor, Value, ValueInfo};
use half::{bf16, f16};
use safetensors::{Dtype, SafeTensors, View};

/// Tensors by name.
pub(crate) type Named = HashMap<String, Tensor>;

/// Reads a safetensors file.
pub(crate) fn read(path: &Path) -> anyhow::Result<Named> {
    let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
    let file = SafeTensors::deserialize(&bytes).with_context(|| path.display().to_string())?;
    let tensor = |(name, view): (String, safetensors::tensor::TensorView<'_>)| {
        let scalar_type = scalar_type(view.dtype()).with_context(|| format!("tensor {name}"))?;
        Ok((name, Tensor::new(scalar_type, view.shape(), view.data().to_vec())?))
    };
    file.tensors()
        .into_iter()
        .map(tensor)
        .collect::<anyhow::Result<_>>()
        .with_context(|| path.display().to_string())
}

/// Writes a safetensors file.
pub(crate) fn write(path: &Path, tensors: &[(String, Tensor)]) -> anyhow::Result<()> {
    let views = tensors
        .iter()
        .map(|(name, tensor)| Ok((name.as_str(), Stored { dtype: dtype(tensor.scalar_type())?, tensor })))
        .collect::<anyhow::Result<Vec<_>>>()?;
    safetensors::serialize_to_file(views, None, path).with_context(|| path.display().to_string())
}

struct Stored<'a> {
    dtype: Dtype,
    tensor: &'a Tensor,
}

impl View for Stored<'_> {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        self.tensor.sizes()
    }

    fn data(&self) -> std::borrow::Cow<'_, [u8]> {
        self.tensor.data().into()
    }

    fn data_len(&self) -> usize {
        self.tensor.data().len()
    }
}

const TYPES: &[(Dtype, ScalarType)] = &[
    (Dtype::BOOL, ScalarType::Bool),
    (Dtype::U8, ScalarType::UInt8),
    (Dtype::I8, ScalarType::Int8),
    (Dtype::I16, ScalarType::Int16),
    (Dtype::U16, ScalarType::UInt16),
    (Dtype::I32, ScalarType::Int32),
    (Dtype::U32, ScalarType::UInt32),
    (Dtype::I64, ScalarType::Int64),
    (Dtype::U64, ScalarType::UInt64),
    (Dtype::F16, ScalarType::Float16),
    (Dtype::BF16, ScalarType::BFloat16),
    (Dtype::F32, ScalarType::Float32),
    (Dtype::F64, ScalarType::Float64),
];

fn scalar_type(dtype: Dtype) -> anyhow::Result<ScalarType> {
    let found = TYPES.iter().find(|(known, _)| *known == dtype);
    found
        .map(|&(_, scalar_type)| scalar_type)
        .with_context(|| format!("elements of type {dtype:?} are not supported"))
}

fn dtype(scalar_type: ScalarType) -> anyhow::Result<Dtype> {
    let found = TYPES.iter().find(|(_, known)| *known == scalar_type);
    found
        .map(|&(dtype, _)| dtype)
        .with_context(|| format!("elements of type {scalar_type} cannot be written"))
}

/// A tensor as the input that `info` tells: numbers are taken from a tensor of one element.
pub(crate) fn to_input(tensor: Tensor, info: &ValueInfo) -> anyhow::Result<Value> {
    let number = match info {
        ValueInfo::Int(_) | ValueInfo::Double(_) | ValueInfo::Bool(_) => Numbers::of(&tensor)?,
        _ => return Ok(Value::Tensor(tensor)),
    };
    Ok(match (info, number) {
        (ValueInfo::Int(_), Numbers::Ints(values)) if values.len() == 1 => Value::Int(values[0]),
        (ValueInfo::Bool(_), Numbers::Ints(values)) if values.len() == 1 => Value::Bool(values[0] != 0),
        (ValueInfo::Double(_), Numbers::Floats(values)) if values.len() == 1 => Value::Double(values[0]),
        _ => bail!("{tensor:?} cannot stand for {info}"),
    })
}

/// Elements of a tensor, widened.
#[derive(Debug, PartialEq)]
pub(crate) enum Numbers {
    Floats(Vec<f64>),
    Ints(Vec<i64>),
}

impl Numbers {
    /// The elements of a tensor.
    pub(crate) fn of(tensor: &Tensor) -> anyhow::Result<Self> {
        use ScalarType as S;
        fn each<T: etvk::Element, N>(tensor: &Tensor, widen: impl Fn(T) -> N) -> Result<Vec<N>, etvk::Error> {
            Ok(tensor.to_vec::<T>()?.into_iter().map(widen).collect())
        }
        Ok(match tensor.scalar_type() {
            S::Float16 => Self::Floats(each(tensor, f16::to_f64)?),
            S::BFloat16 => Self::Floats(each(tensor, bf16::to_f64)?),
            S::Float32 => Self::Floats(each::<f32, _>(tensor, f64::from)?),
            S::Float64 => Self::Floats(tensor.to_vec()?),
            S::Bool => Self::Ints(each::<bool, _>(tensor, i64::from)?),
            S::UInt8 => Self::Ints(each::<u8, _>(tensor, i64::from)?),
            S::Int8 => Self::Ints(each::<i8, _>(tensor, i64::from)?),
            S::Int16 => Self::Ints(each::<i16, _>(tensor, i64::from)?),
            S::UInt16 => Self::Ints(each::<u16, _>(tensor, i64::from)?),
            S::Int32 => Self::Ints(each::<i32, _>(tensor, i64::from)?),
            S::UInt32 => Self::Ints(each::<u32, _>(tensor, i64::from)?),
            S::Int64 => Self::Ints(tensor.to_vec()?),
            other => bail!("elements of type {other} cannot be read"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_come_back_from_a_file() {
        let path = std::env::temp_dir().join(format!("etvk-tensors-{}.safetensors", std::process::id()));
        let tensors = [
            ("out0".to_owned(), Tensor::from_slice(&[2], &[1.5_f32, -2.0]).unwrap()),
            ("out1".to_owned(), Tensor::from_slice(&[1, 2], &[true, false]).unwrap()),
        ];
        write(&path, &tensors).unwrap();
        let read = read(&path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read.unwrap(), Named::from(tensors));
    }

    #[test]
    fn numbers_are_read_from_tensors_of_one() {
        let one = Tensor::from_slice(&[1], &[7_i32]).unwrap();
        assert_eq!(to_input(one.clone(), &ValueInfo::Int(0)).unwrap(), Value::Int(7));
        assert!(to_input(one, &ValueInfo::Double(0.0)).is_err());
        let two = Tensor::from_slice(&[2], &[7_i32, 8]).unwrap();
        assert!(to_input(two, &ValueInfo::Int(0)).is_err());
    }
}
