#!/usr/bin/env bash
# Measures this machine in about ten minutes and rewrites the measured section of docs/results.md: `make bench`.
#
#   bench/e2e/run.sh [BUILD FOLDER]
#
# Kernels, then whole models (SmolLM2, and random weights in the shape of Llama-3.2-1B), then both beside llama.cpp
# where bench/peers/setup.sh has built it.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly build="${1:-build/release}"
readonly results="$build/results"
readonly small=models/SmolLM2-135M-Instruct.Q4_1.gguf
readonly large=models/generated/b-Q4_0.gguf
threads="$(nproc)"
readonly threads

if [[ ! -f "$large" ]]; then
  mkdir -p "$(dirname "$large")"
  "$build/bench/make_model" --shape b --types Q4_0 --out "$large"
fi
rm -rf "$results"
mkdir -p "$results"

"$build/bench/tokenizer_bench"
"$build/bench/barrier_bench" --threads "$threads"
"$build/bench/batch_bench" --threads 1 --samples 5
"$build/bench/matmul_bench" --threads "$threads" --samples 3 --json "$results/matmul.jsonl"
"$build/bench/attention_bench" --threads "$threads" --samples 3 --json "$results/attention.jsonl"

# engine NAME ARGUMENTS...: one report of `kvern bench`.
engine() {
  echo "kvern bench: $1"
  "$build/kvern" bench --json --threads "$threads" "${@:2}" >"$results/$1.json"
}
engine small -m "$small" --depth 0,1024,4096
engine large -m "$large" --depth 0,1024,4096 --batch 1,8,32 -n 32 -r 3

# peers NAME ARGUMENTS...: one report of kvern beside llama.cpp.
peers() {
  bench/peers/run.py --kvern "$build/kvern" --threads "$threads" --rounds 3 --json "$results/$1-peers.json" "${@:2}"
}
if [[ -x "${KVERN_PEERS_VENV:-.venv-peers}/llama.cpp/bin/llama-batched-bench" ]]; then
  peers small --model "$small" --prefill 512 2048 --depth 0 4096 --batch 8 32 --shared-prompt 2048 --gen 24
  peers small-plain --model "$small" --prefill --depth 4096 --batch --flash-attn off
  peers large --model "$large" --prefill 512 --depth 0 --batch 8 --gen 32
else
  echo "llama.cpp is not built, so kvern is measured alone; bench/peers/setup.sh builds it"
fi
bench/e2e/report.py "$results"
