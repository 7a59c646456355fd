// matmul_rows: the product of matmul.comp for at most four rows (M ≤ 4): a matrix-vector product.
//
// Bindings as in matmul.comp.
// A workgroup makes BLOCK columns. ALONG_K (B stored row by row): each invocation takes every k_lanes-th k of all
// columns. Else: neighbouring invocations take neighbouring columns, and what is left of the workgroup splits K.
// Sums over K are added up by a tree (tier plain) or, ALONG_K, by subgroups of any size (tier middle).
#version 450
#extension GL_GOOGLE_include_directive : require
#ifdef SUBGROUP
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint BLOCK = 4;
layout(constant_id = 2) const bool ALONG_K = true;
layout(constant_id = 3) const uint B_STORAGE = 0;
layout(constant_id = 4) const bool HAS_BIAS = false;
layout(constant_id = 5) const bool HAS_C = false;
// Columns of an invocation.
const uint COLUMNS = ALONG_K ? BLOCK : 1u;
const uint K_LANES = ALONG_K ? gl_WorkGroupSize.x : gl_WorkGroupSize.x / BLOCK;

#include "include/matmul.glsl"
#include "include/flat.glsl"

// Vectors whose components are the rows.
shared vec4 partial[BLOCK * K_LANES];

vec4 load_a(uint base, uint k) {
    uint at = base + k * a_k;
    vec4 x = vec4(0.0);
    x.x = uintBitsToFloat(a[at]);
    if (m_size > 1u) x.y = uintBitsToFloat(a[at + a_m]);
    if (m_size > 2u) x.z = uintBitsToFloat(a[at + 2u * a_m]);
    if (m_size > 3u) x.w = uintBitsToFloat(a[at + 3u * a_m]);
    return x;
}

// Stores this invocation's share of the sum of a column, or its subgroup's.
void keep(uint block_column, uint k_lane, vec4 share) {
#ifdef SUBGROUP
    if (ALONG_K) {
        vec4 total = subgroupAdd(share);
        if (subgroupElect()) partial[block_column * K_LANES + gl_SubgroupID] = total;
        return;
    }
#endif
    partial[block_column * K_LANES + k_lane] = share;
}

void main() {
    uint blocks = (n_size + BLOCK - 1u) / BLOCK;
    uint batch_index = flat_group() / blocks;
    if (batch_index >= batch) return;
    uint first_column = (flat_group() % blocks) * BLOCK;
    uint lane = gl_LocalInvocationID.x;
    uint k_lane = ALONG_K ? lane : lane / BLOCK;
    uint first_own = ALONG_K ? 0u : lane % BLOCK;

    uint a_base = a_offset + DYNAMIC(a_dynamic) + batch_index * a_batch;
    uint b_base = b_offset + DYNAMIC(b_dynamic) + batch_index * b_batch;
    vec4 sum[COLUMNS];
    uint row[COLUMNS];
    for (uint j = 0u; j < COLUMNS; j++) {
        sum[j] = vec4(0.0);
        // Columns beyond the last are computed from it and not stored.
        row[j] = b_base + min(first_column + first_own + j, n_size - 1u) * b_n;
    }
    for (uint k = k_lane; k < k_size; k += K_LANES) {
        vec4 x = load_a(a_base, k);
        for (uint j = 0u; j < COLUMNS; j++) sum[j] += x * LOAD(b, B_STORAGE, row[j] + k * b_k);
    }

    for (uint j = 0u; j < COLUMNS; j++) keep(first_own + j, k_lane, sum[j]);
    barrier();
#ifdef SUBGROUP
    const bool tree = !ALONG_K;
    uint parts = ALONG_K ? gl_NumSubgroups : 1u;
#else
    const bool tree = true;
    uint parts = 1u;
#endif
    if (tree) {
        for (uint half_lanes = K_LANES / 2u; half_lanes > 0u; half_lanes /= 2u) {
            if (k_lane < half_lanes)
                for (uint j = 0u; j < COLUMNS; j++) {
                    uint at = (first_own + j) * K_LANES + k_lane;
                    partial[at] += partial[at + half_lanes];
                }
            barrier();
        }
    }

    uint c_base = HAS_C ? c_offset + DYNAMIC(c_dynamic) + batch_index * c_batch : 0u;
    for (uint j = lane; j < BLOCK; j += gl_WorkGroupSize.x) {
        uint n = first_column + j;
        if (n >= n_size) break;
        vec4 total = vec4(0.0);
        for (uint part = 0u; part < parts; part++) total += partial[j * K_LANES + part];
        for (uint m = 0u; m < m_size; m++) store(batch_index, m, n, total[m], c_base);
    }
}
