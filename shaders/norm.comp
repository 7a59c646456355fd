// rms_norm, layer_norm, group_norm: normalises rows of n elements.
//   rms_norm    out = x · r · weight, r = 1/√(Σx²/n + eps)
//   layer_norm  out = (x − mean) · rstd · weight + bias, rstd = 1/√(Σ(x − mean)²/n + eps)
//   group_norm  the same, but element i of row j has channel (j mod groups) · (n / area) + i / area
//
// Binding 0  x       floats, strided rows
// Binding 1  weight  floats, contiguous
// Binding 2  bias    floats, contiguous
// Binding 3  out     floats, contiguous [rows, n]
// Binding 4  mean    floats [rows], if HAS_STATS
// Binding 5  rstd    floats [rows], if HAS_STATS
// Binding 6  dyn     int words of the executor
// Tier: plain; middle adds within subgroups instead of a tree in shared memory.
#version 450
#extension GL_GOOGLE_include_directive : require
#ifdef SUBGROUP
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif

layout(constant_id = 0) const uint MODE = 0;
layout(constant_id = 1) const uint HAS_WEIGHT = 1;
layout(constant_id = 2) const uint HAS_BIAS = 0;
layout(constant_id = 3) const uint HAS_STATS = 0;
// Dimensions of the rows left after merging, 0…4.
layout(constant_id = 4) const uint RANK = 1;
// Invocations a row: 32, 64, 128 or 256.
layout(local_size_x_id = 5) in;

#include "include/dyn.glsl"
#include "include/math.glsl"
#include "include/sum.glsl"

const uint RMS = 0u;
const uint GROUP = 2u;

layout(std430, set = 0, binding = 0) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 1) readonly buffer Weight { float weight[]; };
layout(std430, set = 0, binding = 2) readonly buffer Bias { float bias[]; };
layout(std430, set = 0, binding = 3) writeonly buffer Out { float y[]; };
layout(std430, set = 0, binding = 4) writeonly buffer Mean { float means[]; };
layout(std430, set = 0, binding = 5) writeonly buffer Rstd { float rstds[]; };
layout(std430, set = 0, binding = 6) readonly buffer Dyn { int dyn[]; };

layout(push_constant) uniform Push {
    uint rows;
    uint n;
    int n_stride;
    uint offset;
    uint dynamic_offset;
    float eps;
    // group_norm alone: groups, and elements a channel.
    uint groups;
    uint area;
    // Of the rows' dimensions 1…3, innermost last; dimension 0 needs no size.
    uint sizes[3];
    int strides[4];
};

int row_start(uint row) {
    int at = int(offset) + (dynamic_offset == NO_DYN ? 0 : dyn[dynamic_offset]);
    uint rest = row;
    for (int d = 3; d >= 4 - int(RANK); d--) {
        int index = int(rest);
        if (d > 4 - int(RANK)) {
            uint next = rest / sizes[d - 1];
            index = int(rest - next * sizes[d - 1]);
            rest = next;
        }
        at += index * strides[d];
    }
    return at;
}

void main() {
    uint me = gl_LocalInvocationID.x;
    for (uint row = gl_WorkGroupID.x; row < rows; row += gl_NumWorkGroups.x) {
        int from = row_start(row);
        float mean = 0.0;
        if (MODE != RMS) {
            float sum = 0.0;
            for (uint i = me; i < n; i += gl_WorkGroupSize.x) sum += x[from + int(i) * n_stride];
            mean = sum_all(sum) / float(n);
        }
        float squares = 0.0;
        for (uint i = me; i < n; i += gl_WorkGroupSize.x) {
            float d = x[from + int(i) * n_stride] - mean;
            squares += d * d;
        }
        float rstd = rsqrt32(sum_all(squares) / float(n) + eps);
        for (uint i = me; i < n; i += gl_WorkGroupSize.x) {
            uint at = MODE == GROUP ? (row % groups) * (n / area) + i / area : i;
            float value = (x[from + int(i) * n_stride] - mean) * rstd;
            if (HAS_WEIGHT != 0u) value *= weight[at];
            if (HAS_BIAS != 0u) value += bias[at];
            y[row * n + i] = value;
        }
        if (HAS_STATS != 0u && me == 0u) {
            means[row] = mean;
            rstds[row] = rstd;
        }
    }
}
