#!/bin/bash
# The checks beside the tests themselves: format, include table, warnings of both compilers, sanitizers, 64-bit Arm in
# an emulator, fuzz smoke.
#
#   scripts/check.sh            all of them
#   scripts/check.sh STAGE...   some: format includes clang asan tsan arm fuzz
#
# Every stage runs, also after one has failed; the end lists them with their times and repeats what failed. What a stage
# printed is kept in build/check-STAGE.log. FUZZ_SECONDS (10) is the time that each fuzz target gets.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

fuzz_seconds=${FUZZ_SECONDS:-10}
jobs=$(nproc)

configure() { [[ -f build/$1/build.ninja ]] || cmake --preset "$1" >/dev/null; }

# The targets of build/$1 whose name ends in $2.
targets() { ninja -C "build/$1" -t targets all | sed -n "s/^\([a-z0-9_]*$2\): phony\$/\1/p" | grep -v ^cmake_ | sort -u; }

check_format() { scripts/format.sh --check; }

check_includes() { scripts/check_includes.py; }

# The libraries and the program, without the tests: what users compile.
check_clang() { configure ci-clang && cmake --build --preset ci-clang --target kvern; }

# Builds the test programs of preset $1 that are named after it and runs them, two at a time. A program may be followed by
# a colon and the filter of the tests to run. `emulator`: the command that runs the programs, where this CPU cannot.
run_tests() {
  local preset=$1 entry program status=0
  shift
  configure "$preset" || return 1
  cmake --build --preset "$preset" --target "${@%%:*}" || return 1
  for entry; do
    program=$(find "build/$preset" -name "${entry%%:*}" -type f -perm -u+x -print -quit)
    printf '%s\0%s\0' "$program" "$([[ $entry != *:* ]] && echo '*' || echo "${entry#*:}")"
  done | xargs -0 -n 2 -P "$jobs" bash -c '${emulator:-} "$0" --gtest_brief=1 --gtest_filter="$1" 2>&1 | grep -v "^Running main"
    exit "${PIPESTATUS[0]}"' || status=1
  return "$status"
}

# Every test program but those that need a real model or much time: what they add is size, not paths. Of the exactness
# tests one shape.
check_asan() {
  run_tests asan base_test platform_test tensor_test gguf_test tokenizer_test kernels_test kvcache_test engine_test cli_test \
    server_test tiny_model_test tiny_engine_test tensor_formats_golden_test codec_conformance_test 'exactness_test:WorkCounters*:*Again*Q4_1*'
}

# The tests in which threads meet.
check_tsan() {
  run_tests tsan base_test engine_test server_test 'kernels_test:Attention*:*/Attention*' \
    'exactness_test:WorkCounters*:*Again*Q4_1*'
}

# The kernels and small models on 64-bit Arm: neon against generic, and both against the golden bits of all machines. What
# generic does alone is tested above, from the same files.
check_arm() {
  local emulator='qemu-aarch64 -L /usr/aarch64-linux-gnu' status=0
  export emulator
  run_tests arm64 'exactness_test:*Again*:*Every*Q4_1*int8' 'kernels_test:-*/generic' tiny_model_golden_test \
    tiny_model_test tensor_test 'platform_test:CpuFeatures*' 'codec_conformance_test:-*generic*' kv_codecs_golden_test ||
    status=1
  cmake --build --preset arm64 --target kernels_agree_random kv_codecs_random &&
    $emulator build/arm64/fuzz/kernels_agree_random && $emulator build/arm64/fuzz/kv_codecs_random 50 || status=1
  return "$status"
}

# Each target NAME_fuzz, from what earlier runs found and from its seeds: those that make_NAME_seeds writes, where there
# is such a program, and those in fuzz/corpus/NAME.
check_fuzz() {
  configure fuzz || return 1
  local all makers target name corpora status=0
  mapfile -t all < <(targets fuzz _fuzz)
  mapfile -t makers < <(targets fuzz _seeds)
  ((${#all[@]} > 0)) || { echo "there are no fuzz targets"; return 1; }
  cmake --build --preset fuzz --target "${all[@]}" "${makers[@]}" || return 1
  for target in "${all[@]}"; do
    name=${target%_fuzz}
    corpora=(build/fuzz/corpus/"$name")
    mkdir -p "${corpora[0]}"
    if [[ -x build/fuzz/fuzz/make_${name}_seeds ]]; then
      build/fuzz/fuzz/"make_${name}_seeds" "${corpora[0]}" >/dev/null || status=1
    fi
    [[ ! -d fuzz/corpus/$name ]] || corpora+=(fuzz/corpus/"$name")
    if build/fuzz/fuzz/"$target" -max_total_time="$fuzz_seconds" -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 \
      -artifact_prefix=build/fuzz/"$name"- "${corpora[@]}" >build/fuzz/"$name".log 2>&1; then
      echo "$target: $(sed -n 's/^stat::number_of_executed_units: *//p' build/fuzz/"$name".log) runs"
    else
      tail -40 build/fuzz/"$name".log
      status=1
    fi
  done
  return "$status"
}

stages=("$@")
((${#stages[@]} > 0)) || stages=(format includes clang asan tsan arm fuzz)
for stage in "${stages[@]}"; do
  declare -F "check_$stage" >/dev/null || { echo "check: there is no stage '$stage'" >&2; exit 2; }
done

results=()
failed=()
mkdir -p build
for stage in "${stages[@]}"; do
  echo "check: $stage"
  started=$SECONDS
  outcome=passed
  "check_$stage" 2>&1 | tee "build/check-$stage.log" || { outcome=FAILED && failed+=("$stage"); }
  results+=("$(printf 'check: %-9s %-6s %5d s' "$stage" "$outcome" "$((SECONDS - started))")")
  echo "${results[-1]}"
done
for stage in "${failed[@]}"; do
  echo
  echo "check: what failed in $stage"
  grep -E 'FAILED|Failure$|error:|ERROR|WARNING: ThreadSanitizer|SUMMARY' "build/check-$stage.log" | head -30 ||
    tail -20 "build/check-$stage.log"
done
echo
printf '%s\n' "${results[@]}"
((${#failed[@]} == 0))
