// matmul: out[b, m, n] = alpha · Σ_k A[b, m, k] · B[b, n, k] (+ bias[n]) (+ beta · C[b, m, n]), tiles of the output.
//
// Binding 0  A     words, strided
// Binding 1  B     words or halves, strided
// Binding 2  bias  f32 [N]; any buffer without HAS_BIAS
// Binding 3  C     f32, strided; any buffer without HAS_C
// Binding 4  out   f32, contiguous [batch, M, out_row] from column first_n
// Binding 5  dyn   int words of the executor
// One workgroup makes a TILE_M × TILE_N tile of out, an invocation 4 × 4 elements of it. Tier: plain.
#version 450
#extension GL_GOOGLE_include_directive : require

// (TILE_M / 4) · (TILE_N / 4) invocations; tiles are 16, 32 or 64 wide.
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint TILE_M = 64;
layout(constant_id = 2) const uint TILE_N = 64;
layout(constant_id = 3) const uint B_STORAGE = 0;
layout(constant_id = 4) const bool HAS_BIAS = false;
layout(constant_id = 5) const bool HAS_C = false;
// Whether neighbouring invocations read neighbouring k, else neighbouring rows.
layout(constant_id = 6) const bool A_ALONG_K = true;
layout(constant_id = 7) const bool B_ALONG_K = true;

#include "include/matmul.glsl"
#include "include/flat.glsl"
#include "include/tile.glsl"

void main() {
    uint tiles_n = (n_size + TILE_N - 1u) / TILE_N;
    uint tiles_m = (m_size + TILE_M - 1u) / TILE_M;
    uint group = flat_group();
    uint batch_index = group / (tiles_m * tiles_n);
    if (batch_index >= batch) return;
    uint tile = group % (tiles_m * tiles_n);
    uint first_row = (tile / tiles_n) * TILE_M;
    uint first_column = (tile % tiles_n) * TILE_N;

    uint a_base = a_offset + DYNAMIC(a_dynamic) + batch_index * a_batch;
    uint b_base = b_offset + DYNAMIC(b_dynamic) + batch_index * b_batch;
    uint lane = gl_LocalInvocationID.x;
    uint threads = gl_WorkGroupSize.x;
    float sum[4][4];
    clear(sum);

    for (uint k0 = 0u; k0 < k_size; k0 += STEP) {
        for (uint e = lane; e < TILE_M * STEP; e += threads) {
            uint k = A_ALONG_K ? e % STEP : e / TILE_M;
            uint m = A_ALONG_K ? e / STEP : e % TILE_M;
            bool inside = k0 + k < k_size && first_row + m < m_size;
            a_tile[k * PITCH + m] =
                inside ? uintBitsToFloat(a[a_base + (first_row + m) * a_m + (k0 + k) * a_k]) : 0.0;
        }
        for (uint e = lane; e < TILE_N * STEP; e += threads) {
            uint k = B_ALONG_K ? e % STEP : e / TILE_N;
            uint n = B_ALONG_K ? e / STEP : e % TILE_N;
            bool inside = k0 + k < k_size && first_column + n < n_size;
            uint at = b_base + (first_column + n) * b_n + (k0 + k) * b_k;
            float value = 0.0;
            if (inside) value = LOAD(b, B_STORAGE, at);
            b_tile[k * PITCH + n] = value;
        }
        barrier();
        multiply_tiles(sum);
        barrier();
    }

    uint c_base = HAS_C ? c_offset + DYNAMIC(c_dynamic) + batch_index * c_batch : 0u;
    for (uint i = 0u; i < 4u; i++) {
        uint m = first_row + tile_row(i);
        if (m >= m_size) break;
        for (uint j = 0u; j < 4u; j++) {
            uint n = first_column + tile_column(j);
            if (n < n_size) store(batch_index, m, n, sum[i][j], c_base);
        }
    }
}
