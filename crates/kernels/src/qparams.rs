//! Scale and zero point of each row: `shaders/qparams.comp`.

use crate::push::Push;
use crate::table::QPARAMS;
use crate::{Launch, Limits};

/// How a row's range becomes a scale and a zero point; the formulas are in the shader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Mapping {
    /// The range maps onto \[qmin, qmax\].
    Affine = 0,
    /// As `Affine`, the zero point taken from the end with the smaller error.
    PerToken = 1,
    /// The larger magnitude maps onto half the range; the zero point is the middle.
    Symmetric = 2,
    /// Both ends stay within \[qmin, qmax\]; the zero point is the middle.
    SymmetricNoClipping = 3,
}

/// Quantisation parameters of rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Qparams {
    /// The rule.
    pub mapping: Mapping,
    /// Rows of x.
    pub rows: u32,
    /// Elements of a row.
    pub columns: u32,
    /// Elements before x.
    pub x_offset: u32,
    /// Elements between rows.
    pub x_row: u32,
    /// Least code.
    pub qmin: i32,
    /// Largest code.
    pub qmax: i32,
    /// Least scale.
    pub eps: f32,
}

/// Launches a choice of parameters. Bindings: x, scale (f32), zero point (i32).
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "codes have at most 16 bits")]
pub fn qparams(op: &Qparams, limits: &Limits) -> Launch {
    let middle = (i64::from(op.qmin) + i64::from(op.qmax) + 1) / 2;
    let threads = match op.columns {
        0..=128 => 32,
        _ => 128,
    };
    let push = Push::new()
        .words([op.rows, op.columns, op.x_offset, op.x_row])
        .float(op.qmin as f32)
        .float(op.qmax as f32)
        .float(op.eps)
        .signed(i32::try_from(middle).unwrap_or(0));
    push.launch(QPARAMS.pick(limits.tier), &[threads, op.mapping as u32], op.rows.into(), limits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::tests::PLAIN;

    #[test]
    fn the_middle_rounds_to_zero() {
        let op = Qparams {
            mapping: Mapping::Symmetric,
            rows: 3,
            columns: 64,
            x_offset: 0,
            x_row: 64,
            qmin: -127,
            qmax: 127,
            eps: 0.0,
        };
        let middle = |qmin, qmax| qparams(&Qparams { qmin, qmax, ..op }, &PLAIN).push[7].cast_signed();
        assert_eq!((middle(-128, 127), middle(-127, 127), middle(0, 255)), (0, 0, 128));
        assert_eq!((middle(-8, 6), middle(-9, 5)), (0, -1));
        assert_eq!(qparams(&op, &PLAIN).groups, [3, 1, 1]);
    }
}
