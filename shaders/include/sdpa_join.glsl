// Joining the results of several workgroups that took a share of the keys each: every workgroup leaves its sums in the
// scratch buffer, and the last one that is done, as an atomic counter tells, adds them up. Include it after sdpa.glsl.

// Most results of a tile: shares · ROWS.
const uint MOST_RESULTS = 256u;

// [tiles, splits, ROWS, ⌈D / 4⌉ + 1]: Σ exp(score − max) · v of the share, then max and Σ exp(score − max).
layout(std430, set = 0, binding = 6) coherent buffer Scratch { vec4 scratch[]; };
// How many workgroups of each tile are done; zeros before and after.
layout(std430, set = 0, binding = 7) coherent buffer Counters { uint counters[]; };

// The maxima of the shares by share and row, later the factors that bring them to a common one; and their sums.
shared float share_max[MOST_RESULTS];
shared float share_sum[MOST_RESULTS];
shared float joint_max[ROWS];
shared bool last_to_finish;

// Where in scratch the results of row `i` of the tile start in share `share`.
uint scratch_at(Part part, uint share, uint i, uint quads) {
    return ((part.tile * splits + share) * ROWS + i) * (quads + 1u);
}

// Whether all other workgroups of the tile have left their results. Every invocation calls it after its last write.
// Scratch is coherent, so that what remains is order: all writes of a workgroup come before it counts itself, and the last
// one reads after it has counted all.
bool is_last(Part part) {
    memoryBarrierBuffer();
    barrier();
    if (gl_LocalInvocationID.x == 0u) {
        last_to_finish = atomicAdd(counters[part.tile], 1u) + 1u == part.shares;
        if (last_to_finish) counters[part.tile] = 0u;
        memoryBarrierBuffer();
    }
    barrier();
    return last_to_finish;
}

void join_shares(Part part, uint quads) {
    if (!is_last(part)) return;
    uint threads = gl_WorkGroupSize.x;
    uint thread = gl_LocalInvocationID.x;
    uint results = part.shares * ROWS;
    for (uint e = thread; e < results; e += threads) {
        vec4 parts = scratch[scratch_at(part, e / ROWS, e % ROWS, quads) + quads];
        share_max[e] = parts.x;
        share_sum[e] = parts.y;
    }
    barrier();
    if (thread < ROWS) {
        float highest = LOWEST;
        for (uint e = thread; e < results; e += ROWS) highest = max(highest, share_max[e]);
        joint_max[thread] = highest;
    }
    barrier();
    for (uint e = thread; e < results; e += threads) {
        float factor = exp32(share_max[e] - joint_max[e % ROWS]);
        share_max[e] = factor;
        share_sum[e] *= factor;
    }
    barrier();
    for (uint e = thread; e < ROWS * quads; e += threads) {
        uint i = e / quads;
        uint quad = e % quads;
        if (part.first_row + i >= part.rows) break;
        float total = 0.0;
        vec4 sum = vec4(0.0);
        uint at = scratch_at(part, 0u, i, quads) + quad;
        for (uint share = 0u; share < part.shares; share++) {
            total += share_sum[share * ROWS + i];
            sum += share_max[share * ROWS + i] * scratch[at];
            at += ROWS * (quads + 1u);
        }
        sum *= total > 0.0 ? 1.0 / total : 0.0;
        uint to = result_at(part, part.first_row + i) + quad * 4u;
        for (uint j = 0u; j < 4u; j++)
            if (quad * 4u + j < width) dst[to + j] = sum[j];
    }
}
