#!/bin/bash
# The checks beside the tests themselves: format, include table, warnings of both compilers, sanitizers, fuzz smoke.
#
#   scripts/check.sh            all of them
#   scripts/check.sh STAGE...   some: format includes clang asan tsan fuzz
#
# Every stage runs, also after one has failed; the end lists them with their times. FUZZ_SECONDS (20) is the time that
# each fuzz target gets.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

fuzz_seconds=${FUZZ_SECONDS:-20}
jobs=$(nproc)

configure() { [[ -f build/$1/build.ninja ]] || cmake --preset "$1" >/dev/null; }

# The targets of build/$1 whose name ends in $2.
targets() { ninja -C "build/$1" -t targets all | sed -n "s/^\([a-z0-9_]*$2\): phony\$/\1/p" | grep -v ^cmake_ | sort -u; }

check_format() { scripts/format.sh --check; }

check_includes() { scripts/check_includes.py; }

# The libraries and the program, without the tests: what users compile.
check_clang() { configure ci-clang && cmake --build --preset ci-clang --target kvern; }

# Every test but those that need a real model or much time: what they add is size, not paths.
check_asan() {
  configure asan && cmake --build --preset asan || return 1
  if ! ctest --test-dir build/asan -LE 'model|slow' --output-on-failure -j "$jobs" >build/asan/test.log 2>&1; then
    grep -vE '^ *Start +[0-9]+:| Passed +[0-9.]+ sec$' build/asan/test.log
    return 1
  fi
  grep 'tests passed' build/asan/test.log
}

# The tests in which threads meet. Of the exactness tests one shape: the others differ in numbers, not in threads.
check_tsan() {
  configure tsan || return 1
  local wanted=(base_test kernels_test engine_test exactness_test) found=() test status=0
  for test in $(targets tsan _test); do
    [[ " ${wanted[*]} " != *" $test "* ]] || found+=("$test")
  done
  cmake --build --preset tsan --target "${found[@]}" || return 1
  for test in "${found[@]}"; do
    local filter='*'
    [[ $test != exactness_test ]] || filter='WorkCounters*:*Again*Q4_1*'
    [[ $test != kernels_test ]] || filter='Attention*:*/Attention*'
    "$(find build/tsan -name "$test" -type f -perm -u+x -print -quit)" --gtest_brief=1 --gtest_filter="$filter" || status=1
  done
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
((${#stages[@]} > 0)) || stages=(format includes clang asan tsan fuzz)
for stage in "${stages[@]}"; do
  declare -F "check_$stage" >/dev/null || { echo "check: there is no stage '$stage'" >&2; exit 2; }
done

results=()
failed=0
for stage in "${stages[@]}"; do
  echo "check: $stage"
  started=$SECONDS
  if "check_$stage"; then outcome=passed; else outcome=FAILED failed=1; fi
  results+=("$(printf 'check: %-9s %-6s %5d s' "$stage" "$outcome" "$((SECONDS - started))")")
  echo "${results[-1]}"
done
echo
printf '%s\n' "${results[@]}"
exit $failed
