//! What the engine needs to run one dispatch: which pipeline, which push constants, how many groups.

use std::hash::{Hash, Hasher};

use arrayvec::ArrayVec;

use crate::Dims;

/// Push constants Vulkan guarantees, in 32-bit words.
pub const MAX_PUSH_WORDS: usize = 32;

/// Device facts that choose a variant and its tile sizes. Filled by the engine from the device's capabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most invocations in one workgroup.
    pub max_invocations: u32,
    /// Bytes of shared memory in one workgroup.
    pub max_shared_bytes: u32,
    /// Most workgroups along x, y and z.
    pub max_groups: [u32; 3],
    /// Invocations in one subgroup.
    pub subgroup_size: u32,
    /// The best tier the device serves.
    pub tier: Tier,
}

/// Classes of device; each includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// Vulkan 1.1 and nothing else: no 8/16-bit storage, no fp16, small workgroups.
    Plain,
    /// Subgroup arithmetic and shuffles, fp16 arithmetic, 8/16-bit storage.
    Middle,
    /// Cooperative matrices (fp16 in, fp32 accumulators, 16×16×16, subgroup scope).
    Full,
}

/// One SPIR-V module. All bindings are storage buffers `0..bindings` of 32-bit words.
#[derive(Debug)]
pub struct Shader {
    /// `family` or `family.tier`, unique.
    pub name: &'static str,
    /// The module's bytes, little-endian words.
    pub spirv: &'static [u8],
    /// Number of storage buffers.
    pub bindings: u32,
    /// Size of the push-constant block in words.
    pub push_words: u32,
}

/// The variants of one kernel family, one per tier that has its own.
#[derive(Debug)]
pub struct Family {
    /// Runs everywhere.
    pub plain: Shader,
    /// Used from [`Tier::Middle`] on.
    pub middle: Option<Shader>,
    /// Used from [`Tier::Full`] on.
    pub full: Option<Shader>,
}

impl Family {
    /// The best variant for a device of tier `tier`.
    #[must_use]
    pub fn pick(&'static self, tier: Tier) -> &'static Shader {
        let full = self.full.as_ref().filter(|_| tier >= Tier::Full);
        let middle = self.middle.as_ref().filter(|_| tier >= Tier::Middle);
        full.or(middle).unwrap_or(&self.plain)
    }
}

/// Identity of a pipeline: a shader and its specialisation constants (ids 0, 1, …).
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The module.
    pub shader: &'static Shader,
    /// Values of specialisation constants 0, 1, …
    pub specialization: ArrayVec<u32, 16>,
}

impl PartialEq for Kernel {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.shader, other.shader) && self.specialization == other.specialization
    }
}

impl Eq for Kernel {}

impl Hash for Kernel {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.shader.name.hash(state);
        self.specialization.hash(state);
    }
}

/// One dispatch without its buffers. The function that makes it documents the order of its bindings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Which pipeline.
    pub kernel: Kernel,
    /// Push constants, exactly `kernel.shader.push_words` of them.
    pub push: ArrayVec<u32, MAX_PUSH_WORDS>,
    /// Workgroups along x, y, z; a zero means nothing is to be done.
    pub groups: [u32; 3],
}

/// How a constant's elements are stored on the device. Activations are always [`Storage::Word`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Storage {
    /// One 32-bit word an element: f32 or i32.
    Word = 0,
    /// IEEE halves, two a word, the first in the low bits.
    Half = 1,
    /// Signed bytes, four a word, the first in the low bits.
    Int8 = 2,
}

/// Number of elements; `None` when it does not fit in `u32`.
#[must_use]
pub fn numel(sizes: &[u32]) -> Option<u32> {
    sizes.iter().try_fold(1u32, |n, &d| n.checked_mul(d))
}

/// Contiguous row-major strides of `sizes` (a zero size counts as one).
#[must_use]
pub fn contiguous_strides(sizes: &Dims) -> ArrayVec<i32, { crate::MAX_RANK }> {
    let mut strides = ArrayVec::new();
    let mut step = 1i32;
    for &size in sizes.iter().rev() {
        strides.insert(0, step);
        step = step.saturating_mul(i32::try_from(size.max(1)).unwrap_or(i32::MAX));
    }
    strides
}
