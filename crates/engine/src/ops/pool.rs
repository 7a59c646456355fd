//! Pooling over windows of the last two dimensions.

use etvk_kernels::Dims;
use etvk_kernels::pool::{self, Divisor, PoolOp};
use etvk_vkgraph::DType;

use super::call::{Call, Result as Lowered};
use super::conv::pair;
use super::norm::bind_first;
use super::{Kind, Op, OutSizes};
use crate::error::{Error, Fault};
use crate::host::{Shapes, shape_fault};
use crate::ir::Node;
use crate::record::{Bind, Record};

/// Windows of planes. Input: x \[…, H, W\] (contiguous). Outputs: result, (indices).
#[derive(Clone, Debug)]
pub struct Pool {
    pub(crate) op: PoolOp,
    pub(crate) window: Window,
}

/// How the window moves; height first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) kernel: [u32; 2],
    pub(crate) stride: [u32; 2],
    pub(crate) padding: [u32; 2],
    pub(crate) dilation: [u32; 2],
    /// Whether a window may reach beyond the padded input.
    pub(crate) ceil: bool,
}

impl Window {
    /// Output size along an axis.
    fn output(&self, axis: usize, input: u32) -> Option<u32> {
        let [stride, padding, kernel, dilation] =
            [self.stride, self.padding, self.kernel, self.dilation].map(|pair| i64::from(pair[axis]));
        let reach = dilation.checked_mul(kernel - 1)?.checked_add(1)?;
        let input = i64::from(input);
        let room = input + 2 * padding - reach;
        // The kernel numbers positions by 32-bit numbers that may wrap below 0 only.
        let last = i32::try_from((input + 2 * padding).checked_add(reach)?.checked_add(stride)?);
        if room < 0 || last.is_err() {
            return None;
        }
        let mut steps = room / stride;
        if self.ceil {
            steps = (room + stride - 1) / stride;
            // A last window that starts beyond the input and its first padding does not count.
            if steps * stride >= input + padding {
                steps -= 1;
            }
        }
        u32::try_from(steps + 1).ok()
    }
}

/// Height and width of `[…, H, W]`.
fn plane(sizes: &[u32]) -> Option<[u32; 2]> {
    match *sizes {
        [.., height, width] => Some([height, width]),
        _ => None,
    }
}

impl Kind for Pool {
    fn infer(&self, node: &Node, shapes: &Shapes<'_>) -> Result<OutSizes, Fault> {
        let x = shapes.sizes(node.inputs[0]);
        let input = plane(x).ok_or_else(|| shape_fault("rank of a pooled tensor", &[4], x))?;
        let mut out: Dims = x.iter().copied().collect();
        let rank = out.len();
        for axis in 0..2 {
            let size = self.window.output(axis, input[axis]);
            let misfit = || shape_fault("input that a window fits", &self.window.kernel, &input);
            out[rank - 2 + axis] = size.ok_or_else(misfit)?;
        }
        Ok(std::iter::repeat_n(out, node.outputs.len()).collect())
    }

    fn record(&self, node: &Node, record: &mut Record<'_>) -> Result<(), Error> {
        let (x, out) = (record.layout(node.inputs[0]), record.layout(node.outputs[0]));
        let (Some(input), Some(output)) = (plane(&x.sizes), plane(&out.sizes)) else { return Ok(()) };
        let op = pool::Pool {
            op: self.op,
            planes: x.sizes.iter().rev().skip(2).product(),
            input,
            output,
            kernel: self.window.kernel,
            stride: self.window.stride,
            padding: self.window.padding,
            dilation: self.window.dilation,
            x_offset: x.offset,
            x_dynamic: x.dynamic_offset,
        };
        let launch = pool::pool(&op, record.limits);
        // Absent indices are bound to the result: the module declares them writable.
        let indices = node.outputs.get(1).copied().unwrap_or(node.outputs[0]);
        let binds =
            [Bind::Read(node.inputs[0]), Bind::Write(node.outputs[0]), Bind::Write(indices), Bind::Dynamic];
        record.launch(&launch, &binds)
    }
}

/// Kernel, stride (empty: the kernel) and padding in slots 1 to 3.
fn window(call: &mut Call<'_, '_>, dilation: [u32; 2], ceil: usize) -> Lowered<Window> {
    let kernel = pair(call, 1, None, 1)?;
    let stride = if call.ints(2)?.is_empty() { kernel } else { pair(call, 2, None, 1)? };
    let padding = pair(call, 3, None, 0)?;
    Ok(Window { kernel, stride, padding, dilation, ceil: call.optional_bool(ceil)?.unwrap_or(false) })
}

/// `aten.avg_pool2d.default
/// [x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override, out]`
pub(super) fn average(call: &mut Call<'_, '_>) -> Lowered<()> {
    call.arity(&[8], "8")?;
    let x = call.float_tensor(0)?;
    let x = call.builder.contiguous(x);
    let window = window(call, [1, 1], 4)?;
    #[expect(clippy::cast_possible_truncation, reason = "device arithmetic is single precision")]
    let divisor = match call.optional_float(6)? {
        Some(0.0) => {
            let (expected, found) = ("a number other than 0", "0".into());
            return Err(Fault::Argument { slot: 6, what: "divisor_override", expected, found });
        }
        Some(divisor) => Divisor::Given(divisor as f32),
        None if call.optional_bool(5)?.unwrap_or(true) => Divisor::Padded,
        None => Divisor::Elements,
    };
    call.emit(Op::Pool(Pool { op: PoolOp::Mean(divisor), window }), vec![x], 7)
}

fn largest(call: &mut Call<'_, '_>, indices: bool) -> Lowered<(Op, Vec<crate::ir::TensorId>)> {
    call.arity(&[7], "7")?;
    let x = call.float_tensor(0)?;
    let x = call.builder.contiguous(x);
    let dilation = pair(call, 4, None, 1)?;
    let window = window(call, dilation, 5)?;
    Ok((Op::Pool(Pool { op: PoolOp::Max { indices }, window }), vec![x]))
}

/// `aten.max_pool2d.default [x, kernel, stride, padding, dilation, ceil_mode, out]`
pub(super) fn max(call: &mut Call<'_, '_>) -> Lowered<()> {
    let (op, inputs) = largest(call, false)?;
    call.emit(op, inputs, 6)
}

/// `aten.max_pool2d_with_indices.default [x, kernel, stride, padding, dilation, ceil_mode, outs]`: result, indices.
pub(super) fn max_with_indices(call: &mut Call<'_, '_>) -> Lowered<()> {
    let infos = call.list_infos(6)?;
    let [result, indices] = infos[..] else {
        let found = infos.len().to_string();
        return Err(Fault::Argument { slot: 6, what: "number of outputs", expected: "two", found });
    };
    // Unused indices may be declared with dims [0].
    let wanted = indices.dims.len() == result.dims.len();
    let (op, inputs) = largest(call, wanted)?;
    let outputs = [(DType::Float32, result.dims.as_slice()), (DType::Int32, indices.dims.as_slice())];
    let results = call.builder.node_outputs(op, inputs, &outputs[..if wanted { 2 } else { 1 }]);
    bind_first(call, 6, &results)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_sizes() {
        let window =
            Window { kernel: [3, 2], stride: [2, 2], padding: [1, 0], dilation: [1, 2], ceil: false };
        assert_eq!((window.output(0, 8), window.output(1, 8)), (Some(4), Some(3)));
        let ceil = Window { ceil: true, ..window };
        assert_eq!((ceil.output(0, 8), ceil.output(1, 8)), (Some(5), Some(4)));
        // The fifth window would start in the padding after the input.
        assert_eq!(
            Window { kernel: [1, 1], padding: [0, 0], dilation: [1, 1], ..ceil }.output(0, 8),
            Some(4)
        );
        assert_eq!(window.output(1, 2), None);
    }
}
