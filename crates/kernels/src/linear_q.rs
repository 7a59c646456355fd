//! Products with 4-bit and 8-bit weights: `shaders/linear_q.comp` (tiles), `shaders/linear_q_rows.comp` (few rows) and
//! `shaders/linear_q_vector.comp` (one row, 4-bit codes).

use arrayvec::ArrayVec;

use crate::matmul::tile;
use crate::push::Push;
use crate::residual::RowNorm;
use crate::table::{LINEAR_Q, LINEAR_Q_ROWS};
use crate::{Launch, Limits, Storage, Tier};

mod vector;

/// Most rows of x that [`LINEAR_Q_ROWS`] serves.
const FEW_ROWS: u32 = 8;

/// How the codes of a weight row are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum CodeFormat {
    /// Two codes + 8 a byte, even k in the low half.
    Q4LowFirst = 0,
    /// Two codes + 8 a byte, even k in the high half.
    Q4HighFirst = 1,
    /// A signed byte a code.
    Q8 = 2,
}

/// A function of one element, with the arithmetic of the map family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Activation {
    /// GELU by its tanh approximation.
    GeluTanh = 0,
    /// GELU by the error function.
    GeluErf = 1,
    /// x · sigmoid(x).
    Silu = 2,
}

/// What is done to a product, its bias included, before it is stored. `operand` has the columns of out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Epilogue {
    /// out = product.
    None,
    /// out = product + operand; one output.
    Add,
    /// out = act(product) · operand; one output.
    Multiply(Activation),
    /// The first half of the weight's rows gives a gate, the other what it opens: out = act(gate) · up; one output of
    /// half as many columns as the weight has rows.
    Gated(Activation),
}

impl Epilogue {
    /// Specialisation constants 9 and 10.
    fn constants(self) -> [u32; 2] {
        match self {
            Self::None => [0, 0],
            Self::Add => [1, 0],
            Self::Multiply(activation) => [2, activation as u32],
            Self::Gated(activation) => [3, activation as u32],
        }
    }
}

/// A residual sum before a product: h = clamp(base + x · r · weight) · scale with r = 1/√(mean(x²) + eps).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Branch {
    /// Normalise x, by `branch_weight` where there is one; r and weight are 1 otherwise.
    pub norm: Option<RowNorm>,
    /// Bounds of the sum.
    pub clamp: Option<[f32; 2]>,
    /// Whether `branch_scale`, one word, is bound; 1 otherwise.
    pub scale: bool,
}

/// What is done to x before the product, where [`LinearQ::takes_prologue`]. Its operands are dense rows of K.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prologue {
    /// Makes h of x, and writes it to `h`; h is x otherwise.
    pub branch: Option<Branch>,
    /// Makes the product's input of h; it is h otherwise.
    /// Its weight is `norm_weight`.
    pub norm: Option<RowNorm>,
}

/// product\[m, n\] = Σₖ x\[m, k\] · code\[n, k\] · scale\[k / group_size, n\] (+ bias\[n\]); all but weight and scales is f32.
#[derive(Clone, Debug)]
pub struct LinearQ {
    /// M: rows of x.
    pub rows: u32,
    /// N: rows of the weight.
    pub columns: u32,
    /// K: elements of a row of x.
    pub depth: u32,
    /// Elements before x.
    pub x_offset: u32,
    /// Elements between rows of x.
    pub x_row: u32,
    /// Packing of the weight.
    pub format: CodeFormat,
    /// Bytes of a weight row.
    pub row_bytes: u32,
    /// Bytes before the first weight row.
    pub weight_offset: u32,
    /// Bytes of the bound weight buffer that may be read.
    pub weight_bytes: u32,
    /// Neighbouring k that share a scale; `None` where a row has one scale.
    pub group_size: Option<u32>,
    /// How the scales are stored.
    pub scale_storage: Storage,
    /// Elements between the scales of neighbouring groups; scales of neighbouring columns are neighbours.
    pub scale_row: u32,
    /// Whether there is a bias of words.
    pub bias: bool,
    /// Columns of each output: the columns of the product are shared out among them in order. Their sum is N, or N/2
    /// with [`Epilogue::Gated`].
    pub outputs: ArrayVec<u32, 3>,
    /// What is done before results are stored.
    pub epilogue: Epilogue,
    /// Elements before the epilogue's operand, and between its rows.
    pub operand: [u32; 2],
    /// What is done to x first.
    pub prologue: Option<Prologue>,
    /// Whether x and the weights may be rounded to halves, which matrix hardware wants.
    pub halves: bool,
}

impl LinearQ {
    /// Whether [`LinearQ::prologue`] can be served: one row of x that shared memory holds, 4-bit codes with the even k in
    /// the low half, K and groups whole sixteens, aligned operands.
    #[must_use]
    pub fn takes_prologue(&self, limits: &Limits) -> bool {
        vector::suits(self) && vector::holds_row(self, limits)
    }

    fn gated(&self) -> bool {
        matches!(self.epilogue, Epilogue::Gated(_))
    }

    /// Columns that are stored, all outputs together.
    fn out_columns(&self) -> u32 {
        if self.gated() { self.columns / 2 } else { self.columns }
    }

    /// Whether the product can run on cooperative matrices: whole steps of 32 along K, whole words of 4-bit codes, at
    /// least one tile of aligned rows.
    fn suits_matrices(&self) -> bool {
        let [operand_offset, operand_row] = self.operand;
        let aligned =
            [self.x_row, self.x_offset, self.row_bytes, self.weight_offset, operand_offset, operand_row];
        // A matrix of 16 columns belongs to one output.
        let columns = if self.outputs.len() > 1 { 16 } else { 4 };
        self.halves
            && !self.bias
            && self.format == CodeFormat::Q4LowFirst
            && self.scale_storage == Storage::Half
            && self.depth.is_multiple_of(32)
            && self.group_size.unwrap_or(0).is_multiple_of(8)
            && aligned.iter().all(|number| number.is_multiple_of(4))
            && self.outputs.iter().all(|width| width.is_multiple_of(columns))
            && self.rows >= 32
            && self.columns >= 64
    }

    /// Specialisation constants 1–6, which all kernels share.
    fn common(&self) -> [u32; 6] {
        let group = self.group_size.filter(|&group| group < self.depth).unwrap_or(0);
        let aligned = self.row_bytes.is_multiple_of(4) && self.weight_offset.is_multiple_of(4);
        let vectors =
            self.depth.is_multiple_of(8) && self.x_row.is_multiple_of(4) && self.x_offset.is_multiple_of(4);
        [
            self.format as u32,
            self.scale_storage as u32,
            self.bias.into(),
            group,
            aligned.into(),
            vectors.into(),
        ]
    }

    /// Specialisation constants 0–10.
    fn constants(&self, threads: u32, shape: (u32, u32)) -> ArrayVec<u32, 16> {
        let ends = [shape.0, shape.1];
        [threads].into_iter().chain(self.common()).chain(ends).chain(self.epilogue.constants()).collect()
    }

    fn push(&self) -> Push {
        let width = |i: usize| self.outputs.get(i).copied().unwrap_or(0);
        let prologue = self.prologue.unwrap_or(Prologue { branch: None, norm: None });
        let clamp = prologue.branch.and_then(|branch| branch.clamp);
        let [low, high] = clamp.unwrap_or([f32::NEG_INFINITY, f32::INFINITY]);
        Push::new()
            .words([self.rows, self.columns, self.depth, self.x_offset, self.x_row])
            .words([self.row_bytes, self.weight_offset, self.weight_bytes.div_ceil(4), self.scale_row])
            .words([width(0), width(1), width(2)])
            .float(prologue.branch.and_then(|branch| branch.norm).map_or(0.0, |norm| norm.eps))
            .float(prologue.norm.map_or(0.0, |norm| norm.eps))
            .float(low)
            .float(high)
            .words(self.operand)
    }
}

/// Launches a product with a quantised weight. Bindings: x, weight, scales, bias, operand, base, branch_weight,
/// branch_scale, norm_weight, out0, out1, out2, h; any buffer for those that are absent.
///
/// A prologue is ignored unless [`LinearQ::takes_prologue`].
#[must_use]
pub fn linear_q(op: &LinearQ, limits: &Limits) -> Launch {
    debug_assert_eq!(op.outputs.iter().sum::<u32>(), op.out_columns(), "columns of the outputs");
    debug_assert!(op.prologue.is_none() || op.takes_prologue(limits), "a prologue that no kernel serves");
    if vector::suits(op) {
        return vector::launch(op, limits);
    }
    if op.rows <= FEW_ROWS {
        let (threads, rows, columns) = row_shape(op);
        let stored = if op.gated() { columns / 2 } else { columns };
        let groups = u64::from(op.out_columns().div_ceil(stored)) * u64::from(op.rows.min(1));
        let constants = op.constants(threads, (rows, columns));
        return op.push().launch(LINEAR_Q_ROWS.pick(limits.tier), &constants, groups, limits);
    }
    let matrix = limits.tier >= Tier::Full && op.suits_matrices();
    let tier = if matrix { Tier::Full } else { limits.tier.min(Tier::Middle) };
    let (tile_m, tile_n) = if matrix { matrix_tile(op) } else { tile(op.rows, op.columns, 1, limits) };
    let stored = if op.gated() { tile_n / 2 } else { tile_n };
    let groups = u64::from(op.rows.div_ceil(tile_m)) * u64::from(op.out_columns().div_ceil(stored));
    // A subgroup of 32 makes 32×64 elements of a matrix tile, an invocation 4×4 of a plain one.
    let threads = tile_m * tile_n / if matrix { 64 } else { 16 };
    op.push().launch(LINEAR_Q.pick(tier), &op.constants(threads, (tile_m, tile_n)), groups, limits)
}

/// The tile of a product on matrices, never larger than the product: a large one where it still gives every
/// multiprocessor of a large device more than one workgroup.
fn matrix_tile(op: &LinearQ) -> (u32, u32) {
    const ENOUGH_GROUPS: u64 = 200;
    let groups = |m: u32, n: u32| u64::from(op.rows.div_ceil(m)) * u64::from(op.columns.div_ceil(n));
    match (op.rows, op.columns) {
        (128.., 128..) if groups(128, 128) >= ENOUGH_GROUPS => (128, 128),
        (64.., 128..) => (64, 128),
        (64.., _) => (64, 64),
        _ => (32, 64),
    }
}

/// Invocations of a workgroup, and the rows of x and columns it makes. Few columns go one to a workgroup (a gate and
/// what it opens stay together), so that there are enough workgroups; invocations never outnumber the steps of eight
/// along K.
fn row_shape(op: &LinearQ) -> (u32, u32, u32) {
    let rows = op.rows.max(1).next_power_of_two();
    let columns = match op.columns {
        0..512 => 1 + u32::from(op.gated()),
        512..1024 => 2,
        _ => 4,
    };
    let steps = op.depth.div_ceil(8);
    let threads = match steps {
        0..=64 => 32,
        65..1024 => 64,
        _ if rows * columns <= 16 => 128,
        _ => 64,
    };
    (threads, rows, columns)
}

#[cfg(test)]
mod tests;
