//! A residual stream joined by a branch, and its normalised rows: `shaders/residual.comp`.

use crate::norm::threads;
use crate::push::Push;
use crate::table::RESIDUAL;
use crate::{Launch, Limits};

/// h = clamp(base + x · r · weight) · scale, out = h · r' · norm_weight, where r and r' are 1/√(mean square + eps) of
/// rows of x and of h. All tensors are contiguous f32.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Residual {
    /// Rows.
    pub rows: u32,
    /// Elements of a row.
    pub width: u32,
    /// Normalise the branch x.
    pub branch: Option<RowNorm>,
    /// Bounds of the sum.
    pub clamp: Option<[f32; 2]>,
    /// Whether the sum is multiplied by a tensor of one element.
    pub scale: bool,
    /// Normalise h into a second result.
    pub norm: Option<RowNorm>,
}

/// x / √(mean(x²) + eps), times a weight where there is one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowNorm {
    /// Added to the mean square.
    pub eps: f32,
    /// Whether there is a weight of a row's width.
    pub weight: bool,
}

/// Launches a residual sum. Bindings: x, base, weight, scale, norm_weight, h, out (any buffer for those missing).
#[must_use]
pub fn residual(op: &Residual, limits: &Limits) -> Launch {
    let weight = |norm: Option<RowNorm>| norm.is_some_and(|norm| norm.weight);
    let flags = [op.branch.is_some(), weight(op.branch), op.scale, op.norm.is_some(), weight(op.norm)];
    let flags = flags.into_iter().zip(0..).fold(0, |all, (set, bit)| all | (u32::from(set) << bit));
    let eps = |norm: Option<RowNorm>| norm.map_or(0.0, |norm| norm.eps);
    let [low, high] = op.clamp.unwrap_or([f32::NEG_INFINITY, f32::INFINITY]);
    Push::new()
        .words([op.rows, op.width, flags])
        .float(eps(op.branch))
        .float(low)
        .float(high)
        .float(eps(op.norm))
        .launch(RESIDUAL.pick(limits.tier), &[threads(op.width, limits)], op.rows.into(), limits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::tests::MIDDLE;

    #[test]
    fn flags_follow_the_operands() {
        let mut op = Residual { rows: 3, width: 1536, branch: None, clamp: None, scale: true, norm: None };
        assert_eq!(residual(&op, &MIDDLE).push[..3], [3, 1536, 4]);
        op.branch = Some(RowNorm { eps: 1e-6, weight: false });
        op.norm = Some(RowNorm { eps: 1e-5, weight: true });
        let launch = residual(&op, &MIDDLE);
        assert_eq!(launch.push[2], 0b11101);
        assert_eq!(launch.groups, [3, 1, 1]);
        assert_eq!(f32::from_bits(launch.push[4]), f32::NEG_INFINITY);
    }
}
