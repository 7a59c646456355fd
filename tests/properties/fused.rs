//! Binary operators that release 1.0 fused with a clamp.

use etvk_tests::{Fill, Tolerance, property};
use etvk_vkgraph::{DType, GraphBuilder, ValueId};

use crate::broadcast::Broadcast;
use crate::map::call;

const AFTER: &[&str] = &[
    "et_vk.binary_add_with_clamp.default",
    "et_vk.binary_div_with_clamp.default",
    "et_vk.binary_mul_with_clamp.default",
    "et_vk.binary_sub_with_clamp.default",
];
const BEFORE: &[&str] = &[
    "et_vk.clamp_with_binary_add.default",
    "et_vk.clamp_with_binary_div.default",
    "et_vk.clamp_with_binary_mul.default",
    "et_vk.clamp_with_binary_sub.default",
];

/// Every operator these properties compare.
pub(crate) fn names() -> Vec<&'static str> {
    [AFTER, BEFORE].concat()
}

#[test]
fn binary_operators_with_a_clamp() -> anyhow::Result<()> {
    for name in names() {
        property(&[name], 10, |draw| {
            let (mut graph, mut sizes) = (GraphBuilder::new(), Broadcast::new(draw));
            let divides = name.contains("div");
            let dtype = draw.pick(&[DType::Float32, DType::Float16, DType::Int32]);
            let dtype = if divides && dtype == DType::Int32 { DType::Float32 } else { dtype };
            let low = if divides { 1.0 } else { -6.0 };
            let step = if dtype == DType::Int32 { 1.0 } else { 0.5 };
            let a = sizes.operand(draw, &mut graph, dtype, Fill::Grid { low: -6.0, high: 6.0, step });
            let b = sizes.operand(draw, &mut graph, dtype, Fill::Grid { low, high: 6.0, step });
            let mut bound = |graph: &mut GraphBuilder, number: f64| match draw.once_in(3) {
                true => graph.null(),
                false => graph.double(number),
            };
            let bounds: [ValueId; 2] = [bound(&mut graph, -3.0), bound(&mut graph, 5.0)];
            let args = match AFTER.contains(&name) {
                true => vec![a, b, bounds[0], bounds[1]],
                false => vec![a, bounds[0], bounds[1], b],
            };
            call(&mut graph, name, args, dtype, &sizes.result());
            sizes.run(draw, &graph, Tolerance::SINGLE)
        })?;
    }
    Ok(())
}
