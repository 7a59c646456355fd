//! Element-wise operations over broadcast operands: `shaders/map.comp`.

use crate::geometry::{Merged, elements, strided_groups};
use crate::operations::operations;
use crate::push::Push;
use crate::table::{MAP, MAP_ANGULAR, MAP_EXPONENTIAL, MAP_POWER};
use crate::{Dims, Family, Launch, Limits, Strided, Unsupported};

/// Dimensions the kernel takes after neighbours have been merged.
const RANK: usize = 6;
/// Operands it takes.
const OPERANDS: usize = 3;
/// Invocations of its workgroups.
const THREADS: u32 = 128;

operations! {
    /// Element-wise operations of operands a, b, c and scalars s0, s1. Names end in `F` for floats and in `I` for
    /// ints (which are also bools, int8 and uint8) where both exist. Comparisons and predicates give the ints 0 and 1.
    /// A missing b is s0; `alpha` is s0, or s1 where b is missing.
    pub enum MapOp {
        /// The word of a.
        Copy,
        /// `|a|`.
        AbsF,
        /// −a.
        NegF,
        /// e^a.
        Exp,
        /// √a.
        Sqrt,
        /// 1/√a.
        Rsqrt,
        /// sin a.
        Sin,
        /// cos a.
        Cos,
        /// tan a.
        Tan,
        /// tanh a.
        Tanh,
        /// 1/(1 + e^−a).
        Sigmoid,
        /// GELU in its tanh form.
        GeluTanh,
        /// GELU in its erf form.
        GeluErf,
        /// max(a, 0).
        Relu,
        /// min(max(a, s0), s1).
        ClampF,
        /// a where `|a|` > s0, else 0.
        Hardshrink,
        /// clamp(a/6 + ½, 0, 1).
        Hardsigmoid,
        /// a · clamp(a + 3, 0, 6) / 6.
        Hardswish,
        /// a where a > 0, else s0 · a.
        LeakyRelu,
        /// ln a.
        Log,
        /// log10 a.
        Log10,
        /// Nearest integer, ties to even.
        Round,
        /// ⌊a⌋.
        Floor,
        /// ⌈a⌉.
        Ceil,
        /// a without its fraction.
        Trunc,
        /// 1/a.
        Reciprocal,
        /// erf a.
        Erf,
        /// a + alpha · b.
        AddF,
        /// a − alpha · b.
        SubF,
        /// a · b.
        MulF,
        /// a / b.
        DivF,
        /// ⌊a / b⌋ as PyTorch defines it.
        DivFloorF,
        /// a / b without its fraction.
        DivTruncF,
        /// a^b.
        PowF,
        /// min(a, b); NaN if either is.
        MinF,
        /// max(a, b); NaN if either is.
        MaxF,
        /// a = b.
        EqF,
        /// a ≠ b.
        NeF,
        /// a < b.
        LtF,
        /// a ≤ b.
        LeF,
        /// a > b.
        GtF,
        /// a ≥ b.
        GeF,
        /// `|a|`, wrapping.
        AbsI,
        /// −a, wrapping.
        NegI,
        /// min(max(a, s0), s1).
        ClampI,
        /// a + alpha · b, wrapping.
        AddI,
        /// a − alpha · b, wrapping.
        SubI,
        /// a · b, wrapping.
        MulI,
        /// ⌊a / b⌋; 0 where b = 0.
        DivFloorI,
        /// a / b towards zero; 0 where b = 0.
        DivTruncI,
        /// a^b, wrapping; b < 0 gives 0 unless a is ±1.
        PowI,
        /// min(a, b).
        MinI,
        /// max(a, b).
        MaxI,
        /// a = b.
        EqI,
        /// a ≠ b.
        NeI,
        /// a < b.
        LtI,
        /// a ≤ b.
        LeI,
        /// a > b.
        GtI,
        /// a ≥ b.
        GeI,
        /// a ≠ 0 and b ≠ 0.
        LogicalAnd,
        /// a ≠ 0 or b ≠ 0.
        LogicalOr,
        /// a ≠ 0 or b ≠ 0, not both.
        LogicalXor,
        /// a = 0.
        LogicalNot,
        /// Bits of both.
        BitAnd,
        /// Bits of either.
        BitOr,
        /// Bits of one.
        BitXor,
        /// All bits flipped.
        BitNot,
        /// The word of b where a ≠ 0, else that of c.
        Where,
        /// Float a towards zero, clamped to the ints s0…s1; NaN gives 0.
        FloatToInt,
        /// Nearest float.
        IntToFloat,
        /// a ≠ 0; NaN counts as true.
        FloatToBool,
        /// a ≠ 0.
        IntToBool,
        /// The low 8 bits of int a, sign-extended.
        WrapInt8,
        /// The low 8 bits of int a.
        WrapUint8,
        /// Int clamp(round(a · (1/b)) + c, s0, s1); b is the scale, c the zero point (int; 0 if absent).
        Quantize,
        /// Float (int a − int c) · b.
        Dequantize,
        /// Dequantised quantised a, in float.
        FakeQuantize,
        /// The nearest half-precision number, as a float.
        RoundHalf,
    }
}

impl MapOp {
    /// The modules that have the operation.
    fn family(self) -> &'static Family {
        match self {
            Self::Sin | Self::Cos | Self::Tan => &MAP_ANGULAR,
            Self::Sqrt | Self::Rsqrt | Self::Reciprocal | Self::PowF => &MAP_POWER,
            Self::Exp | Self::Tanh | Self::Sigmoid | Self::GeluTanh | Self::GeluErf => &MAP_EXPONENTIAL,
            Self::Log | Self::Log10 | Self::Erf => &MAP_EXPONENTIAL,
            _ => &MAP,
        }
    }
}

/// out = op(a, b, c), of sizes `sizes`, contiguous. `operands` are those of a, b, c that are tensors, one to three.
/// Scalars are words: bits of floats where the operation is one of floats.
/// Bindings: a, b, c (any buffer for those missing), out, dyn.
///
/// # Errors
/// [`Unsupported`] when the operands do not broadcast to `sizes` or too many dimensions are left.
pub fn map(
    op: MapOp,
    operands: &[&Strided],
    scalars: [u32; 2],
    sizes: &Dims,
    limits: &Limits,
) -> Result<Launch, Unsupported> {
    let total = elements(sizes)?;
    let absent = Strided::default();
    let operand = |i: usize| operands.get(i).copied().unwrap_or(&absent);
    let (a, b, c) = (operand(0), operand(1), operand(2));
    let [a_strides, b_strides, c_strides] = [a, b, c].map(|x| x.broadcast_strides(sizes));
    let merged = Merged::new(sizes, [&a_strides?, &b_strides?, &c_strides?]);
    let rank = merged.rank(RANK)?;
    let inputs = operands.iter().take(OPERANDS).fold(0, |count, _| count + 1);
    let push = Push::new()
        .word(total)
        .words(scalars)
        .words(merged.inner_sizes(RANK))
        .words((0..OPERANDS).flat_map(|i| merged.padded_strides(i, RANK)))
        .words([a.offset, b.offset, c.offset])
        .dynamic(a.dynamic_offset)
        .dynamic(b.dynamic_offset)
        .dynamic(c.dynamic_offset);
    let specialization = [op as u32, inputs, rank];
    Ok(push.launch(op.family().pick(limits.tier), &specialization, strided_groups(total, THREADS), limits))
}
