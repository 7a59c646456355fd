//! Codes and scales that stand for rows of weights.

use std::num::NonZero;
use std::thread;

use half::f16;

/// Signed codes of rows of weights, and the scales that they are multiplied by.
pub(crate) struct Codes {
    /// A code for each weight.
    pub(crate) codes: Vec<i8>,
    /// A scale for each group, row after row.
    pub(crate) scales: Vec<f32>,
}

/// How scales are found, and what they are stored as.
#[derive(Clone, Copy)]
pub(crate) struct Scales<'a> {
    /// Try many, rather than take the one at which no code is clamped.
    pub(crate) search: bool,
    /// What errors of each column weigh, if not the same.
    pub(crate) importance: Option<&'a [f32]>,
    /// Scales are halves.
    pub(crate) half: bool,
}

impl Scales<'_> {
    fn stored(&self, scale: f32) -> f32 {
        if self.half { f16::from_f32(scale).to_f32() } else { scale }
    }
}

/// 4-bit codes −8…7, one scale for `group` weights of a row.
///
/// Without a search the scale is max|w| / 7.5, as torchao chooses it for symmetric codes. With it, it is the best in weighted
/// squared error of two dozen candidates around that, of either sign since there is a −8 but no 8, each of them refined once:
/// for given codes q the least squares of `q · scale − w` are at `Σ q·w / Σ q²`.
pub(crate) fn groups(weights: &[f32], columns: usize, group: usize, scales: Scales<'_>) -> Codes {
    parallel(weights, columns, columns / group, |row, codes, out| {
        for (index, (weights, codes)) in row.chunks(group).zip(codes.chunks_mut(group)).enumerate() {
            let importance = scales.importance.and_then(|all| all.get(index * group..)?.get(..group));
            let scale =
                scales.stored(if scales.search { best(weights, importance) } else { top(weights) / 7.5 });
            encode(weights, scale, [-8.0, 7.0], codes);
            if let Some(out) = out.get_mut(index) {
                *out = scale;
            }
        }
    })
}

/// 8-bit codes −127…127, one scale a row: max|w| / 127.
pub(crate) fn rows(weights: &[f32], columns: usize, scales: Scales<'_>) -> Codes {
    parallel(weights, columns, 1, |row, codes, out| {
        let scale = scales.stored(top(row) / 127.0);
        encode(row, scale, [-127.0, 127.0], codes);
        out.fill(scale);
    })
}

/// 8-bit codes −128…119 in groups, which two planes of 4-bit codes add up to: see [`planes`].
pub(crate) fn bytes(weights: &[f32], columns: usize, group: usize, scales: Scales<'_>) -> Codes {
    parallel(weights, columns, columns / group, |row, codes, out| {
        for ((weights, codes), out) in row.chunks(group).zip(codes.chunks_mut(group)).zip(out) {
            // A sixteenth of it is a scale, too, and as exact.
            *out = scales.stored(top(weights) / 123.5);
            encode(weights, *out, [-128.0, 119.0], codes);
        }
    })
}

/// Splits codes −128…119 into planes of −8…7: code = 16 · high + low.
pub(crate) fn planes(codes: &[i8]) -> [Vec<i8>; 2] {
    let low = |code: i8| (code.wrapping_add(8) & 15) - 8;
    // The carry of codes from 120 on would leave 8 bits, but there are none.
    let high = |code: i8| code.wrapping_sub(low(code)) >> 4;
    [codes.iter().copied().map(high).collect(), codes.iter().copied().map(low).collect()]
}

/// Codes −8…7 of rows as the operators for 4 bits read them: that of an even column in the low, of an odd one in the high bits,
/// plus 8; rows are padded to 8 columns with zeros.
pub(crate) fn pack(codes: &[i8], columns: usize) -> Vec<u8> {
    let nibble = |code: Option<&i8>| (code.copied().unwrap_or(0) + 8).cast_unsigned() & 15;
    let width = columns.next_multiple_of(8) / 2;
    let mut packed = Vec::with_capacity(codes.len() / columns.max(1) * width);
    for row in codes.chunks(columns.max(1)) {
        packed.extend((0..width).map(|at| nibble(row.get(2 * at)) | nibble(row.get(2 * at + 1)) << 4));
    }
    packed
}

/// Blocks of GGUF's `Q4_0` as they are: codes of 32 weights, and their scale. There, byte j of a block has the codes of j and
/// j + 16.
pub(crate) fn q4_0(blocks: &[u8]) -> Codes {
    let blocks: &[[u8; 18]] = blocks.as_chunks().0;
    let code = |nibble: u8| nibble.cast_signed() - 8;
    let mut all =
        Codes { codes: Vec::with_capacity(blocks.len() * 32), scales: Vec::with_capacity(blocks.len()) };
    for [low, high, codes @ ..] in blocks {
        all.scales.push(f16::from_le_bytes([*low, *high]).to_f32());
        all.codes.extend(codes.iter().map(|byte| code(byte & 15)));
        all.codes.extend(codes.iter().map(|byte| code(byte >> 4)));
    }
    all
}

/// Sum of the codes of each group.
pub(crate) fn sums(codes: &[i8], group: usize) -> Vec<i32> {
    codes.chunks(group.max(1)).map(|codes| codes.iter().copied().map(i32::from).sum()).collect()
}

/// Encodes rows on all processors; `encode` is given a row, its codes and its scales.
fn parallel(
    weights: &[f32],
    columns: usize,
    scales_of_row: usize,
    encode: impl Fn(&[f32], &mut [i8], &mut [f32]) + Sync,
) -> Codes {
    let columns = columns.max(1);
    let rows = weights.len() / columns;
    let mut all = Codes { codes: vec![0; weights.len()], scales: vec![0.0; rows * scales_of_row] };
    let share = rows.div_ceil(thread::available_parallelism().map_or(1, NonZero::get)).max(1);
    thread::scope(|scope| {
        let codes = all.codes.chunks_mut(share * columns);
        let scales = all.scales.chunks_mut((share * scales_of_row).max(1));
        for ((weights, codes), scales) in weights.chunks(share * columns).zip(codes).zip(scales) {
            let encode = &encode;
            scope.spawn(move || {
                let scales = scales.chunks_mut(scales_of_row.max(1));
                for ((row, codes), scales) in
                    weights.chunks(columns).zip(codes.chunks_mut(columns)).zip(scales)
                {
                    encode(row, codes, scales);
                }
            });
        }
    });
    all
}

fn top(weights: &[f32]) -> f32 {
    weights.iter().fold(0.0, |top, weight| weight.abs().max(top))
}

#[expect(clippy::cast_possible_truncation, reason = "codes are within the bounds")]
fn encode(weights: &[f32], scale: f32, [low, high]: [f32; 2], codes: &mut [i8]) {
    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    for (weight, code) in weights.iter().zip(codes) {
        *code = (weight * inverse).round_ties_even().clamp(low, high) as i8;
    }
}

/// The scale of the candidates whose codes are off least.
fn best(weights: &[f32], importance: Option<&[f32]>) -> f32 {
    let top = top(weights);
    if top == 0.0 {
        return 0.0;
    }
    let mut least = (f32::INFINITY, top / 7.5);
    for step in 0_u8..13 {
        for sign in [1.0, -1.0] {
            let first = sign * top / (8.5 - 0.25 * f32::from(step));
            let [dot, square, _] = fit(weights, importance, first);
            let scale = if square > 0.0 { dot / square } else { first };
            if scale == 0.0 {
                continue;
            }
            let [_, _, error] = fit(weights, importance, scale);
            if error < least.0 {
                least = (error, scale);
            }
        }
    }
    least.1
}

/// Of the codes that a scale gives: `Σ q·w`, `Σ q²` and `Σ (q·scale − w)²`, weighted.
fn fit(weights: &[f32], importance: Option<&[f32]>, scale: f32) -> [f32; 3] {
    let inverse = 1.0 / scale;
    let mut sums = [0.0; 3];
    let mut add = |weight: f32, importance: f32| {
        let code = (weight * inverse).round_ties_even().clamp(-8.0, 7.0);
        let off = code * scale - weight;
        sums[0] += importance * code * weight;
        sums[1] += importance * code * code;
        sums[2] += importance * off * off;
    };
    match importance {
        Some(importance) => {
            weights.iter().zip(importance).for_each(|(&weight, &importance)| add(weight, importance))
        }
        None => weights.iter().for_each(|&weight| add(weight, 1.0)),
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Scales<'_> = Scales { search: false, importance: None, half: false };

    fn noise(count: usize) -> Vec<f32> {
        let mut state = 1_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f32::from((state >> 16) as u16) / 65_536.0 - 0.5
        };
        // Heavy tails, as weights have them.
        (0..count).map(|_| next() * next() * 4.0).collect()
    }

    fn error(weights: &[f32], codes: &Codes, group: usize) -> f32 {
        let off =
            |(at, weight): (usize, &f32)| f32::from(codes.codes[at]) * codes.scales[at / group] - weight;
        weights.iter().enumerate().map(off).map(|off| off * off).sum()
    }

    #[test]
    fn groups_follow_the_formula() {
        let weights = noise(3 * 64);
        let codes = groups(&weights, 64, 32, PLAIN);
        assert_eq!((codes.codes.len(), codes.scales.len()), (192, 6));
        for (at, weight) in weights.iter().enumerate() {
            let group = &weights[at / 32 * 32..][..32];
            let scale = group.iter().fold(0.0_f32, |top, weight| top.max(weight.abs())) / 7.5;
            assert_eq!(codes.scales[at / 32], scale);
            assert!((f32::from(codes.codes[at]) - (weight / scale).clamp(-8.0, 7.0)).abs() <= 0.5001);
        }
    }

    #[test]
    fn searching_makes_errors_smaller_and_halves_stay_halves() {
        let weights = noise(40 * 64);
        let plain = error(&weights, &groups(&weights, 64, 32, PLAIN), 32);
        let searched = groups(&weights, 64, 32, Scales { search: true, ..PLAIN });
        assert!(error(&weights, &searched, 32) < 0.85 * plain);
        let halves = groups(&weights, 64, 32, Scales { search: true, half: true, ..PLAIN });
        assert!(halves.scales.iter().all(|&scale| f16::from_f32(scale).to_f32() == scale));
        assert!(error(&weights, &halves, 32) < 0.86 * plain);
    }

    #[test]
    fn errors_of_important_columns_are_smaller() {
        let weights = noise(100 * 32);
        let importance: Vec<f32> = (0..32).map(|column| if column < 4 { 100.0 } else { 1.0 }).collect();
        let of = |codes: &Codes| -> f32 {
            let off = |at: usize| f32::from(codes.codes[at]) * codes.scales[at / 32] - weights[at];
            (0..weights.len()).filter(|at| at % 32 < 4).map(off).map(|off| off * off).sum()
        };
        let search = Scales { search: true, ..PLAIN };
        let plain = of(&groups(&weights, 32, 32, search));
        assert!(
            of(&groups(&weights, 32, 32, Scales { importance: Some(&importance), ..search })) < 0.8 * plain
        );
    }

    #[test]
    fn zeros_have_no_scale() {
        for search in [false, true] {
            let codes = groups(&[0.0; 32], 32, 32, Scales { search, ..PLAIN });
            assert_eq!((codes.codes, codes.scales), (vec![0; 32], vec![0.0]));
        }
        assert_eq!(rows(&[0.0; 4], 4, PLAIN).scales, [0.0]);
    }

    #[test]
    fn rows_and_planes() {
        let codes = rows(&[1.27, -0.01, 0.5, 2.54, 0.0, -2.54], 3, PLAIN);
        assert_eq!(codes.codes, [127, -1, 50, 127, 0, -127]);
        assert!((codes.scales[1] - 0.02).abs() < 1e-9);
        let weights = noise(64);
        let codes = bytes(&weights, 64, 32, PLAIN);
        let [high, low] = planes(&codes.codes);
        for (at, &code) in codes.codes.iter().enumerate() {
            assert!((-8..8).contains(&high[at]) && (-8..8).contains(&low[at]));
            assert_eq!(i16::from(high[at]) * 16 + i16::from(low[at]), i16::from(code));
        }
        let all: Vec<i8> = (-128..=119).collect();
        let [high, low] = planes(&all);
        assert!(all.iter().zip(high.iter().zip(&low)).all(|(&code, (&high, &low))| {
            i16::from(high) * 16 + i16::from(low) == i16::from(code)
                && (-8..8).contains(&low)
                && (-8..8).contains(&high)
        }));
    }

    /// The example of the operator's description.
    #[test]
    fn nibbles_are_even_column_first() {
        assert_eq!(pack(&[-8, 7, 0, 1, -1, 2, 3, -2], 8), [0xF0, 0x98, 0xA7, 0x6B]);
        assert_eq!(pack(&[1, 2, 3, -1, -2, -3], 3), [0xA9, 0x8B, 0x88, 0x88, 0x67, 0x85, 0x88, 0x88]);
    }

    #[test]
    fn blocks_are_kept_bit_by_bit() {
        let mut block = f16::from_f32(-0.5).to_le_bytes().to_vec();
        block.extend((0..16).map(|j| j | (15 - j) << 4));
        let codes = q4_0(&block);
        assert_eq!(codes.scales, [-0.5]);
        assert_eq!(codes.codes[..16], (-8..8).collect::<Vec<i8>>());
        assert_eq!(codes.codes[16..], (-8..8).rev().collect::<Vec<i8>>());
        assert_eq!(sums(&codes.codes, 32), [-16]);
    }
}
