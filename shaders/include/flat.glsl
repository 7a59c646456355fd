// Number of this invocation and of its group in a dispatch that `Launch` spread over x and y. Include it after
// `layout(local_size_x …) in;`: gl_WorkGroupSize is fixed by its first use.

uint flat_group() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }

uint flat_invocation() { return flat_group() * gl_WorkGroupSize.x + gl_LocalInvocationID.x; }
