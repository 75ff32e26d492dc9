#!/usr/bin/env python3
"""Checks who includes whom: the table below against every #include of src/, include/, cli/, examples/ and bench/e2e/.

Prints "file:line: what is wrong" for each violation and exits with 1 when there is one. Also looks for conditions on the
operating system or CPU, and for intrinsics, outside the modules that may hold them.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Module: what it may include besides itself, `kvern` (the public headers) and `base`. A path names one header.
MAY_INCLUDE = {
    "base": [],
    "platform": [],
    "tensor": [],
    "tokenizer": [],
    "kernels": ["tensor", "platform/cpu_features.h"],
    "gguf": ["tensor", "platform"],
    "kvcache": ["tensor", "kernels"],
    "tiers": ["platform"],
    "model": ["tensor", "kernels", "gguf"],
    "engine": ["platform", "tensor", "tokenizer", "kernels", "gguf", "kvcache", "model"],
}
# Single files that may include more.
FILE_MAY_INCLUDE = {"src/engine/assemble.cc": ["tiers"]}
# Code that sees the library as its users do: the public headers, itself, and what is named here.
PUBLIC_ONLY = {"src/server": [], "cli": ["server"], "examples": [], "bench/e2e": []}
# Where conditions on the operating system or the CPU may stand.
PLATFORM_DEPENDENT = ("src/platform/", "src/kernels/")

STANDARD_HEADERS = set(
    """algorithm any array atomic barrier bit bitset cassert cctype cerrno cfenv cfloat charconv chrono cinttypes climits
    clocale cmath compare complex concepts condition_variable coroutine csetjmp csignal cstdarg cstddef cstdint cstdio
    cstdlib cstring ctime cuchar cwchar cwctype deque exception execution filesystem forward_list fstream functional
    future initializer_list iomanip ios iosfwd iostream istream iterator latch limits list locale map memory
    memory_resource mutex new numbers numeric optional ostream queue random ranges ratio regex scoped_allocator semaphore
    set shared_mutex source_location span sstream stack stdexcept stop_token streambuf string string_view syncstream
    system_error thread tuple type_traits typeindex typeinfo unordered_map unordered_set utility valarray variant vector
    version""".split()
)

INCLUDE = re.compile(r'\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
CONDITION = re.compile(r"\s*#\s*(?:if|ifdef|ifndef|elif)\b(.*)")
PLATFORM_MACRO = re.compile(
    r"\b(__linux__|__gnu_linux__|__unix__|__APPLE__|__MACH__|__FreeBSD__|_WIN32|_WIN64|__ANDROID__|"
    r"__x86_64__|__amd64__|__i386__|__aarch64__|__arm__|__riscv|_M_X64|_M_ARM64|"
    r"__AVX\w*|__SSE\w*|__FMA__|__F16C__|__ARM_\w+)\b"
)
INTRINSICS = re.compile(r"(\w*intrin\.h|arm_neon\.h|cpuid\.h)$")


def allowed_for(path):
    """(names that may stand before the first '/', whole paths) for the quoted includes of the file at `path`."""
    for folder, more in PUBLIC_ONLY.items():
        if path.startswith(folder + "/"):
            prefixes = {"kvern", *more}
            return prefixes, {folder.removeprefix("src/")}
    if path.startswith("include/"):
        return {"kvern"}, set()
    module = path.split("/")[1]
    names = ["kvern", "base", module, *MAY_INCLUDE.get(module, []), *FILE_MAY_INCLUDE.get(path, [])]
    return {name for name in names if "/" not in name}, {name for name in names if "/" in name}


def check_quoted(path, header):
    prefixes, paths = allowed_for(path)
    if header.split("/")[0] in prefixes and "/" in header:
        return None
    if any(header == allowed or header.startswith(allowed + "/") for allowed in paths):
        return None
    if path.endswith("_test.cc") and header.startswith("tests/support/"):
        return None
    if "/" not in header:
        return f'"{header}" lacks its module: write "module/{header}"'
    return f'"{header}" may not be included here; allowed: {", ".join(sorted(prefixes | paths))}'


def check_file(path):
    """Yields (line number, message)."""
    if path.startswith("src/") and path.count("/") < 2:
        yield 1, "every file of src/ belongs to a module"
        return
    module = path.split("/")[1]
    if path.startswith("src/") and module not in MAY_INCLUDE and f"src/{module}" not in PUBLIC_ONLY:
        yield 1, f"module '{module}' is not in the table of {pathlib.Path(__file__).name}"
        return
    may_depend_on_platform = path.startswith(PLATFORM_DEPENDENT)
    text = (ROOT / path).read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        if match := INCLUDE.match(line):
            quoted, system = match.groups()
            if quoted and (message := check_quoted(path, quoted)):
                yield number, message
            if system and path.startswith("include/") and system not in STANDARD_HEADERS:
                yield number, f"<{system}>: public headers include the C++ standard library only"
            if system and INTRINSICS.search(system) and not may_depend_on_platform:
                yield number, f"<{system}>: intrinsics stay in src/kernels and src/platform"
        elif (match := CONDITION.match(line)) and not may_depend_on_platform:
            if macro := PLATFORM_MACRO.search(match.group(1)):
                yield number, f"condition on {macro.group(1)}: these stay in src/platform and src/kernels"


def main():
    num_files = 0
    num_violations = 0
    for folder in ["include", "src", "cli", "examples", "bench/e2e"]:
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix not in (".h", ".cc", ".inc"):
                continue
            num_files += 1
            path = file.relative_to(ROOT).as_posix()
            for number, message in check_file(path):
                num_violations += 1
                print(f"{path}:{number}: {message}")
    print(f"includes: {num_files} files, {num_violations} violations", file=sys.stderr)
    return 1 if num_violations else 0


if __name__ == "__main__":
    sys.exit(main())
