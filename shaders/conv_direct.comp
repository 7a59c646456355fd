// conv_direct: what conv.comp computes, for few channels a group (depthwise above all) or few output positions.
//
// Bindings as in conv.comp. LANES invocations share an output and split its input channels. Tier: plain.
#version 450
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = 128) in;
// 1, or 32 where outputs are few and input channels many.
layout(constant_id = 7) const uint LANES = 1;

#include "include/conv.glsl"
#include "include/flat.glsl"

shared ELEM partials[128];

ELEM sum_taps(uint n, uint channel, uint row_at, uint column_at, uint lane) {
    uint g = channel / outer;
    uint x_base = x_start(n, g);
    uint w_base = g * w_group + (channel % outer) * w_outer;
    ELEM sum = ELEM(0);
    for (uint tap_row = 0u; tap_row < KERNEL_H; tap_row++) {
        uint from_row = source_row(row_at, tap_row);
        if (from_row >= height) continue;
        for (uint tap_column = 0u; tap_column < KERNEL_W; tap_column++) {
            uint from_column = source_column(column_at, tap_column);
            if (from_column >= width) continue;
            uint from = x_base + from_row * width + from_column;
            uint weight = w_base + (tap_row * KERNEL_W + tap_column) * w_tap;
            for (uint c = lane; c < inner; c += LANES)
                sum += x_at(from + c * height * width) * weight_at(weight + c * w_inner);
        }
    }
    return sum;
}

void main() {
    uint me = gl_LocalInvocationID.x;
    uint i = flat_group() * (128u / LANES) + me / LANES;
    uint area = out_h * out_w;
    uint channels = groups * outer;
    bool real = i < batch * channels * area;
    ELEM sum = ELEM(0);
    uint channel = (i / area) % channels;
    if (real) sum = sum_taps(i / area / channels, channel, (i % area) / out_w, (i % area) % out_w, me % LANES);
    if (LANES > 1u) {
        partials[me] = sum;
        barrier();
        for (uint half_size = LANES / 2u; half_size > 0u; half_size /= 2u) {
            if (me % LANES < half_size) partials[me] += partials[me + half_size];
            barrier();
        }
        sum = partials[me];
    }
    if (real && me % LANES == 0u) store(i, channel, sum);
}
