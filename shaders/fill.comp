// fill, arange: dst[i] = a, or a + i·b over the flat row-major index i.
//
// Binding 0  dst   words, strided
// Binding 1  dyn   int words of the executor
// Tier: plain.
#version 450
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = 128) in;

#include "include/dyn.glsl"

// 0: a; 1: int a + i·b, wrapping; 2: float a + i·b.
layout(constant_id = 0) const uint MODE = 0;
// Dimensions left after merging, 0…8.
layout(constant_id = 1) const uint RANK = 1;

layout(std430, set = 0, binding = 0) writeonly buffer Dst { uint dst[]; };
layout(std430, set = 0, binding = 1) readonly buffer Dyn { int dyn[]; };

layout(push_constant) uniform Push {
    uint total;
    uint a;
    uint b;
    uint offset;
    uint dynamic_offset;
    // Of dimensions 1…7, innermost last; dimension 0 needs no size.
    uint sizes[7];
    int strides[8];
};

void main() {
    uint step = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
    int start = int(offset) + (dynamic_offset == NO_DYN ? 0 : dyn[dynamic_offset]);
    for (uint i = gl_GlobalInvocationID.x; i < total; i += step) {
        int at = start;
        uint rest = i;
        for (int d = 7; d >= 8 - int(RANK); d--) {
            int index = int(rest);
            if (d > 8 - int(RANK)) {
                uint next = rest / sizes[d - 1];
                index = int(rest - next * sizes[d - 1]);
                rest = next;
            }
            at += index * strides[d];
        }
        uint value = a;
        if (MODE == 1u) value = a + i * b;
        if (MODE == 2u) {
            precise float x = uintBitsToFloat(a) + float(i) * uintBitsToFloat(b);
            value = floatBitsToUint(x);
        }
        dst[at] = value;
    }
}
