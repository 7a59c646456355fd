//! Writing push constants and spreading workgroups: what every builder does last.

use arrayvec::ArrayVec;

use crate::{Kernel, Launch, Limits, MAX_PUSH_WORDS, Shader};

/// Push-constant word that stands for "no word of the dynamic buffer".
const NO_DYNAMIC: u32 = u32::MAX;

/// A launch under construction: push constants in the order of the shader's block.
pub(crate) struct Push(ArrayVec<u32, MAX_PUSH_WORDS>);

impl Push {
    pub(crate) fn new() -> Self {
        Self(ArrayVec::new())
    }

    pub(crate) fn word(mut self, value: u32) -> Self {
        self.0.push(value);
        self
    }

    /// A stride or another signed value; kernels compute modulo 2³².
    pub(crate) fn signed(self, value: i32) -> Self {
        self.word(value.cast_unsigned())
    }

    pub(crate) fn float(self, value: f32) -> Self {
        self.word(value.to_bits())
    }

    /// A word of the dynamic buffer.
    pub(crate) fn dynamic(self, word: Option<u32>) -> Self {
        self.word(word.unwrap_or(NO_DYNAMIC))
    }

    pub(crate) fn words(self, values: impl IntoIterator<Item = u32>) -> Self {
        values.into_iter().fold(self, Self::word)
    }

    /// The launch of `groups` workgroups of `shader`.
    pub(crate) fn launch(
        self,
        shader: &'static Shader,
        specialization: &[u32],
        groups: u64,
        limits: &Limits,
    ) -> Launch {
        debug_assert_eq!(self.0.len(), shader.push_words as usize, "push constants of {}", shader.name);
        let kernel = Kernel { shader, specialization: specialization.iter().copied().collect() };
        Launch { kernel, push: self.0, groups: spread(groups, limits) }
    }
}

/// Workgroups along x and y for at least `count` of them. Kernels number them `y · groups_x + x` and check.
pub(crate) fn spread(count: u64, limits: &Limits) -> [u32; 3] {
    if count == 0 {
        return [0, 1, 1];
    }
    let widest = u64::from(limits.max_groups[0].max(1));
    let rows = count.div_ceil(widest);
    let columns = count.div_ceil(rows);
    // Beyond the device's range nothing can be launched; kernels that stride over their work still finish it.
    let y = u32::try_from(rows).unwrap_or(u32::MAX).min(limits.max_groups[1]);
    [u32::try_from(columns).unwrap_or(u32::MAX), y, 1]
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::Tier;

    /// The least device.
    pub(crate) const PLAIN: Limits = Limits {
        max_invocations: 128,
        max_shared_bytes: 16384,
        max_groups: [65535, 65535, 65535],
        subgroup_size: 4,
        tier: Tier::Plain,
    };

    /// A large device.
    pub(crate) const MIDDLE: Limits = Limits {
        max_invocations: 1024,
        max_shared_bytes: 49152,
        max_groups: [i32::MAX.cast_unsigned(), 65535, 65535],
        subgroup_size: 32,
        tier: Tier::Middle,
    };

    #[test]
    fn groups_cover_the_count() {
        assert_eq!(spread(0, &PLAIN), [0, 1, 1]);
        assert_eq!(spread(65535, &PLAIN), [65535, 1, 1]);
        assert_eq!(spread(65536, &PLAIN), [32768, 2, 1]);
        let [x, y, _] = spread(1_000_001, &PLAIN);
        assert!(u64::from(x) * u64::from(y) >= 1_000_001 && x <= 65535);
    }
}
