// Offsets from the dynamic buffer `dyn`, which the including file declares.
#include "include/dyn.glsl"

// Word `word` of it as an addend of an index; strides and offsets are signed and wrap modulo 2³².
#define DYNAMIC(word) ((word) == NO_DYN ? 0u : uint(dyn[word]))
