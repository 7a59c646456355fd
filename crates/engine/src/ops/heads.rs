//! Heads of q, k and v on their way into attention.

use arrayvec::ArrayVec;
use etvk_kernels::heads::{self, Heads as Kernel, MAX_PARTS, Part as KernelPart, Rotation};
use etvk_kernels::residual::RowNorm;
use etvk_kernels::rope::Table;

use super::{Kind, OutSizes};
use crate::error::{Error, Fault};
use crate::host::{Shapes, shape_fault};
use crate::ir::{Node, SymId, TensorId};
use crate::record::{Bind, Record};

/// Tensors \[B, S, H, D\] whose rows are normalised, rotated and written, each where asked. Inputs: x of every part,
/// the weights of those that have one, (cosines, sines). Outputs: one a part, a new tensor or a state.
#[derive(Clone, Debug)]
pub struct Heads {
    pub(crate) parts: ArrayVec<Part, MAX_PARTS>,
    pub(crate) rotation: Option<Pairing>,
}

/// One tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Part {
    pub(crate) norm: Option<RowNorm>,
    pub(crate) rope: bool,
    /// The result is a state \[B, C, H, D\] and this its first row.
    pub(crate) cache: Option<SymId>,
}

/// How the parts that have a rotation are rotated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pairing {
    /// The elements of a pair are neighbours, and the tables have D / 2 columns; else they are D / 2 apart.
    pub(crate) neighbours: bool,
    /// Table row of the first position.
    pub(crate) start: Option<SymId>,
}

impl Heads {
    fn weights(&self, node: &Node) -> [Option<TensorId>; MAX_PARTS] {
        let mut rest = node.inputs.iter().skip(self.parts.len()).copied();
        let mut weights = [None; MAX_PARTS];
        for (part, weight) in self.parts.iter().zip(&mut weights) {
            if part.norm.is_some_and(|norm| norm.weight) {
                *weight = rest.next();
            }
        }
        weights
    }

    fn tables(&self, node: &Node) -> Option<(Pairing, TensorId, TensorId)> {
        let &[.., cos, sin] = node.inputs.as_slice() else { return None };
        self.rotation.map(|pairing| (pairing, cos, sin))
    }

    fn check_tables(&self, node: &Node, x: &[u32], shapes: &Shapes<'_>) -> Result<(), Fault> {
        let Some((pairing, cos, sin)) = self.tables(node) else { return Ok(()) };
        for table in [cos, sin] {
            let sizes = shapes.sizes(table);
            let (&[_, positions, _, width], &[rows, row]) = (x, sizes) else {
                return Err(shape_fault("x and table of a rotary embedding", x, sizes));
            };
            if width != row * if pairing.neighbours { 2 } else { 1 } {
                return Err(shape_fault("table of a rotary embedding", &[rows, width], sizes));
            }
            let start = pairing.start.map_or(0, |sym| shapes.sym(sym));
            super::copy::check_rows(start, positions, rows)?;
        }
        Ok(())
    }

    fn out_sizes(&self, index: usize, node: &Node, shapes: &Shapes<'_>) -> Result<etvk_kernels::Dims, Fault> {
        let x = shapes.sizes(node.inputs[index]);
        let Some(start) = self.parts[index].cache else { return Ok(x.iter().copied().collect()) };
        let state = shapes.sizes(node.outputs[index]);
        match (x, state) {
            (&[b, s, h, d], &[cb, c, ch, cd]) if (b, h, d) == (cb, ch, cd) => {
                super::copy::check_rows(shapes.sym(start), s, c)?;
                Ok(state.iter().copied().collect())
            }
            _ => Err(shape_fault("rows written into a cache", state, x)),
        }
    }
}

impl Kind for Heads {
    fn infer(&self, node: &Node, shapes: &Shapes<'_>) -> Result<OutSizes, Fault> {
        let first = shapes.sizes(node.inputs[0]);
        let mut out = OutSizes::new();
        for index in 0..self.parts.len() {
            let x = shapes.sizes(node.inputs[index]);
            let same = x.len() == 4 && first.len() == 4 && [0, 1, 3].iter().all(|&d| x[d] == first[d]);
            if !same {
                return Err(shape_fault("heads of an attention", first, x));
            }
            out.push(self.out_sizes(index, node, shapes)?);
        }
        self.check_tables(node, first, shapes)?;
        Ok(out)
    }

    fn syms(&self) -> Vec<SymId> {
        let caches = self.parts.iter().filter_map(|part| part.cache);
        caches.chain(self.rotation.and_then(|pairing| pairing.start)).collect()
    }

    fn record(&self, node: &Node, record: &mut Record<'_>) -> Result<(), Error> {
        let &[batch, s, _, width] = record.layout(node.inputs[0]).sizes.as_slice() else { return Ok(()) };
        let rows = |id: TensorId| record.layout(id).sizes.get(1).copied().unwrap_or(0);
        let parts = self.parts.iter().enumerate().map(|(index, part)| KernelPart {
            heads: record.layout(node.inputs[index]).sizes[2],
            norm: part.norm,
            rope: part.rope,
            out_rows: rows(node.outputs[index]),
            start_dynamic: part.cache.map(|sym| sym.0),
        });
        let tables = self.tables(node);
        let rotation = tables.map(|(pairing, cos, sin)| {
            let (cos, sin) = (record.layout(cos), record.layout(sin));
            let table = |layout: &etvk_kernels::Strided| Table {
                offset: layout.offset,
                dynamic_offset: layout.dynamic_offset,
            };
            Rotation {
                neighbours: pairing.neighbours,
                cos: table(cos),
                sin: table(sin),
                rows: cos.sizes[0],
                row: cos.sizes[1],
                start_dynamic: pairing.start.map(|sym| sym.0),
            }
        });
        let launch =
            heads::heads(&Kernel { batch, s, width, parts: parts.collect(), rotation }, record.limits);
        let read = |id: Option<TensorId>| id.map_or(Bind::Absent, Bind::Read);
        let x = [0, 1, 2].map(|i| read((i < self.parts.len()).then(|| node.inputs[i])));
        let weights = self.weights(node).map(read);
        let cos = read(tables.map(|(_, cos, _)| cos));
        let sin = read(tables.map(|(_, _, sin)| sin));
        // Absent results are bound to the first: the module declares them writable.
        let out = [0, 1, 2].map(|i| Bind::Write(node.outputs[if i < node.outputs.len() { i } else { 0 }]));
        // Of a cache, the rows of this execution: as many elements as come in.
        let bytes = record.bytes(&[x, weights].concat()).saturating_add(record.bytes(&[cos, sin]));
        let bytes = bytes.saturating_add(record.bytes(&x));
        let binds = [x, weights].concat().into_iter().chain([cos, sin]).chain(out).chain([Bind::Dynamic]);
        record.launch_moving(&launch, &binds.collect::<ArrayVec<Bind, 12>>(), bytes)
    }
}
