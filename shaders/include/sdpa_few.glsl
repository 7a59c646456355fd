// The main function of sdpa.comp for few queries (decoding), on devices with subgroups of eight or more: eight invocations
// take the product of one key with all rows, so that every key is read once and in whole lines, then the invocations
// spread over the elements of v. D is at most 512; D and the offsets and strides of q, k and v are multiples of 4; k and v
// are words; there are 256 invocations.

layout(std430, set = 0, binding = 0) readonly buffer Q4 { vec4 q4[]; };
layout(std430, set = 0, binding = 2) readonly buffer V4 { vec4 v4[]; };

const uint THREADS = 256u;
// Invocations that share a key, and keys that a workgroup takes at a time.
const uint LANES = 8u;
const uint KEYS = THREADS / LANES;
const uint QUADS = COLUMNS;
// Of v, an invocation has one quad of every TEAMS-th key.
const uint TEAMS = THREADS / QUADS;
// What an invocation reads of the keys of a step.
const uint K_LOADS = (QUADS + LANES - 1u) / LANES;
const uint V_LOADS = (KEYS + TEAMS - 1u) / TEAMS;

shared vec4 q_tile[ROWS * QUADS];
// By subgroup and row.
shared float parts[KEYS * ROWS];
// By key and row.
shared float weights[KEYS * ROWS];
shared float shrinks[ROWS];
shared vec4 sums[ROWS * THREADS];

// The keys of a step on their way; beyond the last key, that one again.
vec4 next_k[K_LOADS];
vec4 next_v[V_LOADS];

void fetch(Part part, uint c0) {
    uint thread = gl_LocalInvocationID.x;
    uint k_from = (part.k_at + min(c0 + thread / LANES, part.end - 1u) * k_c) / 4u;
    [[unroll]] for (uint n = 0u; n < K_LOADS; n++) {
        next_k[n] = k4[k_from + min(thread % LANES + n * LANES, QUADS - 1u)];
    }
    [[unroll]] for (uint n = 0u; n < V_LOADS; n++) {
        uint c = min(c0 + thread / QUADS + n * TEAMS, part.end - 1u);
        next_v[n] = v4[(part.v_at + c * v_c) / 4u + thread % QUADS];
    }
}

// The products of the rows with the invocation's key; afterwards lane i of the eight has that of row i, as far as there
// are rows.
float products(uint lane) {
    float product[ROWS];
    [[unroll]] for (uint i = 0u; i < ROWS; i++) product[i] = 0.0;
    [[unroll]] for (uint n = 0u; n < K_LOADS; n++) {
        uint quad = lane + n * LANES;
        if (quad < QUADS) {
            [[unroll]] for (uint i = 0u; i < ROWS; i++) product[i] += dot(q_tile[i * QUADS + quad], next_k[n]);
        }
    }
    float mine = 0.0;
    [[unroll]] for (uint i = 0u; i < ROWS; i++) {
        float value = product[i];
        value += subgroupShuffleXor(value, 1u);
        value += subgroupShuffleXor(value, 2u);
        value += subgroupShuffleXor(value, 4u);
        if (i == lane) mine = value;
    }
    return mine;
}

// Adds up what the teams have of each row and writes it. `weight` is that of the invocation's keys.
void write_sums(Part part, vec4 sum[ROWS], float row_max, float weight) {
    uint thread = gl_LocalInvocationID.x;
    uint lane = thread % LANES;
    for (uint distance = LANES; distance < gl_SubgroupSize; distance *= 2u) {
        weight += subgroupShuffleXor(weight, distance);
    }
    barrier();
    if (lane < ROWS) {
        if (gl_SubgroupInvocationID < LANES) parts[gl_SubgroupID * ROWS + lane] = weight;
        if (thread < ROWS) shrinks[lane] = row_max;
    }
    [[unroll]] for (uint i = 0u; i < ROWS; i++) sums[i * THREADS + thread] = sum[i];
    barrier();
    for (uint e = thread; e < ROWS * QUADS; e += THREADS) {
        uint i = e / QUADS;
        uint quad = e % QUADS;
        float total = 0.0;
        for (uint j = 0u; j < gl_NumSubgroups; j++) total += parts[j * ROWS + i];
        vec4 whole = sums[i * THREADS + quad];
        [[unroll]] for (uint j = 1u; j < TEAMS; j++) whole += sums[i * THREADS + j * QUADS + quad];
        if (part.shares > 1u) {
            uint to = scratch_at(part, part.split, i, QUADS);
            scratch[to + quad] = whole;
            if (quad == 0u) scratch[to + QUADS] = vec4(shrinks[i], total, 0.0, 0.0);
        } else if (part.first_row + i < part.rows) {
            whole *= total > 0.0 ? 1.0 / total : 0.0;
            uint to = result_at(part, part.first_row + i) + quad * 4u;
            for (uint j = 0u; j < 4u; j++) dst[to + j] = whole[j];
        }
    }
}

void main() {
    Part part;
    if (!find_part(KEYS, part)) return;
    uint thread = gl_LocalInvocationID.x;
    uint lane = thread % LANES;
    uint key = thread / LANES;
    if (part.begin < part.end) fetch(part, part.begin);
    for (uint e = thread; e < ROWS * QUADS; e += THREADS) {
        uint row = min(part.first_row + e / QUADS, part.rows - 1u);
        q_tile[e] = q4[query_at(part, row) / 4u + e % QUADS];
    }
    uint team = thread / QUADS;

    uint row = min(part.first_row + lane % ROWS, part.rows - 1u);
    float row_max = LOWEST;
    float weight = 0.0;
    vec4 sum[ROWS];
    [[unroll]] for (uint i = 0u; i < ROWS; i++) sum[i] = vec4(0.0);
    barrier();

    for (uint c0 = part.begin; c0 < part.end; c0 += KEYS) {
        uint c = c0 + key;
        float product = products(lane);
        float score = c < part.end && lane < ROWS ? score_of(part, row, c, product) : MINUS_INFINITY;
        float highest = score;
        for (uint distance = LANES; distance < gl_SubgroupSize; distance *= 2u) {
            highest = max(highest, subgroupShuffleXor(highest, distance));
        }
        if (gl_SubgroupInvocationID < LANES && lane < ROWS) parts[gl_SubgroupID * ROWS + lane] = highest;
        barrier();
        if (lane < ROWS) {
            float new_max = row_max;
            for (uint j = 0u; j < gl_NumSubgroups; j++) new_max = max(new_max, parts[j * ROWS + lane]);
            float shrink = exp32(row_max - new_max);
            float p = score < LOWEST ? 0.0 : exp32(score - new_max);
            row_max = new_max;
            weight = weight * shrink + p;
            weights[key * ROWS + lane] = p;
            if (key == 0u) shrinks[lane] = shrink;
        }
        barrier();
        [[unroll]] for (uint i = 0u; i < ROWS; i++) sum[i] *= shrinks[i];
        [[unroll]] for (uint n = 0u; n < V_LOADS; n++) {
            uint j = team + n * TEAMS;
            if (j < KEYS) {
                [[unroll]] for (uint i = 0u; i < ROWS; i++) sum[i] += weights[j * ROWS + i] * next_v[n];
            }
        }
        if (c0 + KEYS < part.end) fetch(part, c0 + KEYS);
        // `parts` is only written again after everyone has read it and passed the second barrier of this step.
    }

    write_sums(part, sum, row_max, weight);
    if (part.shares > 1u) join_shares(part, QUADS);
}
