#!/usr/bin/env python3
"""Keys of blocks as docs/formats/block_key.md says, worked out without kvern: checks the golden vectors.

check_block_keys.py [FILE]     checks every vector of FILE (tests/golden/block_keys.txt)
check_block_keys.py --write    fills in the keys of FILE anew, for whoever changes the format
"""

import hashlib
import pathlib
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEFAULT = ROOT / "tests" / "golden" / "block_keys.txt"


def field(tag, value):
    return struct.pack("<BI", tag, len(value)) + value


def u32(value):
    return struct.pack("<I", value)


def numbers(text, convert):
    return [convert(part) for part in text.split(",")] if text else []


def root_key(lines):
    """`lines`: the settings of one vector, name -> value; `group` is a list."""
    data = field(0, b"kvern block key 1")
    data += field(1, lines["model"].encode())
    data += field(2, u32(int(lines["numerics"])))
    data += field(3, lines["activations"].encode())
    data += field(4, lines["k"].encode()) + field(5, lines["v"].encode())
    data += field(6, u32(1)) + field(7, u32(int(lines["block_size"])))
    for group in lines["group"]:
        shape, rope, factors, window, sees_pinned = group.split(";")
        data += field(8, struct.pack("<III", *numbers(shape, int)))
        dim, base, linear_factor = rope.split(",")
        packed = struct.pack("<Idd", int(dim), float(base), float(linear_factor))
        data += field(9, packed + b"".join(struct.pack("<f", x) for x in numbers(factors, float)))
        data += field(10, u32(int(window))) + field(11, bytes([int(sees_pinned)]))
    data += field(12, b"".join(u32(x) for x in numbers(lines["pinned"], int)))
    data += field(13, u32(int(lines["index"]))) + field(14, lines["salt"].encode())
    return hashlib.sha256(data).digest()


def block_key(parent, tokens):
    data = field(32, parent) + field(33, b"".join(struct.pack("<i", token) for token in tokens))
    return hashlib.sha256(data).digest()


def checked(path):
    """Yields (line as it should be, line as it is)."""
    settings = {"group": []}
    key = b""
    for line in path.read_text().splitlines():
        name, _, value = line.partition("=")
        if not line or line.startswith("#"):
            yield line, line
            settings = {"group": []} if not line else settings
        elif name == "group":
            settings["group"].append(value)
            yield line, line
        elif name == "root":
            key = root_key(settings)
            yield f"root={key.hex()}", line
        elif name == "block":
            tokens = value.split(" ")[0]
            key = block_key(key, numbers(tokens, int))
            yield f"block={tokens} {key.hex()}", line
        else:
            settings[name] = value
            yield line, line


def main():
    arguments = sys.argv[1:]
    writes = "--write" in arguments
    paths = [pathlib.Path(a) for a in arguments if a != "--write"] or [DEFAULT]
    num_bad = num_keys = 0
    for path in paths:
        pairs = list(checked(path))
        if writes:
            path.write_text("\n".join(expected for expected, _ in pairs) + "\n")
            continue
        for number, (expected, found) in enumerate(pairs, 1):
            num_keys += found.startswith(("root=", "block="))
            if expected != found:
                num_bad += 1
                print(f"{path}:{number}: found '{found}', expected '{expected}'")
    print(f"block keys: {num_keys} checked, {num_bad} wrong", file=sys.stderr)
    return 1 if num_bad or (num_keys == 0 and not writes) else 0


if __name__ == "__main__":
    sys.exit(main())
