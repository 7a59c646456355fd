// softmax, log_softmax along one dimension of a strided x, seen as [outer, n, inner]:
//   m = max x; out = e^(x − m) / Σ e^(x − m), or x − m − ln Σ e^(x − m)
// A row of −∞ alone gives NaN, as a row with a NaN or ∞ does.
//
// Binding 0  x     floats, strided
// Binding 1  out   floats, contiguous [outer, n, inner]
// Binding 2  dyn   int words of the executor
// Tier: plain.
#version 450
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = 128) in;

#include "include/dyn.glsl"
#include "include/math.glsl"

// 1: log_softmax.
layout(constant_id = 0) const uint LOG = 0;
// 1: a workgroup a row; 0: an invocation a row.
layout(constant_id = 1) const uint SHARED = 0;
// Dimensions of the rows left after merging, 0…7.
layout(constant_id = 2) const uint RANK = 1;

layout(std430, set = 0, binding = 0) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 1) writeonly buffer Out { float y[]; };
layout(std430, set = 0, binding = 2) readonly buffer Dyn { int dyn[]; };

layout(push_constant) uniform Push {
    // outer · inner
    uint rows;
    uint n;
    uint inner;
    int n_stride;
    uint offset;
    uint dynamic_offset;
    // Of the rows' dimensions 1…6, innermost last; dimension 0 needs no size.
    uint sizes[6];
    int strides[7];
};

shared float partials[gl_WorkGroupSize.x];

int row_start(uint row) {
    int at = int(offset) + (dynamic_offset == NO_DYN ? 0 : dyn[dynamic_offset]);
    uint rest = row;
    for (int d = 6; d >= 7 - int(RANK); d--) {
        int index = int(rest);
        if (d > 7 - int(RANK)) {
            uint next = rest / sizes[d - 1];
            index = int(rest - next * sizes[d - 1]);
            rest = next;
        }
        at += index * strides[d];
    }
    return at;
}

float tree(float value, bool takes_max) {
    if (SHARED == 0u) return value;
    uint me = gl_LocalInvocationID.x;
    partials[me] = value;
    barrier();
    for (uint half_size = gl_WorkGroupSize.x / 2u; half_size > 0u; half_size /= 2u) {
        if (me < half_size) {
            float a = partials[me];
            float b = partials[me + half_size];
            partials[me] = takes_max ? max(a, b) : a + b;
        }
        barrier();
    }
    value = partials[0];
    // The next use of `partials` must not overtake this read.
    barrier();
    return value;
}

void row_softmax(uint row) {
    int from = row_start(row);
    uint to = (row / inner) * n * inner + row % inner;
    uint first = SHARED != 0u ? gl_LocalInvocationID.x : 0u;
    uint step = SHARED != 0u ? gl_WorkGroupSize.x : 1u;

    float peak = negated(infinity());
    bool poisoned = false;
    for (uint i = first; i < n; i += step) {
        float v = x[from + int(i) * n_stride];
        if (is_nan(v)) poisoned = true;
        else peak = max(peak, v);
    }
    // Whatever the others are, ∞ − ∞ makes every element of such a row NaN.
    peak = tree(peak, true);
    bool hopeless = tree(poisoned || is_inf(peak) ? 1.0 : 0.0, true) != 0.0;

    precise float sum = 0.0;
    precise float lost = 0.0;
    for (uint i = first; i < n; i += step) {
        precise float e = exp32(x[from + int(i) * n_stride] - peak) - lost;
        precise float next = sum + e;
        lost = (next - sum) - e;
        sum = next;
    }
    sum = tree(sum, false);
    precise float log_sum = LOG != 0u ? log32(sum) : 0.0;
    for (uint i = first; i < n; i += step) {
        precise float d = x[from + int(i) * n_stride] - peak;
        precise float result = LOG != 0u ? d - log_sum : exp32(d) / sum;
        y[to + i * inner] = hopeless ? nan_value() : result;
    }
}

void main() {
    uint first = SHARED != 0u ? gl_WorkGroupID.x : gl_GlobalInvocationID.x;
    uint step = gl_NumWorkGroups.x * (SHARED != 0u ? 1u : gl_WorkGroupSize.x);
    for (uint row = first; row < rows; row += step) row_softmax(row);
}
