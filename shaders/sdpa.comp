// sdpa: out[b, h, s] = Σ_c p[c] · v[b, h / G, c], p = softmax over c of the scores of query (b, h, s), where
// score[c] = scale · q[b, h, s] · k[b, h / G, c] (+ mask[b, h, s, c]), then cap · tanh(score / cap) with SOFTCAP, then, with
// CAUSAL, −∞ for c > start + s and c ≤ start + s − window. Keys c < context: context_len, or with CACHED start + S
// (context_len at most). A row that sees no key, or only −∞, gives zeros.
//
// Binding 0  q         f32 [B, H, S, D], strided, the last dimension contiguous (as in k and v)
// Binding 1  k         words or halves [B, Hkv, C, D], strided
// Binding 2  v         words or halves [B, Hkv, C, D], strided
// Binding 3  mask      f32 [B, H, S, C], strided (0 where broadcast); any buffer without HAS_MASK
// Binding 4  out       f32 [B, H, S, D], strided
// Binding 5  dyn       int words of the executor
// Binding 6  scratch   results of shares of the keys (sdpa_join.glsl)
// Binding 7  counters  zeros before and after, one a tile
// A workgroup streams over the keys, one an invocation at a time, with a running maximum and sum. Tiers: plain; middle
// has another main function for few queries (sdpa_few.glsl), full one for many (sdpa_matrix.glsl).
#version 450
#extension GL_GOOGLE_include_directive : require
#ifdef FEW
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#ifdef MATRIX
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif

// KEYS invocations, a multiple of 8 and at least 8 · ROWS, at most 128.
layout(local_size_x_id = 0) in;
// At most 8; on matrices a multiple of 16.
layout(constant_id = 1) const uint ROWS = 8;
// Elements of an output row that an invocation makes: ⌈D / KEYS⌉. For few queries, D / 4; on
// matrices, the slices of D.
layout(constant_id = 2) const uint COLUMNS = 1;
#include "include/sdpa.glsl"

#ifdef MATRIX
#include "include/sdpa_matrix.glsl"
#else
#include "include/sdpa_join.glsl"

#ifdef FEW
#include "include/sdpa_few.glsl"
#else

const uint KEYS = gl_WorkGroupSize.x;
// Partial results of one row in a reduction over the workgroup.
const uint PARTS = 8u;

shared vec4 q_tile[512];
shared float scores[ROWS * KEYS];
shared float parts[ROWS * PARTS];

vec4 load_k(uint at, uint d) {
    uint i = at + d;
    if (VEC4) {
        if (K_STORAGE == HALF) {
            uvec2 pairs = k2[i / 4u];
            return vec4(unpackHalf2x16(pairs.x), unpackHalf2x16(pairs.y));
        }
        return k4[i / 4u];
    }
    vec4 value = vec4(0.0);
    value.x = LOAD(k, K_STORAGE, i);
    if (d + 1u < width) value.y = LOAD(k, K_STORAGE, i + 1u);
    if (d + 2u < width) value.z = LOAD(k, K_STORAGE, i + 2u);
    if (d + 3u < width) value.w = LOAD(k, K_STORAGE, i + 3u);
    return value;
}

void load_queries(Part part, uint quads) {
    for (uint e = gl_LocalInvocationID.x; e < ROWS * quads; e += KEYS) {
        uint row = part.first_row + e / quads;
        uint d = (e % quads) * 4u;
        vec4 value = vec4(0.0);
        if (row < part.rows) {
            uint i = query_at(part, row) + d;
            for (uint j = 0u; j < 4u; j++)
                if (d + j < width) value[j] = q[i + j];
        }
        q_tile[e] = value;
    }
}

// The scores of the workgroup's queries with key `c`.
void score_key(Part part, uint c, uint quads, out float score[ROWS]) {
    for (uint i = 0u; i < ROWS; i++) score[i] = 0.0;
    for (uint quad = 0u; quad < quads; quad++) {
        vec4 key = load_k(part.k_at + c * k_c, quad * 4u);
        for (uint i = 0u; i < ROWS; i++) score[i] += dot(q_tile[i * quads + quad], key);
    }
    for (uint i = 0u; i < ROWS; i++) score[i] = score_of(part, min(part.first_row + i, part.rows - 1u), c, score[i]);
}

// Folds what each invocation left in `scores` into PARTS values a row; call between barriers.
void reduce_parts(bool maximum) {
    uint lane = gl_LocalInvocationID.x;
    if (lane < ROWS * PARTS) {
        uint row = lane / PARTS;
        float value = maximum ? LOWEST : 0.0;
        for (uint c = lane % PARTS; c < KEYS; c += PARTS) {
            float other = scores[row * KEYS + c];
            value = maximum ? max(value, other) : value + other;
        }
        parts[lane] = value;
    }
}

void main() {
    uint lane = gl_LocalInvocationID.x;
    Part part;
    if (!find_part(KEYS, part)) return;
    uint quads = (width + 3u) / 4u;
    load_queries(part, quads);

    float sum[ROWS * COLUMNS];
    for (uint e = 0u; e < ROWS * COLUMNS; e++) sum[e] = 0.0;
    float row_max[ROWS];
    // Sum over this invocation's keys; the workgroup's are added up at the end.
    float weight[ROWS];
    for (uint i = 0u; i < ROWS; i++) {
        row_max[i] = LOWEST;
        weight[i] = 0.0;
    }
    barrier();

    for (uint c0 = part.begin; c0 < part.end; c0 += KEYS) {
        uint c = c0 + lane;
        float score[ROWS];
        for (uint i = 0u; i < ROWS; i++) score[i] = MINUS_INFINITY;
        if (c < part.end) score_key(part, c, quads, score);
        for (uint i = 0u; i < ROWS; i++) scores[i * KEYS + lane] = score[i];
        barrier();
        reduce_parts(true);
        barrier();
        for (uint i = 0u; i < ROWS; i++) {
            float new_max = row_max[i];
            for (uint p = 0u; p < PARTS; p++) new_max = max(new_max, parts[i * PARTS + p]);
            float shrink = exp32(row_max[i] - new_max);
            float p = score[i] < LOWEST ? 0.0 : exp32(score[i] - new_max);
            row_max[i] = new_max;
            weight[i] = weight[i] * shrink + p;
            for (uint j = 0u; j < COLUMNS; j++) sum[i * COLUMNS + j] *= shrink;
            scores[i * KEYS + lane] = p;
        }
        barrier();
        uint keys = min(KEYS, part.end - c0);
        for (uint j = 0u; j < COLUMNS; j++) {
            uint d = lane + j * KEYS;
            if (d >= width) break;
            uint at = part.v_at + c0 * v_c + d;
            for (uint key = 0u; key < keys; key++) {
                float value = LOAD(v, V_STORAGE, at);
                for (uint i = 0u; i < ROWS; i++) sum[i * COLUMNS + j] += scores[i * KEYS + key] * value;
                at += v_c;
            }
        }
        barrier();
    }

    for (uint i = 0u; i < ROWS; i++) scores[i * KEYS + lane] = weight[i];
    barrier();
    reduce_parts(false);
    barrier();
    for (uint i = 0u; i < ROWS; i++) {
        uint row = part.first_row + i;
        if (row >= part.rows) break;
        float total = 0.0;
        for (uint p = 0u; p < PARTS; p++) total += parts[i * PARTS + p];
        if (part.shares > 1u) {
            uint to = scratch_at(part, part.split, i, quads);
            if (lane == 0u) scratch[to + quads] = vec4(row_max[i], total, 0.0, 0.0);
            for (uint j = 0u; j < COLUMNS; j++) {
                uint d = lane + j * KEYS;
                if (d < width) scratch[to + d / 4u][d % 4u] = sum[i * COLUMNS + j];
            }
        } else {
            uint to = result_at(part, row);
            float factor = total > 0.0 ? 1.0 / total : 0.0;
            for (uint j = 0u; j < COLUMNS; j++) {
                uint d = lane + j * KEYS;
                if (d < width) dst[to + d] = sum[i * COLUMNS + j] * factor;
            }
        }
    }
    if (part.shares > 1u) join_shares(part, quads);
}
#endif
#endif
