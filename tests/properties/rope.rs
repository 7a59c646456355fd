//! Rotary position embeddings.

use etvk_reference::Arg;
use etvk_tests::{Draw, Fill, Outcome, Tolerance, Twin, property, result};
use etvk_vkgraph::{DType, GraphBuilder, ValueId};

use crate::source::Source;

const PAIRS: &str = "et_vk.apply_rotary_emb.default";
const HALVES: &str = "et_vk.apply_rotary_emb_hf.default";
const INTERLEAVED: &str = "et_vk.apply_rotary_emb_interleaved.default";

/// Every operator these properties compare.
pub(crate) fn names() -> Vec<&'static str> {
    vec![PAIRS, HALVES, INTERLEAVED]
}

/// Queries and keys of [B, S, H, D], rotated together.
struct Heads {
    graph: GraphBuilder,
    sources: [Source; 2],
    ids: [ValueId; 2],
    /// B, S, and the number of heads of each.
    batch: u32,
    rows: u32,
    heads: [u32; 2],
    width: u32,
    dtype: DType,
}

impl Heads {
    fn new(draw: &mut Draw<'_>) -> Self {
        let mut graph = GraphBuilder::new();
        let (batch, rows, width) = (draw.between(1, 2), draw.between(1, 9), 2 * draw.between(1, 40));
        let heads = [draw.between(1, 5), draw.between(1, 3)];
        let dtype = draw.float();
        let [(q, q_id), (k, k_id)] =
            heads.map(|heads| Source::new(draw, &mut graph, dtype, &[batch, rows, heads, width], Fill::UNIT));
        Self { graph, sources: [q, k], ids: [q_id, k_id], batch, rows, heads, width, dtype }
    }

    fn finish(&mut self, name: &str, tables: &[ValueId]) {
        let outs = self
            .heads
            .map(|heads| result(&mut self.graph, self.dtype, &[self.batch, self.rows, heads, self.width]));
        let list = self.graph.value_list(&outs);
        self.graph.call(name, &[&self.ids, tables, &[list]].concat());
        self.graph.outputs(&outs);
    }

    fn args(&self, draw: &mut Draw<'_>, rows: u32) -> Vec<Arg> {
        let dims = self.heads.map(|heads| [self.batch, rows, heads, self.width]);
        self.sources.iter().zip(dims).map(|(source, dims)| source.arg(draw, &dims)).collect()
    }
}

#[test]
fn neighbours() -> anyhow::Result<()> {
    property(&[PAIRS], 12, |draw| {
        let mut heads = Heads::new(draw);
        let dims = [heads.rows, heads.width / 2];
        let tables = [(); 2].map(|()| Source::new(draw, &mut heads.graph, DType::Float32, &dims, Fill::UNIT));
        let ids = [tables[0].1, tables[1].1];
        heads.finish(PAIRS, &ids);
        let mut twin = Twin::new(&heads.graph)?;
        for whole in [true, false, false] {
            let rows = if whole { heads.rows } else { draw.shrunk_size(heads.rows) };
            let mut inputs = heads.args(draw, rows);
            for (source, _) in &tables {
                inputs.push(source.arg(draw, &[rows, heads.width / 2]));
            }
            twin.run(&inputs, Tolerance::SINGLE)?;
        }
        Ok(())
    })
}

#[test]
fn halves_of_rows_from_a_start_on() -> anyhow::Result<()> {
    property(&[HALVES], 16, |draw| {
        let mut heads = Heads::new(draw);
        // Fewer elements than a head has: the rest is copied.
        let rotary = if draw.once_in(2) { 2 * draw.between(1, heads.width / 2) } else { heads.width };
        let positions = heads.rows + draw.between(0, 20);
        let dtype = draw.float();
        let ids = [(); 2].map(|()| {
            let bytes = draw.tensor(dtype, &[positions, rotary], Fill::UNIT).to_le_bytes();
            heads.graph.constant(dtype, &[positions, rotary], bytes)
        });
        let fixed = draw.once_in(4);
        let start = if fixed {
            heads.graph.int(i64::from(draw.between(0, positions - heads.rows)))
        } else {
            heads.graph.sym_int_input()
        };
        heads.finish(HALVES, &[ids[0], ids[1], start]);
        let mut twin = Twin::new(&heads.graph)?;
        for whole in [true, false, false, true] {
            let rows = if whole { heads.rows } else { draw.shrunk_size(heads.rows) };
            let mut inputs = heads.args(draw, rows);
            if !fixed {
                inputs.push(Arg::Int(i64::from(draw.between(0, positions - rows))));
            }
            twin.run(&inputs, Tolerance::SINGLE)?;
        }
        Ok(())
    })
}

#[test]
fn complex_numbers() -> anyhow::Result<()> {
    property(&[INTERLEAVED], 12, complex)
}

fn complex(draw: &mut Draw<'_>) -> Outcome {
    let mut graph = GraphBuilder::new();
    let (batch, rows, width) = (draw.between(1, 3), draw.between(1, 9), 2 * draw.between(1, 20));
    let dtype = draw.float();
    let (x, x_id) = Source::new(draw, &mut graph, dtype, &[batch, rows, width], Fill::UNIT);
    let flat = draw.once_in(2);
    let frequencies = |rows: u32| if flat { vec![rows, width] } else { vec![rows, width / 2, 2] };
    let (table, table_id) = Source::new(draw, &mut graph, DType::Float32, &frequencies(rows), Fill::UNIT);
    let out = result(&mut graph, dtype, &[batch, rows, width]);
    graph.call(INTERLEAVED, &[x_id, table_id, out]);
    graph.outputs(&[out]);
    let mut twin = Twin::new(&graph)?;
    for whole in [true, false, false] {
        let now = if whole { rows } else { draw.shrunk_size(rows) };
        let inputs = [x.arg(draw, &[batch, now, width]), table.arg(draw, &frequencies(now))];
        twin.run(&inputs, Tolerance::SINGLE)?;
    }
    Ok(())
}
