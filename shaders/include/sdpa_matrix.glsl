// The main function of sdpa.comp for many queries, on 16×16 cooperative matrices of halves with f32 sums: operands are
// rounded to halves, k and v are words, D is a multiple of 32 · COLUMNS, the offsets and strides of q, k, v and out are
// multiples of 4, there is no softcap, and the keys are not shared out. One subgroup of 32 has a block of 16 rows and a
// slice of D: its part of every product of q and k, which are added up on the way to the softmax, and its part of the
// result, which never leaves registers. Between two barriers either matrices are multiplied, while the next tiles of k and
// v are on their way into registers, or a softmax is taken and they are put into shared memory.

// D, and keys of a tile.
layout(constant_id = 6) const uint D = 64;
layout(constant_id = 7) const uint KEYS = 32;

layout(std430, set = 0, binding = 0) readonly buffer Q4 { vec4 q4[]; };
layout(std430, set = 0, binding = 2) readonly buffer V4 { vec4 v4[]; };
layout(std430, set = 0, binding = 4) writeonly buffer Out4 { vec4 dst4[]; };

const uint SLICES = COLUMNS;
const uint THREADS = 2u * ROWS * SLICES;
const uint QUADS = D / 4u;
// Quads of a slice, matrices along it, and along the keys.
const uint SLICE_QUADS = QUADS / SLICES;
const uint STEPS = SLICE_QUADS / 4u;
const uint KEY_QUADS = KEYS / 4u;
const uint KEY_STEPS = KEYS / 16u;
// Quads of a tile that an invocation fetches.
const uint LOADS = KEYS * QUADS / THREADS;
// Distances of rows in shared tiles, longer than rows so that these start in different banks.
const uint PITCH = QUADS + 2u;
const uint P_PITCH = KEY_QUADS + 2u;
const uint SCORE_PITCH = KEY_QUADS + 1u;
// Invocations that share a row of the softmax.
const uint TEAM = 2u * SLICES;
const float LOG2E = 1.4426950408889634;

// k, then v; first q.
shared f16vec4 kv_tile[2u * KEYS * PITCH];
// One part of the products for each slice; at the end a block of the result for each subgroup.
shared vec4 score_tile[SLICES * ROWS * SCORE_PITCH];
shared f16vec4 p_tile[ROWS * P_PITCH];
// A factor for each row, repeated as a row of a matrix.
shared vec4 factor_tile[ROWS * 4u];

#define ACCUMULATOR coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>
#define LEFT coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>
#define RIGHT coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB>

f16vec4 to_halves(vec4 value) { return clamp(f16vec4(value), f16vec4(-65504.0), f16vec4(65504.0)); }

// Quads on their way to a tile; beyond the last key, the last key once more.
vec4 next_k[LOADS];
vec4 next_v[LOADS];

void fetch_keys(Part part, uint c0) {
    [[unroll]] for (uint i = 0u; i < LOADS; i++) {
        uint e = gl_LocalInvocationID.x + i * THREADS;
        next_k[i] = k4[(part.k_at + min(c0 + e / QUADS, part.end - 1u) * k_c) / 4u + e % QUADS];
    }
}

void fetch_values(Part part, uint c0) {
    [[unroll]] for (uint i = 0u; i < LOADS; i++) {
        uint e = gl_LocalInvocationID.x + i * THREADS;
        next_v[i] = v4[(part.v_at + min(c0 + e / QUADS, part.end - 1u) * v_c) / 4u + e % QUADS];
    }
}

void put_keys() {
    [[unroll]] for (uint i = 0u; i < LOADS; i++) {
        uint e = gl_LocalInvocationID.x + i * THREADS;
        kv_tile[e / QUADS * PITCH + e % QUADS] = to_halves(next_k[i]);
    }
}

void put_values() {
    [[unroll]] for (uint i = 0u; i < LOADS; i++) {
        uint e = gl_LocalInvocationID.x + i * THREADS;
        kv_tile[(KEYS + e / QUADS) * PITCH + e % QUADS] = to_halves(next_v[i]);
    }
}

// The row of the softmax that an invocation shares with its team.
struct Row {
    uint mask_at;
    // Keys first … last are open to this row, all_first … all_last to every row of the tile.
    uint first;
    uint last;
    uint all_first;
    uint all_last;
    float highest;
    // Of the invocation's own keys.
    float weight;
};

Row find_row(Part part) {
    uint row = min(part.first_row + gl_LocalInvocationID.x / TEAM, part.rows - 1u);
    uint s = row / queries_per_key_head;
    Row found;
    found.mask_at = part.mask_at + row % queries_per_key_head * mask_head + s * mask_s;
    found.first = 0u;
    found.last = part.end - 1u;
    found.all_first = 0u;
    found.all_last = part.end - 1u;
    if (CAUSAL) {
        uint position = part.start + s;
        found.last = min(found.last, position);
        if (position >= window) found.first = position + 1u - window;
        found.all_last = min(found.all_last, part.start + part.first_row / queries_per_key_head);
        uint last = part.start + (min(part.first_row + ROWS, part.rows) - 1u) / queries_per_key_head;
        if (last >= window) found.all_first = last + 1u - window;
    }
    found.highest = LOWEST;
    found.weight = 0.0;
    return found;
}

void put_factor(uint i, uint member, float factor) {
    for (uint j = member; j < 4u; j += TEAM) factor_tile[i * 4u + j] = vec4(factor);
}

// Softmax of the tile of keys from `c0`: weights to p_tile, and what becomes of earlier sums to factor_tile.
void take_softmax(inout Row row, uint c0) {
    const uint OWN = (KEY_QUADS + TEAM - 1u) / TEAM;
    uint i = gl_LocalInvocationID.x / TEAM;
    uint member = gl_LocalInvocationID.x % TEAM;
    bool all_open = !HAS_MASK && c0 >= row.all_first && c0 + KEYS - 1u <= row.all_last;
    vec4 scores[OWN];
    float highest = row.highest;
    [[unroll]] for (uint j = 0u; j < OWN; j++) {
        uint quad = member + j * TEAM;
        vec4 score = vec4(MINUS_INFINITY);
        if (quad < KEY_QUADS) {
            score = score_tile[i * SCORE_PITCH + quad];
            [[unroll]] for (uint slice = 1u; slice < SLICES; slice++) {
                score += score_tile[(slice * ROWS + i) * SCORE_PITCH + quad];
            }
            score *= scale * LOG2E;
            if (!all_open) {
                [[unroll]] for (uint n = 0u; n < 4u; n++) {
                    uint c = c0 + quad * 4u + n;
                    bool open = c >= row.first && c <= row.last;
                    if (HAS_MASK && open) score[n] += mask[row.mask_at + c * mask_c] * LOG2E;
                    if (!open) score[n] = MINUS_INFINITY;
                }
            }
            highest = max(highest, max(max(score.x, score.y), max(score.z, score.w)));
        }
        scores[j] = score;
    }
    [[unroll]] for (uint distance = 1u; distance < TEAM; distance *= 2u) {
        highest = max(highest, subgroupShuffleXor(highest, distance));
    }
    float factor = exp2(row.highest - highest);
    row.highest = highest;
    row.weight *= factor;
    [[unroll]] for (uint j = 0u; j < OWN; j++) {
        uint quad = member + j * TEAM;
        if (quad < KEY_QUADS) {
            f16vec4 halves = f16vec4(exp2(scores[j] - highest));
            if (!all_open) halves = mix(halves, f16vec4(0.0), lessThan(scores[j], vec4(LOWEST)));
            p_tile[i * P_PITCH + quad] = halves;
            row.weight += dot(vec4(halves), vec4(1.0));
        }
    }
    put_factor(i, member, factor);
}

void main() {
    Part part;
    if (!find_part(KEYS, part)) return;
    uint thread = gl_LocalInvocationID.x;
    uint block = gl_SubgroupID / SLICES * 16u;
    uint slice = gl_SubgroupID % SLICES;
    uint slice_at = slice * SLICE_QUADS;
    uint score_at = (slice * ROWS + block) * SCORE_PITCH;

    LEFT queries[STEPS];
    for (uint first = 0u; first < ROWS; first += 2u * KEYS) {
        uint count = min(2u * KEYS, ROWS - first) * QUADS;
        for (uint e = thread; e < count; e += THREADS) {
            uint row = min(part.first_row + first + e / QUADS, part.rows - 1u);
            kv_tile[e / QUADS * PITCH + e % QUADS] = to_halves(q4[query_at(part, row) / 4u + e % QUADS]);
        }
        barrier();
        if (block >= first && block < first + 2u * KEYS) {
            uint at = (block - first) * PITCH + slice_at;
            [[unroll]] for (uint i = 0u; i < STEPS; i++) {
                coopMatLoad(queries[i], kv_tile, at + i * 4u, PITCH, gl_CooperativeMatrixLayoutRowMajor);
            }
        }
        barrier();
    }

    ACCUMULATOR sums[STEPS];
    [[unroll]] for (uint i = 0u; i < STEPS; i++) sums[i] = ACCUMULATOR(0.0);
    Row row = find_row(part);
    if (part.begin < part.end) {
        fetch_keys(part, part.begin);
        put_keys();
    }
    barrier();

    // Each turn multiplies the weights of one tile with v, but for the first, and the queries with the next tile of k.
    uint c0 = part.begin;
    bool first = true;
    while (true) {
        bool more = c0 + KEYS < part.end;
        if (c0 < part.end) fetch_values(part, c0);
        if (more) fetch_keys(part, c0 + KEYS);
        if (!first) {
            ACCUMULATOR factors;
            coopMatLoad(factors, factor_tile, block * 4u, 4u, gl_CooperativeMatrixLayoutRowMajor);
            LEFT weights[KEY_STEPS];
            [[unroll]] for (uint k = 0u; k < KEY_STEPS; k++) {
                coopMatLoad(weights[k], p_tile, block * P_PITCH + k * 4u, P_PITCH, gl_CooperativeMatrixLayoutRowMajor);
            }
            [[unroll]] for (uint i = 0u; i < STEPS; i++) {
                sums[i] = sums[i] * factors;
                [[unroll]] for (uint k = 0u; k < KEY_STEPS; k++) {
                    RIGHT values;
                    uint at = (KEYS + k * 16u) * PITCH + slice_at + i * 4u;
                    coopMatLoad(values, kv_tile, at, PITCH, gl_CooperativeMatrixLayoutRowMajor);
                    sums[i] = coopMatMulAdd(weights[k], values, sums[i]);
                }
            }
        }
        if (c0 >= part.end) break;
        ACCUMULATOR scores[KEY_STEPS];
        [[unroll]] for (uint k = 0u; k < KEY_STEPS; k++) scores[k] = ACCUMULATOR(0.0);
        [[unroll]] for (uint i = 0u; i < STEPS; i++) {
            [[unroll]] for (uint k = 0u; k < KEY_STEPS; k++) {
                RIGHT keys;
                uint at = k * 16u * PITCH + slice_at + i * 4u;
                coopMatLoad(keys, kv_tile, at, PITCH, gl_CooperativeMatrixLayoutColumnMajor);
                scores[k] = coopMatMulAdd(queries[i], keys, scores[k]);
            }
        }
        [[unroll]] for (uint k = 0u; k < KEY_STEPS; k++) {
            coopMatStore(scores[k], score_tile, score_at + k * 4u, SCORE_PITCH, gl_CooperativeMatrixLayoutRowMajor);
        }
        barrier();
        put_values();
        if (more) put_keys();
        take_softmax(row, c0);
        barrier();
        c0 += KEYS;
        first = false;
    }

    [[unroll]] for (uint distance = 1u; distance < TEAM; distance *= 2u) {
        row.weight += subgroupShuffleXor(row.weight, distance);
    }
    float factor = row.weight > 0.0 ? 1.0 / row.weight : 0.0;
    barrier();
    put_factor(thread / TEAM, thread % TEAM, factor);
    barrier();
    ACCUMULATOR factors;
    coopMatLoad(factors, factor_tile, block * 4u, 4u, gl_CooperativeMatrixLayoutRowMajor);
    [[unroll]] for (uint i = 0u; i < STEPS; i += KEY_STEPS) {
        [[unroll]] for (uint k = 0u; k < KEY_STEPS; k++) {
            ACCUMULATOR result = sums[i + k] * factors;
            coopMatStore(result, score_tile, score_at + k * 4u, SCORE_PITCH, gl_CooperativeMatrixLayoutRowMajor);
        }
        barrier();
        for (uint e = gl_SubgroupInvocationID; e < 16u * KEY_QUADS; e += 32u) {
            uint to_row = part.first_row + block + e / KEY_QUADS;
            if (to_row < part.rows) {
                uint to = result_at(part, to_row) / 4u + slice_at + i * 4u + e % KEY_QUADS;
                dst4[to] = score_tile[score_at + e / KEY_QUADS * SCORE_PITCH + e % KEY_QUADS];
            }
        }
        barrier();
    }
}
