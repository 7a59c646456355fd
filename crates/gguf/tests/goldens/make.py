"""Makes blocks.bin: for each type, two blocks and what the Python package `gguf` decodes them to.

Needs the packages gguf and numpy. Blocks are random bytes with scales that are finite; the file is a sequence of records:
type u32, bytes of the blocks u32, elements u32, the blocks, the elements as f32.
"""

import struct
import sys

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as T
from gguf.quants import dequantize

# Where scales, as halves, stand in blocks.
SCALES = {
    T.F16: [0], T.BF16: [], T.Q8_0: [0], T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2],
    T.Q2_K: [80, 82], T.Q3_K: [108], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208],
}

rng = np.random.default_rng(7)
with open(sys.argv[1], "wb") as out:
    for kind, places in SCALES.items():
        elements, size = GGML_QUANT_SIZES[kind]
        blocks = rng.integers(0, 256, (2, size), dtype=np.uint8)
        for place in places:
            blocks[:, place : place + 2] = rng.normal(0, 0.1, (2, 1)).astype(np.float16).view(np.uint8)
        if kind == T.BF16:
            blocks = (rng.normal(0, 1, 2).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8).reshape(2, 2)
        values = dequantize(blocks, kind).astype(np.float32)
        out.write(struct.pack("<III", kind.value, blocks.size, values.size))
        out.write(blocks.tobytes() + values.tobytes())
