// rope: rotary position embedding of one tensor. For the pair (a, b) of a row at position p, with angles c, s:
// out_a = a · cos − b · sin, out_b = b · cos' + a · sin'.
//
//   PAIRS    a = x[2i], b = x[2i + 1], cos[p, i], sin[p, i]
//   HALVES   a = x[i], b = x[i + R/2], cos[p, i], sin[p, i] for a and cos[p, i + R/2], sin[p, i + R/2] for b
//   COMPLEX  a = x[2i], b = x[2i + 1], cos = table[p, 2i], sin = table[p, 2i + 1]
// i < R/2; elements from R on are copied. p = start + s, no further than the table's last row.
//
// Binding 0  x    f32 [B, S, H, D], strided
// Binding 1  cos  f32, rows of table_row elements
// Binding 2  sin  f32, the same; unused by COMPLEX
// Binding 3  out  f32, contiguous [B, S, H, D]
// Binding 4  dyn  int words of the executor
// Tier: plain.
#version 450
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = 128) in;
const uint PAIRS = 0u;
const uint HALVES = 1u;
const uint COMPLEX = 2u;
layout(constant_id = 0) const uint FORM = 0;

#include "include/dynamic.glsl"
#include "include/flat.glsl"

layout(std430, set = 0, binding = 0) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 1) readonly buffer Cos { float cosines[]; };
layout(std430, set = 0, binding = 2) readonly buffer Sin { float sines[]; };
layout(std430, set = 0, binding = 3) writeonly buffer Out { float dst[]; };
layout(std430, set = 0, binding = 4) readonly buffer Dyn { int dyn[]; };

layout(push_constant) uniform Push {
    // B · S · H rows of R/2 + (D − R) units: a pair or a copied element each.
    uint rows;
    uint s_size;
    uint heads;
    uint width;
    uint rotary;
    uint x_offset;
    uint x_dynamic;
    uint x_batch;
    uint x_s;
    uint x_head;
    uint x_d;
    uint start;
    uint start_dynamic;
    uint table_rows;
    uint table_row;
    uint cos_offset;
    uint cos_dynamic;
    uint sin_offset;
    uint sin_dynamic;
};

void main() {
    uint pairs = rotary / 2u;
    uint units = width - pairs;
    uint threads = gl_NumWorkGroups.x * gl_NumWorkGroups.y * gl_WorkGroupSize.x;
    for (uint i = flat_invocation(); i < rows * units; i += threads) {
        uint row = i / units;
        uint unit = i % units;
        uint s = (row / heads) % s_size;
        uint from = x_offset + DYNAMIC(x_dynamic) + (row / heads / s_size) * x_batch + s * x_s + (row % heads) * x_head;
        uint to = row * width;
        if (unit >= pairs) {
            uint d = unit + pairs;
            dst[to + d] = x[from + d * x_d];
            continue;
        }
        uint first = FORM == HALVES ? unit : 2u * unit;
        uint second = FORM == HALVES ? unit + pairs : 2u * unit + 1u;
        uint position = min(start + DYNAMIC(start_dynamic) + s, table_rows - 1u);
        uint table = position * table_row;
        uint cos_at = cos_offset + DYNAMIC(cos_dynamic) + table + (FORM == COMPLEX ? 2u * unit : unit);
        uint sin_at = FORM == COMPLEX ? cos_at + 1u : sin_offset + DYNAMIC(sin_dynamic) + table + unit;
        float c = cosines[cos_at];
        float s1 = FORM == COMPLEX ? cosines[sin_at] : sines[sin_at];
        float c2 = c;
        float s2 = s1;
        if (FORM == HALVES) {
            c2 = cosines[cos_at + pairs];
            s2 = sines[sin_at + pairs];
        }
        float a = x[from + first * x_d];
        float b = x[from + second * x_d];
        dst[to + first] = a * c - b * s1;
        dst[to + second] = b * c2 + a * s2;
    }
}
