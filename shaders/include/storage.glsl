// How a constant's elements lie in its words. Activations are always WORD.
const uint WORD = 0u;
const uint HALF = 1u;

float half_of(uint word, uint i) {
    vec2 pair = unpackHalf2x16(word);
    return (i & 1u) == 0u ? pair.x : pair.y;
}

// Element `i` of the word array `words`.
#define LOAD(words, storage, i) \
    ((storage) == HALF ? half_of(words[(i) >> 1], (i)) : uintBitsToFloat(words[i]))
