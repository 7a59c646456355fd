//! Softmax and its logarithm.

use etvk_tests::{Fill, Tolerance, Twin, property, result};
use etvk_vkgraph::GraphBuilder;

use crate::source::Source;

const NAMES: &[&str] = &["aten._log_softmax.default", "aten._softmax.default"];

/// Every operator these properties compare.
pub(crate) fn names() -> Vec<&'static str> {
    NAMES.to_vec()
}

#[test]
fn softmax_along_any_dimension() -> anyhow::Result<()> {
    for &name in NAMES {
        property(&[name], 16, |draw| {
            let mut bound = draw.dims(0, 5);
            let dim = draw.below(bound.len());
            if bound.len() == 2 && draw.once_in(2) {
                bound[dim] = draw.between(30, 600);
            }
            let rank = i64::try_from(bound.len()).unwrap_or(0);
            let number = i64::try_from(dim).unwrap_or(0) - if draw.once_in(2) { rank.max(1) } else { 0 };
            let mut graph = GraphBuilder::new();
            let (dtype, range) = (draw.float(), draw.pick(&[2.0, 40.0, 2000.0]));
            let fill = Fill::Uniform { low: -range, high: range };
            let (source, x) = Source::new(draw, &mut graph, dtype, &bound, fill);
            let (number, half) = (graph.int(number), graph.bool(false));
            let out = result(&mut graph, dtype, &bound);
            graph.call(name, &[x, number, half, out]);
            graph.outputs(&[out]);
            let mut twin = Twin::new(&graph)?;
            for sizes in [bound.clone(), draw.shrunk(&bound), draw.shrunk(&bound)] {
                let input = source.arg(draw, &sizes);
                twin.run(&[input], Tolerance::SINGLE)?;
            }
            Ok(())
        })?;
    }
    Ok(())
}
