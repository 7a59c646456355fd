// linear_q: out[m, n] = Σ_k x[m, k] · code[n, k] · scale[k / group_size, n] (+ bias[n]), tiles of the output.
//
// Bindings, epilogues and weight formats: include/linear_q.glsl.
// The weight is dequantised into shared memory. Tiers: plain; full multiplies 16×16 cooperative matrices of halves with
// f32 sums (linear_q_matrix.glsl), for x that may be rounded to half.
#version 450
#extension GL_GOOGLE_include_directive : require
#ifdef MATRIX
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#endif

layout(local_size_x_id = 0) in;
layout(constant_id = 7) const uint TILE_M = 64;
layout(constant_id = 8) const uint TILE_N = 64;

#include "include/linear_q.glsl"
#include "include/flat.glsl"
#ifdef MATRIX
#include "include/linear_q_matrix.glsl"
#else
#include "include/tile.glsl"

// Stored columns of a tile: half of it is gates and half is what they open, where there are gates.
const uint OUT_N = EPILOGUE == GATED ? TILE_N / 2u : TILE_N;

// The weight row of column `c` of a tile, n_size or more where there is none.
uint weight_row(uint first_column, uint c) {
    if (EPILOGUE != GATED) return first_column + c;
    uint n = first_column + c % OUT_N;
    return n < width[0] ? n + c / OUT_N * width[0] : n_size;
}

void main() {
    uint tiles_n = (out_columns() + OUT_N - 1u) / OUT_N;
    uint first_row = (flat_group() / tiles_n) * TILE_M;
    uint first_column = (flat_group() % tiles_n) * OUT_N;
    if (first_row >= m_size) return;
    uint lane = gl_LocalInvocationID.x;
    uint threads = gl_WorkGroupSize.x;

    float sum[4][4];
    clear(sum);
    for (uint k0 = 0u; k0 < k_size; k0 += STEP) {
        for (uint e = lane; e < TILE_M * STEP; e += threads) {
            uint k = e % STEP;
            uint m = first_row + e / STEP;
            a_tile[k * PITCH + e / STEP] = m < m_size ? x_at(x_offset + m * x_row, k0 + k) : 0.0;
        }
        for (uint e = lane; e < TILE_N * STEP / 8u; e += threads) {
            uint at = (e % 2u) * 8u * PITCH + e / 2u;
            uint n = weight_row(first_column, e / 2u);
            uint octet = k0 / 8u + e % 2u;
            vec4 low = vec4(0.0);
            vec4 high = vec4(0.0);
            if (n < n_size && octet * 8u < k_size) {
                load_codes(n, octet, low, high);
                if (WHOLE_GROUPS) {
                    float scale = scale_at(n, octet * 8u);
                    low *= scale;
                    high *= scale;
                } else {
                    low *= four_scales(n, octet * 8u);
                    high *= four_scales(n, octet * 8u + 4u);
                }
            }
            for (uint i = 0u; i < 4u; i++) {
                b_tile[at + i * PITCH] = low[i];
                b_tile[at + (i + 4u) * PITCH] = high[i];
            }
        }
        barrier();
        multiply_tiles(sum);
        barrier();
    }

    for (uint i = 0u; i < 4u; i++) {
        uint m = first_row + tile_row(i);
        if (m >= m_size) break;
        // Columns j and j + 2 of an invocation lie half a tile apart.
        for (uint j = 0u; j < (EPILOGUE == GATED ? 2u : 4u); j++) {
            uint n = first_column + tile_column(j);
            if (n >= out_columns()) continue;
            if (EPILOGUE == GATED) {
                store_gated(m, n, sum[i][j], sum[i][j + 2u]);
            } else {
                store(m, n, sum[i][j]);
            }
        }
    }
}
#endif
