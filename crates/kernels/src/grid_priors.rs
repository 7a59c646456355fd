//! Centres of a detection grid: `shaders/grid_priors.comp`.

use crate::push::Push;
use crate::table::GRID_PRIORS;
use crate::{Launch, Limits};

/// Invocations of its workgroups.
const THREADS: u32 = 128;

/// Launches `out[row · width + column] = ((column + offset) · stride, (row + offset) · stride)`.
/// Bindings: out (contiguous `[height · width, 2]`).
#[must_use]
pub fn grid_priors(height: u32, width: u32, stride: f32, offset: f32, limits: &Limits) -> Launch {
    let push = Push::new().words([height, width]).float(stride).float(offset);
    let points = u64::from(height) * u64::from(width);
    push.launch(GRID_PRIORS.pick(limits.tier), &[], points.div_ceil(THREADS.into()), limits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::tests::PLAIN;

    #[test]
    fn an_invocation_a_point() {
        let launch = grid_priors(13, 20, 8.0, 0.5, &PLAIN);
        assert_eq!((launch.groups[0], launch.push[2]), (3, 8.0f32.to_bits()));
    }
}
