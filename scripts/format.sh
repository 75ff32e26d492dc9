#!/bin/bash
# Formats the C++ files of the repository in place; with --check, names those that are not formatted and fails.
set -euo pipefail
cd "$(dirname "$0")/.."

# The version decides the result; Debian 12 has 14.
formatter=$(command -v clang-format-14 || command -v clang-format || true)
if [[ -z $formatter ]]; then
  echo "format: clang-format is missing; run scripts/setup.sh check" >&2
  exit 1
fi

mode=(-i)
case "${1:-}" in
  "") ;;
  --check) mode=(--dry-run -Werror) ;;
  *)
    echo "usage: scripts/format.sh [--check]" >&2
    exit 2
    ;;
esac

git ls-files -z --cached --others --exclude-standard '*.cc' '*.h' |
  while IFS= read -r -d '' file; do [[ ! -f $file ]] || printf '%s\0' "$file"; done |
  xargs -0 -r -n 32 -P "$(nproc)" "$formatter" --style=file "${mode[@]}"
