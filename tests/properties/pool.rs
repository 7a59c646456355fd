//! Pooling.

use etvk_tests::{Draw, Fill, Outcome, Tolerance, Twin, property, result};
use etvk_vkgraph::{DType, GraphBuilder, ValueId};

use crate::conv::floats;
use crate::source::Source;
use crate::window::Window;

const AVERAGE: &str = "aten.avg_pool2d.default";
const MAX: &str = "aten.max_pool2d.default";
const MAX_WITH_INDICES: &str = "aten.max_pool2d_with_indices.default";

/// Every operator these properties compare.
pub(crate) fn names() -> Vec<&'static str> {
    vec![AVERAGE, MAX, MAX_WITH_INDICES]
}

/// A pooling under construction.
struct Pool {
    graph: GraphBuilder,
    window: Window,
    leading: Vec<u32>,
    least: [u32; 2],
    most: [u32; 2],
}

impl Pool {
    fn new(draw: &mut Draw<'_>, dilated: bool) -> Self {
        let mut window = Window::new(draw, false, false);
        window.ceil = draw.once_in(2);
        if !dilated {
            window.dilation = [1, 1];
        }
        if draw.once_in(4) {
            window.stride = window.kernel;
        }
        let [rows, columns] = [0, 1].map(|axis| window.inputs(draw, axis));
        let leading = if draw.once_in(3) { vec![draw.size()] } else { vec![draw.between(1, 3), draw.size()] };
        Self {
            graph: GraphBuilder::new(),
            window,
            leading,
            least: [rows.0, columns.0],
            most: [rows.1, columns.1],
        }
    }

    fn x(&mut self, draw: &mut Draw<'_>, dtype: DType, fill: Fill) -> (Source, ValueId) {
        let dims = [&self.leading[..], &self.most].concat();
        Source::new(draw, &mut self.graph, dtype, &dims, fill)
    }

    /// Kernel, stride and padding.
    fn lists(&mut self, draw: &mut Draw<'_>) -> Vec<ValueId> {
        let window = self.window.clone();
        let kernel = Window::list(draw, &mut self.graph, window.kernel, false);
        let stride = match window.stride == window.kernel && draw.once_in(2) {
            true => self.graph.int_list(&[]),
            false => Window::list(draw, &mut self.graph, window.stride, false),
        };
        vec![kernel, stride, Window::list(draw, &mut self.graph, window.padding, false)]
    }

    fn out(&mut self, dtype: DType) -> ValueId {
        let plane = [0, 1].map(|axis| self.window.output(axis, self.most[axis]));
        result(&mut self.graph, dtype, &[&self.leading[..], &plane].concat())
    }

    fn run(&self, draw: &mut Draw<'_>, x: &Source, tolerance: Tolerance) -> Outcome {
        let mut twin = Twin::new(&self.graph)?;
        for whole in [true, false, false] {
            let (mut leading, mut plane) = (self.leading.clone(), self.most);
            if !whole {
                leading = draw.shrunk(&leading);
                plane = [0, 1].map(|axis| draw.between(self.least[axis], self.most[axis]));
            }
            let input = x.arg(draw, &[&leading[..], &plane].concat());
            twin.run(&[input], tolerance)?;
        }
        Ok(())
    }
}

#[test]
fn means() -> anyhow::Result<()> {
    property(&[AVERAGE], 60, |draw| {
        let (mut pool, dtype) = (Pool::new(draw, false), draw.float());
        let (x, id) = pool.x(draw, dtype, Fill::Uniform { low: -1.0, high: 3.0 });
        let mut args = vec![id];
        args.extend(pool.lists(draw));
        args.push(pool.graph.bool(pool.window.ceil));
        args.push(pool.graph.bool(draw.once_in(2)));
        let divisor = draw.pick(&[None, None, Some(5), Some(-2)]);
        args.push(match divisor {
            Some(divisor) => pool.graph.int(divisor),
            None => pool.graph.null(),
        });
        let out = pool.out(dtype);
        args.push(out);
        pool.graph.call(AVERAGE, &args);
        pool.graph.outputs(&[out]);
        pool.run(draw, &x, Tolerance::SINGLE)
    })
}

#[test]
fn largest_elements() -> anyhow::Result<()> {
    for name in [MAX, MAX_WITH_INDICES] {
        property(&[name], 40, |draw| {
            let (mut pool, dtype) = (Pool::new(draw, true), draw.float());
            // Few values, so that some are equal.
            let fill = draw.pick(&[Fill::Grid { low: -3.0, high: 1.0, step: 1.0 }, Fill::UNIT]);
            let (x, id) = pool.x(draw, dtype, fill);
            let mut args = vec![id];
            args.extend(pool.lists(draw));
            args.push(Window::list(draw, &mut pool.graph, pool.window.dilation, false));
            args.push(pool.graph.bool(pool.window.ceil));
            let mut outs = vec![pool.out(dtype)];
            if name == MAX_WITH_INDICES {
                outs.push(pool.out(DType::Int32));
                args.push(pool.graph.value_list(&outs));
            } else {
                args.push(outs[0]);
            }
            pool.graph.call(name, &args);
            pool.graph.outputs(&outs);
            pool.run(draw, &x, Tolerance::EXACT)
        })?;
    }
    Ok(())
}

/// A NaN is larger than all, the last one counts; of −∞ alone the first one does.
#[test]
fn special_values() -> anyhow::Result<()> {
    property(&[MAX_WITH_INDICES], 1, |_| {
        let mut graph = GraphBuilder::new();
        let x = graph.input(DType::Float32, &[1, 2, 6]);
        let (kernel, stride) = (graph.int_list(&[2, 2]), graph.int_list(&[]));
        let (padding, dilation) = (graph.int_list(&[0]), graph.int_list(&[1]));
        let ceil = graph.bool(false);
        let outs = [DType::Float32, DType::Int32].map(|dtype| graph.tensor(dtype, &[1, 1, 3]));
        let list = graph.value_list(&outs);
        graph.call(MAX_WITH_INDICES, &[x, kernel, stride, padding, dilation, ceil, list]);
        graph.outputs(&outs);
        let (nan, least) = (f64::NAN, f64::NEG_INFINITY);
        let input =
            floats(&[1, 2, 6], &[1.0, nan, least, least, 3.0, 3.0, nan, 7.0, least, least, 3.0, -1.0]);
        Twin::new(&graph)?.run(&[input], Tolerance::EXACT)
    })
}
