// linear_q_rows: the product of linear_q.comp for few rows of x (M ≤ 8): a matrix-vector product.
//
// Bindings, epilogues and weight formats: include/linear_q.glsl.
// A workgroup makes M_ROWS × N_ROWS products; its invocations stride over K, eight codes of each weight row at a
// time, and add their sums up at the end: by a tree (tier plain) or by subgroups of any size (tier middle).
#version 450
#extension GL_GOOGLE_include_directive : require
#ifdef SUBGROUP
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif

layout(local_size_x_id = 0) in;
// At least M of the launch.
layout(constant_id = 7) const uint M_ROWS = 1;
layout(constant_id = 8) const uint N_ROWS = 4;
const uint SUMS = M_ROWS * N_ROWS;

#include "include/linear_q.glsl"
#include "include/flat.glsl"

// Columns that are stored. Where there are gates, weight row 2i is one and 2i + 1 is what it opens.
const uint OUT_N = EPILOGUE == GATED ? N_ROWS / 2u : N_ROWS;

shared float partial[SUMS * gl_WorkGroupSize.x];

// Rows beyond the last are computed from it and not stored.
uint weight_row(uint n0, uint r) {
    if (EPILOGUE == GATED) return min(n0 + r / 2u, width[0] - 1u) + r % 2u * width[0];
    return min(n0 + r, n_size - 1u);
}

// Sum `s` of the workgroup.
float total(uint parts, uint s) {
    float sum = 0.0;
    for (uint part = 0u; part < parts; part++) sum += partial[part * SUMS + s];
    return sum;
}

void main() {
    uint n0 = flat_group() * OUT_N;
    if (n0 >= out_columns()) return;
    uint lane = gl_LocalInvocationID.x;

    float sum[SUMS];
    for (uint s = 0u; s < SUMS; s++) sum[s] = 0.0;

    uint octets = (k_size + 7u) / 8u;
    for (uint octet = lane; octet < octets; octet += gl_WorkGroupSize.x) {
        vec4 low[N_ROWS];
        vec4 high[N_ROWS];
        float scale[N_ROWS];
        for (uint r = 0u; r < N_ROWS; r++) {
            uint n = weight_row(n0, r);
            load_codes(n, octet, low[r], high[r]);
            scale[r] = 1.0;
            if (WHOLE_GROUPS) {
                scale[r] = scale_at(n, octet * 8u);
            } else {
                low[r] *= four_scales(n, octet * 8u);
                high[r] *= four_scales(n, octet * 8u + 4u);
            }
        }
        for (uint m = 0u; m < M_ROWS; m++) {
            vec4 x_low;
            vec4 x_high;
            load_x(min(m, m_size - 1u), octet, x_low, x_high);
            for (uint r = 0u; r < N_ROWS; r++)
                sum[m * N_ROWS + r] += scale[r] * (dot(x_low, low[r]) + dot(x_high, high[r]));
        }
    }

#ifdef SUBGROUP
    for (uint s = 0u; s < SUMS; s++) {
        float all_lanes = subgroupAdd(sum[s]);
        if (subgroupElect()) partial[gl_SubgroupID * SUMS + s] = all_lanes;
    }
    uint parts = gl_NumSubgroups;
    barrier();
#else
    for (uint s = 0u; s < SUMS; s++) partial[lane * SUMS + s] = sum[s];
    barrier();
    for (uint half_size = gl_WorkGroupSize.x / 2u; half_size > 0u; half_size /= 2u) {
        if (lane < half_size)
            for (uint s = 0u; s < SUMS; s++) partial[lane * SUMS + s] += partial[(lane + half_size) * SUMS + s];
        barrier();
    }
    uint parts = 1u;
#endif

    for (uint o = lane; o < M_ROWS * OUT_N; o += gl_WorkGroupSize.x) {
        uint m = o / OUT_N;
        uint n = n0 + o % OUT_N;
        if (m >= m_size || n >= out_columns()) continue;
        if (EPILOGUE == GATED) {
            store_gated(m, n, total(parts, o * 2u), total(parts, o * 2u + 1u));
        } else {
            store(m, n, total(parts, o));
        }
    }
}
