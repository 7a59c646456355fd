// upsample_nearest, upsample_bilinear, grid_sampler: planes read between their elements.
//   NEAREST   out[y, x] = in[⌊y · step_y⌋, ⌊x · step_x⌋]
//   BILINEAR  the four neighbours of (y + ½) · step − ½ (ALIGN: y · step), not below 0
//   GRID      the neighbours of grid[n, y, x], whose −1 and 1 are the outer elements' centres (ALIGN) or edges
//
// Binding 0  x     f32, contiguous [batch, channels, height, width]
// Binding 1  grid  f32, contiguous [batch, out_h, out_w, 2], column first; any buffer but for GRID
// Binding 2  out   f32, contiguous [batch, channels, out_h, out_w]
// Binding 3  dyn   int words of the executor
// An invocation an output. Tier: plain.
#version 450
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = 128) in;

const uint NEAREST = 0u;
const uint GRID = 2u;
layout(constant_id = 0) const uint MODE = 0;
layout(constant_id = 1) const bool ALIGN = false;
// GRID alone: what is outside. 0: zeros; 1: the border; 2: a reflection.
layout(constant_id = 2) const uint PADDING = 1;
// GRID alone: the nearest element instead of four neighbours.
layout(constant_id = 3) const bool GRID_NEAREST = false;

#include "include/dynamic.glsl"
#include "include/flat.glsl"

layout(std430, set = 0, binding = 0) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 1) readonly buffer Grid { float grid[]; };
layout(std430, set = 0, binding = 2) writeonly buffer Out { float dst[]; };
layout(std430, set = 0, binding = 3) readonly buffer Dyn { int dyn[]; };

layout(push_constant) uniform Push {
    uint batch;
    uint channels;
    uint height;
    uint width;
    uint out_h;
    uint out_w;
    float step_y;
    float step_x;
    uint x_offset;
    uint x_dynamic;
    uint grid_offset;
    uint grid_dynamic;
};

// `at` reflected at low and high until it is between them.
float reflected(float at, float low, float high) {
    float span = high - low;
    if (span <= 0.0) return low;
    precise float offset = abs(at - low);
    offset -= 2.0 * span * floor(offset / (2.0 * span));
    return low + (offset > span ? 2.0 * span - offset : offset);
}

// Position in a plane of grid value `at` along an axis of `size` elements. NaN gives an end of the range.
float grid_position(float at, uint size) {
    float last = float(size) - 1.0;
    precise float position = ALIGN ? (at + 1.0) / 2.0 * last : ((at + 1.0) * float(size) - 1.0) / 2.0;
    if (PADDING == 0u) {
        // Beyond two elements outside nothing changes; the bound keeps the conversion to int exact.
        position = position > -2.0 ? position : -2.0;
        return min(position, float(size) + 1.0);
    }
    if (PADDING == 2u) position = ALIGN ? reflected(position, 0.0, last) : reflected(position, -0.5, last + 0.5);
    position = position > 0.0 ? position : 0.0;
    return min(position, last);
}

float scaled_position(uint at, float step) {
    precise float position = ALIGN ? float(at) * step : (float(at) + 0.5) * step - 0.5;
    return max(position, 0.0);
}

float element(uint plane, int row, int column) {
    if (MODE == GRID && PADDING == 0u) {
        if (uint(row) >= height || uint(column) >= width) return 0.0;
    } else {
        row = clamp(row, 0, int(height) - 1);
        column = clamp(column, 0, int(width) - 1);
    }
    return x[plane + uint(row) * width + uint(column)];
}

float blend(uint plane, float row, float column) {
    float top = floor(row);
    float left = floor(column);
    precise float down = row - top;
    precise float right = column - left;
    int r = int(top);
    int c = int(left);
    float upper = element(plane, r, c) * (1.0 - right) + element(plane, r, c + 1) * right;
    float lower = element(plane, r + 1, c) * (1.0 - right) + element(plane, r + 1, c + 1) * right;
    return upper * (1.0 - down) + lower * down;
}

void main() {
    uint i = flat_invocation();
    uint area = out_h * out_w;
    if (i >= batch * channels * area) return;
    uint at = i % area;
    uint plane = x_offset + DYNAMIC(x_dynamic) + (i / area) * height * width;
    if (MODE == NEAREST) {
        precise float row = float(at / out_w) * step_y;
        precise float column = float(at % out_w) * step_x;
        dst[i] = element(plane, int(row), int(column));
        return;
    }
    float row;
    float column;
    if (MODE == GRID) {
        uint point = grid_offset + DYNAMIC(grid_dynamic) + ((i / area / channels) * area + at) * 2u;
        column = grid_position(grid[point], width);
        row = grid_position(grid[point + 1u], height);
    } else {
        row = scaled_position(at / out_w, step_y);
        column = scaled_position(at % out_w, step_x);
    }
    if (GRID_NEAREST) dst[i] = element(plane, int(roundEven(row)), int(roundEven(column)));
    else dst[i] = blend(plane, row, column);
}
