//! Random choices, taken from a tape so that a shorter, smaller tape is a simpler case.

use etvk_reference::{Data, Tensor};
use etvk_vkgraph::DType;

/// How to fill a tensor.
#[derive(Clone, Copy, Debug)]
pub enum Fill {
    /// Anything from `low` to below `high`; integers rounded down.
    Uniform {
        /// Least element.
        low: f64,
        /// End of the range.
        high: f64,
    },
    /// Multiples of `step` from `low` on, at most `high`: elements that may be equal, sums that are exact.
    Grid {
        /// Least element.
        low: f64,
        /// Greatest element.
        high: f64,
        /// Distance of neighbours.
        step: f64,
    },
    /// Powers of two, by their exponents: scales that round nothing.
    Power {
        /// Least exponent.
        low: i32,
        /// Greatest exponent.
        high: i32,
    },
    /// What additive masks hold: zeros, numbers near them, and for what is closed −65504 or −∞.
    Mask {
        /// Elements that are closed.
        closed: f64,
    },
}

impl Fill {
    /// Elements around zero.
    pub const UNIT: Self = Fill::Uniform { low: -1.0, high: 1.0 };
}

/// Choices from a tape. Beyond its end every choice is the first one.
#[derive(Debug)]
pub struct Draw<'a> {
    tape: &'a [u16],
    at: usize,
}

impl<'a> Draw<'a> {
    /// Choices from the start of `tape`.
    #[must_use]
    pub fn new(tape: &'a [u16]) -> Self {
        Self { tape, at: 0 }
    }

    fn next(&mut self) -> u16 {
        let choice = self.tape.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        choice
    }

    /// A number below `count` (0 when that is 0); smaller choices give smaller numbers.
    pub fn below(&mut self, count: usize) -> usize {
        (usize::from(self.next()) * count) >> 16
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u32, high: u32) -> u32 {
        let span = (high - low) as usize + 1;
        low + u32::try_from(self.below(span)).unwrap_or(0)
    }

    /// One of `items`, of which there must be some.
    pub fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }

    /// True once in `times`; the simplest choice is false.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) + 1 == times
    }

    /// The size of one dimension: mostly small, odd ones among them, seldom 0.
    pub fn size(&mut self) -> u32 {
        self.pick(&[1, 2, 3, 5, 7, 4, 8, 9, 13, 1, 3, 5, 17, 6, 2, 0])
    }

    /// Sizes of a tensor of a rank in the given range; fewer elements a dimension at higher ranks.
    pub fn dims(&mut self, low: u32, high: u32) -> Vec<u32> {
        let rank = self.between(low, high);
        if rank == 1 && self.once_in(6) {
            return vec![self.between(200, 1100)];
        }
        let most = [17, 17, 17, 13, 7, 4][rank.min(5) as usize];
        (0..rank).map(|_| self.size().min(most)).collect()
    }

    /// Sizes at most `bound`.
    pub fn shrunk(&mut self, bound: &[u32]) -> Vec<u32> {
        bound.iter().map(|&size| self.shrunk_size(size)).collect()
    }

    /// A size at most `bound`: often that itself, seldom 0.
    pub fn shrunk_size(&mut self, bound: u32) -> u32 {
        match self.below(8) {
            0..=3 => bound,
            7 if self.once_in(3) => 0,
            _ => self.between(bound.min(1), bound),
        }
    }

    /// A float type, mostly single precision.
    pub fn float(&mut self) -> DType {
        self.pick(&[DType::Float32, DType::Float32, DType::Float16])
    }

    /// A tensor of random elements.
    pub fn tensor(&mut self, dtype: DType, dims: &[u32], fill: Fill) -> Tensor {
        let dims: Vec<usize> = dims.iter().map(|&dim| dim as usize).collect();
        let count = dims.iter().product();
        let mut noise = Noise(u64::from(self.next()) ^ 0x9e37_79b9_7f4a_7c15);
        let items: Vec<f64> = (0..count).map(|_| noise.element(fill)).collect();
        let data = match dtype {
            DType::Bool => Data::I64(items.iter().map(|_| i64::from(noise.unit() < 0.5)).collect()),
            dtype if dtype.is_float() => Data::F64(items),
            _ => Data::I64(items.iter().map(|&x| whole(x)).collect()),
        };
        // Through the bytes that the engine sees: halves are rounded there.
        let bytes = Tensor::new(dtype, &dims, data).map(|tensor| tensor.to_le_bytes());
        let tensor = bytes.and_then(|bytes| Tensor::from_le_bytes(dtype, &dims, &bytes));
        #[expect(clippy::expect_used, reason = "as many elements as the sizes say")]
        tensor.expect("a tensor")
    }
}

#[expect(clippy::cast_possible_truncation, reason = "ranges of integer fills are small")]
fn whole(x: f64) -> i64 {
    x.floor() as i64
}

/// SplitMix64.
struct Noise(u64);

impl Noise {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn element(&mut self, fill: Fill) -> f64 {
        match fill {
            Fill::Uniform { low, high } => low + (high - low) * self.unit(),
            Fill::Grid { low, high, step } => {
                let steps = ((high - low) / step).floor() + 1.0;
                low + step * (self.unit() * steps).floor()
            }
            Fill::Power { low, high } => {
                let exponent = f64::from(low) + (self.unit() * f64::from(high - low + 1)).floor();
                exponent.exp2()
            }
            Fill::Mask { closed } => match (self.unit() * 6.0).floor() {
                0.0 | 1.0 => closed,
                2.0 => self.unit() * 4.0 - 2.0,
                _ => 0.0,
            },
        }
    }
}
