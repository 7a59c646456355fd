// embedding_q4: out[j, e] = code[index[j], e] · scale[index[j], e / group_size] for a table of packed 4-bit codes.
//
// Binding 0  weight  code + 8 in half bytes, rows of row_bytes; may hold only rows [first, first + rows)
// Binding 1  scales  words or halves of the whole table, strided
// Binding 2  index   i32, strided; a negative one counts from the end
// Binding 3  out     f32, contiguous; rows whose index lies outside weight's rows are left alone
// Binding 4  dyn     int words of the executor
// Binding 5  fault
// Tier: plain.
#version 450
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = 128) in;
layout(constant_id = 0) const uint SCALE_STORAGE = 0;
// Even e in the high half of its byte, else in the low one.
layout(constant_id = 1) const bool HIGH_FIRST = false;

#include "include/dynamic.glsl"
#include "include/fault.glsl"
#include "include/flat.glsl"
#include "include/storage.glsl"

layout(std430, set = 0, binding = 0) readonly buffer Weight { uint weight[]; };
layout(std430, set = 0, binding = 1) readonly buffer Scales { uint scales[]; };
layout(std430, set = 0, binding = 2) readonly buffer Index { int indices[]; };
layout(std430, set = 0, binding = 3) writeonly buffer Out { float dst[]; };
layout(std430, set = 0, binding = 4) readonly buffer Dyn { int dyn[]; };
layout(std430, set = 0, binding = 5) buffer Fault { uint fault[]; };

layout(push_constant) uniform Push {
    uint count;
    uint width;
    uint tag;
    // Rows of the table, and which of them are in weight.
    uint table_rows;
    uint first;
    uint rows;
    uint row_bytes;
    uint group_size;
    // Elements between the scales of neighbouring rows and of neighbouring groups.
    uint scale_row;
    uint scale_group;
    uint index_offset;
    uint index_dynamic;
    uint sizes[4];
    uint index_strides[4];
};

void main() {
    uint threads = gl_NumWorkGroups.x * gl_NumWorkGroups.y * gl_WorkGroupSize.x;
    for (uint i = flat_invocation(); i < count * width; i += threads) {
        uint rest = i / width;
        uint e = i % width;
        uint index_at = index_offset + DYNAMIC(index_dynamic);
        for (int d = 3; d >= 0; d--) {
            uint next = rest / sizes[d];
            index_at += (rest - next * sizes[d]) * index_strides[d];
            rest = next;
        }
        int index = indices[index_at];
        int row = index < 0 ? index + int(table_rows) : index;
        if (row < 0 || row >= int(table_rows)) {
            FAULT(tag, index, table_rows)
            row = 0;
        }
        uint local = uint(row) - first;
        if (local >= rows) continue;
        uint byte_at = local * row_bytes + e / 2u;
        uint half_byte = HIGH_FIRST ? 1u - e % 2u : e % 2u;
        uint code = bitfieldExtract(weight[byte_at >> 2], int((byte_at & 3u) * 8u + half_byte * 4u), 4);
        uint scale_at = uint(row) * scale_row + (e / group_size) * scale_group;
        dst[i] = (float(code) - 8.0) * LOAD(scales, SCALE_STORAGE, scale_at);
    }
}
