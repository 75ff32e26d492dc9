#!/usr/bin/env bash
# Builds the engines that kvern is measured against into .venv-peers (git-ignored). Does nothing when they are there.
#
#   bench/peers/setup.sh
#
# The source package of llama-cpp-python holds all of llama.cpp. It is compiled once, for this CPU (some ten minutes on
# two cores); its programs are in .venv-peers/llama.cpp/bin, and the Python package uses the libraries beside them.
# A server to compare with: .venv-peers/llama.cpp/bin/llama-server -m MODEL -t 2 -fa on -c 16384 -np 4 --port 8081
# KVERN_PEERS_VENV names another folder; KVERN_PEERS_JOBS limits the compilers that run at once.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly llama_version=0.3.36
readonly venv="${KVERN_PEERS_VENV:-.venv-peers}"
readonly python="$venv/bin/python"
readonly build="$venv/llama.cpp"
readonly programs=(llama-batched-bench llama-bench llama-server)

peers_are_there() {
  local program
  for program in "${programs[@]}"; do
    [[ -x "$build/bin/$program" ]] || return 1
  done
  [[ -x "$python" ]] &&
    [[ "$("$python" -c 'import llama_cpp; print(llama_cpp.__version__)' 2>/dev/null)" == "$llama_version" ]]
}

# The source package, unpacked into $venv/source.
fetch_source() {
  local folder="$venv/source"
  [[ -f "$folder/complete-$llama_version" ]] && return
  rm -rf "$folder"
  mkdir -p "$folder"
  "$python" -m pip download --quiet --no-deps --no-binary llama-cpp-python --dest "$folder" \
    "llama-cpp-python==$llama_version"
  tar -xzf "$folder"/*.tar.gz --strip-components=1 -C "$folder"
  rm "$folder"/*.tar.gz
  mend_tile_config
  touch "$folder/complete-$llama_version"
}

# g++ 12 takes _tile_loadconfig for a read of 8 of its 64 bytes and leaves out the stores of the others, so products on
# AMX end in a general protection fault. The empty statement reads all of them.
mend_tile_config() {
  local file="$venv/source/vendor/llama.cpp/ggml/src/ggml-cpu/amx/mmq.cpp"
  sed -i 's|^    _tile_loadconfig(&tc);|    __asm__ volatile("" : : "r"(\&tc) : "memory");\n&|' "$file"
}

# A build for any CPU would be slower than the peer really is: always from source, for this machine.
build_llama_cpp() {
  if ! { cmake -S "$venv/source/vendor/llama.cpp" -B "$build" -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON \
           -DBUILD_SHARED_LIBS=ON -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_UI=OFF \
           -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF &&
         cmake --build "$build" --parallel "${KVERN_PEERS_JOBS:-$(nproc)}" --target llama "${programs[@]}"
       } >"$build.log" 2>&1; then
    tail -n 20 "$build.log" >&2
    echo "peers: the build of llama.cpp failed; all of its output: $build.log" >&2
    exit 1
  fi
}

install_python_package() {
  CMAKE_ARGS="-DLLAMA_BUILD=OFF -DLLAVA_BUILD=OFF" "$python" -m pip install --quiet "$venv/source"
  local package
  package="$("$python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')/llama_cpp"
  rm -rf "${package:?}/lib"
  ln -s "$(realpath "$build/bin")" "$package/lib"
}

if peers_are_there; then
  echo "peers: llama.cpp of llama-cpp-python $llama_version is in $venv"
  exit 0
fi
for program in python3 cmake c++ tar; do
  if ! command -v "$program" >/dev/null; then
    echo "peers: '$program' is missing; scripts/setup.sh installs it" >&2
    exit 1
  fi
done

echo "peers: building llama.cpp of llama-cpp-python $llama_version into $venv (some ten minutes; $build.log)"
[[ -x "$python" ]] || python3 -m venv "$venv"
fetch_source
build_llama_cpp
install_python_package
peers_are_there || { echo "peers: the build has ended, but something is missing in $venv" >&2; exit 1; }
echo "peers: llama.cpp of llama-cpp-python $llama_version is ready"
