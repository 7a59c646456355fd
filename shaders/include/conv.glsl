// What both convolution kernels share: bindings, push constants, the element that a tap reads and the epilogue.
// INT8: x holds codes, weights are signed bytes, sums are exact ints; else everything is float.
#include "include/dynamic.glsl"
#include "include/storage.glsl"

#ifdef INT8
#define ELEM int
#else
#define ELEM float
#endif

layout(constant_id = 0) const uint KERNEL_H = 3;
layout(constant_id = 1) const uint KERNEL_W = 3;
// Float weights alone: WORD, HALF or BYTE.
layout(constant_id = 2) const uint W_STORAGE = 0;
layout(constant_id = 3) const bool TRANSPOSED = false;
layout(constant_id = 4) const bool HAS_BIAS = false;
layout(constant_id = 5) const bool HAS_SCALES = false;
// Whether out holds int8 codes, else floats.
layout(constant_id = 6) const bool QUANTISES = false;

layout(std430, set = 0, binding = 0) readonly buffer X { uint x[]; };
layout(std430, set = 0, binding = 1) readonly buffer Weights { uint weights[]; };
layout(std430, set = 0, binding = 2) readonly buffer Scales { float scales[]; };
layout(std430, set = 0, binding = 3) readonly buffer Bias { float bias[]; };
layout(std430, set = 0, binding = 4) writeonly buffer Out { uint dst[]; };
layout(std430, set = 0, binding = 5) readonly buffer Dyn { int dyn[]; };

layout(push_constant) uniform Push {
    uint batch;
    uint groups;
    // Input and output channels of a group.
    uint inner;
    uint outer;
    uint height;
    uint width;
    uint out_h;
    uint out_w;
    uint stride_h;
    uint stride_w;
    uint padding_h;
    uint padding_w;
    uint dilation_h;
    uint dilation_w;
    uint x_offset;
    uint x_dynamic;
    // Elements between weights of neighbouring groups, output channels, input channels and taps.
    uint w_group;
    uint w_outer;
    uint w_inner;
    uint w_tap;
    // Code that stands for 0, and the value of a step.
    int x_zero;
    float x_scale;
    uint scale_count;
    float low;
    float high;
    // 1 / the step of out's codes, and the code that stands for 0.
    float out_inverse;
    int out_zero;
};

const uint BYTE = 2u;
const uint NOWHERE = 0xFFFFFFFFu;

ELEM weight_at(uint i) {
    int code = 0;
#ifndef INT8
    if (W_STORAGE != BYTE) return LOAD(weights, W_STORAGE, i);
#endif
    code = bitfieldExtract(int(weights[i >> 2]), int(i & 3u) * 8, 8);
    return ELEM(code);
}

ELEM x_at(uint i) {
#ifdef INT8
    return int(x[i]) - x_zero;
#else
    return uintBitsToFloat(x[i]);
#endif
}

// The coordinate that tap `tap` of output coordinate `at` reads along an axis; outside of it where there is none.
uint source(uint at, uint tap, uint stride, uint padding, uint dilation) {
    if (!TRANSPOSED) return at * stride + tap * dilation - padding;
    uint spread = at + padding - tap * dilation;
    uint from = spread / stride;
    return int(spread) >= 0 && from * stride == spread ? from : NOWHERE;
}

uint source_row(uint at, uint tap) { return source(at, tap, stride_h, padding_h, dilation_h); }
uint source_column(uint at, uint tap) { return source(at, tap, stride_w, padding_w, dilation_w); }

// First element of the channels of group `g` of image `n`.
uint x_start(uint n, uint g) { return x_offset + DYNAMIC(x_dynamic) + (n * groups + g) * inner * height * width; }

// Writes element `at` of out, which belongs to output channel `channel`.
void store(uint at, uint channel, ELEM sum) {
    precise float value = float(sum);
    if (HAS_SCALES) value *= x_scale * scales[channel % scale_count];
    if (HAS_BIAS) value += bias[channel];
    // A NaN stays. It is told by its bits: compilers make a minimum and a maximum, which drop it, of comparisons.
    if ((floatBitsToUint(value) & 0x7FFFFFFFu) <= 0x7F800000u) value = min(max(value, low), high);
    if (QUANTISES) {
        precise float steps = roundEven(value * out_inverse);
        // Far enough for any code, near enough not to wrap when the zero point is added.
        int code = int(clamp(steps, -1.0e9, 1.0e9)) + out_zero;
        dst[at] = uint(clamp(code, -128, 127));
    } else {
        dst[at] = floatBitsToUint(value);
    }
}
