// sdpa_combine: joins the partial results that sdpa.comp left when the keys were split over several workgroups.
//
// Binding 0  partial  f32 [B, Hkv, S, G, splits, D + 2]: weighted sum, maximum and sum of weights
// Binding 1  out      f32 [B, H, S, D], strided
// One workgroup a query. Tier: plain.
#version 450
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;

#include "include/flat.glsl"
#include "include/math.glsl"

layout(std430, set = 0, binding = 0) readonly buffer Partial { float partial[]; };
layout(std430, set = 0, binding = 1) writeonly buffer Out { float dst[]; };

layout(push_constant) uniform Push {
    uint queries;
    uint s_size;
    uint queries_per_key_head;
    uint key_heads;
    uint width;
    uint splits;
    uint out_batch;
    uint out_head;
    uint out_s;
};

// e^(maximum of the split − maximum of all); there are at most 128 splits.
shared float factors[128];

void main() {
    uint query = flat_group();
    if (query >= queries) return;
    uint row = query % (s_size * queries_per_key_head);
    uint head_index = query / (s_size * queries_per_key_head);
    uint head = head_index % key_heads * queries_per_key_head + row % queries_per_key_head;
    uint to = head_index / key_heads * out_batch + head * out_head + row / queries_per_key_head * out_s;
    uint from = query * splits * (width + 2u);

    float row_max = -3.402823466e38;
    for (uint split = 0u; split < splits; split++) row_max = max(row_max, partial[from + split * (width + 2u) + width]);
    for (uint split = gl_LocalInvocationID.x; split < splits; split += gl_WorkGroupSize.x) {
        factors[split] = exp32(partial[from + split * (width + 2u) + width] - row_max);
    }
    barrier();
    float total = 0.0;
    for (uint split = 0u; split < splits; split++) {
        total += partial[from + split * (width + 2u) + width + 1u] * factors[split];
    }
    float factor = total > 0.0 ? 1.0 / total : 0.0;
    for (uint d = gl_LocalInvocationID.x; d < width; d += gl_WorkGroupSize.x) {
        float sum = 0.0;
        for (uint split = 0u; split < splits; split++) {
            // A split without keys left zeros behind.
            sum += partial[from + split * (width + 2u) + d] * factors[split];
        }
        dst[to + d] = sum * factor;
    }
}
