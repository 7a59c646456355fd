// What the attention kernels share: specialisation constants 3–5, bindings, push constants, and what becomes of a score.
// One workgroup takes ROWS of the S · G queries that share a key head. Include it after ROWS is declared.

layout(constant_id = 3) const uint K_STORAGE = 0;
layout(constant_id = 4) const uint V_STORAGE = 0;
// D and all offsets and strides of k are multiples of 4.
layout(constant_id = 5) const bool VEC4 = false;

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
    // The number of splits of the keys in the low half, flags in the high one.
    uint splits_and_flags;
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

// Not specialisation constants: that would make sixteen pipelines out of one.
#define splits (splits_and_flags & 0xFFFFu)
#define SPLIT (splits > 1u)
#define HAS_MASK ((splits_and_flags & 0x10000u) != 0u)
#define CAUSAL ((splits_and_flags & 0x20000u) != 0u)
#define SOFTCAP ((splits_and_flags & 0x40000u) != 0u)
#define CACHED ((splits_and_flags & 0x80000u) != 0u)

const float LOWEST = -3.402823466e38;

#define MINUS_INFINITY uintBitsToFloat(0xFF800000u)

// What a workgroup works on.
struct Part {
    uint rows;        // S · G
    uint first_row;
    uint split;
    uint head_index;  // batch · Hkv + key head
    uint first_head;
    uint start;
    // Keys begin … end of the split, and where q, k, v and the mask of the key head begin.
    uint begin;
    uint end;
    uint q_at;
    uint k_at;
    uint v_at;
    uint mask_at;
};

// The part of this workgroup; keys are shared out between splits in blocks. False if there is none left.
bool find_part(uint block, out Part part) {
    part.rows = s_size * queries_per_key_head;
    uint tiles = (part.rows + ROWS - 1u) / ROWS;
    // Groups: batch, key head, tile of rows, split.
    uint group = flat_group();
    part.split = group % splits;
    part.first_row = (group / splits) % tiles * ROWS;
    part.head_index = group / splits / tiles;
    uint key_head = part.head_index % key_heads;
    uint batch_index = part.head_index / key_heads;
    part.first_head = key_head * queries_per_key_head;
    part.start = start_static + DYNAMIC(start_dynamic);
    uint context = CACHED ? min(part.start + s_size, context_len) : context_len;
    part.begin = 0u;
    part.end = context;
    if (SPLIT) {
        uint blocks = (context + block - 1u) / block;
        uint share = (blocks + splits - 1u) / splits * block;
        part.begin = part.split * share;
        part.end = min(context, part.begin + share);
    }
    if (CAUSAL) {
        uint last = (min(part.first_row + ROWS, part.rows) - 1u) / queries_per_key_head;
        part.end = min(part.end, part.start + last + 1u);
    }
    part.q_at = q_offset + batch_index * q_batch + part.first_head * q_head;
    part.k_at = k_offset + batch_index * k_batch + key_head * k_head;
    part.v_at = v_offset + batch_index * v_batch + key_head * v_head;
    part.mask_at = 0u;
    if (HAS_MASK) part.mask_at = mask_offset + DYNAMIC(mask_dynamic) + batch_index * mask_batch + part.first_head * mask_head;
    return batch_index < batch;
}

// The score of row `row` with key `c` from their product; −∞ for what the row may not see.
float score_of(Part part, uint row, uint c, float product) {
    uint s = row / queries_per_key_head;
    float score = product * scale;
    if (HAS_MASK) score += mask[part.mask_at + (row % queries_per_key_head) * mask_head + s * mask_s + c * mask_c];
    if (SOFTCAP) score = softcap * tanh32(score / softcap);
    if (CAUSAL && c > part.start + s) score = MINUS_INFINITY;
    return score;
}

// Element of q where row `row` begins.
uint query_at(Part part, uint row) {
    return part.q_at + (row % queries_per_key_head) * q_head + (row / queries_per_key_head) * q_s;
}

// Where the result of row `row` goes; with SPLIT, the maximum and the sum of weights follow it.
uint result_at(Part part, uint row) {
    if (SPLIT) return ((part.head_index * part.rows + row) * splits + part.split) * (width + 2u);
    uint head = part.first_head + row % queries_per_key_head;
    return part.head_index / key_heads * out_batch + head * out_head + row / queries_per_key_head * out_s;
}
