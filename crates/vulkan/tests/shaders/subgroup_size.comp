#version 450
#extension GL_KHR_shader_subgroup_basic : require
// Writes the subgroup size to out[0]; no push constants.
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) writeonly buffer Out { uint result[]; };

void main() {
    if (gl_LocalInvocationIndex == 0) {
        result[0] = gl_SubgroupSize;
    }
}
