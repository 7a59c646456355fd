// matmul_rows: the product of matmul.comp for at most four rows (M ≤ 4): a matrix-vector product.
//
// Bindings as in matmul.comp.
// A workgroup makes N_LANES columns; the other factor of its invocations splits K. Neighbouring invocations
// take neighbouring k (ALONG_K, weights stored row by row) or neighbouring columns. Tier: plain.
#version 450
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint N_LANES = 4;
layout(constant_id = 2) const bool ALONG_K = true;
layout(constant_id = 3) const uint B_STORAGE = 0;
layout(constant_id = 4) const bool HAS_BIAS = false;
layout(constant_id = 5) const bool HAS_C = false;

#include "include/matmul.glsl"
#include "include/flat.glsl"

// One vector an invocation, its components the rows.
shared vec4 partial[256];

vec4 load_a(uint base, uint k) {
    uint at = base + k * a_k;
    vec4 x = vec4(0.0);
    x.x = uintBitsToFloat(a[at]);
    if (m_size > 1u) x.y = uintBitsToFloat(a[at + a_m]);
    if (m_size > 2u) x.z = uintBitsToFloat(a[at + 2u * a_m]);
    if (m_size > 3u) x.w = uintBitsToFloat(a[at + 3u * a_m]);
    return x;
}

void main() {
    uint blocks = (n_size + N_LANES - 1u) / N_LANES;
    uint group = flat_group();
    uint batch_index = group / blocks;
    if (batch_index >= batch) return;
    uint lane = gl_LocalInvocationID.x;
    uint k_lanes = gl_WorkGroupSize.x / N_LANES;
    uint k_lane = ALONG_K ? lane % k_lanes : lane / N_LANES;
    uint n_lane = ALONG_K ? lane / k_lanes : lane % N_LANES;
    uint n = (group % blocks) * N_LANES + n_lane;

    uint a_base = a_offset + DYNAMIC(a_dynamic) + batch_index * a_batch;
    uint b_base = b_offset + DYNAMIC(b_dynamic) + batch_index * b_batch + n * b_n;
    vec4 sum = vec4(0.0);
    if (n < n_size) {
        for (uint k = k_lane; k < k_size; k += k_lanes) {
            uint at = b_base + k * b_k;
            sum += load_a(a_base, k) * LOAD(b, B_STORAGE, at);
        }
    }

    partial[n_lane * k_lanes + k_lane] = sum;
    barrier();
    for (uint half_lanes = k_lanes / 2u; half_lanes > 0u; half_lanes /= 2u) {
        if (k_lane < half_lanes) partial[n_lane * k_lanes + k_lane] += partial[n_lane * k_lanes + k_lane + half_lanes];
        barrier();
    }

    uint c_base = HAS_C ? c_offset + DYNAMIC(c_dynamic) + batch_index * c_batch : 0u;
    if (k_lane == 0u && n < n_size) {
        vec4 total = partial[n_lane * k_lanes];
        for (uint m = 0u; m < m_size; m++) store(batch_index, m, n, total[m], c_base);
    }
}
