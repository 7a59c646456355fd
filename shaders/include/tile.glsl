// The inner product of tiled matrix multiplication: TILE_M × TILE_N outputs a workgroup, 4 × 4 an invocation.
// Needs TILE_M and TILE_N (16, 32 or 64) and (TILE_M / 4) · (TILE_N / 4) invocations.
// The including file may define ELEM, the type of an element and of its sums; it is float otherwise.
#ifndef ELEM
#define ELEM float
#endif
const uint STEP = 16u;
const uint PITCH = 65u;
shared ELEM a_tile[STEP * PITCH];
shared ELEM b_tile[STEP * PITCH];

// An invocation's rows and columns lie a quarter tile apart, so that neighbours touch neighbouring words.
uint tile_row(uint i) { return gl_LocalInvocationID.x / (TILE_N / 4u) + i * (TILE_M / 4u); }
uint tile_column(uint j) { return gl_LocalInvocationID.x % (TILE_N / 4u) + j * (TILE_N / 4u); }

void clear(out ELEM sum[4][4]) {
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) sum[i][j] = ELEM(0);
}

// sum[i][j] += Σ a_tile[k][row i] · b_tile[k][column j] over the STEP values of k in the tiles.
void multiply_tiles(inout ELEM sum[4][4]) {
    for (uint k = 0u; k < STEP; k++) {
        ELEM x[4];
        ELEM y[4];
        for (uint i = 0u; i < 4u; i++) x[i] = a_tile[k * PITCH + tile_row(i)];
        for (uint j = 0u; j < 4u; j++) y[j] = b_tile[k * PITCH + tile_column(j)];
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++) sum[i][j] += x[i] * y[j];
    }
}
