// conv: out[n, c, p] = Σ over input channels of c's group and taps of weight · x (· scale) (+ bias), clamped: a matrix
// product of weights and patches of x, a tile of output channels × output positions at a time.
//
// Binding 0  x        words, contiguous [batch, groups · inner, height, width]
// Binding 1  weights  words, halves or bytes, by the strides w_…
// Binding 2  scales   f32, one an output channel, repeated every scale_count; any buffer without HAS_SCALES
// Binding 3  bias     f32, one an output channel; any buffer without HAS_BIAS
// Binding 4  out      words, contiguous [batch, groups · outer, out_h, out_w]
// Binding 5  dyn      int words of the executor
// One workgroup makes a TILE_M channels × TILE_N positions tile of out, an invocation 4 × 4 elements of it.
// Taps outside of x are 0. Tier: plain.
#version 450
#extension GL_GOOGLE_include_directive : require

// (TILE_M / 4) · (TILE_N / 4) invocations; tiles are 16, 32 or 64 wide.
layout(local_size_x_id = 7) in;
layout(constant_id = 8) const uint TILE_M = 64;
layout(constant_id = 9) const uint TILE_N = 64;

#include "include/conv.glsl"
#include "include/flat.glsl"
#include "include/tile.glsl"

const uint TAPS = KERNEL_H * KERNEL_W;

void main() {
    uint area = out_h * out_w;
    uint tiles_m = (outer + TILE_M - 1u) / TILE_M;
    uint tiles_n = (area + TILE_N - 1u) / TILE_N;
    uint rest = flat_group();
    uint first_position = (rest % tiles_n) * TILE_N;
    rest /= tiles_n;
    uint first_channel = (rest % tiles_m) * TILE_M;
    rest /= tiles_m;
    uint g = rest % groups;
    uint n = rest / groups;
    if (n >= batch) return;

    uint lane = gl_LocalInvocationID.x;
    uint threads = gl_WorkGroupSize.x;
    // Every invocation loads one column of the patches.
    uint column = lane % TILE_N;
    uint position = first_position + column;
    bool has_position = position < area;
    uint row_at = position / out_w;
    uint column_at = position % out_w;
    uint depth = inner * TAPS;
    uint x_base = x_start(n, g);
    uint w_base = g * w_group;
    ELEM sum[4][4];
    clear(sum);

    for (uint k0 = 0u; k0 < depth; k0 += STEP) {
        for (uint e = lane; e < TILE_M * STEP; e += threads) {
            uint k = k0 + e % STEP;
            uint m = first_channel + e / STEP;
            ELEM value = ELEM(0);
            if (k < depth && m < outer)
                value = weight_at(w_base + m * w_outer + (k / TAPS) * w_inner + (k % TAPS) * w_tap);
            a_tile[(e % STEP) * PITCH + e / STEP] = value;
        }
        for (uint step_k = lane / TILE_N; step_k < STEP; step_k += threads / TILE_N) {
            uint k = k0 + step_k;
            ELEM value = ELEM(0);
            if (has_position && k < depth) {
                uint tap = k % TAPS;
                uint from_row = source_row(row_at, tap / KERNEL_W);
                uint from_column = source_column(column_at, tap % KERNEL_W);
                if (from_row < height && from_column < width)
                    value = x_at(x_base + ((k / TAPS) * height + from_row) * width + from_column);
            }
            b_tile[step_k * PITCH + column] = value;
        }
        barrier();
        multiply_tiles(sum);
        barrier();
    }

    for (uint i = 0u; i < 4u; i++) {
        uint m = first_channel + tile_row(i);
        if (m >= outer) break;
        uint channel = g * outer + m;
        for (uint j = 0u; j < 4u; j++) {
            uint p = first_position + tile_column(j);
            if (p < area) store((n * groups * outer + channel) * area + p, channel, sum[i][j]);
        }
    }
}
