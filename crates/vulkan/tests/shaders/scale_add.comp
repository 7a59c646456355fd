#version 450
// out[i] = a[i] * k + c for i < n, where k and n are push constants and c is a specialisation constant.
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint c = 0;
layout(set = 0, binding = 0) readonly buffer A { uint a[]; };
layout(set = 0, binding = 1) writeonly buffer Out { uint result[]; };
layout(push_constant) uniform Push { uint k; uint n; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < n) {
        result[i] = a[i] * k + c;
    }
}
