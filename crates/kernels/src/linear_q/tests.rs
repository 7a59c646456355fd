use super::*;
use crate::push::tests::{MIDDLE, PLAIN};

pub(super) fn op(rows: u32, columns: u32, depth: u32) -> LinearQ {
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
        outputs: [columns].into_iter().collect(),
        epilogue: Epilogue::None,
        operand: [0, columns],
        prologue: None,
        halves: false,
    }
}

#[test]
fn few_rows_take_the_kernels_of_vectors() {
    let launch = linear_q(&op(1, 1537, 1536), &PLAIN);
    assert_eq!(launch.kernel.shader.name, "linear_q_vector");
    assert_eq!(linear_q(&op(1, 8, 64), &MIDDLE).kernel.shader.name, "linear_q_vector.middle");
    let launch = linear_q(&op(1, 1537, 1532), &PLAIN);
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

#[test]
fn gates_halve_the_columns() {
    for rows in [1, 3, 100] {
        let plain = linear_q(&op(rows, 1024, 520), &PLAIN);
        let mut gated = op(rows, 1024, 520);
        gated.epilogue = Epilogue::Gated(Activation::Silu);
        gated.outputs = [512].into_iter().collect();
        let gated = linear_q(&gated, &PLAIN);
        assert_eq!(gated.groups, plain.groups, "{rows} rows");
        assert_eq!(gated.kernel.specialization[9..11], [3, 2]);
        assert_eq!(gated.push[9..12], [512, 0, 0]);
    }
}

#[test]
fn prologues_need_a_row_that_shared_memory_holds() {
    assert!(op(1, 2048, 1536).takes_prologue(&PLAIN));
    assert!(op(1, 2048, 4096).takes_prologue(&MIDDLE));
    assert!(!op(1, 2048, 4096).takes_prologue(&PLAIN));
    assert!(!op(1, 2048, 12288).takes_prologue(&MIDDLE));
    assert!(!op(2, 2048, 1536).takes_prologue(&MIDDLE));
    assert!(!op(1, 2048, 1544).takes_prologue(&MIDDLE));
    let mut both = op(1, 2048, 1536);
    both.prologue = Some(Prologue {
        branch: Some(Branch { norm: Some(RowNorm { eps: 1e-6, weight: true }), clamp: None, scale: false }),
        norm: Some(RowNorm { eps: 1e-5, weight: true }),
    });
    let launch = linear_q(&both, &PLAIN);
    assert_eq!(launch.kernel.specialization.last(), Some(&(1 | 2 | 8 | 16 | 32)));
    assert_eq!(launch.push[12..14], [1e-6f32.to_bits(), 1e-5f32.to_bits()]);
}

#[test]
fn rows_in_shared_memory_fit() {
    for limits in [PLAIN, MIDDLE, Limits { max_invocations: 256, ..MIDDLE }] {
        for (columns, depth) in
            [(1536, 12288), (2048, 8192), (4, 65536), (262_144, 1536), (256, 1536), (1536, 256)]
        {
            let launch = linear_q(&op(1, columns, depth), &limits);
            let constants = &launch.kernel.specialization;
            let (threads, quads, lanes, steps, rounds) =
                (constants[0], constants[7], constants[8], constants[11], constants[12]);
            let parts = if limits.tier == Tier::Plain { threads } else { threads / 4 };
            let bytes = lanes * steps * rounds * 64 + parts * (quads * 4 + 1) * 4;
            assert!(bytes <= limits.max_shared_bytes, "{columns} × {depth}: {bytes}");
            assert!(threads <= limits.max_invocations && threads.is_multiple_of(lanes));
        }
    }
}
