#!/usr/bin/env bash
# From a bare Debian 12 to every test passed: installs what is missing, builds, runs all.
#
# Usage: scripts/test.sh [--quick]
#   --quick   the sanitized build only (no ThreadSanitizer, valgrind, clang or fuzzers)
#
# The last line is 'N passed, N failed'; a build that fails counts as one failure. Exit status 0 when nothing failed.
set -uo pipefail
exec </dev/null

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
# shellcheck source=scripts/lib/packages.sh
. scripts/lib/packages.sh

quick=0
for argument in "$@"; do
  case $argument in
    --quick) quick=1 ;;
    -h | --help)
      sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    *)
      echo "scripts/test.sh: '$argument' is not understood; there are --quick and --help." >&2
      exit 2
      ;;
  esac
done

jobs=$(nproc)
passed=0
failed=0
table=()
broken=()

# The sanitizers of Debian 12's compilers lose their way in kernels that randomise addresses over more bits.
fixed_addresses=()
if setarch "$(uname -m)" -R true 2>/dev/null; then
  fixed_addresses=(setarch "$(uname -m)" -R)
fi

# Reads ctest's JUnit file: prints "passed failed skipped", then the names of what failed.
read_results() {
  awk '
    /<testcase / {
      match($0, /name="[^"]*"/); name = substr($0, RSTART + 6, RLENGTH - 7)
      match($0, /status="[^"]*"/); status = substr($0, RSTART + 8, RLENGTH - 9)
      if (status == "run") passed++
      else if (status == "notrun") pending = name
      else { failed++; names = names "\n" name }
    }
    # A test whose program is missing is "skipped" as well, in the words of ctest.
    /<skipped / && pending != "" {
      if ($0 ~ /SKIP_/) skipped++
      else { failed++; names = names "\n" pending }
      pending = ""
    }
    END { printf "%d %d %d%s\n", passed, failed, skipped, names }' "$1"
}

# record NAME PASSED FAILED SKIPPED SECONDS
record() {
  passed=$((passed + $2))
  failed=$((failed + $3))
  table+=("$(printf '%-16s %7d %7d %8d %7d s' "$@")")
}

build() {
  cmake --preset "$1" && cmake --build --preset "$1" --parallel "$jobs"
}

# run_tests PRESET: builds it and runs what its test preset selects.
run_tests() {
  local preset=$1 start=$SECONDS junit results counts name
  junit=$PWD/build/$preset/junit.xml
  printf '\n== %s ==\n' "$preset"
  if ! build "$preset"; then
    broken+=("$preset: the build")
    record "$preset" 0 1 0 $((SECONDS - start))
    return
  fi

  rm -f "$junit"
  # Tests of a lock wait more than they work.
  "${fixed_addresses[@]}" ctest --preset "$preset" --parallel $((jobs + 1)) --output-junit "$junit"
  if [ ! -s "$junit" ]; then
    broken+=("$preset: ctest found or ran no test")
    record "$preset" 0 1 0 $((SECONDS - start))
    return
  fi
  mapfile -t results < <(read_results "$junit")
  read -ra counts <<<"${results[0]}"
  for name in "${results[@]:1}"; do
    broken+=("$preset: $name")
  done
  record "$preset" "${counts[@]}" $((SECONDS - start))
}

packages_install build test || exit
# The tests beside a client of another language are skipped where its packages cannot be had; and they are not taken from whoever has them from elsewhere.
if ! command -v npm >/dev/null || ! command -v node >/dev/null; then
  packages_install neighbour || echo "Going on without node and npm: the tests beside node-redlock are skipped."
fi

run_tests dev
if [ "$quick" = 0 ]; then
  run_tests tsan
  run_tests valgrind
  run_tests release-clang
  run_tests fuzz
fi

printf '\n%-16s %7s %7s %8s %9s\n' build passed failed skipped time
printf '%s\n' "${table[@]}"
if [ ${#broken[@]} -gt 0 ]; then
  printf '\nFailed:\n'
  printf '  %s\n' "${broken[@]}"
fi
printf '\n%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
