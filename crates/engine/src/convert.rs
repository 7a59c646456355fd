//! Between host bytes and 32-bit device words.

use etvk_vkgraph::DType;
use half::f16;

/// Checks that 64-bit integers fit in 32 bits; the first that does not is returned with its position.
pub(crate) fn check_narrowing(bytes: &[u8]) -> Result<(), (usize, i64)> {
    let values = bytes.as_chunks::<8>().0.iter().map(|raw| i64::from_le_bytes(*raw));
    match values.enumerate().find(|&(_, value)| i32::try_from(value).is_err()) {
        Some(offender) => Err(offender),
        None => Ok(()),
    }
}

/// Copies bytes and fills what is left of `out` with zeros.
pub(crate) fn copy_padded(from: &[u8], out: &mut [u8]) {
    let length = from.len().min(out.len());
    out[..length].copy_from_slice(&from[..length]);
    out[length..].fill(0);
}

/// Writes elements `first..` of `bytes` as 32-bit words.
pub(crate) fn widen(dtype: DType, bytes: &[u8], first: usize, out: &mut [u8]) {
    let words = out.as_chunks_mut::<4>().0.iter_mut();
    let rest = bytes.get(first * dtype.size()..).unwrap_or(&[]);
    match dtype {
        DType::Float32 | DType::Int32 => words.zip(rest.as_chunks::<4>().0).for_each(|(w, x)| *w = *x),
        DType::Float16 => words
            .zip(rest.as_chunks::<2>().0)
            .for_each(|(w, x)| *w = f16::from_le_bytes(*x).to_f32().to_le_bytes()),
        DType::Int8 => words.zip(rest).for_each(|(w, x)| *w = i32::from(x.cast_signed()).to_le_bytes()),
        DType::UInt8 => words.zip(rest).for_each(|(w, x)| *w = i32::from(*x).to_le_bytes()),
        DType::Bool => words.zip(rest).for_each(|(w, x)| *w = i32::from(*x != 0).to_le_bytes()),
        #[expect(
            clippy::cast_possible_truncation,
            reason = "graph floats are single precision on the device"
        )]
        DType::Float64 => words
            .zip(rest.as_chunks::<8>().0)
            .for_each(|(w, x)| *w = (f64::from_le_bytes(*x) as f32).to_le_bytes()),
        #[expect(clippy::cast_possible_truncation, reason = "checked before the upload")]
        DType::Int64 => words
            .zip(rest.as_chunks::<8>().0)
            .for_each(|(w, x)| *w = (i64::from_le_bytes(*x) as i32).to_le_bytes()),
        _ => {}
    }
}

/// Writes device words as host elements of type `dtype`. Floats narrow to nearest even with overflow to
/// infinity, integers to the low bits, bool to `word != 0`.
pub(crate) fn narrow(dtype: DType, words: &[u8], out: &mut [u8]) {
    let words = words.as_chunks::<4>().0.iter();
    match dtype {
        DType::Float32 | DType::Int32 => words.zip(out.as_chunks_mut::<4>().0).for_each(|(w, x)| *x = *w),
        DType::Float16 => words
            .zip(out.as_chunks_mut::<2>().0)
            .for_each(|(w, x)| *x = f16::from_f32(f32::from_le_bytes(*w)).to_le_bytes()),
        DType::Float64 => words
            .zip(out.as_chunks_mut::<8>().0)
            .for_each(|(w, x)| *x = f64::from(f32::from_le_bytes(*w)).to_le_bytes()),
        DType::Int64 => words
            .zip(out.as_chunks_mut::<8>().0)
            .for_each(|(w, x)| *x = i64::from(i32::from_le_bytes(*w)).to_le_bytes()),
        DType::Int8 | DType::UInt8 => words.zip(out).for_each(|(w, x)| *x = w[0]),
        DType::Bool => words.zip(out).for_each(|(w, x)| *x = u8::from(*w != [0; 4])),
        _ => {}
    }
}

/// Whether the host may pass (or take) elements of type `host` for a graph tensor of type `graph`.
pub(crate) fn compatible(host: DType, graph: DType) -> bool {
    let wide_int = |dtype| matches!(dtype, DType::Int32 | DType::Int64);
    host == graph || (host.is_float() && graph.is_float()) || (wide_int(host) && wide_int(graph))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_go_out_as_they_came_in() {
        let cases: [(DType, &[u8]); 6] = [
            (DType::Bool, &[0, 1, 1]),
            (DType::Int8, &[0x80, 0x7f, 0xff]),
            (DType::UInt8, &[0, 255, 17]),
            (DType::Float16, &[0x00, 0x3c, 0xff, 0x7b]),
            (DType::Int64, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            (DType::Float64, &[0, 0, 0, 0, 0, 0, 0xf8, 0xbf]),
        ];
        for (dtype, bytes) in cases {
            let mut words = vec![0u8; bytes.len() / dtype.size() * 4];
            widen(dtype, bytes, 0, &mut words);
            let mut back = vec![0u8; bytes.len()];
            narrow(dtype, &words, &mut back);
            assert_eq!(back, bytes, "{dtype:?}");
        }
    }

    #[test]
    fn wide_integers_are_checked() {
        let bytes: Vec<u8> = [1i64, -5, 1 << 40].iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(check_narrowing(&bytes), Err((2, 1 << 40)));
        assert_eq!(check_narrowing(&bytes[..16]), Ok(()));
    }
}
