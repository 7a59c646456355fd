// Operations of reduce.comp; `ReduceOp` in crates/kernels/src/reduce.rs has the same names and values.

const uint OP_SUM_F = 0u;
const uint OP_MEAN_F = 1u;
const uint OP_AMAX_F = 2u;
const uint OP_AMIN_F = 3u;
const uint OP_PROD_F = 4u;
const uint OP_VAR_F = 5u;
const uint OP_ARGMAX_F = 6u;
const uint OP_ARGMIN_F = 7u;
const uint OP_SUM_I = 8u;
const uint OP_AMAX_I = 9u;
const uint OP_AMIN_I = 10u;
const uint OP_PROD_I = 11u;
const uint OP_ARGMAX_I = 12u;
const uint OP_ARGMIN_I = 13u;
const uint OP_ANY = 14u;
const uint OP_ALL = 15u;
