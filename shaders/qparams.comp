// qparams: scale and zero point for the int quantisation of each row of x, from lo = min(min x, 0), hi = max(max x, 0).
//
//   AFFINE     scale = (hi − lo) / (qmax − qmin), zp = clamp(qmin − round(lo / scale))
//   PER_TOKEN  the same scale; zp from whichever end of the range has the smaller error
//   SYMMETRIC  scale = max(−lo, hi) / ((qmax − qmin) / 2), zp = middle
//   NO_CLIP    scale = max(lo / qmin, hi / qmax), zp = middle
// The scale is at least eps; rounding is to nearest even.
//
// Binding 0  x      f32 [rows, n], rows x_row apart
// Binding 1  scale  f32 [rows]
// Binding 2  zp     i32 [rows]
// One workgroup a row. Tier: plain.
#version 450
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;
const uint AFFINE = 0u;
const uint PER_TOKEN = 1u;
const uint SYMMETRIC = 2u;
const uint NO_CLIP = 3u;
layout(constant_id = 1) const uint MAPPING = 0;

#include "include/flat.glsl"

layout(std430, set = 0, binding = 0) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 1) writeonly buffer Scale { float scales[]; };
layout(std430, set = 0, binding = 2) writeonly buffer Zp { int zps[]; };

layout(push_constant) uniform Push {
    uint rows;
    uint n;
    uint x_offset;
    uint x_row;
    float qmin;
    float qmax;
    float eps;
    int middle;
};

shared vec2 extremes[256];

void main() {
    uint row = flat_group();
    if (row >= rows) return;
    uint lane = gl_LocalInvocationID.x;
    // x: −lo, y: hi.
    vec2 range = vec2(0.0);
    for (uint i = lane; i < n; i += gl_WorkGroupSize.x) {
        float value = x[x_offset + row * x_row + i];
        range = max(range, vec2(-value, value));
    }
    extremes[lane] = range;
    barrier();
    for (uint half_size = gl_WorkGroupSize.x / 2u; half_size > 0u; half_size /= 2u) {
        if (lane < half_size) extremes[lane] = max(extremes[lane], extremes[lane + half_size]);
        barrier();
    }
    if (lane != 0u) return;

    float lo = -extremes[0].x;
    float hi = extremes[0].y;
    float scale;
    if (MAPPING == SYMMETRIC) {
        scale = max(-lo, hi) / ((qmax - qmin) * 0.5);
    } else if (MAPPING == NO_CLIP) {
        scale = max(lo / qmin, hi / qmax);
    } else {
        scale = (hi - lo) / (qmax - qmin);
    }
    scale = max(scale, eps);
    int zp = middle;
    if (MAPPING == AFFINE) zp = int(clamp(qmin - roundEven(lo / scale), qmin, qmax));
    if (MAPPING == PER_TOKEN) {
        float a = lo / scale;
        float b = hi / scale;
        float exact = (qmin + a) + (qmax + b) > 0.0 ? qmin - a : qmax - b;
        zp = int(roundEven(clamp(exact, qmin, qmax)));
    }
    scales[row] = scale;
    zps[row] = zp;
}
