//! Inputs made up from a seed.

use anyhow::bail;
use etvk::{ScalarType, Tensor, Value, ValueInfo};
use half::{bf16, f16};

/// A small generator of numbers (SplitMix64); the same on every machine.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// In -1..1, a multiple of 2^-15, so that every float type but bfloat16 holds the low ones exactly.
    fn float(&mut self) -> f32 {
        let bits = u16::try_from(self.next() >> 48).unwrap_or_default();
        f32::from(bits) / 32768.0 - 1.0
    }

    fn bit(&mut self) -> u8 {
        u8::from(self.next() >> 63 != 0)
    }

    /// An input of the kind that `info` tells. Floats lie in -1..1; integers are 0 or 1 and start with 0, which is valid
    /// for token ids and for positions alike.
    pub(crate) fn value(&mut self, info: &ValueInfo, budget: &mut usize) -> anyhow::Result<Value> {
        Ok(match info {
            ValueInfo::None => Value::None,
            ValueInfo::Int(value) => Value::Int(*value),
            ValueInfo::Double(value) => Value::Double(*value),
            ValueInfo::Bool(value) => Value::Bool(*value),
            ValueInfo::String(text) => Value::String(text.clone()),
            ValueInfo::Tensor { scalar_type, sizes, .. } => {
                let bytes = sizes.iter().try_fold(scalar_type.size(), |n, &size| n.checked_mul(size));
                match bytes.and_then(|bytes| budget.checked_sub(bytes)) {
                    Some(rest) => *budget = rest,
                    None => bail!("{info} is too large to make up: give it with --inputs"),
                }
                Value::Tensor(Tensor::new(*scalar_type, sizes, self.elements(*scalar_type, sizes)?)?)
            }
            other => bail!("an input of kind {other} cannot be made up"),
        })
    }

    fn elements(&mut self, scalar_type: ScalarType, sizes: &[usize]) -> anyhow::Result<Vec<u8>> {
        use ScalarType as S;
        let count: usize = sizes.iter().product();
        let mut data = Vec::with_capacity(count * scalar_type.size());
        for at in 0..count {
            match scalar_type {
                S::Float32 => data.extend(self.float().to_le_bytes()),
                S::Float64 => data.extend(f64::from(self.float()).to_le_bytes()),
                S::Float16 => data.extend(f16::from_f32(self.float()).to_le_bytes()),
                S::BFloat16 => data.extend(bf16::from_f32(self.float()).to_le_bytes()),
                S::Bool => data.push(self.bit()),
                S::UInt8 | S::Int8 | S::Int16 | S::UInt16 | S::Int32 | S::UInt32 | S::Int64 | S::UInt64 => {
                    data.push(if at == 0 { 0 } else { self.bit() });
                    data.resize(data.len() + scalar_type.size() - 1, 0);
                }
                other => bail!("elements of type {other} cannot be made up"),
            }
        }
        Ok(data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(scalar_type: ScalarType, sizes: &[usize], seed: u64) -> Tensor {
        let info = ValueInfo::Tensor { scalar_type, sizes: sizes.to_vec(), dynamic: false };
        let value = Random::new(seed).value(&info, &mut 1000).unwrap();
        value.as_tensor().unwrap().clone()
    }

    #[test]
    fn a_seed_gives_the_same_values() {
        let floats = tensor(ScalarType::Float32, &[4, 4], 7);
        assert_eq!(floats, tensor(ScalarType::Float32, &[4, 4], 7));
        assert_ne!(floats, tensor(ScalarType::Float32, &[4, 4], 8));
        assert!(floats.to_vec::<f32>().unwrap().iter().all(|x| (-1.0..1.0).contains(x)));
    }

    #[test]
    fn integers_are_small_and_start_with_zero() {
        let ids = tensor(ScalarType::Int64, &[1, 50], 3).to_vec::<i64>().unwrap();
        assert_eq!(ids[0], 0);
        assert!(ids.contains(&1) && ids.iter().all(|id| (0..=1).contains(id)));
    }

    #[test]
    fn sizes_from_a_file_do_not_fill_the_memory() {
        for sizes in [vec![251], vec![usize::MAX, 2]] {
            let info = ValueInfo::Tensor { scalar_type: ScalarType::Float32, sizes, dynamic: false };
            assert!(Random::new(0).value(&info, &mut 1000).is_err());
        }
    }
}
