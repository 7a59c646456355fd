// What the quantised products share: bindings, push constants, the weight formats and the epilogue.
//
// Binding 0   x              f32 [M, K], rows x_row apart
// Binding 1   weight         packed codes [N, K]
// Binding 2   scales         words or halves [K / group_size, ⌈N⌉4]
// Binding 3   bias           f32 [N], if HAS_BIAS
// Binding 4   operand        f32 [M, N], rows operand_row apart, for the epilogues ADD and MULTIPLY
// Binding 5   base           f32 [K], this and the next three for the prologue of linear_q_vector.comp
// Binding 6   branch_weight  f32 [K]
// Binding 7   branch_scale   f32 [1]
// Binding 8   norm_weight    f32 [K]
// Binding 9…11  out0, out1, out2  f32 [M, width[i]]: the columns of the product are shared out in order
// Binding 12  h              f32 [K], written by that prologue
// Any buffer stands for one that is absent.
//
// Epilogues, of the product with its bias:
//   NONE      out = product
//   ADD       out = product + operand
//   MULTIPLY  out = act(product) · operand
//   GATED     out = act(gate) · up: weight rows 0…N/2 give gate and the others up, and out has N/2 columns
#include "include/storage.glsl"
#include "include/math.glsl"
#include "include/activation.glsl"

// Weight formats.
const uint Q4_LOW = 0u;   // 4-bit codes + 8, two a byte, even k in the low half
const uint Q4_HIGH = 1u;  // 4-bit codes + 8, two a byte, even k in the high half
const uint Q8 = 2u;       // signed bytes

layout(constant_id = 1) const uint FORMAT = 0;
layout(constant_id = 2) const uint SCALE_STORAGE = 0;
layout(constant_id = 3) const bool HAS_BIAS = false;
// Neighbouring k that share a scale; 0: all of them.
layout(constant_id = 4) const uint GROUP = 0;
// Weight rows begin at whole words.
layout(constant_id = 5) const bool ALIGNED = true;
// x can be read four at a time: K, its rows and its offset are multiples of 8, 4 and 4.
layout(constant_id = 6) const bool X_VEC4 = true;
// Eight neighbouring k, from a multiple of eight, always share a scale.
const bool WHOLE_GROUPS = GROUP % 8u == 0u;

const uint NONE = 0u;
const uint ADD = 1u;
const uint MULTIPLY = 2u;
const uint GATED = 3u;
layout(constant_id = 9) const uint EPILOGUE = NONE;
layout(constant_id = 10) const uint ACTIVATION = GELU_TANH;

layout(std430, set = 0, binding = 0) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 0) readonly buffer X4 { vec4 x4[]; };
layout(std430, set = 0, binding = 1) readonly buffer Weight { uint weight[]; };
layout(std430, set = 0, binding = 2) readonly buffer Scales { uint scales[]; };
layout(std430, set = 0, binding = 3) readonly buffer Bias { float bias[]; };
layout(std430, set = 0, binding = 4) readonly buffer Operand { float operand[]; };
layout(std430, set = 0, binding = 9) writeonly buffer Out0 { float out0[]; };
layout(std430, set = 0, binding = 10) writeonly buffer Out1 { float out1[]; };
layout(std430, set = 0, binding = 11) writeonly buffer Out2 { float out2[]; };

layout(push_constant) uniform Push {
    uint m_size;
    uint n_size;
    uint k_size;
    uint x_offset;
    uint x_row;
    // In bytes: a weight row, and what lies before the first.
    uint row_bytes;
    uint weight_offset;
    uint weight_words;
    // Elements between the scales of neighbouring groups.
    uint scale_row;
    // Columns of each output; 0 for those that are absent.
    uint width[3];
    float branch_eps;
    float norm_eps;
    // Bounds of the prologue's sum.
    float branch_low;
    float branch_high;
    // Elements before the operand and between its rows.
    uint operand_offset;
    uint operand_row;
};

// The word at byte `at`, which need not be aligned. What lies beyond the weight is only multiplied by zeros.
uint weight_word(uint at) {
    uint index = min(at >> 2, weight_words - 1u);
    uint word = weight[index];
    if (!ALIGNED) {
        uint shift = (at & 3u) * 8u;
        if (shift != 0u) word = (word >> shift) | (weight[min(index + 1u, weight_words - 1u)] << (32u - shift));
    }
    return word;
}

vec4 signed_bytes(uint word) {
    int w = int(word);
    return vec4(bitfieldExtract(w, 0, 8), bitfieldExtract(w, 8, 8), bitfieldExtract(w, 16, 8), w >> 24);
}

// The eight codes of a word.
void split_codes(uint word, out vec4 low, out vec4 high) {
    if (FORMAT == Q4_HIGH) word = ((word & 0x0F0F0F0Fu) << 4) | ((word >> 4) & 0x0F0F0F0Fu);
    // Flipping the top bit of code + 8 gives the code in two's complement.
    int w = int(word ^ 0x88888888u);
    low = vec4(bitfieldExtract(w, 0, 4), bitfieldExtract(w, 4, 4), bitfieldExtract(w, 8, 4), bitfieldExtract(w, 12, 4));
    high = vec4(bitfieldExtract(w, 16, 4), bitfieldExtract(w, 20, 4), bitfieldExtract(w, 24, 4), w >> 28);
}

// The codes of weight row `n` at k = 8·octet … 8·octet + 7, without their scales.
void load_codes(uint n, uint octet, out vec4 low, out vec4 high) {
    uint row = weight_offset + n * row_bytes;
    if (FORMAT == Q8) {
        low = signed_bytes(weight_word(row + octet * 8u));
        high = signed_bytes(weight_word(row + octet * 8u + 4u));
        return;
    }
    split_codes(weight_word(row + octet * 4u), low, high);
}

float scale_at(uint n, uint k) {
    uint group = GROUP == 0u ? 0u : min(k, k_size - 1u) / max(GROUP, 1u);
    uint at = group * scale_row + n;
    return LOAD(scales, SCALE_STORAGE, at);
}

vec4 four_scales(uint n, uint k) {
    return vec4(scale_at(n, k), scale_at(n, k + 1u), scale_at(n, k + 2u), scale_at(n, k + 3u));
}

float x_at(uint row, uint k) { return k < k_size ? x[row + k] : 0.0; }

// x[m, 8·octet …], zeros beyond K.
void load_x(uint m, uint octet, out vec4 low, out vec4 high) {
    uint row = x_offset + m * x_row;
    uint k = octet * 8u;
    if (X_VEC4) {
        low = x4[(row + k) / 4u];
        high = x4[(row + k) / 4u + 1u];
    } else {
        low = vec4(x_at(row, k), x_at(row, k + 1u), x_at(row, k + 2u), x_at(row, k + 3u));
        high = vec4(x_at(row, k + 4u), x_at(row, k + 5u), x_at(row, k + 6u), x_at(row, k + 7u));
    }
}

// Columns that are stored, all outputs together.
uint out_columns() { return EPILOGUE == GATED ? width[0] : n_size; }

// Stores column `n` of row `m` of all outputs together.
void put(uint m, uint n, float value) {
    if (n < width[0]) {
        out0[m * width[0] + n] = value;
    } else if (n - width[0] < width[1]) {
        out1[m * width[1] + n - width[0]] = value;
    } else {
        out2[m * width[2] + n - width[0] - width[1]] = value;
    }
}

// The epilogues of one product.
void store(uint m, uint n, float product) {
    if (HAS_BIAS) product += bias[n];
    uint at = operand_offset + m * operand_row + n;
    if (EPILOGUE == ADD) product += operand[at];
    if (EPILOGUE == MULTIPLY) product = activated(ACTIVATION, product) * operand[at];
    put(m, n, product);
}

// The epilogue GATED.
void store_gated(uint m, uint n, float gate, float up) {
    if (HAS_BIAS) {
        gate += bias[n];
        up += bias[width[0] + n];
    }
    put(m, n, activated(ACTIVATION, gate) * up);
}
