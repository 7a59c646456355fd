// grid_priors: out[row · width + column] = ((column + offset) · stride, (row + offset) · stride)
//
// Binding 0  out  f32, contiguous [height · width, 2]
// An invocation a point. Tier: plain.
#version 450
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = 128) in;

#include "include/flat.glsl"

layout(std430, set = 0, binding = 0) writeonly buffer Out { float dst[]; };

layout(push_constant) uniform Push {
    uint height;
    uint width;
    float stride;
    float offset;
};

void main() {
    uint i = flat_invocation();
    if (i >= height * width) return;
    precise float column = (float(i % width) + offset) * stride;
    precise float row = (float(i / width) + offset) * stride;
    dst[2u * i] = column;
    dst[2u * i + 1u] = row;
}
