// fill, arange: dst[i] = value, or start + i·step over the flat row-major index i.
//
// Binding 0  dst   words, strided
// Binding 1  dyn   int words of the executor
// Tier: plain.
#version 450
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = 128) in;

#include "include/flat.glsl"
#include "include/dyn.glsl"

// 0: fill with `a`; 1: int a + i·b; 2: float a + i·b.
layout(constant_id = 0) const uint MODE = 0;

layout(std430, set = 0, binding = 0) writeonly buffer Dst { uint dst[]; };
layout(std430, set = 0, binding = 1) readonly buffer Dyn { int dyn[]; };

layout(push_constant) uniform Push {
    uint total;
    uint a;
    uint b;
    uint offset;
    uint dynamic_offset;
    uint sizes[8];
    int strides[8];
};

void main() {
    uint stride = gl_NumWorkGroups.x * gl_NumWorkGroups.y * gl_WorkGroupSize.x;
    int base = int(offset) + (dynamic_offset == NO_DYN ? 0 : dyn[dynamic_offset]);
    for (uint i = flat_invocation(); i < total; i += stride) {
        uint rest = i;
        int at = base;
        for (int d = 7; d >= 0; d--) {
            uint next = rest / sizes[d];
            at += int(rest - next * sizes[d]) * strides[d];
            rest = next;
        }
        uint value = a;
        if (MODE == 1) value = a + i * b;
        if (MODE == 2) {
            precise float x = uintBitsToFloat(a) + float(i) * uintBitsToFloat(b);
            value = floatBitsToUint(x);
        }
        dst[at] = value;
    }
}
