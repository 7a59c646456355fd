//! Float matrix products: `shaders/matmul.comp` (tiles) and `shaders/matmul_rows.comp` (few rows).

use crate::push::Push;
use crate::table::{MATMUL, MATMUL_ROWS};
use crate::{Launch, Limits, Storage, Strided};

/// Most rows of the product that [`MATMUL_ROWS`] serves.
const FEW_ROWS: u32 = 4;

/// out\[b, m, n\] = alpha · Σₖ A\[b, m, k\] · B\[b, n, k\] (+ bias\[n\]) (+ beta · C\[b, m, n\]), all f32.
#[derive(Clone, Debug)]
pub struct Matmul<'a> {
    /// A \[batch, M, K\] (leading dimensions may be missing).
    pub a: &'a Strided,
    /// B \[batch, N, K\]: the weight of a linear layer, or the transpose of a second factor. Its batch stride is 0
    /// where one B serves all.
    pub b: &'a Strided,
    /// How B is stored: words or halves.
    pub b_storage: Storage,
    /// Whether there is a bias of N words.
    pub bias: bool,
    /// C \[batch, M, N\] with stride 0 where it is broadcast.
    pub c: Option<&'a Strided>,
    /// Factor of the product.
    pub alpha: f32,
    /// Factor of C.
    pub beta: f32,
    /// Column of bias and out where this launch's columns begin: not 0 when B is bound part by part.
    pub first_column: u32,
    /// Elements of a row of out: N unless B is bound part by part.
    pub out_row: u32,
}

/// Launches a matrix product. Bindings: A, B, bias, C, out (contiguous \[batch, M, out_row\]), dyn.
#[must_use]
pub fn matmul(op: &Matmul<'_>, limits: &Limits) -> Launch {
    let (batch_a, a_batch) = axis(op.a, 2);
    let (batch_b, b_batch) = axis(op.b, 2);
    let (m, a_m) = axis(op.a, 1);
    let (k, a_k) = axis(op.a, 0);
    let (n, b_n) = axis(op.b, 1);
    let (_, b_k) = axis(op.b, 0);
    let batch = if batch_a == 1 { batch_b } else { batch_a };
    let nothing = Strided::default();
    let c = op.c.unwrap_or(&nothing);

    let push = Push::new()
        .words([batch, m, n, k])
        .word(op.a.offset)
        .dynamic(op.a.dynamic_offset)
        .signed(if batch_a == 1 { 0 } else { a_batch })
        .signed(a_m)
        .signed(a_k)
        .word(op.b.offset)
        .dynamic(op.b.dynamic_offset)
        .signed(if batch_b == 1 { 0 } else { b_batch })
        .signed(b_n)
        .signed(b_k)
        .word(c.offset)
        .dynamic(c.dynamic_offset)
        .signed(broadcast(c, 2))
        .signed(broadcast(c, 1))
        .signed(broadcast(c, 0))
        .float(op.alpha)
        .float(op.beta)
        .words([op.first_column, op.out_row]);

    let b_along_k = b_k.unsigned_abs() <= b_n.unsigned_abs();
    let common = [op.b_storage as u32, op.bias.into(), op.c.is_some().into()];
    if m <= FEW_ROWS {
        let (threads, columns) = row_shape(n, k, b_along_k);
        let groups = u64::from(batch) * u64::from(n.div_ceil(columns)) * u64::from(m.min(1));
        let [storage, bias, c] = common;
        let specialization = [threads, columns, b_along_k.into(), storage, bias, c];
        return push.launch(MATMUL_ROWS.pick(limits.tier), &specialization, groups, limits);
    }
    let (tile_m, tile_n) = tile(m, n, batch, limits);
    let groups = u64::from(batch) * u64::from(m.div_ceil(tile_m)) * u64::from(n.div_ceil(tile_n));
    let [storage, bias, c] = common;
    let a_along_k = a_k.unsigned_abs() <= a_m.unsigned_abs();
    let specialization =
        [tile_m * tile_n / 16, tile_m, tile_n, storage, bias, c, a_along_k.into(), b_along_k.into()];
    push.launch(MATMUL.pick(limits.tier), &specialization, groups, limits)
}

/// Size and stride of the dimension `from_last` places before the last; one element where the rank is smaller.
fn axis(operand: &Strided, from_last: usize) -> (u32, i32) {
    let of = |len: usize| len.checked_sub(from_last + 1);
    let size = of(operand.sizes.len()).and_then(|i| operand.sizes.get(i)).copied().unwrap_or(1);
    let stride = of(operand.strides.len()).and_then(|i| operand.strides.get(i)).copied().unwrap_or(0);
    (size, stride)
}

/// Stride of a dimension of a broadcast operand: a single element serves all.
fn broadcast(operand: &Strided, from_last: usize) -> i32 {
    let (size, stride) = axis(operand, from_last);
    if size == 1 { 0 } else { stride }
}

/// Invocations of a workgroup and the columns it makes, when rows are few. Few columns go one to a workgroup, so that
/// there are enough workgroups.
fn row_shape(n: u32, k: u32, b_along_k: bool) -> (u32, u32) {
    if b_along_k {
        let columns = match n {
            0..512 => 1,
            512..1024 => 2,
            _ => 4,
        };
        (if k <= 512 { 32 } else { 64 }, columns)
    } else if n >= 32 {
        (128, 32)
    } else {
        (64, n.max(1).next_power_of_two())
    }
}

/// Output tile of a workgroup with 4 × 4 elements an invocation: large for reuse, smaller where the device would
/// be left idle.
pub(crate) fn tile(m: u32, n: u32, batch: u32, limits: &Limits) -> (u32, u32) {
    const ENOUGH_GROUPS: u64 = 64;
    let fit = |size: u32| size.next_power_of_two().clamp(16, 64);
    let (mut tile_m, mut tile_n) = (fit(m), fit(n));
    let groups = |tm: u32, tn: u32| u64::from(batch) * u64::from(m.div_ceil(tm)) * u64::from(n.div_ceil(tn));
    while (tile_m * tile_n / 16 > limits.max_invocations || groups(tile_m, tile_n) < ENOUGH_GROUPS)
        && tile_m.max(tile_n) > 32
    {
        if tile_m >= tile_n {
            tile_m /= 2;
        } else {
            tile_n /= 2;
        }
    }
    (tile_m, tile_n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::tests::{MIDDLE, PLAIN};

    fn strided(sizes: &[u32]) -> Strided {
        let sizes: crate::Dims = sizes.iter().copied().collect();
        Strided { strides: crate::contiguous_strides(&sizes), sizes, ..Strided::default() }
    }

    fn launch(a: &[u32], b: &[u32], limits: &Limits) -> Launch {
        let (a, b) = (strided(a), strided(b));
        let (n, _) = axis(&b, 1);
        let op = Matmul {
            a: &a,
            b: &b,
            b_storage: Storage::Word,
            bias: false,
            c: None,
            alpha: 1.0,
            beta: 0.0,
            first_column: 0,
            out_row: n,
        };
        matmul(&op, limits)
    }

    #[test]
    fn groups_cover_the_output() {
        let few = launch(&[2, 3, 100], &[2, 7, 100], &PLAIN);
        assert_eq!(few.kernel.shader.name, "matmul_rows");
        assert_eq!(few.groups, [2 * 7, 1, 1]);
        let many = launch(&[65, 100], &[130, 100], &PLAIN);
        assert_eq!(many.kernel.shader.name, "matmul");
        let [threads, tile_m, tile_n] = [0, 1, 2].map(|i| many.kernel.specialization[i]);
        assert_eq!(threads, tile_m * tile_n / 16);
        assert_eq!(many.groups[0], 65u32.div_ceil(tile_m) * 130u32.div_ceil(tile_n));
        assert_eq!(launch(&[0, 8], &[4, 8], &PLAIN).groups[0], 0);
    }

    #[test]
    fn tiles_respect_the_limits() {
        let (m, n) = tile(4096, 4096, 1, &PLAIN);
        assert_eq!(m * n / 16, PLAIN.max_invocations);
        assert_eq!(tile(4096, 4096, 1, &MIDDLE), (64, 64));
        assert_eq!(tile(9, 20, 1, &MIDDLE), (16, 32));
    }

    #[test]
    fn one_matrix_serves_all_batches() {
        let with_batch = launch(&[3, 5, 8], &[1, 9, 8], &PLAIN);
        assert_eq!(with_batch.push[0], 3);
        assert_eq!((with_batch.push[6], with_batch.push[11]), (40, 0));
    }
}
