//! What the executors of one device share.

use std::sync::Arc;

use etvk_kernels::{Limits, Tier};
use etvk_vulkan::{Capabilities, ComponentType, CooperativeMatrix, Device, MatrixScope};

use crate::pipelines::Pipelines;
use crate::weights::WeightStore;

/// A device with its pipelines and the constants already on it. Cheap to clone; executors made from clones of
/// one context share both.
#[derive(Clone)]
pub struct Context(Arc<Shared>);

struct Shared {
    device: Device,
    limits: Limits,
    pipelines: Pipelines,
    weights: WeightStore,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Context({})", self.device().capabilities().name)
    }
}

impl Context {
    /// A context for a device.
    #[must_use]
    pub fn new(device: Device) -> Self {
        let limits = limits(device.capabilities());
        let (pipelines, weights) = (Pipelines::default(), WeightStore::default());
        Self(Arc::new(Shared { device, limits, pipelines, weights }))
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// The kernel tier the device serves.
    #[must_use]
    pub fn tier(&self) -> Tier {
        self.0.limits.tier
    }

    /// Pipelines compiled so far.
    #[must_use]
    pub fn pipeline_count(&self) -> usize {
        self.0.pipelines.len()
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.0.limits
    }

    pub(crate) fn pipelines(&self) -> &Pipelines {
        &self.0.pipelines
    }

    pub(crate) fn weights(&self) -> &WeightStore {
        &self.0.weights
    }
}

fn limits(caps: &Capabilities) -> Limits {
    let features = &caps.features;
    let middle = caps.subgroup_arithmetic
        && caps.subgroup_shuffle
        && features.storage_16bit
        && features.storage_8bit
        && features.shader_float16;
    Limits {
        max_invocations: caps.max_workgroup_invocations.min(256),
        max_shared_bytes: caps.max_shared_memory,
        max_groups: caps.max_workgroup_count,
        subgroup_size: caps.subgroup_size.max(1),
        tier: match (middle, middle && has_matrices(caps)) {
            (_, true) => Tier::Full,
            (true, false) => Tier::Middle,
            (false, false) => Tier::Plain,
        },
    }
}

/// Whether subgroups of 32 multiply 16×16 matrices of halves into sums of floats.
fn has_matrices(caps: &Capabilities) -> bool {
    let fits = |matrix: &CooperativeMatrix| {
        (matrix.m, matrix.n, matrix.k) == (16, 16, 16)
            && (matrix.a, matrix.b) == (ComponentType::F16, ComponentType::F16)
            && (matrix.c, matrix.result) == (ComponentType::F32, ComponentType::F32)
            && matrix.scope == MatrixScope::Subgroup
    };
    caps.features.cooperative_matrix
        && caps.features.vulkan_memory_model
        && caps.subgroup_size == 32
        && caps.max_shared_memory >= 48 << 10
        && caps.cooperative_matrix.iter().any(fits)
}
