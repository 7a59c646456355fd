//! What blocks of codes stand for. Names of fields are the format's: `d` and `m` scale and shift, `qs` are codes, low bits
//! first.
#![expect(
    clippy::indexing_slicing,
    reason = "blocks are arrays, and places in them follow from loops of fixed length"
)]

use half::{bf16, f16};

use crate::TensorType;

/// Decodes whole blocks; `None` for a type that is not decoded.
pub(crate) fn decode(kind: TensorType, bytes: &[u8], out: &mut [f32]) -> Option<()> {
    use TensorType as T;

    match kind {
        T::F32 => each(bytes, out, |&block, out: &mut [f32; 1]| out[0] = f32::from_le_bytes(block)),
        T::F16 => each(bytes, out, |&block, out: &mut [f32; 1]| out[0] = f16::from_le_bytes(block).to_f32()),
        T::BF16 => {
            each(bytes, out, |&block, out: &mut [f32; 1]| out[0] = bf16::from_le_bytes(block).to_f32())
        }
        #[expect(clippy::cast_possible_truncation, reason = "all floats are f32 from here on")]
        T::F64 => each(bytes, out, |&block, out: &mut [f32; 1]| out[0] = f64::from_le_bytes(block) as f32),
        T::Q8_0 => each(bytes, out, q8_0),
        T::Q4_0 => each(bytes, out, q4_0),
        T::Q4_1 => each(bytes, out, q4_1),
        T::Q5_0 => each(bytes, out, q5_0),
        T::Q5_1 => each(bytes, out, q5_1),
        T::Q2_K => each(bytes, out, q2_k),
        T::Q3_K => each(bytes, out, q3_k),
        T::Q4_K => each(bytes, out, q4_k),
        T::Q5_K => each(bytes, out, q5_k),
        T::Q6_K => each(bytes, out, q6_k),
        _ => return None,
    }
    Some(())
}

/// Decodes block after block.
fn each<const BYTES: usize, const ELEMENTS: usize>(
    bytes: &[u8],
    out: &mut [f32],
    decode: impl Fn(&[u8; BYTES], &mut [f32; ELEMENTS]),
) {
    for (block, out) in bytes.as_chunks().0.iter().zip(out.as_chunks_mut().0) {
        decode(block, out);
    }
}

fn half(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// `d`, 32 signed codes.
fn q8_0(block: &[u8; 34], out: &mut [f32; 32]) {
    let d = half(block, 0);
    for (out, code) in out.iter_mut().zip(&block[2..]) {
        *out = d * f32::from(code.cast_signed());
    }
}

/// `d`, then codes: byte j has that of j in its low and that of j + 16 in its high bits.
fn q4_0(block: &[u8; 18], out: &mut [f32; 32]) {
    let d = half(block, 0);
    for (j, byte) in block[2..].iter().enumerate() {
        out[j] = d * (f32::from(byte & 15) - 8.0);
        out[j + 16] = d * (f32::from(byte >> 4) - 8.0);
    }
}

/// `d`, `m`, codes as in [`q4_0`].
fn q4_1(block: &[u8; 20], out: &mut [f32; 32]) {
    let (d, m) = (half(block, 0), half(block, 2));
    for (j, byte) in block[4..].iter().enumerate() {
        out[j] = d * f32::from(byte & 15) + m;
        out[j + 16] = d * f32::from(byte >> 4) + m;
    }
}

/// `d`, the fifth bits, the others as in [`q4_0`].
fn q5_0(block: &[u8; 22], out: &mut [f32; 32]) {
    let d = half(block, 0);
    fives(&block[2..], |j, code| out[j] = d * (f32::from(code) - 16.0));
}

/// `d`, `m`, codes as in [`q5_0`].
fn q5_1(block: &[u8; 24], out: &mut [f32; 32]) {
    let (d, m) = (half(block, 0), half(block, 2));
    fives(&block[4..], |j, code| out[j] = d * f32::from(code) + m);
}

fn fives(codes: &[u8], mut put: impl FnMut(usize, u8)) {
    let high = u32::from_le_bytes([codes[0], codes[1], codes[2], codes[3]]);
    let fifth = |j: usize| if high >> j & 1 == 1 { 16 } else { 0 };
    for (j, byte) in codes[4..].iter().enumerate() {
        put(j, byte & 15 | fifth(j));
        put(j + 16, byte >> 4 | fifth(j + 16));
    }
}

/// 16 scales and shifts of 4 bits each, 256 codes of 2 bits, `d` and `dmin` that scales and shifts are multiples of.
fn q2_k(block: &[u8; 84], out: &mut [f32; 256]) {
    let (scales, codes) = (&block[..16], &block[16..80]);
    let (d, dmin) = (half(block, 80), half(block, 82));
    for (at, out) in out.iter_mut().enumerate() {
        let scale = scales[at / 16];
        let code = codes[at / 128 * 32 + at % 32] >> (at % 128 / 32 * 2) & 3;
        *out = d * f32::from(scale & 15) * f32::from(code) - dmin * f32::from(scale >> 4);
    }
}

/// The third bits (those that are 0 subtract 4), 256 codes of 2 bits, 16 scales of 6 bits less 32, `d`.
fn q3_k(block: &[u8; 110], out: &mut [f32; 256]) {
    let (high, codes, scales) = (&block[..32], &block[32..96], &block[96..108]);
    let d = half(block, 108);
    let scale = |index: usize| {
        let low = if index < 8 { scales[index] & 15 } else { scales[index - 8] >> 4 };
        let top = scales[8 + index % 4] >> (index / 4 * 2) & 3;
        f32::from((low | top << 4).cast_signed() - 32)
    };
    for (at, out) in out.iter_mut().enumerate() {
        let code = codes[at / 128 * 32 + at % 32] >> (at % 128 / 32 * 2) & 3;
        let less = if high[at % 32] >> (at / 32) & 1 == 1 { 0.0 } else { 4.0 };
        *out = d * scale(at / 16) * (f32::from(code) - less);
    }
}

/// Scale and shift of 6 bits of each of 8 groups, in the 12 bytes of [`q4_k`] and [`q5_k`].
fn scale_and_shift(packed: &[u8], group: usize) -> (f32, f32) {
    let (scale, shift) = if group < 4 {
        (packed[group] & 63, packed[group + 4] & 63)
    } else {
        let low = packed[group + 4];
        (low & 15 | packed[group - 4] >> 6 << 4, low >> 4 | packed[group] >> 6 << 4)
    };
    (f32::from(scale), f32::from(shift))
}

/// `d` and `dmin` that scales and shifts are multiples of, those, 256 codes of 4 bits.
fn q4_k(block: &[u8; 144], out: &mut [f32; 256]) {
    let (d, dmin) = (half(block, 0), half(block, 2));
    let (packed, codes) = (&block[4..16], &block[16..]);
    for (group, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (scale, shift) = scale_and_shift(packed, group);
        for (out, byte) in out.iter_mut().zip(&codes[group / 2 * 32..]) {
            *out = d * scale * f32::from(byte >> (group % 2 * 4) & 15) - dmin * shift;
        }
    }
}

/// As [`q4_k`], with the fifth bits between scales and codes.
fn q5_k(block: &[u8; 176], out: &mut [f32; 256]) {
    let (d, dmin) = (half(block, 0), half(block, 2));
    let (packed, high, codes) = (&block[4..16], &block[16..48], &block[48..]);
    for (group, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (scale, shift) = scale_and_shift(packed, group);
        for ((out, byte), high) in out.iter_mut().zip(&codes[group / 2 * 32..]).zip(high) {
            let code = byte >> (group % 2 * 4) & 15 | (high >> group & 1) << 4;
            *out = d * scale * f32::from(code) - dmin * shift;
        }
    }
}

/// Low 4 and high 2 bits of 256 codes, 16 signed scales, `d`.
fn q6_k(block: &[u8; 210], out: &mut [f32; 256]) {
    let (low, high, scales) = (&block[..128], &block[128..192], &block[192..208]);
    let d = half(block, 208);
    for (at, out) in out.iter_mut().enumerate() {
        let (part, quarter, l) = (at / 128, at % 128 / 32, at % 32);
        let low = low[part * 64 + quarter % 2 * 32 + l] >> (quarter / 2 * 4) & 15;
        let code = low | (high[part * 32 + l] >> (quarter * 2) & 3) << 4;
        *out = d * f32::from(scales[at / 16].cast_signed()) * f32::from(code.cast_signed() - 32);
    }
}
