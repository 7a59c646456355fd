// gather: out[i…] = x[i… with index[i…] in place of the gathered dimension]; serves index_select, index.Tensor,
// embedding and gather: what index does not vary over has stride 0 in it, the gathered dimension has stride 0 in x.
//
// Binding 0  x      words or halves, strided; may hold only rows [first, first + rows) of the gathered dimension
// Binding 1  index  i32, strided; a negative one counts from the end
// Binding 2  out    words, contiguous; elements whose index lies outside x's rows are left alone
// Binding 3  dyn    int words of the executor
// Binding 4  fault
// Tier: plain.
#version 450
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = 128) in;
layout(constant_id = 0) const uint STORAGE = 0;
layout(constant_id = 1) const uint RANK = 6;

#include "include/dynamic.glsl"
#include "include/fault.glsl"
#include "include/flat.glsl"
#include "include/storage.glsl"

layout(std430, set = 0, binding = 0) readonly buffer X { uint x[]; };
layout(std430, set = 0, binding = 1) readonly buffer Index { int indices[]; };
layout(std430, set = 0, binding = 2) writeonly buffer Out { uint dst[]; };
layout(std430, set = 0, binding = 3) readonly buffer Dyn { int dyn[]; };
layout(std430, set = 0, binding = 4) buffer Fault { uint fault[]; };

layout(push_constant) uniform Push {
    uint total;
    uint tag;
    // Size of the gathered dimension, the part of it that x holds, and x's stride along it.
    uint dim_size;
    uint first;
    uint rows;
    uint dim_stride;
    uint x_offset;
    uint x_dynamic;
    uint index_offset;
    uint index_dynamic;
    uint sizes[6];
    uint x_strides[6];
    uint index_strides[6];
};

void main() {
    uint threads = gl_NumWorkGroups.x * gl_NumWorkGroups.y * gl_WorkGroupSize.x;
    for (uint i = flat_invocation(); i < total; i += threads) {
        uint rest = i;
        uint from = x_offset + DYNAMIC(x_dynamic);
        uint index_at = index_offset + DYNAMIC(index_dynamic);
        for (int d = int(RANK) - 1; d >= 0; d--) {
            uint next = rest / sizes[d];
            uint position = rest - next * sizes[d];
            from += position * x_strides[d];
            index_at += position * index_strides[d];
            rest = next;
        }
        int index = indices[index_at];
        int row = index < 0 ? index + int(dim_size) : index;
        if (row < 0 || row >= int(dim_size)) {
            FAULT(tag, index, dim_size)
            row = 0;
        }
        uint local = uint(row) - first;
        if (local >= rows) continue;
        from += local * dim_stride;
        dst[i] = STORAGE == HALF ? floatBitsToUint(half_of(x[from >> 1], from)) : x[from];
    }
}
