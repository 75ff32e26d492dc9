#!/usr/bin/env python3
"""Makes tests/golden/tensor_formats.txt: digests of what the `gguf` package decodes and encodes.

    python3 -m venv venv && venv/bin/pip install gguf==0.19.0 numpy
    venv/bin/python scripts/make_format_golden.py > tests/golden/tensor_formats.txt

Each line: type, FNV-1a 64 of the f32 bytes decoded from NUM_VALUES pseudo-random values' worth of blocks, FNV-1a 64 of
the bytes encoded from NUM_VALUES pseudo-random values ("-" where the package has no encoder).
tests/golden/tensor_formats_test.cc makes the same inputs: keep the two alike.
"""
import numpy as np
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as T

NUM_VALUES = 16384
MASK64 = (1 << 64) - 1
# Where a block holds f16 scales and minima. The float types are one such field per value.
F16_FIELDS = {T.F16: [0], T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0],
              T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208], T.F32: [], T.BF16: []}
ENCODED = [T.F32, T.F16, T.BF16, T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0]


class XorShift:
    """xorshift64 (13, 7, 17); the seed is never 0."""

    def __init__(self, seed):
        self.state = seed & MASK64

    def next(self):
        s = self.state
        s ^= (s << 13) & MASK64
        s ^= s >> 7
        s ^= (s << 17) & MASK64
        self.state = s
        return s


def fnv1a(data):
    digest = 0xCBF29CE484222325
    for byte in data:
        digest = ((digest ^ byte) * 0x100000001B3) & MASK64
    return digest


def seed_of(qtype, purpose):
    return (0x9E3779B97F4A7C15 * (int(qtype) * 2 + purpose + 1)) & MASK64


def random_blocks(qtype):
    """The top byte of each draw; then the second highest exponent bit of every float whose exponent is full is cleared."""
    block_elements, block_bytes = GGML_QUANT_SIZES[qtype]
    num_blocks = NUM_VALUES // block_elements
    random = XorShift(seed_of(qtype, 0))
    data = bytearray(random.next() >> 56 for _ in range(num_blocks * block_bytes))
    for block in range(num_blocks):
        at = block * block_bytes
        for field in F16_FIELDS[qtype]:
            if data[at + field + 1] & 0x7C == 0x7C:
                data[at + field + 1] &= 0xBF
        if qtype in (T.F32, T.BF16):
            high = at + block_bytes - 1
            if data[high] & 0x7F == 0x7F and data[high - 1] & 0x80:
                data[high] &= 0xBF
    return np.frombuffer(bytes(data), dtype=np.uint8)


def random_values(qtype):
    """Signed 24-bit integers times 2^(g % 12 - 28) for the g-th group of 32, all exact in f32; group 0 is zeros."""
    random = XorShift(seed_of(qtype, 1))
    values = np.empty(NUM_VALUES, dtype=np.float32)
    for i in range(NUM_VALUES):
        integer = (random.next() >> 40) - (1 << 23)
        group = i // 32
        values[i] = 0.0 if group == 0 else np.float32(integer) * np.float32(2.0 ** (group % 12 - 28))
    return values


def main():
    print("# Made by scripts/make_format_golden.py with gguf 0.19.0: type, digest decoded, digest encoded.")
    for qtype in F16_FIELDS:
        decoded = quants.dequantize(random_blocks(qtype), qtype).astype("<f4")
        encoded = "-"
        if qtype in ENCODED:
            encoded = f"{fnv1a(quants.quantize(random_values(qtype), qtype).tobytes()):016x}"
        print(f"{qtype.name} {fnv1a(decoded.tobytes()):016x} {encoded}")


if __name__ == "__main__":
    main()
