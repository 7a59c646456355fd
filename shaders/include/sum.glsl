// Sums over a workgroup of at most 256 invocations: within subgroups where SUBGROUP is defined, else a tree. Include it
// after `layout(local_size_x …) in;`.

shared float partials[256];

// The sum over the workgroup, for every invocation.
float sum_all(float value) {
#ifdef SUBGROUP
    value = subgroupAdd(value);
    if (gl_NumSubgroups == 1u) return value;
    if (subgroupElect()) partials[gl_SubgroupID] = value;
    barrier();
    value = 0.0;
    for (uint i = 0u; i < gl_NumSubgroups; i++) value += partials[i];
#else
    uint me = gl_LocalInvocationID.x;
    partials[me] = value;
    barrier();
    for (uint half_size = gl_WorkGroupSize.x / 2u; half_size > 0u; half_size /= 2u) {
        if (me < half_size) partials[me] += partials[me + half_size];
        barrier();
    }
    value = partials[0];
#endif
    // The next use of `partials` must not overtake these reads.
    barrier();
    return value;
}
