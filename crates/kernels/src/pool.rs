//! Pooling over windows of a plane: `shaders/pool.comp`.

use crate::push::Push;
use crate::table::POOL;
use crate::{Launch, Limits};

/// Invocations of its workgroups.
const THREADS: u32 = 128;

/// What is taken from the elements of a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PoolOp {
    /// The mean; 0 of none.
    Mean(Divisor),
    /// The largest, a NaN above all; −∞ of none.
    Max {
        /// Whether the place of the largest in its plane is wanted as well.
        indices: bool,
    },
}

/// By what a sum becomes a mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Divisor {
    /// The number of elements.
    Elements,
    /// The number of elements and of padding's zeros.
    Padded,
    /// A given number.
    Given(f32),
}

/// A pooling of contiguous x `[planes, h, w]`; height first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pool {
    /// What is taken.
    pub op: PoolOp,
    /// Planes.
    pub planes: u32,
    /// Height and width of x.
    pub input: [u32; 2],
    /// Height and width of out.
    pub output: [u32; 2],
    /// Size of the window.
    pub kernel: [u32; 2],
    /// Elements from one window to the next.
    pub stride: [u32; 2],
    /// Elements around x that do not count as any.
    pub padding: [u32; 2],
    /// Elements from one tap to the next.
    pub dilation: [u32; 2],
    /// Elements before x.
    pub x_offset: u32,
    /// Word of the dynamic buffer with more of them.
    pub x_dynamic: Option<u32>,
}

/// Launches a pooling. Bindings: x, out (contiguous `[planes, h, w]`), indices (as out), dyn.
#[must_use]
pub fn pool(op: &Pool, limits: &Limits) -> Launch {
    let (max, indices, mode, divisor) = match op.op {
        PoolOp::Max { indices } => (1, u32::from(indices), 0, 1.0),
        PoolOp::Mean(Divisor::Elements) => (0, 0, 0, 1.0),
        PoolOp::Mean(Divisor::Padded) => (0, 0, 1, 1.0),
        PoolOp::Mean(Divisor::Given(divisor)) => (0, 0, 2, divisor),
    };
    let push = Push::new()
        .word(op.planes)
        .words(op.input)
        .words(op.output)
        .words(op.kernel)
        .words(op.stride)
        .words(op.padding)
        .words(op.dilation)
        .word(op.x_offset)
        .dynamic(op.x_dynamic)
        .float(divisor);
    let outputs = op.output.iter().fold(u64::from(op.planes), |n, &size| n.saturating_mul(size.into()));
    push.launch(POOL.pick(limits.tier), &[max, indices, mode], outputs.div_ceil(THREADS.into()), limits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::tests::PLAIN;

    #[test]
    fn an_invocation_an_output() {
        let op = Pool {
            op: PoolOp::Mean(Divisor::Given(5.0)),
            planes: 3,
            input: [20, 20],
            output: [10, 10],
            kernel: [2, 2],
            stride: [2, 2],
            padding: [0, 0],
            dilation: [1, 1],
            x_offset: 0,
            x_dynamic: None,
        };
        let launch = pool(&op, &PLAIN);
        assert_eq!((launch.groups, launch.push[15]), ([3, 1, 1], 5.0f32.to_bits()));
        assert_eq!(launch.kernel.specialization.as_slice(), [0, 0, 2]);
        assert_eq!(pool(&Pool { planes: 0, ..op }, &PLAIN).groups[0], 0);
    }
}
