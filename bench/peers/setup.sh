#!/usr/bin/env bash
# Builds the engines that kvern is measured against into .venv-peers (git-ignored). Does nothing when they are there.
#
#   bench/peers/setup.sh
#
# llama-cpp-python comes as source and is compiled for this CPU: about six minutes on two cores.
# CMAKE_BUILD_PARALLEL_LEVEL limits the jobs of that build; KVERN_PEERS_VENV names another folder.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly llama_version=0.3.36
readonly venv="${KVERN_PEERS_VENV:-.venv-peers}"

if [[ -x "$venv/bin/python" ]] &&
   [[ "$("$venv/bin/python" -c 'import llama_cpp; print(llama_cpp.__version__)' 2>/dev/null)" == "$llama_version" ]]; then
  echo "peers: llama-cpp-python $llama_version is in $venv"
  exit 0
fi

for program in python3 cmake c++; do
  if ! command -v "$program" >/dev/null; then
    echo "peers: '$program' is missing; scripts/setup.sh installs it" >&2
    exit 1
  fi
done

echo "peers: building llama-cpp-python $llama_version into $venv (some minutes)"
[[ -x "$venv/bin/python" ]] || python3 -m venv "$venv"
# A wheel built for any CPU would be slower than the peer really is: always from source, for this machine.
CMAKE_ARGS="-DGGML_NATIVE=ON -DCMAKE_BUILD_TYPE=Release -DLLAVA_BUILD=OFF -DMTMD_BUILD=OFF" \
CMAKE_BUILD_PARALLEL_LEVEL="${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}" \
  "$venv/bin/python" -m pip install --quiet --no-binary llama-cpp-python "llama-cpp-python==$llama_version"
"$venv/bin/python" -c 'import llama_cpp; print("peers: llama-cpp-python", llama_cpp.__version__, "is ready")'
