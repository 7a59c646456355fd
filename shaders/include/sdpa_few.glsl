// The main function of sdpa.comp for few queries (decoding), on devices with subgroups of eight or more: eight invocations
// take the product of one key with all rows, so that every key is read once and in whole lines, then the invocations
// spread over the elements of v. D is at most 512; D and the offsets and strides of q, k and v are multiples of 4; k and v
// are words; there are 128 invocations.

layout(std430, set = 0, binding = 0) readonly buffer Q4 { vec4 q4[]; };
layout(std430, set = 0, binding = 2) readonly buffer V4 { vec4 v4[]; };

const uint THREADS = 128u;
// Invocations that share a key, and keys that a workgroup takes at a time.
const uint LANES = 8u;
const uint KEYS = THREADS / LANES;

shared vec4 q_tile[ROWS * 128u];
shared float scores[LANES * KEYS];
shared float weights[LANES * KEYS];
shared float shrinks[LANES];
shared vec4 sums[THREADS];

// The products of the rows with key `c`; afterwards lane i of the eight has that of row i.
float products(Part part, uint c, uint lane, uint quads) {
    float product[ROWS];
    for (uint i = 0u; i < ROWS; i++) product[i] = 0.0;
    if (c < part.end) {
        uint at = (part.k_at + c * k_c) / 4u;
        for (uint quad = lane; quad < quads; quad += LANES) {
            vec4 key = k4[at + quad];
            for (uint i = 0u; i < ROWS; i++) product[i] += dot(q_tile[i * quads + quad], key);
        }
    }
    float mine = 0.0;
    for (uint i = 0u; i < ROWS; i++) {
        float value = product[i];
        value += subgroupShuffleXor(value, 1u);
        value += subgroupShuffleXor(value, 2u);
        value += subgroupShuffleXor(value, 4u);
        if (i == lane) mine = value;
    }
    return mine;
}

void main() {
    Part part;
    if (!find_part(KEYS, part)) return;
    uint thread = gl_LocalInvocationID.x;
    uint lane = thread % LANES;
    uint key = thread / LANES;
    uint quads = width / 4u;
    for (uint e = thread; e < ROWS * quads; e += THREADS) {
        uint row = min(part.first_row + e / quads, part.rows - 1u);
        q_tile[e] = q4[query_at(part, row) / 4u + e % quads];
    }
    // Of v, an invocation has one quad of every `teams`-th key.
    uint teams = THREADS / quads;
    uint team = thread / quads;
    uint quad = thread % quads;

    uint row = min(part.first_row + lane, part.rows - 1u);
    float row_max = LOWEST;
    float weight = 0.0;
    vec4 sum[ROWS];
    for (uint i = 0u; i < ROWS; i++) sum[i] = vec4(0.0);
    barrier();

    for (uint c0 = part.begin; c0 < part.end; c0 += KEYS) {
        uint c = c0 + key;
        float product = products(part, c, lane, quads);
        float score = c < part.end ? score_of(part, row, c, product) : MINUS_INFINITY;
        scores[lane * KEYS + key] = score;
        barrier();
        float new_max = row_max;
        for (uint i = 0u; i < KEYS; i++) new_max = max(new_max, scores[lane * KEYS + i]);
        float shrink = exp32(row_max - new_max);
        float p = score < LOWEST ? 0.0 : exp32(score - new_max);
        row_max = new_max;
        weight = weight * shrink + p;
        weights[lane * KEYS + key] = p;
        if (key == 0u) shrinks[lane] = shrink;
        barrier();
        for (uint i = 0u; i < ROWS; i++) sum[i] *= shrinks[i];
        if (team < teams) {
            uint keys = min(KEYS, part.end - c0);
            for (uint j = team; j < keys; j += teams) {
                vec4 value = v4[(part.v_at + (c0 + j) * v_c) / 4u + quad];
                for (uint i = 0u; i < ROWS; i++) sum[i] += weights[i * KEYS + j] * value;
            }
        }
        // `scores` is only written again after everyone has read `weights` and `shrinks` of this step.
    }

    barrier();
    weights[lane * KEYS + key] = weight;
    for (uint i = 0u; i < ROWS; i++) {
        sums[thread] = sum[i];
        barrier();
        uint to_row = part.first_row + i;
        float total = 0.0;
        for (uint j = 0u; j < KEYS; j++) total += weights[i * KEYS + j];
        if (to_row < part.rows) {
            uint to = result_at(part, to_row);
            if (team == 0u) {
                vec4 whole = sums[quad];
                for (uint j = 1u; j < teams; j++) whole += sums[j * quads + quad];
                if (!SPLIT) whole *= total > 0.0 ? 1.0 / total : 0.0;
                for (uint j = 0u; j < 4u; j++) dst[to + quad * 4u + j] = whole[j];
            }
            if (SPLIT && lane == i && key == 0u) {
                dst[to + width] = row_max;
                dst[to + width + 1u] = total;
            }
        }
        barrier();
    }
}
