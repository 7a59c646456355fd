//! Windows that move over a plane, and the sizes they lead to; height first.

use etvk_tests::Draw;
use etvk_vkgraph::{GraphBuilder, ValueId};

/// How a window moves.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) kernel: [u32; 2],
    pub(crate) stride: [u32; 2],
    pub(crate) padding: [u32; 2],
    pub(crate) dilation: [u32; 2],
    /// Output elements that a transposed convolution adds; `None` unless it is one.
    pub(crate) transposed: Option<[u32; 2]>,
    pub(crate) ceil: bool,
}

impl Window {
    /// Any window; `line`: of one spatial dimension.
    pub(crate) fn new(draw: &mut Draw<'_>, line: bool, transposed: bool) -> Self {
        let mut pair = |items: &[u32], first: u32| {
            let both = draw.pick(items);
            let height = if draw.once_in(2) { draw.pick(items) } else { both };
            [if line { first } else { height }, both]
        };
        let kernel = pair(&[3, 1, 2, 5, 4], 1);
        let stride = pair(&[1, 2, 1, 3], 1);
        let padding = pair(&[1, 0, 2, 0, 3], 0);
        let dilation = pair(&[1, 1, 2, 1, 3], 1);
        let extra = [0, 1].map(|axis| if draw.once_in(2) { draw.between(0, stride[axis] - 1) } else { 0 });
        let transposed = transposed.then_some(extra);
        Self { kernel, stride, padding, dilation, transposed, ceil: false }
    }

    /// Output size of an input size; 0 where the window does not fit.
    pub(crate) fn output(&self, axis: usize, input: u32) -> u32 {
        let (stride, margin) = (self.stride[axis], 2 * self.padding[axis]);
        let reach = self.dilation[axis] * (self.kernel[axis] - 1) + 1;
        if let Some(extra) = self.transposed {
            return ((input - 1) * stride + reach + extra[axis]).saturating_sub(margin);
        }
        let Some(room) = (input + margin).checked_sub(reach) else { return 0 };
        let mut last = room / stride;
        if self.ceil {
            last = room.div_ceil(stride);
            if last * stride >= input + self.padding[axis] {
                last -= 1;
            }
        }
        last + 1
    }

    /// The least input size that the window fits, and one that is larger.
    pub(crate) fn inputs(&self, draw: &mut Draw<'_>, axis: usize) -> (u32, u32) {
        let least = (1..).find(|&input| self.output(axis, input) > 0).unwrap_or(1);
        (least, least + draw.pick(&[4, 0, 1, 2, 7, 10]))
    }

    /// A list of a pair: one number for `line`, and sometimes for two that are equal.
    pub(crate) fn list(draw: &mut Draw<'_>, graph: &mut GraphBuilder, pair: [u32; 2], line: bool) -> ValueId {
        let numbers = pair.map(i64::from);
        let single = line || (pair[0] == pair[1] && draw.once_in(3));
        graph.int_list(if single { &numbers[1..] } else { &numbers })
    }
}
