//! How to convert.

use std::fmt;

/// How matrices are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantisation {
    /// Symmetric 4-bit codes in groups, activations as they are: `et_vk.linear_q4gsw`.
    Bits4,
    /// Symmetric 8-bit codes, one scale an output: `aten._weight_int8pack_mm`.
    Bits8,
    /// 4-bit codes in groups, and activations in 8 bits, chosen at every execution: `et_vk.linear_dq8ca_q4gsw`.
    Dynamic8Bits4,
    /// The file's own 4-bit codes where it has them (`Q4_0`), its floats where it has floats, else 8-bit codes.
    Keep,
}

impl Quantisation {
    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bits4 => "4w",
            Self::Bits8 => "8w",
            Self::Dynamic8Bits4 => "8da4w",
            Self::Keep => "keep",
        }
    }
}

impl fmt::Display for Quantisation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How to convert a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// How the layers' matrices are stored.
    pub quantisation: Quantisation,
    /// How the table of the vocabulary is stored, as the embedding and, where the two are tied, as the head; as the
    /// layers unless said otherwise.
    pub vocabulary: Option<Quantisation>,
    /// Weights of a row that share a scale, in 4-bit codes.
    pub group: u32,
    /// Look for the scale of each group that makes the codes' errors small, rather than take the one at which no code is
    /// clamped.
    pub search: bool,
    /// Store floats in 16 bits, and have the delegate compute so; else in 32.
    pub half: bool,
    /// Tokens that caches hold; what the model was trained for and at most 2048 unless said otherwise.
    pub max_context: Option<u32>,
    /// Most tokens of one execution; at most 512 unless said otherwise.
    pub max_seq: Option<u32>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            quantisation: Quantisation::Bits4,
            vocabulary: None,
            group: 32,
            search: true,
            half: true,
            max_context: None,
            max_seq: None,
        }
    }
}
