//! Integers that the host computes.

use etvk_reference::Arg;
use etvk_tests::{Draw, Fill, Tolerance, Twin, property};
use etvk_vkgraph::{DType, GraphBuilder, ValueId};

const ARITHMETIC: &[&str] = &["add", "sub", "mul", "floordiv"];

const COMPARISONS: &[&str] = &["eq", "ge", "gt", "le", "lt"];
const ASSERTIONS: &[&str] = &[
    "_assert_scalar.default",
    "aten._assert_scalar.default",
    "aten.sym_constrain_range_for_size.default",
    "sym_constrain_range_for_size.default",
];

/// Every operator these properties compare.
pub(crate) fn names() -> Vec<&'static str> {
    [ARITHMETIC, COMPARISONS, ASSERTIONS, &["et_vk.select_as_symint.default", "sym_size.int"]].concat()
}

/// A chain of arithmetic on `ints`, with `name` among it.
fn arithmetic(
    draw: &mut Draw<'_>,
    graph: &mut GraphBuilder,
    mut ints: Vec<ValueId>,
    name: &str,
) -> Vec<ValueId> {
    let mut names = vec![draw.pick(ARITHMETIC), name, draw.pick(ARITHMETIC)];
    names.truncate(2 + draw.below(2));
    let mut products = 0;
    for name in names {
        products += usize::from(name == "mul");
        let name = if products > 1 { "sub" } else { name };
        let a = draw.pick(&ints);
        let b = match name {
            "floordiv" => graph.int(draw.pick(&[2, 3, -2, 7])),
            _ if draw.once_in(2) => graph.int(draw.pick(&[1, 5, -4])),
            _ => draw.pick(&ints),
        };
        let out = graph.sym_int();
        graph.call(name, &[a, b, out]);
        ints.push(out);
    }
    ints
}

#[test]
fn arithmetic_on_inputs_and_sizes() -> anyhow::Result<()> {
    for &name in ARITHMETIC {
        property(&[name, "sym_size.int"], 8, |draw| {
            let mut graph = GraphBuilder::new();
            let bound = draw.dims(1, 4);
            let x = graph.input(DType::Float32, &bound);
            let input = graph.sym_int_input();
            let (dim, size) = (draw.below(bound.len()), graph.sym_int());
            let dim = i64::try_from(dim).unwrap_or(0) - i64::try_from(bound.len()).unwrap_or(0);
            let dim = graph.int(dim);
            graph.call("sym_size.int", &[x, dim, size]);
            let ints = arithmetic(draw, &mut graph, vec![input, size], name);
            graph.outputs(&ints[1..]);
            let mut twin = Twin::new(&graph)?;
            for _ in 0..4 {
                let sizes = draw.shrunk(&bound);
                let int = i64::from(draw.between(0, 80)) - 40;
                let inputs = [Arg::Tensor(draw.tensor(DType::Float32, &sizes, Fill::UNIT)), Arg::Int(int)];
                twin.run(&inputs, Tolerance::EXACT)?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn elements_of_inputs_move_slices() -> anyhow::Result<()> {
    property(&["et_vk.select_as_symint.default"], 12, |draw| {
        let mut graph = GraphBuilder::new();
        let (rows, width, count) = (draw.between(2, 9), draw.between(1, 5), draw.between(1, 4));
        let table = draw.tensor(DType::Float32, &[rows, width], Fill::UNIT).to_le_bytes();
        let table = graph.constant(DType::Float32, &[rows, width], table);
        let dtype = draw.pick(&[DType::Int32, DType::Int64]);
        let positions_dims: &[u32] = if draw.once_in(2) { &[1, 4] } else { &[4] };
        let positions = graph.input(dtype, positions_dims);
        let dim = graph.int(if draw.once_in(2) { -1 } else { i64::from(positions_dims.len() == 2) });
        let index = graph.int(i64::from(draw.between(0, 7)) - 4);
        let (start, end) = (graph.sym_int(), graph.sym_int());
        graph.call("et_vk.select_as_symint.default", &[positions, dim, index, start]);
        let count_id = graph.int(i64::from(count));
        graph.call("add", &[start, count_id, end]);
        let numbers = [graph.int(0), graph.int(1)];
        let (row, out) =
            (graph.tensor(DType::Float32, &[count, width]), graph.tensor(DType::Float32, &[count, width]));
        graph.call("aten.slice_copy.Tensor", &[table, numbers[0], start, end, numbers[1], row]);
        graph.call("aten.neg.default", &[row, out]);
        graph.outputs(&[out, start]);
        let mut twin = Twin::new(&graph)?;
        for _ in 0..3 {
            let high = f64::from(rows + 1);
            let positions = draw.tensor(dtype, positions_dims, Fill::Uniform { low: 0.0, high });
            twin.run(&[Arg::Tensor(positions)], Tolerance::EXACT)?;
        }
        Ok(())
    })
}

#[test]
fn comparisons_and_what_asserts_them() -> anyhow::Result<()> {
    let pairs = COMPARISONS.iter().zip(ASSERTIONS.iter().cycle());
    for (&name, &assertion) in pairs {
        property(&[name, assertion], 6, |draw| {
            let mut graph = GraphBuilder::new();
            let (a, out) = (graph.sym_int_input(), graph.sym_int());
            let literal = draw.once_in(2);
            let b = if literal { graph.int(3) } else { graph.sym_int_input() };
            graph.call(name, &[a, b, out]);
            let (message, null) = (graph.string("a = b"), graph.null());
            graph.call(assertion, &[out, message, null]);
            let x = graph.input(DType::Float32, &[2]);
            let y = graph.tensor(DType::Float32, &[2]);
            graph.call("aten.neg.default", &[x, y]);
            graph.outputs(&[out, y]);
            let mut twin = Twin::new(&graph)?;
            for _ in 0..4 {
                let mut inputs: Vec<Arg> = (0..if literal { 1 } else { 2 })
                    .map(|_| Arg::Int(i64::from(draw.between(2, 4))))
                    .collect();
                inputs.push(Arg::Tensor(draw.tensor(DType::Float32, &[2], Fill::UNIT)));
                twin.run(&inputs, Tolerance::EXACT)?;
            }
            Ok(())
        })?;
    }
    Ok(())
}
