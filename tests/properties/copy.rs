//! Chains of operators that only reinterpret or copy a tensor, followed by an element-wise one.

use etvk_reference::Arg;
use etvk_tests::{Draw, Fill, Outcome, Tolerance, Twin, property, result};
use etvk_vkgraph::{DType, GraphBuilder, ValueId};

const STEPS: &[&str] = &[
    "aten.alias_copy.default",
    "aten.cat.default",
    "aten.clone.default",
    "aten.expand_copy.default",
    "aten.flip.default",
    "aten.permute.default",
    "aten.permute_copy.default",
    "aten.select.int",
    "aten.select_copy.int",
    "aten.slice.Tensor",
    "aten.slice_copy.Tensor",
    "aten.split_with_sizes_copy.default",
    "aten.squeeze_copy.dims",
    "aten.t_copy.default",
    "aten.transpose.int",
    "aten.unsqueeze_copy.default",
    "aten.view_copy.default",
    "dim_order_ops._clone_dim_order.default",
];

/// Every operator these properties compare.
pub(crate) fn names() -> Vec<&'static str> {
    STEPS.iter().copied().chain(["et_vk.prepack.default"]).collect()
}

const MAX_RANK: usize = 6;
const MAX_ELEMENTS: u32 = 6000;

/// A dimension of the chain's current tensor.
#[derive(Clone, Copy)]
struct Dim {
    bound: u32,
    /// Whether its size changes between executions.
    live: bool,
}

/// A graph of one operator after the other.
struct Chain {
    graph: GraphBuilder,
    dtype: DType,
    id: ValueId,
    dims: Vec<Dim>,
    /// Ranges of integer inputs, which follow the tensor.
    ints: Vec<(i64, i64)>,
    /// Whether no dimension may be empty.
    occupied: bool,
}

impl Chain {
    fn new(draw: &mut Draw<'_>) -> (Self, Vec<Dim>) {
        let mut graph = GraphBuilder::new();
        let dtype = draw.pick(&[
            DType::Float32,
            DType::Int32,
            DType::Float16,
            DType::Int8,
            DType::Bool,
            DType::Int64,
        ]);
        let live = draw.once_in(2);
        let dim = |bound: u32, draw: &mut Draw<'_>| Dim { bound, live: live && bound > 1 && draw.once_in(2) };
        let bounds = draw.dims(0, 5);
        let dims: Vec<Dim> = bounds.iter().map(|&bound| dim(bound, draw)).collect();
        let id = graph.input(dtype, &bounds);
        let occupied = dims.iter().all(|dim| dim.bound > 0);
        (Self { graph, dtype, id, dims: dims.clone(), ints: Vec::new(), occupied }, dims)
    }

    fn bounds(&self) -> Vec<u32> {
        self.dims.iter().map(|dim| dim.bound).collect()
    }

    fn elements(&self) -> u32 {
        self.bounds().iter().product()
    }

    /// Appends a call whose result becomes the current tensor.
    fn push(&mut self, name: &str, args: &[ValueId], dims: Vec<Dim>) {
        self.dims = dims;
        let bounds = self.bounds();
        let out = result(&mut self.graph, self.dtype, &bounds);
        let args: Vec<ValueId> = [self.id].into_iter().chain(args.iter().copied()).chain([out]).collect();
        self.graph.call(name, &args);
        self.id = out;
    }

    /// A dimension as an argument: from the front or from the back.
    fn dim_argument(&mut self, draw: &mut Draw<'_>, dim: usize, rank: usize) -> ValueId {
        let number = signed(dim, rank, draw.once_in(2));
        self.graph.int(number)
    }

    fn dim_list(&mut self, draw: &mut Draw<'_>, dims: &[usize]) -> ValueId {
        let rank = self.dims.len();
        let numbers: Vec<i64> = dims.iter().map(|&dim| signed(dim, rank, draw.once_in(2))).collect();
        self.graph.int_list(&numbers)
    }

    /// The current size of a dimension as a symbolic integer.
    fn size_of(&mut self, dim: usize) -> ValueId {
        let (out, dim) = (self.graph.sym_int(), self.graph.int(int(dim)));
        self.graph.call("sym_size.int", &[self.id, dim, out]);
        out
    }

    /// An integer input.
    fn int_input(&mut self, low: i64, high: i64) -> ValueId {
        self.ints.push((low, high));
        self.graph.sym_int_input()
    }

    /// Sizes as a list argument: live ones symbolic. `None` stands for −1.
    fn size_list(&mut self, sizes: &[Option<Size>]) -> ValueId {
        let literal = |size: &Option<Size>| match size {
            None => Some(-1),
            Some(Size::Literal(size)) => Some(i64::from(*size)),
            Some(Size::Current(dim)) if !self.dims[*dim].live => Some(i64::from(self.dims[*dim].bound)),
            Some(Size::Current(_)) => None,
        };
        let literals: Vec<Option<i64>> = sizes.iter().map(literal).collect();
        if let Some(all) = literals.iter().copied().collect::<Option<Vec<i64>>>() {
            return self.graph.int_list(&all);
        }
        let mut items = Vec::new();
        for (size, literal) in sizes.iter().zip(literals) {
            items.push(match (literal, size) {
                (Some(number), _) => self.graph.int(number),
                (None, Some(Size::Current(dim))) => self.size_of(*dim),
                (None, _) => continue,
            });
        }
        self.graph.value_list(&items)
    }

    /// Appends a call of `name`, if the current tensor lets it.
    fn step(&mut self, draw: &mut Draw<'_>, name: &str) {
        match name {
            "aten.view_copy.default" => self.reshape(draw),
            "aten.permute.default" | "aten.permute_copy.default" => self.permute(draw, name),
            "aten.transpose.int" if !self.dims.is_empty() => self.transpose(draw),
            "aten.t_copy.default" if self.dims.len() <= 2 => {
                let dims = self.dims.iter().rev().copied().collect();
                self.push(name, &[], dims);
            }
            "aten.select.int" | "aten.select_copy.int" => self.select(draw, name),
            "aten.slice.Tensor" | "aten.slice_copy.Tensor" if !self.dims.is_empty() => self.slice(draw, name),
            "aten.unsqueeze_copy.default" if self.dims.len() < MAX_RANK => self.unsqueeze(draw),
            "aten.squeeze_copy.dims" => self.squeeze(draw),
            "aten.expand_copy.default" => self.expand(draw),
            "aten.flip.default" => self.flip(draw),
            "aten.cat.default" if !self.dims.is_empty() => self.cat(draw),
            "aten.split_with_sizes_copy.default" => self.split(draw),
            "aten.clone.default" | "aten.alias_copy.default" | "dim_order_ops._clone_dim_order.default" => {
                let args: Vec<ValueId> = match name {
                    "aten.alias_copy.default" => Vec::new(),
                    "aten.clone.default" => vec![self.graph.null()],
                    _ => (0..2).map(|_| self.graph.null()).collect(),
                };
                let dims = self.dims.clone();
                self.push(name, &args, dims);
            }
            _ => {}
        }
    }

    fn permute(&mut self, draw: &mut Draw<'_>, name: &str) {
        let mut rest: Vec<usize> = (0..self.dims.len()).collect();
        let mut order = Vec::new();
        while !rest.is_empty() {
            order.push(rest.remove(draw.below(rest.len())));
        }
        let list = self.dim_list(draw, &order);
        let dims = order.iter().map(|&dim| self.dims[dim]).collect();
        self.push(name, &[list], dims);
    }

    fn transpose(&mut self, draw: &mut Draw<'_>) {
        let rank = self.dims.len();
        let (a, b) = (draw.below(rank), draw.below(rank));
        let args = [self.dim_argument(draw, a, rank), self.dim_argument(draw, b, rank)];
        let mut dims = self.dims.clone();
        dims.swap(a, b);
        self.push("aten.transpose.int", &args, dims);
    }

    fn unsqueeze(&mut self, draw: &mut Draw<'_>) {
        let rank = self.dims.len();
        let dim = draw.below(rank + 1);
        let argument = self.dim_argument(draw, dim, rank + 1);
        let mut dims = self.dims.clone();
        dims.insert(dim, Dim { bound: 1, live: false });
        self.push("aten.unsqueeze_copy.default", &[argument], dims);
    }

    fn squeeze(&mut self, draw: &mut Draw<'_>) {
        let named: Vec<usize> =
            (0..self.dims.len()).filter(|&dim| !self.dims[dim].live && !draw.once_in(3)).collect();
        let list = self.dim_list(draw, &named);
        let stays = |dim: &usize| !named.contains(dim) || self.dims[*dim].bound != 1;
        let dims = (0..self.dims.len()).filter(stays).map(|dim| self.dims[dim]).collect();
        self.push("aten.squeeze_copy.dims", &[list], dims);
    }

    fn flip(&mut self, draw: &mut Draw<'_>) {
        let named: Vec<usize> = (0..self.dims.len()).filter(|_| draw.once_in(2)).collect();
        let list = self.dim_list(draw, &named);
        let dims = self.dims.clone();
        self.push("aten.flip.default", &[list], dims);
    }

    /// By a literal, or by an integer input where the size is known.
    fn select(&mut self, draw: &mut Draw<'_>, name: &str) {
        let rank = self.dims.len();
        if rank == 0 || !self.occupied {
            return;
        }
        let dim = draw.below(rank);
        let Dim { bound, live } = self.dims[dim];
        let argument = self.dim_argument(draw, dim, rank);
        let bound = i64::from(bound);
        let index = if live {
            self.graph.int(draw.pick(&[0, -1]))
        } else if draw.once_in(3) {
            self.int_input(-bound, bound - 1)
        } else {
            let index = int(draw.below(usize::try_from(2 * bound).unwrap_or(0))) - bound;
            self.graph.int(index)
        };
        let mut dims = self.dims.clone();
        dims.remove(dim);
        self.push(name, &[argument, index], dims);
    }

    fn slice(&mut self, draw: &mut Draw<'_>, name: &str) {
        let rank = self.dims.len();
        let dim = draw.below(rank);
        let Dim { bound, live } = self.dims[dim];
        let argument = self.dim_argument(draw, dim, rank);
        let (size, step) = (i64::from(bound), i64::from(draw.pick(&[1, 1, 2, 3])));
        let stepped = |length: i64| u32::try_from((length + step - 1) / step).unwrap_or(0);
        let (start, end, length);
        if draw.once_in(3) {
            // From an integer input on, as a cache or a table is read.
            let most = int(draw.below(usize::try_from(size + 1).unwrap_or(0)));
            start = self.int_input(0, size);
            let (count, sum) = (self.graph.int(most), self.graph.sym_int());
            self.graph.call("add", &[start, count, sum]);
            end = if draw.once_in(3) { self.graph.null() } else { sum };
            length = Dim { bound: stepped(size), live: true };
        } else {
            let ends = [i64::MAX, size, size - 1, -1, 2, 0, size + 5];
            let (first, last) = (draw.pick(&[0, 1, -1, -2, 2, -size - 3]), draw.pick(&ends));
            start = if first == 0 && draw.once_in(2) { self.graph.null() } else { self.graph.int(first) };
            end = if last == i64::MAX && draw.once_in(2) { self.graph.null() } else { self.graph.int(last) };
            let clamp = |index: i64| (if index < 0 { index + size } else { index }).clamp(0, size);
            let exact = (clamp(last) - clamp(first)).max(0);
            length = Dim { bound: stepped(if live { size } else { exact }), live };
        }
        self.occupied = false;
        let step = self.graph.int(step);
        let mut dims = self.dims.clone();
        dims[dim] = length;
        self.push(name, &[argument, start, end, step], dims);
    }

    fn expand(&mut self, draw: &mut Draw<'_>) {
        let added = if self.dims.len() < MAX_RANK { draw.below(2) } else { 0 };
        let mut dims: Vec<Dim> = (0..added).map(|_| Dim { bound: draw.between(1, 3), live: false }).collect();
        let mut sizes: Vec<Option<Size>> = dims.iter().map(|dim| Some(Size::Literal(dim.bound))).collect();
        for (at, dim) in self.dims.iter().enumerate() {
            let mut dim = *dim;
            sizes.push(if dim.bound == 1 && !dim.live && draw.once_in(2) {
                dim.bound = draw.pick(&[3, 2, 5, 0]);
                self.occupied &= dim.bound > 0;
                Some(Size::Literal(dim.bound))
            } else if draw.once_in(2) {
                None
            } else {
                Some(Size::Current(at))
            });
            dims.push(dim);
        }
        if dims.iter().map(|dim| dim.bound).product::<u32>() > MAX_ELEMENTS {
            return;
        }
        let (list, implicit) = (self.size_list(&sizes), self.graph.bool(false));
        self.push("aten.expand_copy.default", &[list, implicit], dims);
    }

    /// Merges neighbours, splits a dimension, or inserts a one.
    fn reshape(&mut self, draw: &mut Draw<'_>) {
        let mut sizes: Vec<Option<Size>> = (0..self.dims.len()).map(|dim| Some(Size::Current(dim))).collect();
        let mut dims = self.dims.clone();
        // A size of −1 is ambiguous beside a 0.
        let empty = !self.occupied;
        match draw.below(4) {
            0 if dims.len() >= 2 && !empty => {
                let first = draw.below(dims.len() - 1);
                let merged = dims.remove(first + 1);
                dims[first].bound *= merged.bound;
                dims[first].live |= merged.live;
                sizes.remove(first + 1);
                sizes[first] = if dims[first].live { None } else { Some(Size::Literal(dims[first].bound)) };
            }
            1 if !empty => {
                let live = dims.iter().any(|dim| dim.live);
                dims = vec![Dim { bound: self.elements(), live }];
                sizes = vec![None];
            }
            2 if !dims.is_empty() && dims.len() < MAX_RANK => {
                let dim = draw.below(dims.len());
                if let (Dim { bound, live: false }, Some(factor)) = (
                    dims[dim],
                    [2, 3, 5].into_iter().find(|f| dims[dim].bound > 0 && dims[dim].bound.is_multiple_of(*f)),
                ) {
                    dims[dim].bound = bound / factor;
                    dims.insert(dim, Dim { bound: factor, live: false });
                    sizes[dim] = Some(Size::Literal(bound / factor));
                    sizes.insert(dim, Some(Size::Literal(factor)));
                }
            }
            _ if dims.len() < MAX_RANK => {
                let dim = draw.below(dims.len() + 1);
                dims.insert(dim, Dim { bound: 1, live: false });
                sizes.insert(dim, Some(Size::Literal(1)));
            }
            _ => {}
        }
        let list = self.size_list(&sizes);
        self.push("aten.view_copy.default", &[list], dims);
    }

    /// The tensor with itself, with itself reversed, or with a constant that has no elements.
    fn cat(&mut self, draw: &mut Draw<'_>) {
        if self.elements() * 3 > MAX_ELEMENTS {
            return;
        }
        let rank = self.dims.len();
        let dim = draw.below(rank);
        let argument = self.dim_argument(draw, dim, rank);
        let mut pieces = vec![self.id];
        let mut dims = self.dims.clone();
        for _ in 0..draw.below(3) {
            let id = self.id;
            if draw.once_in(2) {
                let all = self.dims.clone();
                self.flip(draw);
                self.dims = all;
            }
            pieces.push(self.id);
            self.id = id;
            dims[dim].bound += self.dims[dim].bound;
        }
        if draw.once_in(4) && rank != 1 {
            let at = draw.below(pieces.len() + 1);
            let empty = self.graph.constant(self.dtype, &[0], Vec::new());
            pieces.insert(at, empty);
        }
        let list = self.graph.value_list(&pieces);
        self.dims = dims;
        let bounds = self.bounds();
        let out = result(&mut self.graph, self.dtype, &bounds);
        self.graph.call("aten.cat.default", &[list, argument, out]);
        self.id = out;
    }

    fn split(&mut self, draw: &mut Draw<'_>) {
        let Some(dim) = (0..self.dims.len()).find(|&dim| !self.dims[dim].live && self.dims[dim].bound > 1)
        else {
            return;
        };
        let (bound, rank) = (self.dims[dim].bound, self.dims.len());
        let first = draw.between(0, bound);
        let second = draw.between(0, bound - first);
        let sizes = [first, second, bound - first - second];
        let mut outs = Vec::new();
        for &size in &sizes {
            let mut bounds = self.bounds();
            bounds[dim] = size;
            outs.push(result(&mut self.graph, self.dtype, &bounds));
        }
        let list = self.graph.int_list(&sizes.map(i64::from));
        let argument = self.dim_argument(draw, dim, rank);
        let out_list = self.graph.value_list(&outs);
        self.graph.call("aten.split_with_sizes_copy.default", &[self.id, list, argument, out_list]);
        let chosen = draw.below(3);
        self.id = outs[chosen];
        self.dims[dim].bound = sizes[chosen];
        self.occupied &= sizes[chosen] > 0;
    }

    /// The element-wise end: with itself, or with a row that broadcasts.
    fn finish(&mut self, draw: &mut Draw<'_>) {
        let bounds = self.bounds();
        let view = self.id;
        let end = result(&mut self.graph, self.dtype, &bounds);
        if self.dtype == DType::Bool {
            self.graph.call("aten.logical_not.default", &[view, end]);
        } else if draw.once_in(2) {
            let dims =
                self.dims.last().filter(|dim| !dim.live).map(|dim| vec![dim.bound]).unwrap_or_default();
            let row = draw.tensor(self.dtype, &dims, WHOLE).to_le_bytes();
            let row = self.graph.constant(self.dtype, &dims, row);
            self.graph.call("aten.mul.Tensor", &[view, row, end]);
        } else {
            let one = self.graph.int(1);
            self.graph.call("aten.add.Tensor", &[view, view, one, end]);
        }
        // The view itself as an output has to be copied somewhere.
        if draw.once_in(3) {
            self.graph.outputs(&[end, view]);
        } else {
            self.graph.outputs(&[end]);
        }
    }

    fn run(&self, draw: &mut Draw<'_>, first: &[Dim]) -> Outcome {
        let mut twin = Twin::new(&self.graph)?;
        for whole in [true, false, false] {
            let size = |dim: &Dim, draw: &mut Draw<'_>| {
                if dim.live && !whole { draw.between(1, dim.bound) } else { dim.bound }
            };
            let sizes: Vec<u32> = first.iter().map(|dim| size(dim, draw)).collect();
            let mut inputs = vec![Arg::Tensor(draw.tensor(self.dtype, &sizes, WHOLE))];
            for &(low, high) in &self.ints {
                inputs.push(Arg::Int(low + int(draw.below(usize::try_from(high - low + 1).unwrap_or(0)))));
            }
            twin.run(&inputs, Tolerance::EXACT)?;
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
enum Size {
    Literal(u32),
    /// Of a dimension of the current tensor.
    Current(usize),
}

const WHOLE: Fill = Fill::Grid { low: -60.0, high: 60.0, step: 1.0 };

fn int(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn signed(dim: usize, rank: usize, from_back: bool) -> i64 {
    if from_back { int(dim) - int(rank) } else { int(dim) }
}

#[test]
fn chains_of_views() -> anyhow::Result<()> {
    for &name in STEPS {
        property(&[name], 15, |draw| {
            let (mut chain, first) = Chain::new(draw);
            for _ in 0..draw.below(3) {
                let other = draw.pick(STEPS);
                chain.step(draw, other);
            }
            chain.step(draw, name);
            for _ in 0..draw.below(3) {
                let other = draw.pick(STEPS);
                chain.step(draw, other);
            }
            chain.finish(draw);
            chain.run(draw, &first)
        })?;
    }
    Ok(())
}

#[test]
fn prepacked_constants() -> anyhow::Result<()> {
    property(&["et_vk.prepack.default"], 12, |draw| {
        let mut graph = GraphBuilder::new();
        let (dtype, dims) = (draw.pick(&[DType::Float32, DType::Float16, DType::Int8]), draw.dims(0, 4));
        let bytes = draw.tensor(dtype, &dims, WHOLE).to_le_bytes();
        let constant = graph.constant(dtype, &dims, bytes);
        let x = graph.input(dtype, &dims);
        let (packed, out) = (result(&mut graph, dtype, &dims), result(&mut graph, dtype, &dims));
        graph.call("et_vk.prepack.default", &[constant, packed]);
        graph.call("aten.mul.Tensor", &[x, packed, out]);
        graph.outputs(&[out]);
        let mut twin = Twin::new(&graph)?;
        twin.run(&[Arg::Tensor(draw.tensor(dtype, &dims, WHOLE))], Tolerance::EXACT)
    })
}
