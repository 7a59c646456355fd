// What both quantised products share: bindings, push constants, the weight formats and the epilogue.
#include "include/storage.glsl"

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

layout(std430, set = 0, binding = 0) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 0) readonly buffer X4 { vec4 x4[]; };
layout(std430, set = 0, binding = 1) readonly buffer Weight { uint weight[]; };
layout(std430, set = 0, binding = 2) readonly buffer Scales { uint scales[]; };
layout(std430, set = 0, binding = 3) readonly buffer Bias { float bias[]; };
layout(std430, set = 0, binding = 4) writeonly buffer Out { float dst[]; };

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
    // First column of this launch within the whole scales, bias and out, and the elements of an output row.
    uint first_n;
    uint out_row;
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
    uint at = group * scale_row + first_n + n;
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

void store(uint m, uint n, float sum) {
    if (HAS_BIAS) sum += bias[first_n + n];
    dst[m * out_row + first_n + n] = sum;
}
