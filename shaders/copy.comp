// copy: dst[i] = src[i] over strided words of equal sizes; also concatenation, padding's interior, cache updates.
//
// Binding 0  src   words, strided
// Binding 1  dst   words, strided; does not overlap what is read
// Binding 2  dyn   int words of the executor
// Tier: plain.
#version 450
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = 128) in;

#include "include/dyn.glsl"

// Dimensions left after merging, 0…8.
layout(constant_id = 0) const uint RANK = 1;
// 1: both sides are contiguous and start at multiples of four words; four words at a time.
layout(constant_id = 1) const uint WIDE = 0;

layout(std430, set = 0, binding = 0) readonly buffer Src { uint src[]; };
layout(std430, set = 0, binding = 0) readonly buffer Src4 { uvec4 src4[]; };
layout(std430, set = 0, binding = 1) writeonly buffer Dst { uint dst[]; };
layout(std430, set = 0, binding = 1) writeonly buffer Dst4 { uvec4 dst4[]; };
layout(std430, set = 0, binding = 2) readonly buffer Dyn { int dyn[]; };

layout(push_constant) uniform Push {
    uint total;
    uint src_offset;
    uint dst_offset;
    uint src_dynamic;
    uint dst_dynamic;
    // Of dimensions 1…7, innermost last; dimension 0 needs no size.
    uint sizes[7];
    int src_strides[8];
    int dst_strides[8];
};

void main() {
    uint step = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
    if (WIDE != 0u) {
        uint quads = total / 4u;
        for (uint i = gl_GlobalInvocationID.x; i < quads; i += step) {
            dst4[dst_offset / 4u + i] = src4[src_offset / 4u + i];
        }
        uint last = quads * 4u + gl_GlobalInvocationID.x;
        if (last < total) dst[dst_offset + last] = src[src_offset + last];
        return;
    }
    int src_start = int(src_offset) + (src_dynamic == NO_DYN ? 0 : dyn[src_dynamic]);
    int dst_start = int(dst_offset) + (dst_dynamic == NO_DYN ? 0 : dyn[dst_dynamic]);
    for (uint i = gl_GlobalInvocationID.x; i < total; i += step) {
        int from = src_start;
        int to = dst_start;
        uint rest = i;
        for (int d = 7; d >= 8 - int(RANK); d--) {
            int index = int(rest);
            if (d > 8 - int(RANK)) {
                uint next = rest / sizes[d - 1];
                index = int(rest - next * sizes[d - 1]);
                rest = next;
            }
            from += index * src_strides[d];
            to += index * dst_strides[d];
        }
        dst[to] = src[from];
    }
}
