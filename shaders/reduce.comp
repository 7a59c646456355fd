// reduce: out[k] = ⊕ of x[k, r] over all r, kept dimensions k and reduced dimensions r of a strided x.
//
// Binding 0  x     words, strided
// Binding 1  out   words, contiguous over k; an index counts r row-major
// Binding 2  dyn   int words of the executor
// Float sums are compensated, so their error does not grow with the number of elements.
// Tier: plain.
#version 450
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = 128) in;

#include "include/dyn.glsl"
#include "include/math.glsl"
#include "include/reduce_ops.glsl"

layout(constant_id = 0) const uint OP = 0;
// 1: a workgroup an output; 0: an invocation an output.
layout(constant_id = 1) const uint SHARED = 0;
// Kept and reduced dimensions left after merging, 0…6.
layout(constant_id = 2) const uint KEPT = 1;
layout(constant_id = 3) const uint REDUCED = 1;

layout(std430, set = 0, binding = 0) readonly buffer X { uint x[]; };
layout(std430, set = 0, binding = 1) writeonly buffer Out { uint y[]; };
layout(std430, set = 0, binding = 2) readonly buffer Dyn { int dyn[]; };

layout(push_constant) uniform Push {
    uint outputs;
    // Elements an output.
    uint count;
    uint offset;
    uint dynamic_offset;
    float correction;
    // Of dimensions 1…5, innermost last; dimension 0 needs no size.
    uint kept_sizes[5];
    int kept_strides[6];
    uint reduced_sizes[5];
    int reduced_strides[6];
};

// A partial result: `value` in bits; `extra` is the low part of a float sum, or an index.
struct Partial {
    uint value;
    uint extra;
};

shared Partial partials[gl_WorkGroupSize.x];

const bool SUMS_FLOATS = OP == OP_SUM_F || OP == OP_MEAN_F || OP == OP_VAR_F;
const bool FINDS_INDEX = OP == OP_ARGMAX_F || OP == OP_ARGMIN_F || OP == OP_ARGMAX_I || OP == OP_ARGMIN_I;
const bool TAKES_MAX = OP == OP_ARGMAX_F || OP == OP_ARGMAX_I || OP == OP_AMAX_F || OP == OP_AMAX_I;
const bool ORDERS_FLOATS = OP == OP_ARGMAX_F || OP == OP_ARGMIN_F || OP == OP_AMAX_F || OP == OP_AMIN_F;
const uint NO_INDEX = 0xFFFFFFFFu;

Partial identity() {
    uint value = 0u;
    switch (OP) {
        case OP_AMAX_F: case OP_ARGMAX_F: value = 0xFF800000u; break;
        case OP_AMIN_F: case OP_ARGMIN_F: value = 0x7F800000u; break;
        case OP_PROD_F: value = 0x3F800000u; break;
        case OP_AMAX_I: case OP_ARGMAX_I: value = 0x80000000u; break;
        case OP_AMIN_I: case OP_ARGMIN_I: value = 0x7FFFFFFFu; break;
        case OP_PROD_I: case OP_ALL: value = 1u; break;
    }
    return Partial(value, FINDS_INDEX ? NO_INDEX : 0u);
}

// Adds two float sums of a high and a low part each.
Partial add_sums(Partial a, Partial b) {
    float a1 = uintBitsToFloat(a.value);
    float b1 = uintBitsToFloat(b.value);
    precise float s = a1 + b1;
    // Knuth: what the sum rounded off, whichever operand is larger. Not a number once the sum is infinite.
    precise float t = s - a1;
    precise float error = (a1 - (s - t)) + (b1 - t);
    precise float low = uintBitsToFloat(a.extra) + uintBitsToFloat(b.extra) + error;
    if (is_inf(s) || is_nan(s)) low = 0.0;
    return Partial(floatBitsToUint(s), floatBitsToUint(low));
}

// Whether b's value goes before a's.
bool precedes(uint b, uint a) {
    if (ORDERS_FLOATS) {
        float fa = uintBitsToFloat(a);
        float fb = uintBitsToFloat(b);
        if (is_nan(fa)) return false;
        return is_nan(fb) || (TAKES_MAX ? fb > fa : fb < fa);
    }
    return TAKES_MAX ? int(b) > int(a) : int(b) < int(a);
}

Partial combine(Partial a, Partial b) {
    if (SUMS_FLOATS) return add_sums(a, b);
    switch (OP) {
        case OP_PROD_F: {
            precise float p = uintBitsToFloat(a.value) * uintBitsToFloat(b.value);
            return Partial(floatBitsToUint(p), 0u);
        }
        case OP_SUM_I: return Partial(a.value + b.value, 0u);
        case OP_PROD_I: return Partial(a.value * b.value, 0u);
        case OP_ANY: return Partial(a.value | b.value, 0u);
        case OP_ALL: return Partial(a.value & b.value, 0u);
    }
    if (FINDS_INDEX && a.extra == NO_INDEX) return b;
    if (FINDS_INDEX && b.extra == NO_INDEX) return a;
    if (precedes(b.value, a.value)) return b;
    // Of equal values the first wins, in whatever order they come together.
    if (FINDS_INDEX && b.extra < a.extra && !precedes(a.value, b.value)) return b;
    return a;
}

int kept_start(uint output_index) {
    int at = int(offset) + (dynamic_offset == NO_DYN ? 0 : dyn[dynamic_offset]);
    uint rest = output_index;
    for (int d = 5; d >= 6 - int(KEPT); d--) {
        int index = int(rest);
        if (d > 6 - int(KEPT)) {
            uint next = rest / kept_sizes[d - 1];
            index = int(rest - next * kept_sizes[d - 1]);
            rest = next;
        }
        at += index * kept_strides[d];
    }
    return at;
}

Partial element(int start, uint r, float mean) {
    int at = start;
    uint rest = r;
    for (int d = 5; d >= 6 - int(REDUCED); d--) {
        int index = int(rest);
        if (d > 6 - int(REDUCED)) {
            uint next = rest / reduced_sizes[d - 1];
            index = int(rest - next * reduced_sizes[d - 1]);
            rest = next;
        }
        at += index * reduced_strides[d];
    }
    uint word = x[at];
    if (OP == OP_ANY || OP == OP_ALL) return Partial(word != 0u ? 1u : 0u, 0u);
    if (OP == OP_VAR_F) {
        precise float d = uintBitsToFloat(word) - mean;
        // In the first pass the mean is 0 and the elements are summed as they are.
        return Partial(floatBitsToUint(d), 0u);
    }
    return Partial(word, FINDS_INDEX ? r : 0u);
}

Partial squared(Partial p) {
    precise float d = uintBitsToFloat(p.value);
    d = d * d;
    return Partial(floatBitsToUint(d), 0u);
}

// Reduces one output; the same for all invocations that work on it.
Partial reduce(int start, float mean, bool squares) {
    uint first = SHARED != 0u ? gl_LocalInvocationID.x : 0u;
    uint step = SHARED != 0u ? gl_WorkGroupSize.x : 1u;
    Partial total = identity();
    for (uint r = first; r < count; r += step) {
        Partial e = element(start, r, mean);
        if (squares) e = squared(e);
        total = combine(total, e);
    }
    if (SHARED == 0u) return total;
    partials[gl_LocalInvocationID.x] = total;
    barrier();
    for (uint half_size = gl_WorkGroupSize.x / 2u; half_size > 0u; half_size /= 2u) {
        if (gl_LocalInvocationID.x < half_size) {
            Partial other = partials[gl_LocalInvocationID.x + half_size];
            partials[gl_LocalInvocationID.x] = combine(partials[gl_LocalInvocationID.x], other);
        }
        barrier();
    }
    total = partials[0];
    // The next use of `partials` must not overtake this read.
    barrier();
    return total;
}

float sum_value(Partial p) {
    precise float s = uintBitsToFloat(p.value) + uintBitsToFloat(p.extra);
    return s;
}

uint result(int start) {
    Partial total;
    float mean = 0.0;
    // The variance takes a second pass, over squared distances from the mean.
    for (uint pass = 0u; pass < (OP == OP_VAR_F ? 2u : 1u); pass++) {
        if (pass == 1u) mean = divide(sum_value(total), float(count));
        total = reduce(start, mean, pass == 1u);
    }
    if (SUMS_FLOATS) {
        float divisor = 1.0;
        if (OP == OP_MEAN_F) divisor = float(count);
        if (OP == OP_VAR_F) divisor = max(float(count) - correction, 0.0);
        return floatBitsToUint(divide(sum_value(total), divisor));
    }
    if (FINDS_INDEX) return total.extra == NO_INDEX ? 0u : total.extra;
    return total.value;
}

void main() {
    uint first = SHARED != 0u ? gl_WorkGroupID.x : gl_GlobalInvocationID.x;
    uint step = gl_NumWorkGroups.x * (SHARED != 0u ? 1u : gl_WorkGroupSize.x);
    for (uint k = first; k < outputs; k += step) {
        uint word = result(kept_start(k));
        if (SHARED == 0u || gl_LocalInvocationID.x == 0u) y[k] = word;
    }
}
