// What the attention kernels share: specialisation constants 3–5, bindings, push constants, and what becomes of a score.
// One workgroup takes ROWS of the S · G queries that share a key head, and with SPLIT one share of the keys they see.
// Include it after ROWS is declared.

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
    // With CAUSAL, keys a query sees, its own position included.
    uint window;
    uint start_dynamic;
    float scale;
    float softcap;
    // The largest number of shares of the keys in the low half, flags in the high one.
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
    uint tile;
    uint head_index;  // batch · Hkv + key head
    uint first_head;
    uint start;
    // The share of the keys, how many shares there are, and the keys begin … end of this one.
    uint split;
    uint shares;
    uint begin;
    uint end;
    // Where q, k, v and the mask of the key head begin.
    uint q_at;
    uint k_at;
    uint v_at;
    uint mask_at;
};

// Keys that are read sooner than the results of several workgroups are joined.
const uint FEW_KEYS = 96u;

// Chooses the share of the `block`-wise shared-out keys begin … end. Reading `share` keys costs as much as joining the
// results of all shares where share² = keys · ROWS / 2: then a workgroup's own part and the last one's take equally long.
void take_share(inout Part part, uint block) {
    uint keys = part.end - part.begin;
    uint share = max(uint(sqrt(float(keys) * float(ROWS) * 0.5)), (keys + splits - 1u) / splits);
    if (keys <= FEW_KEYS) share = keys;
    share = max((share + block - 1u) / block, 1u) * block;
    part.shares = max((keys + share - 1u) / share, 1u);
    part.begin += part.split * share;
    part.end = min(part.end, part.begin + share);
}

// The part of this workgroup. False if there is none left.
bool find_part(uint block, out Part part) {
    part.rows = s_size * queries_per_key_head;
    uint tiles = (part.rows + ROWS - 1u) / ROWS;
    // Groups: batch, key head, tile of rows, share of the keys.
    uint group = flat_group();
    part.split = group % splits;
    part.tile = group / splits;
    part.head_index = part.tile / tiles;
    // Later rows see more keys: the longest work first.
    part.first_row = (tiles - 1u - part.tile % tiles) * ROWS;
    uint key_head = part.head_index % key_heads;
    uint batch_index = part.head_index / key_heads;
    part.first_head = key_head * queries_per_key_head;
    part.start = DYNAMIC(start_dynamic);
    part.begin = 0u;
    part.end = CACHED ? min(part.start + s_size, context_len) : context_len;
    if (CAUSAL) {
        uint last = (min(part.first_row + ROWS, part.rows) - 1u) / queries_per_key_head;
        part.end = min(part.end, part.start + last + 1u);
        uint first = part.start + part.first_row / queries_per_key_head + 1u;
        if (first > window) part.begin = min(first - window, part.end);
    }
    part.shares = 1u;
    if (splits > 1u) take_share(part, block);
    part.q_at = q_offset + batch_index * q_batch + part.first_head * q_head;
    part.k_at = k_offset + batch_index * k_batch + key_head * k_head;
    part.v_at = v_offset + batch_index * v_batch + key_head * v_head;
    part.mask_at = 0u;
    if (HAS_MASK) part.mask_at = mask_offset + DYNAMIC(mask_dynamic) + batch_index * mask_batch + part.first_head * mask_head;
    return batch_index < batch && part.split < part.shares;
}

// The score of row `row` with key `c` from their product; −∞ for what the row may not see.
float score_of(Part part, uint row, uint c, float product) {
    uint s = row / queries_per_key_head;
    float score = product * scale;
    if (HAS_MASK) score += mask[part.mask_at + (row % queries_per_key_head) * mask_head + s * mask_s + c * mask_c];
    if (SOFTCAP) score = softcap * tanh32(score / softcap);
    if (CAUSAL && (c > part.start + s || c + window <= part.start + s)) score = MINUS_INFINITY;
    return score;
}

// Element of q where row `row` begins.
uint query_at(Part part, uint row) {
    return part.q_at + (row % queries_per_key_head) * q_head + (row / queries_per_key_head) * q_s;
}

// Element of out where the result of row `row` goes.
uint result_at(Part part, uint row) {
    uint head = part.first_head + row % queries_per_key_head;
    return part.head_index / key_heads * out_batch + head * out_head + row / queries_per_key_head * out_s;
}
