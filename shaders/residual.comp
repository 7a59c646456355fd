// residual: the sum of a residual stream and a branch, and its normalised rows:
//   h   = clamp(base + x · r · weight, low, high) · scale, r = 1/√(Σx²/n + eps); without BRANCH_NORM clamp(base + x, …) · scale
//   out = h · r' · norm_weight, r' = 1/√(Σh²/n + norm_eps), with NORM
//
// Binding 0  x            f32 [rows, n]
// Binding 1  base         f32 [rows, n]
// Binding 2  weight       f32 [n], with BRANCH_WEIGHT
// Binding 3  scale        f32 [1], with SCALE
// Binding 4  norm_weight  f32 [n], with NORM_WEIGHT
// Binding 5  h            f32 [rows, n]
// Binding 6  out          f32 [rows, n], with NORM
// Everything is contiguous. A workgroup makes a row. Tier: plain; middle adds within subgroups.
#version 450
#extension GL_GOOGLE_include_directive : require
#ifdef SUBGROUP
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif

layout(local_size_x_id = 0) in;

#include "include/flat.glsl"
#include "include/math.glsl"
#include "include/sum.glsl"

layout(std430, set = 0, binding = 0) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 1) readonly buffer Base { float base[]; };
layout(std430, set = 0, binding = 2) readonly buffer Weight { float weight[]; };
layout(std430, set = 0, binding = 3) readonly buffer Scale { float scale[]; };
layout(std430, set = 0, binding = 4) readonly buffer NormWeight { float norm_weight[]; };
layout(std430, set = 0, binding = 5) buffer H { float h[]; };
layout(std430, set = 0, binding = 6) writeonly buffer Out { float dst[]; };

const uint BRANCH_NORM = 1u;
const uint BRANCH_WEIGHT = 2u;
const uint SCALE = 4u;
const uint NORM = 8u;
const uint NORM_WEIGHT = 16u;

layout(push_constant) uniform Push {
    uint rows;
    uint n;
    uint flags;
    float eps;
    float low;
    float high;
    float norm_eps;
};

void main() {
    uint row = flat_group();
    if (row >= rows) return;
    uint me = gl_LocalInvocationID.x;
    uint from = row * n;
    float r = 1.0;
    if ((flags & BRANCH_NORM) != 0u) {
        float squares = 0.0;
        for (uint i = me; i < n; i += gl_WorkGroupSize.x) squares += x[from + i] * x[from + i];
        r = rsqrt32(sum_all(squares) / float(n) + eps);
    }
    float factor = (flags & SCALE) != 0u ? scale[0] : 1.0;
    float squares = 0.0;
    for (uint i = me; i < n; i += gl_WorkGroupSize.x) {
        float branch = x[from + i] * r;
        if ((flags & BRANCH_WEIGHT) != 0u) branch *= weight[i];
        float sum = clamp_float(base[from + i] + branch, low, high) * factor;
        h[from + i] = sum;
        squares += sum * sum;
    }
    if ((flags & NORM) == 0u) return;
    float rstd = rsqrt32(sum_all(squares) / float(n) + norm_eps);
    // Every invocation reads back what it wrote itself.
    for (uint i = me; i < n; i += gl_WorkGroupSize.x) {
        float value = h[from + i] * rstd;
        if ((flags & NORM_WEIGHT) != 0u) value *= norm_weight[i];
        dst[from + i] = value;
    }
}
