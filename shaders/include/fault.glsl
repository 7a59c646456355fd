// Index checks. Needs `coherent buffer Fault { uint fault[]; }`: [0] = 1 + tag of the first fault, then the index
// found and the size it must be below.
#define FAULT(tag, index, limit)                        \
    if (atomicCompSwap(fault[0], 0u, 1u + (tag)) == 0u) { \
        fault[1] = uint(index);                         \
        fault[2] = limit;                               \
    }
