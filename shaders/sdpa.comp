// sdpa: out[b, h, s] = Σ_c p[c] · v[b, h / G, c], p = softmax over c of the scores of query (b, h, s), where
// score[c] = scale · q[b, h, s] · k[b, h / G, c] (+ mask[b, h, s, c]), then cap · tanh(score / cap) with SOFTCAP, then −∞
// for c > start + s with CAUSAL. Keys c < context: context_len, or with CACHED start + S (context_len at most).
// A row that sees no key, or only −∞, gives zeros.
//
// Binding 0  q     f32 [B, H, S, D], strided, the last dimension contiguous (as in k and v)
// Binding 1  k     words or halves [B, Hkv, C, D], strided
// Binding 2  v     words or halves [B, Hkv, C, D], strided
// Binding 3  mask  f32 [B, H, S, C], strided (0 where broadcast); any buffer without HAS_MASK
// Binding 4  out   f32 [B, H, S, D], strided; with SPLIT partial results [B, Hkv, S, G, splits, D + 2] for sdpa_combine:
//                  Σ exp(score − max) · v, then max and Σ exp(score − max) of the split's share of the keys
// Binding 5  dyn   int words of the executor
// One workgroup takes ROWS of the S · G queries that share a key head and streams over the keys, one an invocation
// at a time, with a running maximum and sum. Tier: plain.
#version 450
#extension GL_GOOGLE_include_directive : require

// KEYS invocations, a multiple of 8 and at least 8 · ROWS, at most 128.
layout(local_size_x_id = 0) in;
// At most 8.
layout(constant_id = 1) const uint ROWS = 8;
// Elements of an output row that an invocation makes: ⌈D / KEYS⌉.
layout(constant_id = 2) const uint COLUMNS = 1;
layout(constant_id = 3) const uint K_STORAGE = 0;
layout(constant_id = 4) const uint V_STORAGE = 0;
layout(constant_id = 5) const bool HAS_MASK = false;
layout(constant_id = 6) const bool CAUSAL = false;
layout(constant_id = 7) const bool SOFTCAP = false;
layout(constant_id = 8) const bool CACHED = false;
// D and all offsets and strides of k are multiples of 4.
layout(constant_id = 9) const bool VEC4 = false;
layout(constant_id = 10) const bool SPLIT = false;

#include "include/dynamic.glsl"
#include "include/flat.glsl"
#include "include/math.glsl"
#include "include/storage.glsl"

layout(std430, set = 0, binding = 0) readonly buffer Q { float q[]; };
layout(std430, set = 0, binding = 1) readonly buffer K { uint k[]; };
layout(std430, set = 0, binding = 1) readonly buffer K2 { uvec2 k2[]; };
layout(std430, set = 0, binding = 1) readonly buffer K4 { vec4 k4[]; };
layout(std430, set = 0, binding = 2) readonly buffer V { uint v[]; };
layout(std430, set = 0, binding = 3) readonly buffer Mask { float mask[]; };
layout(std430, set = 0, binding = 4) writeonly buffer Out { float dst[]; };
layout(std430, set = 0, binding = 5) readonly buffer Dyn { int dyn[]; };

layout(push_constant) uniform Push {
    uint batch;
    uint s_size;
    uint queries_per_key_head;
    uint key_heads;
    uint width;
    uint context_len;
    uint start_static;
    uint start_dynamic;
    float scale;
    float softcap;
    uint splits;
    uint q_offset;
    uint q_batch;
    uint q_head;
    uint q_s;
    uint k_offset;
    uint k_batch;
    uint k_head;
    uint k_c;
    uint v_offset;
    uint v_batch;
    uint v_head;
    uint v_c;
    uint mask_offset;
    uint mask_dynamic;
    uint mask_batch;
    uint mask_head;
    uint mask_s;
    uint mask_c;
    uint out_batch;
    uint out_head;
    uint out_s;
};

const float LOWEST = -3.402823466e38;
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

void load_queries(uint at, uint first_row, uint rows, uint quads) {
    for (uint e = gl_LocalInvocationID.x; e < ROWS * quads; e += KEYS) {
        uint row = first_row + e / quads;
        uint d = (e % quads) * 4u;
        vec4 value = vec4(0.0);
        if (row < rows) {
            uint i = at + (row % queries_per_key_head) * q_head + (row / queries_per_key_head) * q_s + d;
            for (uint j = 0u; j < 4u; j++)
                if (d + j < width) value[j] = q[i + j];
        }
        q_tile[e] = value;
    }
}

// The scores of the workgroup's queries with key `c`; −∞ for what they may not see.
void score_key(uint c, uint k_at, uint mask_at, uint first_row, uint start, uint quads, out float score[ROWS]) {
    for (uint i = 0u; i < ROWS; i++) score[i] = 0.0;
    for (uint quad = 0u; quad < quads; quad++) {
        vec4 key = load_k(k_at + c * k_c, quad * 4u);
        for (uint i = 0u; i < ROWS; i++) score[i] += dot(q_tile[i * quads + quad], key);
    }
    uint rows = s_size * queries_per_key_head;
    for (uint i = 0u; i < ROWS; i++) {
        uint row = min(first_row + i, rows - 1u);
        uint s = row / queries_per_key_head;
        score[i] *= scale;
        if (HAS_MASK) score[i] += mask[mask_at + (row % queries_per_key_head) * mask_head + s * mask_s + c * mask_c];
        if (SOFTCAP) score[i] = softcap * tanh32(score[i] / softcap);
        if (CAUSAL && c > start + s) score[i] = uintBitsToFloat(0xFF800000u);
    }
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
    uint rows = s_size * queries_per_key_head;
    uint tiles = (rows + ROWS - 1u) / ROWS;
    // Groups: batch, key head, tile of rows, split.
    uint group = flat_group();
    uint split = group % splits;
    uint first_row = (group / splits) % tiles * ROWS;
    uint head_index = group / splits / tiles;
    uint key_head = head_index % key_heads;
    uint batch_index = head_index / key_heads;
    uint first_head = key_head * queries_per_key_head;
    if (batch_index >= batch) return;

    uint start = start_static + DYNAMIC(start_dynamic);
    uint context = CACHED ? min(start + s_size, context_len) : context_len;
    uint begin = 0u;
    uint end = context;
    if (SPLIT) {
        uint blocks = (context + KEYS - 1u) / KEYS;
        uint share = (blocks + splits - 1u) / splits * KEYS;
        begin = split * share;
        end = min(context, begin + share);
    }
    if (CAUSAL) end = min(end, start + (min(first_row + ROWS, rows) - 1u) / queries_per_key_head + 1u);

    uint quads = (width + 3u) / 4u;
    load_queries(q_offset + batch_index * q_batch + first_head * q_head, first_row, rows, quads);
    uint k_at = k_offset + batch_index * k_batch + key_head * k_head;
    uint v_at = v_offset + batch_index * v_batch + key_head * v_head;
    uint mask_at = HAS_MASK ? mask_offset + DYNAMIC(mask_dynamic) + batch_index * mask_batch + first_head * mask_head : 0u;

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

    for (uint c0 = begin; c0 < end; c0 += KEYS) {
        uint c = c0 + lane;
        float score[ROWS];
        for (uint i = 0u; i < ROWS; i++) score[i] = uintBitsToFloat(0xFF800000u);
        if (c < end) score_key(c, k_at, mask_at, first_row, start, quads, score);
        for (uint i = 0u; i < ROWS; i++) scores[i * KEYS + lane] = score[i];
        barrier();
        reduce_parts(true);
        barrier();
        for (uint i = 0u; i < ROWS; i++) {
            float new_max = row_max[i];
            for (uint part = 0u; part < PARTS; part++) new_max = max(new_max, parts[i * PARTS + part]);
            float shrink = exp32(row_max[i] - new_max);
            float p = score[i] < LOWEST ? 0.0 : exp32(score[i] - new_max);
            row_max[i] = new_max;
            weight[i] = weight[i] * shrink + p;
            for (uint j = 0u; j < COLUMNS; j++) sum[i * COLUMNS + j] *= shrink;
            scores[i * KEYS + lane] = p;
        }
        barrier();
        uint keys = min(KEYS, end - c0);
        for (uint j = 0u; j < COLUMNS; j++) {
            uint d = lane + j * KEYS;
            if (d >= width) break;
            uint at = v_at + c0 * v_c + d;
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
        uint row = first_row + i;
        if (row >= rows) break;
        float total = 0.0;
        for (uint part = 0u; part < PARTS; part++) total += parts[i * PARTS + part];
        uint to = batch_index * out_batch + (first_head + row % queries_per_key_head) * out_head +
                  row / queries_per_key_head * out_s;
        float factor = total > 0.0 ? 1.0 / total : 0.0;
        if (SPLIT) {
            to = ((head_index * rows + row) * splits + split) * (width + 2u);
            factor = 1.0;
            if (lane == 0u) {
                dst[to + width] = row_max[i];
                dst[to + width + 1u] = total;
            }
        }
        for (uint j = 0u; j < COLUMNS; j++) {
            uint d = lane + j * KEYS;
            if (d < width) dst[to + d] = sum[i * COLUMNS + j] * factor;
        }
    }
}
