// heads: rows of the heads of q, k and v on their way into attention: normalised, rotated, written into a cache.
//   y = x · r · weight, r = 1/√(Σx²/D + eps), with NORM (weight 1 without WEIGHT); else y = x
//   z = y rotated at the row's position (see rope.comp), with ROPE; else z = y
//   out[b, s, h] = z; with CACHED out[b, start + s, h] = z, out having `out_rows` rows
//
// Bindings 0–2   x        f32 [B, S, H, D], one a part
// Bindings 3–5   weight   f32 [D]
// Binding 6      cos      f32, rows of table_row elements
// Binding 7      sin      f32, the same
// Bindings 8–10  out      f32 [B, out_rows, H, D]
// Binding 11     dyn      int words of the executor
// Everything is contiguous but for the start of the tables. A workgroup makes a row. Tier: plain; middle adds within
// subgroups.
#version 450
#extension GL_GOOGLE_include_directive : require
#ifdef SUBGROUP
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif

// D is at most eight times as many.
layout(local_size_x_id = 0) in;
// The elements of a pair: neighbours, as in rope.comp's PAIRS, or D / 2 apart, as in its HALVES.
layout(constant_id = 1) const bool NEIGHBOURS = false;

#include "include/dynamic.glsl"
#include "include/flat.glsl"
#include "include/math.glsl"
#include "include/sum.glsl"

layout(std430, set = 0, binding = 0) readonly buffer X0 { float x0[]; };
layout(std430, set = 0, binding = 1) readonly buffer X1 { float x1[]; };
layout(std430, set = 0, binding = 2) readonly buffer X2 { float x2[]; };
layout(std430, set = 0, binding = 3) readonly buffer Weight0 { float weight0[]; };
layout(std430, set = 0, binding = 4) readonly buffer Weight1 { float weight1[]; };
layout(std430, set = 0, binding = 5) readonly buffer Weight2 { float weight2[]; };
layout(std430, set = 0, binding = 6) readonly buffer Cos { float cosines[]; };
layout(std430, set = 0, binding = 7) readonly buffer Sin { float sines[]; };
layout(std430, set = 0, binding = 8) writeonly buffer Out0 { float dst0[]; };
layout(std430, set = 0, binding = 9) writeonly buffer Out1 { float dst1[]; };
layout(std430, set = 0, binding = 10) writeonly buffer Out2 { float dst2[]; };
layout(std430, set = 0, binding = 11) readonly buffer Dyn { int dyn[]; };

const uint NORM = 1u;
const uint WEIGHT = 2u;
const uint ROPE = 4u;

layout(push_constant) uniform Push {
    uint positions;  // B · S
    uint s_size;
    uint width;
    uint heads;      // of all parts
    uint table_dynamic;
    uint table_rows;
    uint table_row;
    uint cos_offset;
    uint cos_dynamic;
    uint sin_offset;
    uint sin_dynamic;
    // Of the parts.
    uint part_heads[3];
    uint part_flags[3];
    float part_eps[3];
    uint part_rows[3];
    uint part_start[3];
};

const uint PAIRS = 4u;

float load(uint part, uint at) { return part == 0u ? x0[at] : part == 1u ? x1[at] : x2[at]; }

float weight_at(uint part, uint at) {
    return part == 0u ? weight0[at] : part == 1u ? weight1[at] : weight2[at];
}

void store(uint part, uint at, float value) {
    if (part == 0u) dst0[at] = value;
    else if (part == 1u) dst1[at] = value;
    else dst2[at] = value;
}

void main() {
    uint row = flat_group();
    if (row >= positions * heads) return;
    uint head = row % heads;
    uint position = row / heads;
    uint part = 0u;
    while (part < 2u && head >= part_heads[part]) {
        head -= part_heads[part];
        part++;
    }
    uint flags = part_flags[part];
    uint s = position % s_size;
    uint from = (position * part_heads[part] + head) * width;
    uint out_row = position / s_size * part_rows[part] + s + DYNAMIC(part_start[part]);
    uint to = (out_row * part_heads[part] + head) * width;
    uint half_width = width / 2u;

    float a[PAIRS];
    float b[PAIRS];
    float squares = 0.0;
    for (uint i = 0u; i < PAIRS; i++) {
        uint pair = gl_LocalInvocationID.x + i * gl_WorkGroupSize.x;
        a[i] = 0.0;
        b[i] = 0.0;
        if (pair >= half_width) continue;
        a[i] = load(part, from + (NEIGHBOURS ? 2u * pair : pair));
        b[i] = load(part, from + (NEIGHBOURS ? 2u * pair + 1u : pair + half_width));
        squares += a[i] * a[i] + b[i] * b[i];
    }
    float r = 1.0;
    if ((flags & NORM) != 0u) r = rsqrt32(sum_all(squares) / float(width) + part_eps[part]);
    uint table = min(s + DYNAMIC(table_dynamic), table_rows - 1u) * table_row;
    uint cos_at = cos_offset + DYNAMIC(cos_dynamic) + table;
    uint sin_at = sin_offset + DYNAMIC(sin_dynamic) + table;
    for (uint i = 0u; i < PAIRS; i++) {
        uint pair = gl_LocalInvocationID.x + i * gl_WorkGroupSize.x;
        if (pair >= half_width) continue;
        uint first = NEIGHBOURS ? 2u * pair : pair;
        uint second = NEIGHBOURS ? first + 1u : pair + half_width;
        float y = a[i] * r;
        float z = b[i] * r;
        if ((flags & WEIGHT) != 0u) {
            y *= weight_at(part, first);
            z *= weight_at(part, second);
        }
        if ((flags & ROPE) != 0u) {
            float c = cosines[cos_at + pair];
            float s1 = sines[sin_at + pair];
            float c2 = NEIGHBOURS ? c : cosines[cos_at + second];
            float s2 = NEIGHBOURS ? s1 : sines[sin_at + second];
            float rotated = y * c - z * s1;
            z = z * c2 + y * s2;
            y = rotated;
        }
        store(part, to + first, y);
        store(part, to + second, z);
    }
}
