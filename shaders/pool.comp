// avg_pool, max_pool: the mean or the largest of the elements that a window covers.
//
// Binding 0  x        f32, contiguous [planes, height, width]
// Binding 1  out      f32, contiguous [planes, out_h, out_w]
// Binding 2  indices  int, as out: place of the largest in its plane; any buffer without HAS_INDICES
// Binding 3  dyn      int words of the executor
// An invocation an output. Tier: plain.
#version 450
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = 128) in;

layout(constant_id = 0) const bool TAKES_MAX = false;
layout(constant_id = 1) const bool HAS_INDICES = false;
// A mean's divisor: 0 the elements inside of x, 1 those inside of its padding as well, 2 a given number.
layout(constant_id = 2) const uint DIVISOR = 0;

#include "include/dynamic.glsl"
#include "include/flat.glsl"

layout(std430, set = 0, binding = 0) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 1) writeonly buffer Out { float dst[]; };
layout(std430, set = 0, binding = 2) writeonly buffer Indices { int indices[]; };
layout(std430, set = 0, binding = 3) readonly buffer Dyn { int dyn[]; };

layout(push_constant) uniform Push {
    uint planes;
    uint height;
    uint width;
    uint out_h;
    uint out_w;
    uint kernel_h;
    uint kernel_w;
    uint stride_h;
    uint stride_w;
    uint padding_h;
    uint padding_w;
    uint dilation_h;
    uint dilation_w;
    uint x_offset;
    uint x_dynamic;
    float divisor;
};

bool is_nan(float value) { return (floatBitsToUint(value) & 0x7FFFFFFFu) > 0x7F800000u; }

// Length of a window that starts at `start`, counted from the padding's first element, clipped to the padded input.
uint padded(uint start, uint kernel, uint size, uint padding) {
    return min(start + kernel, size + 2u * padding) - start;
}

void main() {
    uint i = flat_invocation();
    uint area = out_h * out_w;
    if (i >= planes * area) return;
    uint top = ((i % area) / out_w) * stride_h;
    uint left = ((i % area) % out_w) * stride_w;
    uint base = x_offset + DYNAMIC(x_dynamic) + (i / area) * height * width;

    uint count = 0u;
    float sum = 0.0;
    // −∞ until there is an element.
    float best = uintBitsToFloat(0xFF800000u);
    int place = 0;
    for (uint tap_row = 0u; tap_row < kernel_h; tap_row++) {
        uint row = top + tap_row * dilation_h - padding_h;
        if (row >= height) continue;
        for (uint tap_column = 0u; tap_column < kernel_w; tap_column++) {
            uint column = left + tap_column * dilation_w - padding_w;
            if (column >= width) continue;
            float value = x[base + row * width + column];
            if (TAKES_MAX) {
                if (count == 0u || value > best || is_nan(value)) {
                    best = value;
                    place = int(row * width + column);
                }
            } else {
                sum += value;
            }
            count++;
        }
    }
    if (TAKES_MAX) {
        dst[i] = best;
        if (HAS_INDICES) indices[i] = place;
        return;
    }
    float by = divisor;
    if (DIVISOR == 0u) by = float(count);
    if (DIVISOR == 1u) by = float(padded(top, kernel_h, height, padding_h) * padded(left, kernel_w, width, padding_w));
    dst[i] = count == 0u ? 0.0 : sum / by;
}
