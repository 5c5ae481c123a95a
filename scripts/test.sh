#!/usr/bin/env bash
# From a bare Debian 12 or 13, or Ubuntu 24.04, to every test passed: installs missing packages, builds, runs all. Each test runs once.
#
# Usage: scripts/test.sh [--quick] [--require-tls] [--server PROGRAM]...
#   --quick               the sanitized build only (no ThreadSanitizer, valgrind, clang or fuzzers), without the torture
#   --require-tls         without a hiredis that offers TLS the build fails; otherwise it goes without
#   --server PROGRAM...   then runs the tests labelled 'servers' of that build once more, against this server, e.g. valkey-server,
#                         except those that are the same on every server: of processes, packages and examples
#
# The last line is 'N passed, N failed'; a build that fails counts as one failure. Exit status 0 when nothing failed.
set -uo pipefail
exec </dev/null

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
# shellcheck source=scripts/lib/options.sh
. scripts/lib/options.sh
# shellcheck source=scripts/lib/packages.sh
. scripts/lib/packages.sh

quick=no
require_tls=no
server=()
options_only "$@"
configuration=()
[ "$require_tls" = no ] || configuration+=(-DREDLOCK_TLS=ON)

jobs=$(nproc)
passed=0
failed=0
table=()
broken=()
left_out=()

# The sanitizers of Debian 12's compilers lose their way in kernels that randomise addresses over more bits.
fixed_addresses=()
if setarch "$(uname -m)" -R true 2>/dev/null; then
  fixed_addresses=(setarch "$(uname -m)" -R)
fi

# Reads ctest's JUnit file: prints "passed failed skipped", then "failed NAME" or "skipped NAME" for each of these.
read_results() {
  awk '
    /<testcase / {
      match($0, /name="[^"]*"/); name = substr($0, RSTART + 6, RLENGTH - 7)
      match($0, /status="[^"]*"/); status = substr($0, RSTART + 8, RLENGTH - 9)
      if (status == "run") passed++
      else if (status == "notrun") pending = name
      else { failed++; names = names "\nfailed " name }
    }
    # A test whose program is missing is "skipped" as well, in the words of ctest.
    /<skipped / && pending != "" {
      if ($0 ~ /SKIP_/) { skipped++; names = names "\nskipped " pending; reason = 1 }
      else { failed++; names = names "\nfailed " pending }
      pending = ""
    }
    reason && match($0, /skipped: [^<]*/) { names = names ": " substr($0, RSTART + 9, RLENGTH - 9); reason = 0 }
    /<\/testcase>/ { reason = 0 }
    END { printf "%d %d %d%s\n", passed, failed, skipped, names }' "$1"
}

# record NAME PASSED FAILED SKIPPED SECONDS_BUILDING SECONDS_TESTING
record() {
  passed=$((passed + $2))
  failed=$((failed + $3))
  table+=("$(printf '%-22s %7d %7d %8d %6d s %6d s' "$@")")
}

# build PRESET: a failure gets its row here; a success gets it after its tests.
build() {
  local start=$SECONDS
  printf '\n== %s ==\n' "$1"
  if cmake --preset "$1" "${configuration[@]}" && cmake --build --preset "$1" --parallel "$jobs"; then
    built_in=$((SECONDS - start))
    return 0
  fi
  broken+=("$1: the build")
  record "$1" 0 1 0 $((SECONDS - start)) 0
  return 1
}

# run_tests PRESET NAME OPTION_OF_CTEST...: runs the tests that the test preset and the options select; NAME goes into the table.
run_tests() {
  local preset=$1 name=$2 start=$SECONDS at_once=$((jobs * 2)) junit results counts outcome test
  shift 2
  junit=$PWD/build/$preset/junit.xml
  rm -f "$junit"
  # Tests of a lock wait more than they work; under valgrind they work.
  [ "$preset" = valgrind ] || at_once=$((jobs * 4))
  "${fixed_addresses[@]}" ctest --preset "$preset" --parallel "$at_once" --output-junit "$junit" "$@"
  if [ ! -s "$junit" ]; then
    broken+=("$name: ctest found or ran no test")
    record "$name" 0 1 0 "$built_in" $((SECONDS - start))
    return
  fi
  mapfile -t results < <(read_results "$junit")
  read -ra counts <<<"${results[0]}"
  while read -r outcome test; do
    if [ "$outcome" = failed ]; then broken+=("$name: $test"); else left_out+=("$name: $test"); fi
  done < <(printf '%s\n' "${results[@]:1}" | grep .)
  record "$name" "${counts[@]}" "$built_in" $((SECONDS - start))
  built_in=0
}

# run_servers PROGRAM: the tests of servers once more, on another one.
run_servers() {
  printf '\n== dev, on %s ==\n' "$1"
  if [ "$1" = valkey-server ] && ! command -v valkey-server >/dev/null && ! packages_install valkey || ! command -v "$1" >/dev/null; then
    echo "There is no $1."
    broken+=("$1: not there")
    record "dev, $1" 0 1 0 0 0
    return
  fi
  REDLOCK_SERVER_PROGRAM=$1 run_tests dev "dev, $1" --label-regex servers --label-exclude 'nofork|torture|install|children|examples'
}

packages_install build test package || exit
# The tests beside a client of another language are skipped where its packages cannot be installed; a node and npm from elsewhere are used as they are.
if ! command -v npm >/dev/null || ! command -v node >/dev/null; then
  packages_install neighbour || echo "Going on without node and npm: the tests beside node-redlock are skipped."
fi

if build dev; then
  if [ "$quick" = no ]; then run_tests dev dev --label-exclude nofork; else run_tests dev dev --label-exclude 'nofork|torture'; fi
  for program in "${server[@]}"; do
    run_servers "$program"
  done
fi
if [ "$quick" = no ]; then
  for preset in tsan valgrind release-clang fuzz; do
    build "$preset" && run_tests "$preset" "$preset"
  done
fi

printf '\n%-22s %7s %7s %8s %8s %8s\n' build passed failed skipped building testing
printf '%s\n' "${table[@]}"
if [ ${#left_out[@]} -gt 0 ]; then
  printf '\nSkipped:\n'
  printf '  %s\n' "${left_out[@]}"
fi
if [ ${#broken[@]} -gt 0 ]; then
  printf '\nFailed:\n'
  printf '  %s\n' "${broken[@]}"
fi
printf '\n%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
