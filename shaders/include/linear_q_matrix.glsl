// The main function of linear_q.comp on cooperative matrices. K is a multiple of STEP, x is read as vec4, weight rows are
// whole words of Q4_LOW codes, there is no bias, the columns of an output are multiples of 4 (of 16 where there are several
// outputs), and M and N are at least a tile: the last tile of a row or column is moved back so that it is whole, and writes
// what its neighbour writes. There are TILE_M · TILE_N / 64 invocations: one subgroup of 32 for each 32×64 part of the
// tile. Where there are gates, 32 columns of that are gates and the next 32 what they open.
//
// Matrices go straight from registers to out. Passing single elements through shared memory, even on a path that is
// never taken, makes the whole kernel four times slower on one NVIDIA driver (580.159).

const uint STEP = 32u;
// f16vec4 in a row of a shared tile: STEP / 4, and two more so that rows start in different banks.
const uint PITCH = 10u;
const uint A_TILE = TILE_M * PITCH;
const uint B_TILE = TILE_N * PITCH;
// Per invocation: octets of x and words of codes that one step takes. Both hold the k of an octet in the order
// 0 4 1 5 2 6 3 7, in which two codes of a word lie 16 bits apart.
const uint A_LOADS = 256u / TILE_N;
const uint B_LOADS = 256u / TILE_M;
// Matrices in the 32×64 part of a subgroup.
const uint ROWS = 2u;
const uint COLUMNS = 4u;
// Stored columns of a tile.
const uint OUT_N = EPILOGUE == GATED ? TILE_N / 2u : TILE_N;
#define Sums coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>

// Two of each: one is multiplied while the other is filled.
shared f16vec4 a_tile[2u * A_TILE];
shared f16vec4 b_tile[2u * B_TILE];

vec4 a_low[A_LOADS];
vec4 a_high[A_LOADS];
uint b_next[B_LOADS];
float scale_next[B_LOADS];

// The codes in the low four bits of both halves: 1024 + n is the half 0x6400 + n.
f16vec2 two_codes(uint word) {
    return unpackFloat2x16((word & 0x000F000Fu) | 0x64006400u) - f16vec2(1032.0);
}

// The weight row of column `c` of a tile.
uint weight_row(uint first_column, uint c) {
    if (EPILOGUE != GATED) return first_column + c;
    return first_column + c / 64u * 32u + c % 32u + c / 32u % 2u * width[0];
}

void fetch(uint first_row, uint first_column, uint k0) {
    uint lane = gl_LocalInvocationID.x;
    uint threads = gl_WorkGroupSize.x;
    [[unroll]] for (uint i = 0u; i < A_LOADS; i++) {
        uint e = lane + i * threads;
        uint m = first_row + e / 4u;
        uint at = (x_offset + m * x_row + k0) / 4u + e % 4u * 2u;
        a_low[i] = x4[at];
        a_high[i] = x4[at + 1u];
    }
    [[unroll]] for (uint i = 0u; i < B_LOADS; i++) {
        uint e = lane + i * threads;
        uint n = weight_row(first_column, e / 4u);
        uint word = k0 / 8u + e % 4u;
        b_next[i] = weight[(weight_offset + n * row_bytes) / 4u + word];
        scale_next[i] = scale_at(n, word * 8u);
    }
}

void place(uint side) {
    uint lane = gl_LocalInvocationID.x;
    uint threads = gl_WorkGroupSize.x;
    [[unroll]] for (uint i = 0u; i < A_LOADS; i++) {
        uint e = lane + i * threads;
        f16vec4 low = f16vec4(clamp(a_low[i], vec4(-65504.0), vec4(65504.0)));
        f16vec4 high = f16vec4(clamp(a_high[i], vec4(-65504.0), vec4(65504.0)));
        uint at = side * A_TILE + e / 4u * PITCH + e % 4u * 2u;
        a_tile[at] = f16vec4(low.x, high.x, low.y, high.y);
        a_tile[at + 1u] = f16vec4(low.z, high.z, low.w, high.w);
    }
    [[unroll]] for (uint i = 0u; i < B_LOADS; i++) {
        uint e = lane + i * threads;
        f16vec2 scale = f16vec2(float16_t(scale_next[i]));
        uint w = b_next[i];
        f16vec2 p0 = two_codes(w) * scale;
        f16vec2 p1 = two_codes(w >> 4) * scale;
        f16vec2 p2 = two_codes(w >> 8) * scale;
        f16vec2 p3 = two_codes(w >> 12) * scale;
        uint at = side * B_TILE + e / 4u * PITCH + e % 4u * 2u;
        b_tile[at] = f16vec4(p0, p1);
        b_tile[at + 1u] = f16vec4(p2, p3);
    }
}

void activate(inout Sums values) {
    for (uint i = 0u; i < values.length(); i++) values[i] = activated(ACTIVATION, values[i]);
}

// Stores rows m… and columns n… of all outputs together.
void store_matrix(Sums values, uint m, uint n) {
    if (n < width[0]) {
        coopMatStore(values, out0, m * width[0] + n, width[0], gl_CooperativeMatrixLayoutRowMajor);
    } else if (n - width[0] < width[1]) {
        n -= width[0];
        coopMatStore(values, out1, m * width[1] + n, width[1], gl_CooperativeMatrixLayoutRowMajor);
    } else {
        n -= width[0] + width[1];
        coopMatStore(values, out2, m * width[2] + n, width[2], gl_CooperativeMatrixLayoutRowMajor);
    }
}

void main() {
    uint tiles_n = (out_columns() + OUT_N - 1u) / OUT_N;
    uint first_row = (flat_group() / tiles_n) * TILE_M;
    uint first_column = (flat_group() % tiles_n) * OUT_N;
    if (first_row >= m_size) return;
    first_row = min(first_row, m_size - TILE_M);
    first_column = min(first_column, out_columns() - OUT_N);
    uint part_row = (gl_SubgroupID / (TILE_N / 64u)) * 32u;
    uint part_column = (gl_SubgroupID % (TILE_N / 64u)) * 64u;

    Sums sums[ROWS * COLUMNS];
    [[unroll]] for (uint i = 0u; i < ROWS * COLUMNS; i++) {
        sums[i] = Sums(0.0);
    }

    fetch(first_row, first_column, 0u);
    place(0u);
    barrier();
    uint side = 0u;
    for (uint k0 = 0u; k0 < k_size; k0 += STEP) {
        bool more = k0 + STEP < k_size;
        if (more) fetch(first_row, first_column, k0 + STEP);
        [[unroll]] for (uint k = 0u; k < STEP / 4u; k += 4u) {
            coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> a[ROWS];
            [[unroll]] for (uint i = 0u; i < ROWS; i++) {
                uint at = side * A_TILE + (part_row + i * 16u) * PITCH + k;
                coopMatLoad(a[i], a_tile, at, PITCH, gl_CooperativeMatrixLayoutRowMajor);
            }
            [[unroll]] for (uint j = 0u; j < COLUMNS; j++) {
                coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> b;
                uint at = side * B_TILE + (part_column + j * 16u) * PITCH + k;
                coopMatLoad(b, b_tile, at, PITCH, gl_CooperativeMatrixLayoutColumnMajor);
                [[unroll]] for (uint i = 0u; i < ROWS; i++) {
                    sums[i * COLUMNS + j] = coopMatMulAdd(a[i], b, sums[i * COLUMNS + j]);
                }
            }
        }
        side ^= 1u;
        if (more) place(side);
        barrier();
    }

    first_row += part_row;
    first_column += EPILOGUE == GATED ? part_column / 2u : part_column;
    [[unroll]] for (uint i = 0u; i < ROWS; i++) {
        [[unroll]] for (uint j = 0u; j < COLUMNS; j++) {
            if (EPILOGUE == GATED && j >= COLUMNS / 2u) continue;
            Sums product = sums[i * COLUMNS + j];
            uint m = first_row + i * 16u;
            uint n = first_column + j * 16u;
            if (EPILOGUE == GATED) {
                activate(product);
                product = product * sums[i * COLUMNS + j + COLUMNS / 2u];
            }
            if (EPILOGUE == ADD || EPILOGUE == MULTIPLY) {
                Sums other;
                uint at = operand_offset + m * operand_row + n;
                coopMatLoad(other, operand, at, operand_row, gl_CooperativeMatrixLayoutRowMajor);
                if (EPILOGUE == ADD) {
                    product = product + other;
                } else {
                    activate(product);
                    product = product * other;
                }
            }
            store_matrix(product, m, n);
        }
    }
}
