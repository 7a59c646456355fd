// Activations that other kernels apply to what they store. Include math.glsl first.
const uint GELU_TANH = 0u;
const uint GELU_ERF = 1u;
const uint SILU = 2u;

float activated(uint activation, float x) {
    if (activation == GELU_TANH) return gelu_tanh32(x);
    if (activation == GELU_ERF) return gelu_erf32(x);
    precise float y = x * sigmoid32(x);
    return y;
}
