// map: out[i] = op(a[i], b[i], c[i]), element by element over broadcast, strided operands.
//
// Binding 0  a     words, strided
// Binding 1  b     words, strided; a scalar stands in when INPUTS < 2
// Binding 2  c     words, strided; unused when INPUTS < 3
// Binding 3  out   words, contiguous
// Binding 4  dyn   int words of the executor
// Tier: plain.
//
// The operations are spread over modules, so that pipelines compile fast everywhere: EXPONENTIAL, ANGULAR and POWER
// have those of their names, the module without a macro all others.
#version 450
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = 128) in;

#include "include/dyn.glsl"
#include "include/map_ops.glsl"
#include "include/math.glsl"

layout(constant_id = 0) const uint OP = 0;
layout(constant_id = 1) const uint INPUTS = 1;
// Dimensions left after merging, 0…6.
layout(constant_id = 2) const uint RANK = 1;

layout(std430, set = 0, binding = 0) readonly buffer A { uint xa[]; };
layout(std430, set = 0, binding = 1) readonly buffer B { uint xb[]; };
layout(std430, set = 0, binding = 2) readonly buffer C { uint xc[]; };
layout(std430, set = 0, binding = 3) writeonly buffer Out { uint y[]; };
layout(std430, set = 0, binding = 4) readonly buffer Dyn { int dyn[]; };

layout(push_constant) uniform Push {
    uint total;
    // s0 and s1 of the operations. A binary operation of one input has its b here instead, and alpha in s1.
    uint scalar0;
    uint scalar1;
    // Of dimensions 1…5, innermost last; dimension 0 needs no size.
    uint sizes[5];
    // Of a, b and c, six each, innermost last.
    int strides[18];
    uint offsets[3];
    uint dynamic_offsets[3];
};

int start_of(uint operand) {
    uint word = dynamic_offsets[operand];
    return int(offsets[operand]) + (word == NO_DYN ? 0 : dyn[word]);
}

#if defined(EXPONENTIAL)

float function(float a, float b) {
    precise float y = 0.0;
    switch (OP) {
        case OP_EXP: y = exp32(a); break;
        case OP_TANH: y = tanh32(a); break;
        case OP_SIGMOID: y = sigmoid32(a); break;
        case OP_GELU_TANH: y = gelu_tanh32(a); break;
        case OP_GELU_ERF: y = gelu_erf32(a); break;
        case OP_LOG: y = log32(a); break;
        case OP_LOG10: y = log10_32(a); break;
        case OP_ERF: y = erf32(a); break;
    }
    return y;
}

#elif defined(ANGULAR)

float function(float a, float b) {
    precise float y = 0.0;
    switch (OP) {
        case OP_SIN: y = sin32(a); break;
        case OP_COS: y = cos32(a); break;
        case OP_TAN: y = tan32(a); break;
    }
    return y;
}

#elif defined(POWER)

float function(float a, float b) {
    precise float y = 0.0;
    switch (OP) {
        case OP_SQRT: y = sqrt32(a); break;
        case OP_RSQRT: y = rsqrt32(a); break;
        case OP_RECIPROCAL: y = divide(1.0, a); break;
        case OP_POW_F: y = pow32(a, b); break;
    }
    return y;
}

#endif

#if defined(EXPONENTIAL) || defined(ANGULAR) || defined(POWER)

uint apply(uint a, uint b, uint c) {
    return floatBitsToUint(function(uintBitsToFloat(a), uintBitsToFloat(b)));
}

#else

int divide_int(int a, int b) {
    if (b == 0) return 0;
    // The quotient of the least int by −1 does not exist.
    if (b == -1) return int(0u - uint(a));
    return a / b;
}

int divide_floor_int(int a, int b) {
    int q = divide_int(a, b);
    int remainder = int(uint(a) - uint(q) * uint(b));
    return b != 0 && remainder != 0 && (remainder < 0) != (b < 0) ? q - 1 : q;
}

int pow_int(int a, int b) {
    if (b < 0) return a == 1 ? 1 : (a == -1 ? ((b & 1) == 0 ? 1 : -1) : 0);
    uint result = 1u;
    uint power = uint(a);
    for (uint rest = uint(b); rest != 0u; rest >>= 1) {
        if ((rest & 1u) != 0u) result *= power;
        power *= power;
    }
    return int(result);
}

// a/b rounded down; a quotient of 2^24 or more is an integer and has rounded already.
float divide_floor(float a, float b) {
    float q = divide(a, b);
    // PyTorch goes through the remainder of ∞, which is not a number.
    if (is_inf(a) && !is_zero(b)) return nan_value();
    if (is_nan(q) || is_inf(q) || magnitude(q) >= 16777216.0) return q;
    if (is_zero(q)) return !is_zero(a) && is_negative(q) ? -1.0 : q;
    float whole = floor(q);
    if (whole == q) {
        // The quotient may have been rounded up to an integer.
        int ea, eb;
        float ma = mantissa(a, ea);
        float mb = mantissa(b, eb);
        precise float scale = q * uintBitsToFloat(uint(127 - (ea - eb)) << 23);
        float error;
        float p = product(magnitude(scale), mb, error);
        precise float excess = (p - ma) + error;
        bool down = is_negative(q) ? excess < 0.0 : excess > 0.0;
        if (down) whole -= 1.0;
    }
    return whole == 0.0 ? flip_sign(0.0, floatBitsToUint(q)) : whole;
}

int to_int(float x, int lo, int hi) {
    if (is_nan(x)) return clamp(0, lo, hi);
    if (x >= 2147483648.0) return hi;
    if (x < -2147483648.0) return lo;
    return clamp(int(trunc(x)), lo, hi);
}

// The nearest half, ties to even: packHalf2x16 may round either way.
uint round_half(uint x) {
    uint sign = x & 0x80000000u;
    uint rest = x & 0x7FFFFFFFu;
    if (rest > 0x7F800000u) return x;
    if (rest >= 0x477FF000u) return sign | 0x7F800000u;
    if (rest >= 0x38800000u) return sign | ((rest + 0xFFFu + ((rest >> 13) & 1u)) & ~0x1FFFu);
    // Subnormal halves are multiples of 2^-24.
    precise float units = uintBitsToFloat(rest) * 16777216.0;
    precise float y = roundEven(units) * (1.0 / 16777216.0);
    return sign | floatBitsToUint(y);
}

int quantize(float x, float scale, int zero_point) {
    precise float scaled_x = x * divide(1.0, scale);
    // Far enough for any bound, near enough not to wrap when the zero point is added.
    int q = to_int(roundEven(scaled_x), -1073741824, 1073741824);
    return clamp(q + zero_point, int(scalar0), int(scalar1));
}

float unary_float(float x) {
    float s0 = uintBitsToFloat(scalar0);
    float s1 = uintBitsToFloat(scalar1);
    precise float y = x;
    switch (OP) {
        case OP_ABS_F: y = magnitude(x); break;
        case OP_NEG_F: y = negated(x); break;
        case OP_RELU: y = is_nan(x) ? x : max(x, 0.0); break;
        case OP_CLAMP_F: y = clamp_float(x, s0, s1); break;
        case OP_HARDSHRINK: y = is_nan(x) || magnitude(x) > s0 ? x : 0.0; break;
        case OP_HARDSIGMOID: y = clamp_float(x + 3.0, 0.0, 6.0) / 6.0; break;
        case OP_HARDSWISH: y = x * clamp_float(x + 3.0, 0.0, 6.0) / 6.0; break;
        case OP_LEAKY_RELU: y = x > 0.0 ? x : s0 * x; break;
        case OP_ROUND: y = roundEven(x); break;
        case OP_FLOOR: y = floor(x); break;
        case OP_CEIL: y = ceil(x); break;
        case OP_TRUNC: y = trunc(x); break;
    }
    return y;
}

float binary_float(float a, float b, float alpha) {
    precise float y = 0.0;
    switch (OP) {
        case OP_ADD_F: y = a + alpha * b; break;
        case OP_SUB_F: y = a - alpha * b; break;
        case OP_MUL_F: y = a * b; break;
        case OP_DIV_F: y = divide(a, b); break;
        case OP_DIV_FLOOR_F: y = divide_floor(a, b); break;
        case OP_DIV_TRUNC_F: y = trunc(divide(a, b)); break;
        case OP_MIN_F: y = is_nan(a) ? a : (is_nan(b) ? b : min(a, b)); break;
        case OP_MAX_F: y = is_nan(a) ? a : (is_nan(b) ? b : max(a, b)); break;
    }
    return y;
}

bool compare_float(float a, float b) {
    if (is_nan(a) || is_nan(b)) return OP == OP_NE_F;
    switch (OP) {
        case OP_EQ_F: return a == b;
        case OP_NE_F: return a != b;
        case OP_LT_F: return a < b;
        case OP_LE_F: return a <= b;
        case OP_GT_F: return a > b;
        default: return a >= b;
    }
}

int arithmetic_int(int a, int b, uint alpha) {
    switch (OP) {
        case OP_ABS_I: return a < 0 ? int(0u - uint(a)) : a;
        case OP_NEG_I: return int(0u - uint(a));
        case OP_CLAMP_I: return min(max(a, int(scalar0)), int(scalar1));
        case OP_ADD_I: return int(uint(a) + alpha * uint(b));
        case OP_SUB_I: return int(uint(a) - alpha * uint(b));
        case OP_MUL_I: return int(uint(a) * uint(b));
        case OP_DIV_FLOOR_I: return divide_floor_int(a, b);
        case OP_DIV_TRUNC_I: return divide_int(a, b);
        case OP_POW_I: return pow_int(a, b);
        case OP_MIN_I: return min(a, b);
        default: return max(a, b);
    }
}

bool predicate_int(int a, int b) {
    switch (OP) {
        case OP_EQ_I: return a == b;
        case OP_NE_I: return a != b;
        case OP_LT_I: return a < b;
        case OP_LE_I: return a <= b;
        case OP_GT_I: return a > b;
        case OP_GE_I: return a >= b;
        case OP_LOGICAL_AND: return a != 0 && b != 0;
        case OP_LOGICAL_OR: return a != 0 || b != 0;
        case OP_LOGICAL_XOR: return (a != 0) != (b != 0);
        case OP_LOGICAL_NOT: return a == 0;
        default: return a != 0;
    }
}

uint bits(uint a, uint b) {
    switch (OP) {
        case OP_BIT_AND: return a & b;
        case OP_BIT_OR: return a | b;
        case OP_BIT_XOR: return a ^ b;
        default: return ~a;
    }
}

uint apply(uint a, uint b, uint c) {
    float fa = uintBitsToFloat(a);
    float fb = uintBitsToFloat(b);
    uint alpha = INPUTS < 2u ? scalar1 : scalar0;
    if (OP == OP_COPY) return a;
    if (OP <= OP_ERF) return floatBitsToUint(unary_float(fa));
    if (OP <= OP_MAX_F) return floatBitsToUint(binary_float(fa, fb, uintBitsToFloat(alpha)));
    if (OP <= OP_GE_F) return compare_float(fa, fb) ? 1u : 0u;
    if (OP <= OP_MAX_I) return uint(arithmetic_int(int(a), int(b), alpha));
    if (OP <= OP_LOGICAL_NOT) return predicate_int(int(a), int(b)) ? 1u : 0u;
    if (OP <= OP_BIT_NOT) return bits(a, b);
    precise float y = 0.0;
    switch (OP) {
        case OP_WHERE: return a != 0u ? b : c;
        case OP_FLOAT_TO_INT: return uint(to_int(fa, int(scalar0), int(scalar1)));
        case OP_INT_TO_FLOAT: y = float(int(a)); break;
        case OP_ROUND_HALF: return round_half(a);
        case OP_FLOAT_TO_BOOL: return is_zero(fa) ? 0u : 1u;
        case OP_INT_TO_BOOL: return a != 0u ? 1u : 0u;
        case OP_WRAP_INT8: return uint(int(a << 24) >> 24);
        case OP_WRAP_UINT8: return a & 0xFFu;
        case OP_QUANTIZE: return uint(quantize(fa, fb, int(c)));
        case OP_DEQUANTIZE: y = float(int(a - c)) * fb; break;
        case OP_FAKE_QUANTIZE: y = float(quantize(fa, fb, int(c)) - int(c)) * fb; break;
    }
    return floatBitsToUint(y);
}

#endif

void main() {
    int start_a = start_of(0u);
    int start_b = INPUTS > 1u ? start_of(1u) : 0;
    int start_c = INPUTS > 2u ? start_of(2u) : 0;
    uint step = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
    for (uint i = gl_GlobalInvocationID.x; i < total; i += step) {
        int at_a = start_a;
        int at_b = start_b;
        int at_c = start_c;
        uint rest = i;
        for (int d = 5; d >= 6 - int(RANK); d--) {
            int index = int(rest);
            if (d > 6 - int(RANK)) {
                uint next = rest / sizes[d - 1];
                index = int(rest - next * sizes[d - 1]);
                rest = next;
            }
            at_a += index * strides[d];
            at_b += index * strides[6 + d];
            at_c += index * strides[12 + d];
        }
        uint b = INPUTS > 1u ? xb[at_b] : scalar0;
        uint c = INPUTS > 2u ? xc[at_c] : 0u;
        y[i] = apply(xa[at_a], b, c);
    }
}
