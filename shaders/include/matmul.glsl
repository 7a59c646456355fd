// What both float matrix products share: bindings, push constants and the epilogue.
#include "include/dynamic.glsl"
#include "include/storage.glsl"

layout(std430, set = 0, binding = 0) readonly buffer A { uint a[]; };
layout(std430, set = 0, binding = 1) readonly buffer B { uint b[]; };
layout(std430, set = 0, binding = 2) readonly buffer Bias { float bias[]; };
layout(std430, set = 0, binding = 3) readonly buffer C { float c[]; };
layout(std430, set = 0, binding = 4) writeonly buffer Out { float dst[]; };
layout(std430, set = 0, binding = 5) readonly buffer Dyn { int dyn[]; };

layout(push_constant) uniform Push {
    uint batch;
    uint m_size;
    uint n_size;
    uint k_size;
    uint a_offset;
    uint a_dynamic;
    uint a_batch;
    uint a_m;
    uint a_k;
    uint b_offset;
    uint b_dynamic;
    uint b_batch;
    uint b_n;
    uint b_k;
    uint c_offset;
    uint c_dynamic;
    uint c_batch;
    uint c_m;
    uint c_n;
    float alpha;
    float beta;
    // First column of this launch within the whole bias and out, and the elements of an output row.
    uint first_n;
    uint out_row;
};

// `c_base` is C's first element of this batch; unused without C.
void store(uint batch_index, uint m, uint n, float sum, uint c_base) {
    float value = alpha * sum;
    if (HAS_BIAS) value += bias[first_n + n];
    if (HAS_C) value += beta * c[c_base + m * c_m + n * c_n];
    dst[(batch_index * m_size + m) * out_row + first_n + n] = value;
}
