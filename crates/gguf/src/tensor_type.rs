//! Element types of tensors.

macro_rules! tensor_types {
    ($($variant:ident = $number:literal, $elements:literal in $bytes:literal;)*) => {
        /// How the elements of a tensor are stored, numbered as in files: blocks of a number of elements each.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[expect(missing_docs, reason = "each variant is the format's name")]
        #[expect(non_camel_case_types, reason = "they are the format's names")]
        #[repr(u32)]
        pub enum TensorType {
            $($variant = $number,)*
        }

        impl TensorType {
            /// Every type that is known.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The type of this number.
            #[must_use]
            pub fn from_raw(raw: u32) -> Option<Self> {
                match raw {
                    $($number => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Elements and bytes of a block.
            #[must_use]
            pub fn block(self) -> (u64, u64) {
                match self {
                    $(Self::$variant => ($elements, $bytes),)*
                }
            }

            /// The format's name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($variant),)*
                }
            }
        }
    };
}

tensor_types! {
    F32 = 0, 1 in 4;
    F16 = 1, 1 in 2;
    Q4_0 = 2, 32 in 18;
    Q4_1 = 3, 32 in 20;
    Q5_0 = 6, 32 in 22;
    Q5_1 = 7, 32 in 24;
    Q8_0 = 8, 32 in 34;
    Q8_1 = 9, 32 in 36;
    Q2_K = 10, 256 in 84;
    Q3_K = 11, 256 in 110;
    Q4_K = 12, 256 in 144;
    Q5_K = 13, 256 in 176;
    Q6_K = 14, 256 in 210;
    Q8_K = 15, 256 in 292;
    IQ2_XXS = 16, 256 in 66;
    IQ2_XS = 17, 256 in 74;
    IQ3_XXS = 18, 256 in 98;
    IQ1_S = 19, 256 in 50;
    IQ4_NL = 20, 32 in 18;
    IQ3_S = 21, 256 in 110;
    IQ2_S = 22, 256 in 82;
    IQ4_XS = 23, 256 in 136;
    I8 = 24, 1 in 1;
    I16 = 25, 1 in 2;
    I32 = 26, 1 in 4;
    I64 = 27, 1 in 8;
    F64 = 28, 1 in 8;
    IQ1_M = 29, 256 in 56;
    BF16 = 30, 1 in 2;
    TQ1_0 = 34, 256 in 54;
    TQ2_0 = 35, 256 in 66;
    MXFP4 = 39, 32 in 17;
}
