//! `shaders/linear_q_vector.comp`: one row of x, 4-bit codes.

use super::{CodeFormat, LinearQ};
use crate::table::LINEAR_Q_VECTOR;
use crate::{Launch, Limits, Tier};

/// Codes that an invocation takes at a time.
const UNIT: u32 = 16;
/// Columns that share a fetch of scales.
const QUAD: u32 = 4;
/// Shared memory that x may take.
const ROW_BYTES: u32 = 16384;
/// Least subgroup whose lanes read memory in whole lines: that of a GPU.
const WIDE_SUBGROUP: u32 = 16;

/// Whether the kernel can make `op`.
pub(super) fn suits(op: &LinearQ) -> bool {
    let eights = [op.row_bytes, op.weight_offset];
    op.rows == 1
        && op.format == CodeFormat::Q4LowFirst
        && op.depth > 0
        && op.depth.is_multiple_of(UNIT)
        && op.group_size.is_none_or(|group| group.is_multiple_of(UNIT))
        && op.x_offset.is_multiple_of(4)
        && eights.iter().all(|bytes| bytes.is_multiple_of(8))
        && op.scale_row.is_multiple_of(4)
        && (!op.gated() || op.out_columns().is_multiple_of(QUAD))
}

/// How a workgroup shares out its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Invocations.
    threads: u32,
    /// Invocations that share out K.
    lanes: u32,
    /// Quads of columns that they make together.
    quads: u32,
    /// Units of a chunk of K that each takes.
    steps: u32,
    /// Most workgroups.
    groups: u32,
}

impl Shape {
    fn new(op: &LinearQ, limits: &Limits) -> Self {
        let wide = limits.tier >= Tier::Middle && limits.subgroup_size >= WIDE_SUBGROUP;
        if wide { Self::wide(op, limits) } else { Self::narrow(op, limits) }
    }

    /// For GPUs. The numbers are those of the best of some fifty shapes that were timed on an H200 with the products of
    /// two language models.
    fn wide(op: &LinearQ, limits: &Limits) -> Self {
        /// Invocations that keep a large GPU busy with memory.
        const ENOUGH: u64 = 65536;
        /// Workgroups that give every multiprocessor of a large GPU one.
        const ENOUGH_GROUPS: u32 = 128;
        /// Columns from which on a weight is so large that more of it in flight pays.
        const LARGE: u32 = 65536;
        /// Columns and K below which only latency counts: short work for many invocations.
        const SMALL: u32 = 4097;
        /// Bytes of x that a round may bring.
        const ROUND_BYTES: u32 = 32768;
        // Units of one quad whose codes an invocation holds, and most invocations of a workgroup.
        let (most_units, most_threads) = match (op.columns, op.depth) {
            (LARGE.., _) => (4, 128),
            (..SMALL, ..SMALL) => (1, 256),
            _ => (2, 256),
        };
        let units = op.depth.div_ceil(UNIT);
        let quads = if op.gated() { 2 } else { 1 };
        let teams = op.columns.div_ceil(QUAD * quads);
        let mut lanes = limits.subgroup_size.max(32);
        let few = |lanes: u32| u64::from(lanes) * u64::from(teams) < ENOUGH && units >= 2 * lanes;
        let widest = limits.max_invocations.min(most_threads);
        while 2 * lanes <= widest && (units > most_units * lanes || few(lanes)) {
            lanes *= 2;
        }
        let mut threads = widest.max(lanes);
        while threads > lanes.max(64) && teams.div_ceil(threads / lanes) < ENOUGH_GROUPS {
            threads /= 2;
        }
        let most = (most_units / quads).min(ROUND_BYTES / (lanes * UNIT * 4)).max(1);
        Self { threads, lanes, quads, steps: units.div_ceil(lanes).min(most), groups: 4096 }
    }

    /// For processors that run an invocation after another: few workgroups, few barriers.
    fn narrow(op: &LinearQ, limits: &Limits) -> Self {
        let lanes =
            if limits.tier >= Tier::Middle { limits.subgroup_size.next_power_of_two().max(4) } else { 4 };
        let threads = 64.max(lanes).min(limits.max_invocations);
        Self { threads, lanes, quads: if op.gated() { 2 } else { 1 }, steps: 1, groups: 64 }
    }

    /// Columns of the product that a workgroup makes at a time.
    fn columns(self) -> u32 {
        self.threads / self.lanes * self.quads * QUAD
    }

    /// Rounds of K, all together.
    fn rounds(self, op: &LinearQ) -> u32 {
        op.depth.div_ceil(UNIT * self.lanes * self.steps)
    }

    /// Bytes of x in a round.
    fn round_bytes(self) -> u32 {
        self.lanes * self.steps * UNIT * 4
    }

    /// Bytes of shared memory that x may take.
    fn most_bytes(self, limits: &Limits) -> u32 {
        let parts = if limits.tier >= Tier::Middle { self.threads / 4 } else { self.threads };
        limits.max_shared_bytes.min(40960).saturating_sub(parts * (self.quads * QUAD + 1) * 4)
    }
}

/// Whether shared memory holds all of x.
pub(super) fn holds_row(op: &LinearQ, limits: &Limits) -> bool {
    let shape = Shape::new(op, limits);
    let bytes = shape.rounds(op).saturating_mul(shape.round_bytes());
    bytes <= shape.most_bytes(limits).min(ROW_BYTES)
}

/// Launches `op`, which [`suits`].
pub(super) fn launch(op: &LinearQ, limits: &Limits) -> Launch {
    let shape = Shape::new(op, limits);
    let rounds = shape.rounds(op).min(shape.most_bytes(limits) / shape.round_bytes()).max(1);
    let mut constants = op.constants(shape.threads, (shape.quads, shape.lanes));
    constants.extend([shape.steps, rounds, prologue(op)]);
    let tiles = op.columns.div_ceil(shape.columns());
    op.push().launch(LINEAR_Q_VECTOR.pick(limits.tier), &constants, tiles.min(shape.groups).into(), limits)
}

/// Specialisation constant 13.
fn prologue(op: &LinearQ) -> u32 {
    let Some(prologue) = op.prologue else { return 0 };
    let branch = prologue.branch.map_or(0, |branch| 1 | u32::from(branch.scale) << 2);
    let branch_norm = prologue.branch.and_then(|branch| branch.norm);
    let branch_norm = branch_norm.map_or(0, |norm| u32::from(norm.weight) << 1 | 32);
    let norm = prologue.norm.map_or(0, |norm| 8 | u32::from(norm.weight) << 4);
    branch | branch_norm | norm
}
