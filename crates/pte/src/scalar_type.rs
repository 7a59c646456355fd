//! Element types.

use std::fmt;

macro_rules! scalar_types {
    ($($variant:ident = $number:literal, $size:literal, $name:literal;)*) => {
        /// Element type of a tensor, numbered as in PyTorch.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[expect(missing_docs, reason = "each variant is the torch type its Display names")]
        #[repr(i8)]
        pub enum ScalarType {
            $($variant = $number,)*
        }

        impl ScalarType {
            /// Every element type.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The type with PyTorch's number `raw`.
            #[must_use]
            pub fn from_raw(raw: i8) -> Option<Self> {
                match raw {
                    $($number => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Bytes of one element.
            #[must_use]
            pub fn size(self) -> usize {
                match self {
                    $(Self::$variant => $size,)*
                }
            }

            /// Torch's name without the `torch.` prefix.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

scalar_types! {
    UInt8 = 0, 1, "uint8";
    Int8 = 1, 1, "int8";
    Int16 = 2, 2, "int16";
    Int32 = 3, 4, "int32";
    Int64 = 4, 8, "int64";
    Float16 = 5, 2, "float16";
    Float32 = 6, 4, "float32";
    Float64 = 7, 8, "float64";
    Complex32 = 8, 4, "complex32";
    Complex64 = 9, 8, "complex64";
    Complex128 = 10, 16, "complex128";
    Bool = 11, 1, "bool";
    QInt8 = 12, 1, "qint8";
    QUInt8 = 13, 1, "quint8";
    QInt32 = 14, 4, "qint32";
    BFloat16 = 15, 2, "bfloat16";
    QUInt4x2 = 16, 1, "quint4x2";
    QUInt2x4 = 17, 1, "quint2x4";
    Bits1x8 = 18, 1, "bits1x8";
    Bits2x4 = 19, 1, "bits2x4";
    Bits4x2 = 20, 1, "bits4x2";
    Bits8 = 21, 1, "bits8";
    Bits16 = 22, 2, "bits16";
    Float8E5m2 = 23, 1, "float8_e5m2";
    Float8E4m3fn = 24, 1, "float8_e4m3fn";
    Float8E5m2fnuz = 25, 1, "float8_e5m2fnuz";
    Float8E4m3fnuz = 26, 1, "float8_e4m3fnuz";
    UInt16 = 27, 2, "uint16";
    UInt32 = 28, 4, "uint32";
    UInt64 = 29, 8, "uint64";
}

impl fmt::Display for ScalarType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
