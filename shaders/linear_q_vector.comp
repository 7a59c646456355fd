// linear_q_vector: the product of linear_q.comp for one row of x, Q4_LOW codes and aligned operands, with what may come
// before it:
//   h = clamp(base + b, branch_low, branch_high) · branch_scale                       with a branch, else h = x
//   b = x · r · branch_weight, r = 1/√(Σx²/K + branch_eps)                            with a normalised branch, else x
//   product of h · r · norm_weight, r = 1/√(Σh²/K + norm_eps)                         with a norm, else of h
//
// Bindings, epilogues: include/linear_q.glsl.
// A workgroup is TEAMS teams of LANES invocations. A team makes QUADS · 4 columns, and its lanes share out K, 16 codes at
// a time, STEPS of them a round. The first codes and scales are fetched before x is touched, so that both are waited for
// together; later ones hide behind other workgroups, for which few registers leave room. x goes through shared memory, whole if it fits and
// part by part if not. Workgroups go on to the next tile of columns while there are any. Sums of lanes are added by
// subgroups of any size that divides LANES (tier middle) or one by one (tier plain).
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#ifdef SUBGROUP
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif

layout(local_size_x_id = 0) in;
layout(constant_id = 7) const uint QUADS = 1;
layout(constant_id = 8) const uint LANES = 32;
// Sixteens of codes that a lane takes in a round.
layout(constant_id = 11) const uint STEPS = 1;
// Rounds whose x is in shared memory together.
layout(constant_id = 12) const uint ROUNDS = 1;
// What comes before the product: bits below.
layout(constant_id = 13) const uint PROLOGUE = 0;
const uint BRANCH = 1u;
const uint BRANCH_WEIGHT = 2u;
const uint BRANCH_SCALE = 4u;
const uint NORM = 8u;
const uint NORM_WEIGHT = 16u;
const uint BRANCH_NORM = 32u;

#include "include/linear_q.glsl"
#include "include/flat.glsl"

layout(std430, set = 0, binding = 1) readonly buffer Weight2 { uvec2 weight2[]; };
layout(std430, set = 0, binding = 2) readonly buffer Scales2 { uvec2 scales2[]; };
layout(std430, set = 0, binding = 2) readonly buffer Scales4 { uvec4 scales4[]; };
layout(std430, set = 0, binding = 5) readonly buffer Base { vec4 base4[]; };
layout(std430, set = 0, binding = 6) readonly buffer BranchWeight { vec4 branch_weight4[]; };
layout(std430, set = 0, binding = 7) readonly buffer BranchScale { float branch_scale[]; };
layout(std430, set = 0, binding = 8) readonly buffer NormWeight { vec4 norm_weight4[]; };
layout(std430, set = 0, binding = 12) writeonly buffer H { vec4 h4[]; };

const uint THREADS = gl_WorkGroupSize.x;
const uint TEAMS = THREADS / LANES;
const uint COLUMNS = QUADS * 4u;
// Stored columns of a team: with gates, even quads are gates and odd ones what they open.
const uint OUT_N = EPILOGUE == GATED ? COLUMNS / 2u : COLUMNS;
// vec4 of x in shared memory, and how many of them an invocation brings.
const uint CHUNK = LANES * STEPS * ROUNDS * 4u;
const uint BRINGS = (CHUNK + THREADS - 1u) / THREADS;
#ifdef SUBGROUP
// Subgroups have at least four invocations.
const uint PARTS = THREADS / 4u;
#else
const uint PARTS = THREADS;
#endif

shared vec4 staged[CHUNK];
shared float squares[PARTS];
shared float partial[PARTS * COLUMNS];

uint lane;
uint team;
// What was fetched last.
uvec2 codes[STEPS * COLUMNS];
uvec4 factors[STEPS * QUADS];
float sums[COLUMNS];

// Neighbouring lanes read 64 bytes apart: this order spreads them over the banks.
uint slot(uint i) { return i ^ ((i >> 3) & 3u); }

// First weight row of quad `q` of the team's part of `tile`, the last whole quad's where there is none.
uint quad_row(uint tile, uint q) {
    uint n = (tile * TEAMS + team) * OUT_N;
    uint last = (out_columns() - 1u) & ~3u;
    if (EPILOGUE == GATED) return min(n + q / 2u * 4u, last) + q % 2u * width[0];
    return min(n + q * 4u, last);
}

void fetch(uint tile, uint round) {
    uint units = k_size / 16u;
    [[unroll]] for (uint s = 0u; s < STEPS; s++) {
        uint unit = min((round * STEPS + s) * LANES + lane, units - 1u);
        uint group = GROUP == 0u ? 0u : unit * 16u / max(GROUP, 1u);
        [[unroll]] for (uint q = 0u; q < QUADS; q++) {
            uint n = quad_row(tile, q);
            [[unroll]] for (uint c = 0u; c < 4u; c++) {
                uint row = min(n + c, n_size - 1u);
                codes[(s * QUADS + q) * 4u + c] = weight2[(weight_offset + row * row_bytes) / 8u + unit];
            }
            uint at = (group * scale_row + n) / 4u;
            if (SCALE_STORAGE == HALF) {
                factors[s * QUADS + q].xy = scales2[at];
            } else {
                factors[s * QUADS + q] = scales4[at];
            }
        }
    }
}

vec4 four_factors(uvec4 raw) {
    if (SCALE_STORAGE == HALF) return vec4(unpackHalf2x16(raw.x), unpackHalf2x16(raw.y));
    return uintBitsToFloat(raw);
}

// Codes are made floats where they lie in their words: those of bits 4p … 4p + 3 by putting them into the low mantissa
// of 2^23, which gives 2^23 + 16^p · code. So x is staged with the factor 16^-p.
const vec4 FACTORS_LOW = vec4(1.0, 0.0625, 0.00390625, 0.000244140625);
const vec4 FACTORS_HIGH = vec4(0.0000152587890625, 0.00390625, 0.000244140625, 0.0000152587890625);
const uint MAGIC = 0x4B000000u;

vec4 low_codes(uint w) {
    return uintBitsToFloat((uvec4(w) & uvec4(0xFu, 0xF0u, 0xF00u, 0xF000u)) | MAGIC) -
           vec4(8388616.0, 8388736.0, 8390656.0, 8421376.0);
}

vec4 high_codes(uint w) {
    uvec4 bits = uvec4(w, w >> 12, w >> 12, w >> 12) & uvec4(0xF0000u, 0xF00u, 0xF000u, 0xF0000u);
    return uintBitsToFloat(bits | MAGIC) - vec4(8912896.0, 8390656.0, 8421376.0, 8912896.0);
}

float dot_codes(uint w, vec4 low, vec4 high) {
    vec4 a = low_codes(w);
    vec4 b = high_codes(w);
    return dot(a, low) + dot(b, high);
}

void put_squares(vec4 sums) {
    float sum = sums.x + sums.y + sums.z + sums.w;
#ifdef SUBGROUP
    sum = subgroupAdd(sum);
    if (subgroupElect()) squares[gl_SubgroupID] = sum;
#else
    squares[gl_LocalInvocationID.x] = sum;
#endif
}

// What all invocations put, once they have passed a barrier.
float mean_square() {
#ifdef SUBGROUP
    uint parts = gl_NumSubgroups;
#else
    uint parts = THREADS;
#endif
    float sum = 0.0;
    for (uint part = 0u; part < parts; part++) sum += squares[part];
    return sum / float(k_size);
}

// Brings a chunk of x, or of what the prologue makes of it, to shared memory.
void stage(uint chunk) {
    uint me = gl_LocalInvocationID.x;
    vec4 values[BRINGS];
    vec4 weights[BRINGS];
    vec4 bases[BRINGS];
    vec4 norms[BRINGS];
    [[unroll]] for (uint i = 0u; i < BRINGS; i++) {
        uint at = chunk * CHUNK + me + i * THREADS;
        values[i] = vec4(0.0);
        weights[i] = vec4(1.0);
        bases[i] = vec4(0.0);
        norms[i] = vec4(1.0);
        if (at < k_size / 4u) {
            values[i] = x4[x_offset / 4u + at];
            if ((PROLOGUE & BRANCH) != 0u) bases[i] = base4[at];
            if ((PROLOGUE & BRANCH_WEIGHT) != 0u) weights[i] = branch_weight4[at];
            if ((PROLOGUE & NORM_WEIGHT) != 0u) norms[i] = norm_weight4[at];
        }
    }
    if ((PROLOGUE & BRANCH) != 0u) {
        float factor = (PROLOGUE & BRANCH_SCALE) != 0u ? branch_scale[0] : 1.0;
        float r = 1.0;
        if ((PROLOGUE & BRANCH_NORM) != 0u) {
            vec4 sums = vec4(0.0);
            [[unroll]] for (uint i = 0u; i < BRINGS; i++) sums += values[i] * values[i];
            put_squares(sums);
            barrier();
            r = rsqrt32(mean_square() + branch_eps);
            barrier();
        }
        [[unroll]] for (uint i = 0u; i < BRINGS; i++) {
            uint at = me + i * THREADS;
            vec4 sum = bases[i] + values[i] * r * weights[i];
            for (uint j = 0u; j < 4u; j++) sum[j] = clamp_float(sum[j], branch_low, branch_high);
            values[i] = sum * factor;
            if (flat_group() == 0u && at < k_size / 4u) h4[at] = values[i];
        }
    }
    if ((PROLOGUE & NORM) != 0u) {
        vec4 sums = vec4(0.0);
        [[unroll]] for (uint i = 0u; i < BRINGS; i++) {
            sums += values[i] * values[i];
            values[i] *= norms[i];
        }
        put_squares(sums);
    }
    [[unroll]] for (uint i = 0u; i < BRINGS; i++) {
        uint at = me + i * THREADS;
        if (CHUNK % THREADS == 0u || at < CHUNK) {
            staged[slot(at)] = values[i] * (at % 2u == 0u ? FACTORS_LOW : FACTORS_HIGH);
        }
    }
}

// Adds the products of a round, number `round` of those in shared memory.
void multiply(uint round) {
    [[unroll]] for (uint s = 0u; s < STEPS; s++) {
        uint at = ((round * STEPS + s) * LANES + lane) * 4u;
        vec4 a = staged[slot(at)];
        vec4 b = staged[slot(at + 1u)];
        vec4 c = staged[slot(at + 2u)];
        vec4 d = staged[slot(at + 3u)];
        [[unroll]] for (uint q = 0u; q < QUADS; q++) {
            vec4 factor = four_factors(factors[s * QUADS + q]);
            [[unroll]] for (uint i = 0u; i < 4u; i++) {
                uvec2 w = codes[(s * QUADS + q) * 4u + i];
                sums[q * 4u + i] += factor[i] * (dot_codes(w.x, a, b) + dot_codes(w.y, c, d));
            }
        }
    }
}

// Where in `sums` the product of stored column `c` is; the one it opens lies four further.
uint place(uint c) { return EPILOGUE == GATED ? c / 4u * 8u + c % 4u : c; }

void finish(uint n, float r, float product, float opened) {
    if (n >= out_columns()) return;
    if (EPILOGUE == GATED) {
        store_gated(0u, n, product * r, opened * r);
    } else {
        store(0u, n, product * r);
    }
}

void reduce(uint tile, float r) {
#ifdef SUBGROUP
    if (gl_SubgroupSize == LANES) {
        float product = 0.0;
        float opened = 0.0;
        [[unroll]] for (uint c = 0u; c < OUT_N; c++) {
            float total = subgroupAdd(sums[place(c)]);
            if (lane == c) product = total;
            if (EPILOGUE == GATED) {
                total = subgroupAdd(sums[place(c) + 4u]);
                if (lane == c) opened = total;
            }
        }
        if (lane < OUT_N) finish((tile * TEAMS + team) * OUT_N + lane, r, product, opened);
        return;
    }
    uint parts = LANES / gl_SubgroupSize;
    [[unroll]] for (uint c = 0u; c < COLUMNS; c++) {
        float total = subgroupAdd(sums[c]);
        if (subgroupElect()) partial[gl_SubgroupID * COLUMNS + c] = total;
    }
#else
    uint parts = LANES;
    [[unroll]] for (uint c = 0u; c < COLUMNS; c++) partial[gl_LocalInvocationID.x * COLUMNS + c] = sums[c];
#endif
    barrier();
    for (uint o = gl_LocalInvocationID.x; o < TEAMS * OUT_N; o += THREADS) {
        uint at = o / OUT_N * parts * COLUMNS + place(o % OUT_N);
        float product = 0.0;
        float opened = 0.0;
        for (uint part = 0u; part < parts; part++) {
            product += partial[at + part * COLUMNS];
            if (EPILOGUE == GATED) opened += partial[at + part * COLUMNS + 4u];
        }
        finish(tile * TEAMS * OUT_N + o, r, product, opened);
    }
    barrier();
}

void main() {
#ifdef SUBGROUP
    uint me = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
#else
    uint me = gl_LocalInvocationID.x;
#endif
    lane = me % LANES;
    team = me / LANES;
    uint rounds = (k_size / 16u + LANES * STEPS - 1u) / (LANES * STEPS);
    uint tiles = (out_columns() + TEAMS * OUT_N - 1u) / (TEAMS * OUT_N);
    uint groups = gl_NumWorkGroups.x * gl_NumWorkGroups.y;
    uint first = flat_group();
    if (first >= tiles) return;

    float r = 1.0;
    fetch(first, 0u);
    for (uint tile = first; tile < tiles; tile += groups) {
        [[unroll]] for (uint c = 0u; c < COLUMNS; c++) sums[c] = 0.0;
        for (uint round = 0u; round < rounds; round++) {
            if (round % ROUNDS == 0u && (tile == first || rounds > ROUNDS)) {
                // What is there may still be read.
                if (rounds > ROUNDS) barrier();
                stage(round / ROUNDS);
                barrier();
                if ((PROLOGUE & NORM) != 0u) r = rsqrt32(mean_square() + norm_eps);
            }
            multiply(round % ROUNDS);
            if (round + 1u < rounds) {
                fetch(tile, round + 1u);
            } else if (tile + groups < tiles) {
                fetch(tile + groups, 0u);
            }
        }
        reduce(tile, r);
    }
}
