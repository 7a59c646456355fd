//! Arguments of an execution: their kinds, their checks, and the integers the host reads from them.

use etvk_kernels::numel;
use etvk_vkgraph::DType;

use crate::convert::{self, compatible, widen};
use crate::error::{Error, Fault};
use crate::host::{HostInputs, normalise_dim};
use crate::ir::Elem;

/// One argument of an execution.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// A contiguous tensor: `data` holds `sizes` elements of `dtype`, little-endian, row-major.
    Tensor {
        /// Element type; may be wider or narrower than the graph's within floats, and 64-bit for int32.
        dtype: DType,
        /// Sizes, at most the graph's upper bounds.
        sizes: &'a [u32],
        /// The elements.
        data: &'a [u8],
    },
    /// An integer.
    Int(i64),
}

/// What a delegate input or output is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortInfo {
    /// A tensor of this element type and these upper bounds.
    Tensor {
        /// Element type as the host sees it.
        dtype: DType,
        /// Upper bound of every size.
        bound: Vec<u32>,
    },
    /// An integer.
    Int,
}

/// Checks the arguments of an execution against the ports.
pub(crate) fn check(ports: &[PortInfo], inputs: &[Input<'_>]) -> Result<(), Error> {
    if inputs.len() != ports.len() {
        let (expected, found) = (ports.len().to_string(), inputs.len().to_string());
        return refuse(inputs.len(), "number of inputs", expected, found);
    }
    for (index, (input, port)) in inputs.iter().zip(ports).enumerate() {
        match (*input, port) {
            (Input::Tensor { dtype, sizes, data }, PortInfo::Tensor { dtype: want, bound }) => {
                if !compatible(dtype, *want) {
                    return refuse(index, "element type", format!("{want:?}"), format!("{dtype:?}"));
                }
                if sizes.len() != bound.len() || sizes.iter().zip(bound).any(|(size, bound)| size > bound) {
                    return refuse(index, "sizes", format!("at most {bound:?}"), format!("{sizes:?}"));
                }
                check_data(index, dtype, sizes, data)?;
            }
            (Input::Tensor { dtype, data, .. }, PortInfo::Int) => {
                if !matches!(dtype, DType::Int32 | DType::Int64) {
                    let expected = "an integer, or one element of int32 or int64".into();
                    return refuse(index, "element type", expected, format!("{dtype:?}"));
                }
                check_data(index, dtype, &[1], data)?;
            }
            (Input::Int(value), PortInfo::Int) if i32::try_from(value).is_err() => {
                return Err(Error::InputRange { index, element: 0, value });
            }
            (Input::Int(_), PortInfo::Int) => {}
            (Input::Int(_), PortInfo::Tensor { .. }) => {
                return refuse(index, "kind", "a tensor".into(), "an integer".into());
            }
        }
    }
    Ok(())
}

fn refuse(index: usize, what: &'static str, expected: String, found: String) -> Result<(), Error> {
    Err(Error::Input { index, what, expected, found })
}

/// The data must hold exactly the elements, and 64-bit integers must fit in 32 bits.
fn check_data(index: usize, dtype: DType, sizes: &[u32], data: &[u8]) -> Result<(), Error> {
    let bytes = numel(sizes).map_or(usize::MAX, |n| n as usize * dtype.size());
    if data.len() != bytes {
        return refuse(index, "bytes", bytes.to_string(), data.len().to_string());
    }
    if dtype == DType::Int64 {
        let range = |(element, value)| Error::InputRange { index, element, value };
        convert::check_narrowing(data).map_err(range)?;
    }
    Ok(())
}

/// Integer inputs as the host program reads them.
pub(crate) struct Given<'a>(pub(crate) &'a [Input<'a>]);

impl HostInputs for Given<'_> {
    fn int(&self, input: u32) -> Result<i64, Fault> {
        match self.0.get(input as usize) {
            Some(Input::Int(value)) => Ok(*value),
            Some(Input::Tensor { dtype, data, .. }) => integer_at(*dtype, data, 0),
            None => integer_at(DType::Int32, &[], 0),
        }
    }

    fn element(&self, input: u32, dim: i64, index: i64) -> Result<i64, Fault> {
        let Some(Input::Tensor { dtype, sizes, data }) = self.0.get(input as usize) else {
            return integer_at(DType::Int32, &[], 0);
        };
        let dim = normalise_dim(dim, sizes.len())?;
        let size = i64::from(sizes[dim]);
        let positive = if index < 0 { index + size } else { index };
        if !(0..size).contains(&positive) {
            return Err(Fault::Range { what: "index", low: -size, high: size - 1, found: index });
        }
        let stride: i64 = sizes[dim + 1..].iter().map(|&d| i64::from(d)).product();
        integer_at(*dtype, data, usize::try_from(positive * stride).unwrap_or(usize::MAX))
    }
}

fn integer_at(dtype: DType, data: &[u8], element: usize) -> Result<i64, Fault> {
    let mut word = [0; 4];
    let bytes = data.get(element.saturating_mul(dtype.size())..).unwrap_or(&[]);
    let one = bytes.get(..dtype.size()).ok_or(Fault::Range {
        what: "element",
        low: 0,
        high: i64::try_from(data.len() / dtype.size()).unwrap_or(i64::MAX) - 1,
        found: i64::try_from(element).unwrap_or(i64::MAX),
    })?;
    if Elem::of(dtype) == Elem::F32 {
        return Err(Fault::Dtype { what: "integer read from an input", found: dtype });
    }
    widen(dtype, one, 0, &mut word);
    Ok(i64::from(i32::from_le_bytes(word)))
}
