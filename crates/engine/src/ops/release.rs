//! Which exporters write an operator.

use std::fmt;

/// The first release of ExecuTorch whose exporter writes a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Release {
    /// 0.3 or 0.4.
    V0_3,
    /// 0.5; several of these names are older.
    V0_5,
    /// 0.6.
    V0_6,
    /// 0.7.
    V0_7,
    /// 1.0.
    V1_0,
    /// 1.1.
    V1_1,
    /// 1.2.
    V1_2,
    /// 1.3.
    V1_3,
    /// 1.4.
    V1_4,
    /// 1.5.
    V1_5,
    /// A fork, for Gemma models.
    Fork,
    /// None: a name of upstream's tests or internals, another spelling, or one that stays on the CPU today.
    Unwritten,
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V0_3 => "0.3",
            Self::V0_5 => "0.5",
            Self::V0_6 => "0.6",
            Self::V0_7 => "0.7",
            Self::V1_0 => "1.0",
            Self::V1_1 => "1.1",
            Self::V1_2 => "1.2",
            Self::V1_3 => "1.3",
            Self::V1_4 => "1.4",
            Self::V1_5 => "1.5",
            Self::Fork => "fork",
            Self::Unwritten => "–",
        })
    }
}
