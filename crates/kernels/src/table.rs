//! The embedded modules. Written by `cargo xtask shaders` from `shaders/variants.toml`; not edited by hand.

use crate::{Family, Shader};

/// The modules of family `conv`.
pub static CONV: Family = Family {
    plain: Shader {
        name: "conv",
        spirv: include_bytes!("../spirv/conv.spv"),
        bindings: 6,
        push_words: 27,
    },
    middle: None,
    full: None,
};

/// The modules of family `conv_direct`.
pub static CONV_DIRECT: Family = Family {
    plain: Shader {
        name: "conv_direct",
        spirv: include_bytes!("../spirv/conv_direct.spv"),
        bindings: 6,
        push_words: 27,
    },
    middle: None,
    full: None,
};

/// The modules of family `conv_direct_int8`.
pub static CONV_DIRECT_INT8: Family = Family {
    plain: Shader {
        name: "conv_direct_int8",
        spirv: include_bytes!("../spirv/conv_direct_int8.spv"),
        bindings: 6,
        push_words: 27,
    },
    middle: None,
    full: None,
};

/// The modules of family `conv_int8`.
pub static CONV_INT8: Family = Family {
    plain: Shader {
        name: "conv_int8",
        spirv: include_bytes!("../spirv/conv_int8.spv"),
        bindings: 6,
        push_words: 27,
    },
    middle: None,
    full: None,
};

/// The modules of family `copy`.
pub static COPY: Family = Family {
    plain: Shader {
        name: "copy",
        spirv: include_bytes!("../spirv/copy.spv"),
        bindings: 3,
        push_words: 28,
    },
    middle: None,
    full: None,
};

/// The modules of family `embedding_q4`.
pub static EMBEDDING_Q4: Family = Family {
    plain: Shader {
        name: "embedding_q4",
        spirv: include_bytes!("../spirv/embedding_q4.spv"),
        bindings: 6,
        push_words: 20,
    },
    middle: None,
    full: None,
};

/// The modules of family `fill`.
pub static FILL: Family = Family {
    plain: Shader {
        name: "fill",
        spirv: include_bytes!("../spirv/fill.spv"),
        bindings: 2,
        push_words: 20,
    },
    middle: None,
    full: None,
};

/// The modules of family `gather`.
pub static GATHER: Family = Family {
    plain: Shader {
        name: "gather",
        spirv: include_bytes!("../spirv/gather.spv"),
        bindings: 5,
        push_words: 28,
    },
    middle: None,
    full: None,
};

/// The modules of family `grid_priors`.
pub static GRID_PRIORS: Family = Family {
    plain: Shader {
        name: "grid_priors",
        spirv: include_bytes!("../spirv/grid_priors.spv"),
        bindings: 1,
        push_words: 4,
    },
    middle: None,
    full: None,
};

/// The modules of family `heads`.
pub static HEADS: Family = Family {
    plain: Shader {
        name: "heads",
        spirv: include_bytes!("../spirv/heads.spv"),
        bindings: 12,
        push_words: 26,
    },
    middle: Some(Shader {
        name: "heads.middle",
        spirv: include_bytes!("../spirv/heads.middle.spv"),
        bindings: 12,
        push_words: 26,
    }),
    full: None,
};

/// The modules of family `linear_q`.
pub static LINEAR_Q: Family = Family {
    plain: Shader {
        name: "linear_q",
        spirv: include_bytes!("../spirv/linear_q.spv"),
        bindings: 13,
        push_words: 18,
    },
    middle: None,
    full: Some(Shader {
        name: "linear_q.full",
        spirv: include_bytes!("../spirv/linear_q.full.spv"),
        bindings: 13,
        push_words: 18,
    }),
};

/// The modules of family `linear_q_rows`.
pub static LINEAR_Q_ROWS: Family = Family {
    plain: Shader {
        name: "linear_q_rows",
        spirv: include_bytes!("../spirv/linear_q_rows.spv"),
        bindings: 13,
        push_words: 18,
    },
    middle: Some(Shader {
        name: "linear_q_rows.middle",
        spirv: include_bytes!("../spirv/linear_q_rows.middle.spv"),
        bindings: 13,
        push_words: 18,
    }),
    full: None,
};

/// The modules of family `linear_q_vector`.
pub static LINEAR_Q_VECTOR: Family = Family {
    plain: Shader {
        name: "linear_q_vector",
        spirv: include_bytes!("../spirv/linear_q_vector.spv"),
        bindings: 13,
        push_words: 18,
    },
    middle: Some(Shader {
        name: "linear_q_vector.middle",
        spirv: include_bytes!("../spirv/linear_q_vector.middle.spv"),
        bindings: 13,
        push_words: 18,
    }),
    full: None,
};

/// The modules of family `map`.
pub static MAP: Family = Family {
    plain: Shader {
        name: "map",
        spirv: include_bytes!("../spirv/map.spv"),
        bindings: 5,
        push_words: 32,
    },
    middle: None,
    full: None,
};

/// The modules of family `map_angular`.
pub static MAP_ANGULAR: Family = Family {
    plain: Shader {
        name: "map_angular",
        spirv: include_bytes!("../spirv/map_angular.spv"),
        bindings: 5,
        push_words: 32,
    },
    middle: None,
    full: None,
};

/// The modules of family `map_exponential`.
pub static MAP_EXPONENTIAL: Family = Family {
    plain: Shader {
        name: "map_exponential",
        spirv: include_bytes!("../spirv/map_exponential.spv"),
        bindings: 5,
        push_words: 32,
    },
    middle: None,
    full: None,
};

/// The modules of family `map_power`.
pub static MAP_POWER: Family = Family {
    plain: Shader {
        name: "map_power",
        spirv: include_bytes!("../spirv/map_power.spv"),
        bindings: 5,
        push_words: 32,
    },
    middle: None,
    full: None,
};

/// The modules of family `matmul`.
pub static MATMUL: Family = Family {
    plain: Shader {
        name: "matmul",
        spirv: include_bytes!("../spirv/matmul.spv"),
        bindings: 6,
        push_words: 23,
    },
    middle: None,
    full: None,
};

/// The modules of family `matmul_rows`.
pub static MATMUL_ROWS: Family = Family {
    plain: Shader {
        name: "matmul_rows",
        spirv: include_bytes!("../spirv/matmul_rows.spv"),
        bindings: 6,
        push_words: 23,
    },
    middle: Some(Shader {
        name: "matmul_rows.middle",
        spirv: include_bytes!("../spirv/matmul_rows.middle.spv"),
        bindings: 6,
        push_words: 23,
    }),
    full: None,
};

/// The modules of family `norm`.
pub static NORM: Family = Family {
    plain: Shader {
        name: "norm",
        spirv: include_bytes!("../spirv/norm.spv"),
        bindings: 7,
        push_words: 15,
    },
    middle: Some(Shader {
        name: "norm.middle",
        spirv: include_bytes!("../spirv/norm.middle.spv"),
        bindings: 7,
        push_words: 15,
    }),
    full: None,
};

/// The modules of family `pool`.
pub static POOL: Family = Family {
    plain: Shader {
        name: "pool",
        spirv: include_bytes!("../spirv/pool.spv"),
        bindings: 4,
        push_words: 16,
    },
    middle: None,
    full: None,
};

/// The modules of family `qparams`.
pub static QPARAMS: Family = Family {
    plain: Shader {
        name: "qparams",
        spirv: include_bytes!("../spirv/qparams.spv"),
        bindings: 3,
        push_words: 8,
    },
    middle: None,
    full: None,
};

/// The modules of family `reduce`.
pub static REDUCE: Family = Family {
    plain: Shader {
        name: "reduce",
        spirv: include_bytes!("../spirv/reduce.spv"),
        bindings: 3,
        push_words: 27,
    },
    middle: None,
    full: None,
};

/// The modules of family `resample`.
pub static RESAMPLE: Family = Family {
    plain: Shader {
        name: "resample",
        spirv: include_bytes!("../spirv/resample.spv"),
        bindings: 4,
        push_words: 12,
    },
    middle: None,
    full: None,
};

/// The modules of family `residual`.
pub static RESIDUAL: Family = Family {
    plain: Shader {
        name: "residual",
        spirv: include_bytes!("../spirv/residual.spv"),
        bindings: 7,
        push_words: 7,
    },
    middle: Some(Shader {
        name: "residual.middle",
        spirv: include_bytes!("../spirv/residual.middle.spv"),
        bindings: 7,
        push_words: 7,
    }),
    full: None,
};

/// The modules of family `rope`.
pub static ROPE: Family = Family {
    plain: Shader {
        name: "rope",
        spirv: include_bytes!("../spirv/rope.spv"),
        bindings: 5,
        push_words: 19,
    },
    middle: None,
    full: None,
};

/// The modules of family `sdpa`.
pub static SDPA: Family = Family {
    plain: Shader {
        name: "sdpa",
        spirv: include_bytes!("../spirv/sdpa.spv"),
        bindings: 8,
        push_words: 32,
    },
    middle: Some(Shader {
        name: "sdpa.middle",
        spirv: include_bytes!("../spirv/sdpa.middle.spv"),
        bindings: 8,
        push_words: 32,
    }),
    full: Some(Shader {
        name: "sdpa.full",
        spirv: include_bytes!("../spirv/sdpa.full.spv"),
        bindings: 8,
        push_words: 32,
    }),
};

/// The modules of family `softmax`.
pub static SOFTMAX: Family = Family {
    plain: Shader {
        name: "softmax",
        spirv: include_bytes!("../spirv/softmax.spv"),
        bindings: 3,
        push_words: 19,
    },
    middle: None,
    full: None,
};

/// Every family by name.
pub static FAMILIES: &[(&str, &Family)] = &[
    ("conv", &CONV),
    ("conv_direct", &CONV_DIRECT),
    ("conv_direct_int8", &CONV_DIRECT_INT8),
    ("conv_int8", &CONV_INT8),
    ("copy", &COPY),
    ("embedding_q4", &EMBEDDING_Q4),
    ("fill", &FILL),
    ("gather", &GATHER),
    ("grid_priors", &GRID_PRIORS),
    ("heads", &HEADS),
    ("linear_q", &LINEAR_Q),
    ("linear_q_rows", &LINEAR_Q_ROWS),
    ("linear_q_vector", &LINEAR_Q_VECTOR),
    ("map", &MAP),
    ("map_angular", &MAP_ANGULAR),
    ("map_exponential", &MAP_EXPONENTIAL),
    ("map_power", &MAP_POWER),
    ("matmul", &MATMUL),
    ("matmul_rows", &MATMUL_ROWS),
    ("norm", &NORM),
    ("pool", &POOL),
    ("qparams", &QPARAMS),
    ("reduce", &REDUCE),
    ("resample", &RESAMPLE),
    ("residual", &RESIDUAL),
    ("rope", &ROPE),
    ("sdpa", &SDPA),
    ("softmax", &SOFTMAX),
];
