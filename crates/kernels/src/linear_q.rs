//! Products with 4-bit and 8-bit weights: `shaders/linear_q.comp` (tiles) and `shaders/linear_q_rows.comp` (few rows).

use crate::matmul::tile;
use crate::push::Push;
use crate::table::{LINEAR_Q, LINEAR_Q_ROWS};
use crate::{Launch, Limits, Storage, Tier};

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

/// out\[m, n\] = Σₖ x\[m, k\] · code\[n, k\] · scale\[k / group_size, n\] (+ bias\[n\]); x, bias and out are f32.
#[derive(Clone, Debug)]
pub struct LinearQ {
    /// M: rows of x.
    pub rows: u32,
    /// N: rows of the bound weight.
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
    /// Column of scales, bias and out where the bound weight begins: not 0 when a weight is bound part by part.
    pub first_column: u32,
    /// Elements of a row of out: N unless a weight is bound part by part.
    pub out_row: u32,
    /// Whether x and the weights may be rounded to halves, which matrix hardware wants.
    pub halves: bool,
}

impl LinearQ {
    /// Whether the product can run on cooperative matrices: whole steps of 32 along K, whole words of 4-bit codes, at
    /// least one tile of aligned rows.
    fn suits_matrices(&self) -> bool {
        let aligned =
            [self.x_row, self.x_offset, self.row_bytes, self.weight_offset, self.out_row, self.first_column];
        self.halves
            && !self.bias
            && self.format == CodeFormat::Q4LowFirst
            && self.scale_storage == Storage::Half
            && self.depth.is_multiple_of(32)
            && self.group_size.unwrap_or(0).is_multiple_of(8)
            && aligned.iter().all(|number| number.is_multiple_of(4))
            && self.rows >= 32
            && self.columns >= 64
    }

    /// Specialisation constants 1–6, which both kernels share.
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
}

/// Launches a product with a quantised weight. Bindings: x, weight, scales, bias, out.
#[must_use]
pub fn linear_q(op: &LinearQ, limits: &Limits) -> Launch {
    let push = Push::new()
        .words([op.rows, op.columns, op.depth, op.x_offset, op.x_row])
        .words([op.row_bytes, op.weight_offset, op.weight_bytes.div_ceil(4)])
        .words([op.scale_row, op.first_column, op.out_row]);
    let [format, storage, bias, group, aligned, vectors] = op.common();
    if op.rows <= FEW_ROWS {
        let (threads, rows, columns) = row_shape(op);
        let groups = u64::from(op.columns.div_ceil(columns)) * u64::from(op.rows.min(1));
        let specialization = [threads, format, storage, bias, group, aligned, vectors, rows, columns];
        return push.launch(LINEAR_Q_ROWS.pick(limits.tier), &specialization, groups, limits);
    }
    let matrix = limits.tier >= Tier::Full && op.suits_matrices();
    let tier = if matrix { Tier::Full } else { limits.tier.min(Tier::Middle) };
    let (tile_m, tile_n) = if matrix { matrix_tile(op) } else { tile(op.rows, op.columns, 1, limits) };
    let groups = u64::from(op.rows.div_ceil(tile_m)) * u64::from(op.columns.div_ceil(tile_n));
    // A subgroup of 32 makes 32×64 elements of a matrix tile, an invocation 4×4 of a plain one.
    let threads = tile_m * tile_n / if matrix { 64 } else { 16 };
    let specialization = [threads, format, storage, bias, group, aligned, vectors, tile_m, tile_n];
    push.launch(LINEAR_Q.pick(tier), &specialization, groups, limits)
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

/// Invocations of a workgroup, and the rows of x and columns it makes. Few columns go one to a workgroup, so that
/// there are enough workgroups; invocations never outnumber the steps of eight along K.
fn row_shape(op: &LinearQ) -> (u32, u32, u32) {
    let rows = op.rows.max(1).next_power_of_two();
    let columns = match op.columns {
        0..512 => 1,
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
mod tests {
    use super::*;
    use crate::push::tests::{MIDDLE, PLAIN};

    fn op(rows: u32, columns: u32, depth: u32) -> LinearQ {
        LinearQ {
            rows,
            columns,
            depth,
            x_offset: 0,
            x_row: depth,
            format: CodeFormat::Q4LowFirst,
            row_bytes: depth.next_multiple_of(8) / 2,
            weight_offset: 0,
            weight_bytes: columns * depth.next_multiple_of(8) / 2,
            group_size: Some(32),
            scale_storage: Storage::Half,
            scale_row: columns.next_multiple_of(4),
            bias: false,
            first_column: 0,
            out_row: columns,
            halves: false,
        }
    }

    #[test]
    fn few_rows_take_the_vector_kernel() {
        let launch = linear_q(&op(1, 1537, 1536), &PLAIN);
        assert_eq!(launch.kernel.shader.name, "linear_q_rows");
        assert_eq!(launch.groups, [385, 1, 1]);
        assert_eq!(linear_q(&op(8, 8, 64), &MIDDLE).kernel.shader.name, "linear_q_rows.middle");
        assert_eq!(linear_q(&op(9, 8, 64), &MIDDLE).kernel.shader.name, "linear_q");
    }

    #[test]
    fn partial_sums_fit_in_shared_memory() {
        for rows in 1..=8 {
            for depth in [8, 1536, 12288] {
                let (threads, m, n) = row_shape(&op(rows, 4096, depth));
                assert!(m >= rows && threads.is_power_of_two() && threads * m * n * 4 <= 8192);
            }
        }
    }

    #[test]
    fn a_group_as_long_as_a_row_is_one_group() {
        let mut whole = op(1, 8, 36);
        whole.group_size = Some(36);
        assert_eq!(whole.common()[3], 0);
        assert_eq!(whole.common()[5], 0, "36 is no multiple of 8");
        whole.group_size = Some(12);
        assert_eq!(whole.common()[3], 12);
    }
}
