// Elementary functions of fp32, within about 2 ulp over the whole range, on any device: Vulkan's own guarantees are
// too weak (sin and cos only near 0, exp and pow by absolute error). They use +, −, ·, / and bit operations alone.
// NaN and infinity are told by their bits, since compilers may assume that floats are neither; subnormals are
// unpacked as integers, since devices may flush them. `precise` keeps error terms from being simplified away.

bool is_nan(float x) { return (floatBitsToUint(x) & 0x7FFFFFFFu) > 0x7F800000u; }
bool is_inf(float x) { return (floatBitsToUint(x) & 0x7FFFFFFFu) == 0x7F800000u; }
bool is_zero(float x) { return (floatBitsToUint(x) & 0x7FFFFFFFu) == 0u; }
bool is_negative(float x) { return (floatBitsToUint(x) & 0x80000000u) != 0u; }

float nan_value() { return uintBitsToFloat(0x7FC00000u); }
float infinity() { return uintBitsToFloat(0x7F800000u); }
float magnitude(float x) { return uintBitsToFloat(floatBitsToUint(x) & 0x7FFFFFFFu); }
float negated(float x) { return uintBitsToFloat(floatBitsToUint(x) ^ 0x80000000u); }
// `x` with its sign flipped where `signs` has bit 31.
float flip_sign(float x, uint signs) { return uintBitsToFloat(floatBitsToUint(x) ^ (signs & 0x80000000u)); }

// The nearest to x of what lies between `lo` and `hi`; NaN stays NaN.
float clamp_float(float x, float lo, float hi) {
    return is_nan(x) ? x : min(max(x, lo), hi);
}

// x · 2^n for |x| in [0.5, 2], n in [-160, 130]; rounds once.
float scaled(float x, int n) {
    int half_n = n >> 1;
    precise float y = x * uintBitsToFloat(uint(half_n + 127) << 23);
    y = y * uintBitsToFloat(uint(n - half_n + 127) << 23);
    return y;
}

// A finite |x| ≠ 0 as m · 2^e, 1 ≤ m < 2.
float mantissa(float x, out int e) {
    uint u = floatBitsToUint(x) & 0x7FFFFFFFu;
    int shift = 0;
    if (u < 0x00800000u) {
        shift = 23 - findMSB(u);
        u <<= shift;
    }
    e = int(u >> 23) - shift - 127;
    return uintBitsToFloat((u & 0x007FFFFFu) | 0x3F800000u);
}

// a · b = result + error exactly, barring overflow and underflow (Dekker; nothing relies on a fused multiply-add).
float product(float a, float b, out float error) {
    float a1 = uintBitsToFloat(floatBitsToUint(a) & 0xFFFFF000u);
    float b1 = uintBitsToFloat(floatBitsToUint(b) & 0xFFFFF000u);
    precise float a2 = a - a1;
    precise float b2 = b - b1;
    precise float p = a * b;
    precise float e = ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2;
    error = e;
    return p;
}

// a + b = result + error exactly, for |a| ≥ |b|.
float sum_of(float a, float b, out float error) {
    precise float s = a + b;
    precise float e = b - (s - a);
    error = e;
    return s;
}

// a / b, rounded as IEEE asks.
float divide(float a, float b) {
    uint signs = floatBitsToUint(a) ^ floatBitsToUint(b);
    if (is_nan(a) || is_nan(b) || (is_inf(a) && is_inf(b)) || (is_zero(a) && is_zero(b))) return nan_value();
    if (is_inf(a) || is_zero(b)) return flip_sign(infinity(), signs);
    if (is_inf(b) || is_zero(a)) return flip_sign(0.0, signs);
    int ea, eb;
    float ma = mantissa(a, ea);
    float mb = mantissa(b, eb);
    precise float q = ma / mb;
    float error;
    float p = product(q, mb, error);
    precise float residual = (ma - p) - error;
    q = q + residual / mb;
    return flip_sign(scaled(q, clamp(ea - eb, -160, 130)), signs);
}

float sqrt32(float x) {
    if (is_nan(x) || is_zero(x)) return x;
    if (is_negative(x)) return nan_value();
    if (is_inf(x)) return x;
    int e;
    float m = mantissa(x, e);
    if ((e & 1) != 0) m *= 2.0;
    precise float s = sqrt(m);
    float error;
    float p = product(s, s, error);
    precise float residual = (m - p) - error;
    s = s + residual * 0.5 / s;
    return scaled(s, e >> 1);
}

float rsqrt32(float x) {
    if (is_nan(x)) return x;
    if (is_zero(x)) return flip_sign(infinity(), floatBitsToUint(x));
    if (is_negative(x)) return nan_value();
    if (is_inf(x)) return 0.0;
    int e;
    float m = mantissa(x, e);
    if ((e & 1) != 0) m *= 2.0;
    precise float s = 1.0 / sqrt(m);
    return scaled(s, -(e >> 1));
}

// e^(hi + lo), |lo| ≤ ulp(hi).
float exp_parts(float hi, float lo) {
    if (is_nan(hi)) return hi;
    if (hi > 89.0) return infinity();
    if (hi < -104.0) return 0.0;
    precise float n = roundEven(hi * 1.44269504);
    precise float r = ((hi - n * 0.693359375) - n * -2.12194440e-4) + lo;
    precise float q = 1.381314127e-03 * r + 8.369418792e-03;
    q = q * r + 4.166845605e-02;
    q = q * r + 1.666651517e-01;
    q = q * r + 4.999999404e-01;
    precise float y = 1.0 + (r + r * r * q);
    return scaled(y, int(n));
}

float exp32(float x) { return exp_parts(x, 0.0); }

// ln m for m = 1 + f in [√½, √2], as f + result.
float log_tail(float f) {
    precise float q = 6.746663153e-02 * f - 1.167564020e-01;
    q = q * f + 1.188814491e-01;
    q = q * f - 1.240558922e-01;
    q = q * f + 1.421955526e-01;
    q = q * f - 1.666799635e-01;
    q = q * f + 2.000211924e-01;
    q = q * f - 2.500000894e-01;
    q = q * f + 3.333331347e-01;
    precise float z = f * f;
    precise float y = f * z * q - 0.5 * z;
    return y;
}

// x > 0, finite, as (1 + f) · 2^e with 1 + f in [√½, √2].
float log_split(float x, out float e) {
    int n;
    float m = mantissa(x, n);
    if (m > 1.41421356) {
        m *= 0.5;
        n += 1;
    }
    e = float(n);
    precise float f = m - 1.0;
    return f;
}

// ln and log10 where they need no arithmetic; false where they do.
bool log_special(float x, out float y) {
    y = x;
    if (is_nan(x)) return true;
    if (is_zero(x)) {
        y = negated(infinity());
        return true;
    }
    if (is_negative(x)) {
        y = nan_value();
        return true;
    }
    return is_inf(x);
}

float log32(float x) {
    float y;
    if (log_special(x, y)) return y;
    float e;
    float f = log_split(x, e);
    precise float r = (log_tail(f) + e * -2.12194440e-4) + f;
    r = r + e * 0.693359375;
    return r;
}

float log10_32(float x) {
    float y;
    if (log_special(x, y)) return y;
    float e;
    float f = log_split(x, e);
    float t = log_tail(f);
    // log10 e = 0.43359375 + 7.00731903e-4, log10 2 = 0.30078125 + 2.48745664e-4: short leading parts.
    precise float r = (f + t) * 7.00731903e-4 + t * 0.43359375 + e * 2.48745664e-4;
    r = (r + f * 0.43359375) + e * 0.30078125;
    return r;
}

// x^y for finite x > 0, x ≠ 1, finite y: 2^(y · log2 x) with log2 x in two floats.
float pow_positive(float x, float y) {
    float e, error;
    float f = log_split(x, e);
    // s = f / (2 + f); ln(1 + f) = 2s + 2s³/3 + 2s⁵/5 + …
    float d2;
    float d1 = sum_of(2.0, f, d2);
    precise float s1 = f / d1;
    float p = product(s1, d1, error);
    precise float s2 = (((f - p) - error) - s1 * d2) / d1;
    float q2;
    float q1 = product(s1, s1, q2);
    precise float z2 = q2 + 2.0 * s1 * s2;
    // t = s²/3 + s⁴/5 + …, its first term in two floats.
    precise float rest = 1.0 / 13.0 * q1 + 1.0 / 11.0;
    rest = rest * q1 + 1.0 / 9.0;
    rest = rest * q1 + 1.0 / 7.0;
    rest = rest * q1 + 1.0 / 5.0;
    rest = rest * q1 * q1;
    float t2;
    float t1 = product(q1, 3.333333433e-01, t2);
    t2 = (t2 + q1 * -9.934107759e-09) + (z2 * 3.333333433e-01 + rest);
    // l = s + s·t, half of ln(1 + f).
    float u2;
    float u1 = product(s1, t1, u2);
    precise float v2 = u2 + (s1 * t2 + s2 * t1);
    float l2;
    float l1 = sum_of(s1, u1, l2);
    precise float w2 = l2 + (v2 + s2);
    l1 = sum_of(l1, w2, l2);
    // log2 x = e + l · 2/ln 2.
    float k2;
    float k1 = product(l1, 2.88539004, k2);
    precise float g2 = k2 + (l1 * 3.851926068e-08 + l2 * 2.88539004);
    float h2, h1;
    if (e == 0.0) {
        h1 = sum_of(k1, g2, h2);
    } else {
        h1 = sum_of(e, k1, h2);
        precise float m2 = h2 + g2;
        h1 = sum_of(h1, m2, h2);
    }
    // Beyond 2^33 the result is 0 or ∞ whatever x ≠ 1 is; the bound keeps the product finite.
    y = clamp(y, -8589934592.0, 8589934592.0);
    float z_lo;
    float z = product(y, h1, z_lo);
    precise float lo = z_lo + y * h2;
    if (z > 130.0) return infinity();
    if (z < -152.0) return 0.0;
    precise float n = roundEven(z);
    precise float part = (z - n) + lo;
    precise float r1 = part * 6.931471825e-01 + part * -1.904654212e-09;
    precise float c = 1.381314127e-03 * r1 + 8.369418792e-03;
    c = c * r1 + 4.166845605e-02;
    c = c * r1 + 1.666651517e-01;
    c = c * r1 + 4.999999404e-01;
    precise float power = 1.0 + (r1 + r1 * r1 * c);
    return scaled(power, int(n));
}

float pow32(float x, float y) {
    if (is_zero(y) || x == 1.0) return 1.0;
    if (is_nan(x) || is_nan(y)) return nan_value();
    if (y == 1.0) return x;
    if (y == 2.0) {
        precise float square = x * x;
        return square;
    }
    float ax = magnitude(x);
    if (is_inf(y)) {
        if (ax == 1.0) return 1.0;
        return (ax > 1.0) != is_negative(y) ? infinity() : 0.0;
    }
    float ay = magnitude(y);
    bool integral = ay >= 8388608.0 || (ay >= 1.0 && ay == floor(ay));
    bool odd = integral && ay < 16777216.0 && (uint(ay) & 1u) == 1u;
    uint signs = is_negative(x) && odd ? 0x80000000u : 0u;
    if (is_zero(x) || is_inf(x)) {
        return flip_sign(is_zero(x) == is_negative(y) ? infinity() : 0.0, signs);
    }
    if (is_negative(x) && !integral) return nan_value();
    return flip_sign(ax == 1.0 ? 1.0 : pow_positive(ax, y), signs);
}

// 2/π in binary, after one word of zeros for arguments below 2^24.
const uint TWO_OVER_PI[8] = uint[8](0u, 0xA2F9836Eu, 0x4E441529u, 0xFC2757D1u, 0xF534DDC0u, 0xDB629599u, 0x3C439041u,
                                    0xFE5163ABu);

uint two_over_pi(uint word, uint bit) {
    return bit == 0u ? TWO_OVER_PI[word] : (TWO_OVER_PI[word] << bit) | (TWO_OVER_PI[word + 1u] >> (32u - bit));
}

// Finite x = (4k + quadrant) · π/2 + result, |result| ≤ π/4 (Payne and Hanek: in integers, so no x is too large).
float reduce_angle(float x, out uint quadrant) {
    quadrant = 0u;
    float ax = magnitude(x);
    if (ax <= 0.785398163) return x;
    uint u = floatBitsToUint(ax);
    uint m = (u & 0x007FFFFFu) | 0x00800000u;
    // x = m · 2^(exponent − 150). Take 96 bits of 2/π from the one that m turns into 2.
    uint start = (u >> 23) - 120u;
    uint word = start >> 5;
    uint bit = start & 31u;
    uint w1 = two_over_pi(word, bit);
    uint w2 = two_over_pi(word + 1u, bit);
    uint w3 = two_over_pi(word + 2u, bit);
    uint h3, l3, h2, l2, carry;
    umulExtended(w3, m, h3, l3);
    umulExtended(w2, m, h2, l2);
    uint middle = uaddCarry(l2, h3, carry);
    uint top = w1 * m + h2 + carry;
    // The top two bits are the quadrant, the others its fraction; round to the nearest quadrant.
    quadrant = top >> 30;
    uint hi = (top << 2) | (middle >> 30);
    uint lo = (middle << 2) | (l3 >> 30);
    uint signs = 0u;
    if ((hi & 0x80000000u) != 0u) {
        quadrant += 1u;
        lo = ~lo + 1u;
        hi = ~hi + (lo == 0u ? 1u : 0u);
        signs = 0x80000000u;
    }
    int shift = 0;
    if (hi == 0u) {
        hi = lo;
        lo = 0u;
        shift = 32;
    }
    int zeros = 31 - findMSB(hi | 1u);
    if (zeros != 0) hi = (hi << zeros) | (lo >> (32 - zeros));
    shift += zeros;
    // hi · 2^(−32 − shift) quarter turns, in two floats of 24 and 8 bits.
    precise float r1 = float(hi >> 8);
    precise float r2 = float(hi & 0xFFu) * (1.0 / 256.0);
    precise float r = r1 * 1.570796371 + (r2 * 1.570796371 + r1 * -4.371138829e-08);
    r = r * uintBitsToFloat(uint(127 - 24 - shift) << 23);
    if (is_negative(x)) {
        quadrant = 0u - quadrant;
        signs ^= 0x80000000u;
    }
    quadrant &= 3u;
    return flip_sign(r, signs);
}

// sin and cos for |r| ≤ π/4.
float sin_reduced(float r) {
    if (magnitude(r) < 2.4e-4) return r;
    precise float z = r * r;
    precise float q = (-1.951463200e-04 * z + 8.332155645e-03) * z - 1.666665524e-01;
    precise float y = r + r * z * q;
    return y;
}

float cos_reduced(float r) {
    precise float z = r * r;
    precise float q = (2.443241283e-05 * z - 1.388730947e-03) * z + 4.166664556e-02;
    precise float half_z = 0.5 * z;
    precise float w = 1.0 - half_z;
    precise float y = w + (((1.0 - w) - half_z) + z * z * q);
    return y;
}

float sin32(float x) {
    if (is_nan(x) || is_inf(x)) return nan_value();
    uint quadrant;
    float r = reduce_angle(x, quadrant);
    float y = (quadrant & 1u) == 0u ? sin_reduced(r) : cos_reduced(r);
    return flip_sign(y, quadrant << 30);
}

float cos32(float x) {
    if (is_nan(x) || is_inf(x)) return nan_value();
    uint quadrant;
    float r = reduce_angle(x, quadrant);
    float y = (quadrant & 1u) == 0u ? cos_reduced(r) : sin_reduced(r);
    return flip_sign(y, (quadrant + 1u) << 30);
}

float tan32(float x) {
    if (is_nan(x) || is_inf(x)) return nan_value();
    uint quadrant;
    float r = reduce_angle(x, quadrant);
    float t = r;
    if (magnitude(r) >= 2.4e-4) {
        precise float z = r * r;
        precise float q = 4.387104418e-03 * z + 6.814111839e-05;
        q = q * z + 1.085223537e-02;
        q = q * z + 2.127603255e-02;
        q = q * z + 5.406107381e-02;
        q = q * z + 1.333265305e-01;
        q = q * z + 3.333334923e-01;
        precise float y = r + r * z * q;
        t = y;
    }
    if ((quadrant & 1u) == 0u) return t;
    precise float c = -1.0 / t;
    return c;
}

float tanh32(float x) {
    if (is_nan(x)) return x;
    float ax = magnitude(x);
    if (ax < 2.4e-4) return x;
    if (ax < 0.625) {
        precise float z = x * x;
        precise float q = -5.704521667e-03 * z + 2.063868567e-02;
        q = q * z - 5.373959616e-02;
        q = q * z + 1.333144158e-01;
        q = q * z - 3.333328068e-01;
        precise float y = x + x * z * q;
        return y;
    }
    precise float y = 1.0;
    if (ax < 9.1) y = 1.0 - 2.0 / (exp32(2.0 * ax) + 1.0);
    return flip_sign(y, floatBitsToUint(x));
}

float sigmoid32(float x) {
    if (is_nan(x)) return x;
    precise float e = exp32(negated(magnitude(x)));
    precise float y = (is_negative(x) ? e : 1.0) / (1.0 + e);
    return y;
}

// erf u for |u| ≤ 1.
float erf_small(float u) {
    precise float z = u * u;
    precise float q = -9.641174074e-06 * z + 1.125681811e-04;
    q = q * z - 8.482809062e-04;
    q = q * z + 5.220944062e-03;
    q = q * z - 2.686539851e-02;
    q = q * z + 1.128378212e-01;
    q = q * z - 3.761263788e-01;
    q = q * z + 1.283791661e-01;
    precise float y = u + u * q;
    return y;
}

// e^(u²) · erfc u for 1 ≤ u ≤ 10.1.
float erfc_scaled(float u) {
    precise float t = (u - 2.0) / (u + 2.0);
    precise float q = -9.055677219e-04 * t + 1.081692404e-03;
    q = q * t + 4.825769924e-03;
    q = q * t - 7.515626028e-03;
    q = q * t - 2.897976153e-02;
    q = q * t + 1.215150803e-01;
    q = q * t - 2.038442045e-01;
    q = q * t + 1.672110111e-01;
    q = q * t + 5.107913613e-01;
    precise float y = q / u;
    return y;
}

float erf32(float x) {
    if (is_nan(x)) return x;
    float u = magnitude(x);
    if (u <= 1.0) return erf_small(x);
    precise float y = 1.0;
    if (u < 4.0) {
        float error;
        float square = product(u, u, error);
        y = 1.0 - exp_parts(negated(square), negated(error)) * erfc_scaled(u);
    }
    return flip_sign(y, floatBitsToUint(x));
}

// x · Φ(x); the tail keeps its relative accuracy.
float gelu_erf32(float x) {
    if (is_nan(x)) return x;
    float ax = magnitude(x);
    if (ax < 1.41421354) {
        precise float y = 0.5 * x * (1.0 + erf_small(x * 0.707106769));
        return y;
    }
    precise float u = ax * 0.707106769;
    precise float tail = 0.0;
    if (u < 10.1) {
        float error;
        float square = product(x, x, error);
        tail = 0.5 * exp_parts(-0.5 * square, -0.5 * error) * erfc_scaled(u);
    }
    precise float y = x * (is_negative(x) ? tail : 1.0 - tail);
    return y;
}

// 0.5·x·(1 + tanh v) with v = √(2/π)·(x + 0.044715·x³), written as x · sigmoid(2v): nothing cancels.
float gelu_tanh32(float x) {
    precise float v = 1.595769167 * (x + 0.044715 * x * x * x);
    precise float y = x * sigmoid32(v);
    return y;
}
