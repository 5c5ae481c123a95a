#!/usr/bin/env bash
# Five real servers, eight clients, and a nemesis; a checker of the clients' histories; a report.
#
# Usage: scripts/torture.sh [--seconds S] [--seed N] [--no-guard] [--fault NAME] [--loopback] [--directory DIR]
#   --seconds S    how long the nemesis works: 60
#   --seed N       of the nemesis and the clients; random by default, and printed
#   --no-guard     the clients trust nodes that may have forgotten locks: this run is to fail
#   --fault NAME   only this one: kill, stop, majority, cut, hold, delay, drop, flush+drop, flush, clock
#   --loopback     no network namespaces, which need root
#   --directory D  for the histories, logs and report.txt: build/torture
#
# Exit status: 0 all promises were kept, 1 one was broken, else the run could not be made.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib/options.sh
. scripts/lib/options.sh
# shellcheck source=scripts/lib/packages.sh
. scripts/lib/packages.sh

seconds=60
seed=$((RANDOM * 32768 + RANDOM))
directory=build/torture
no_guard=
loopback=
fault=
options_only "$@"
more=(${no_guard:+--no-guard} ${loopback:+--loopback})
[ -z "$fault" ] || more+=(--fault "$fault")

packages_install build test
preset=${REDLOCK_TORTURE_PRESET:-release-clang}
cmake --preset "$preset" >/dev/null
cmake --build --preset "$preset" --parallel "$(nproc)" --target torture torture_client redlock_command

rm -rf "$directory"
mkdir -p "$directory"
echo "seed $seed"
status=0
"build/$preset/tests/torture/torture" --seconds "$seconds" --seed "$seed" --directory "$directory" \
  --client "$PWD/build/$preset/tests/torture/torture_client" --command "$PWD/build/$preset/cli/redlock" "${more[@]}" || status=$?
[ ! -s "$directory/report.txt" ] || grep VIOLATION "$directory/report.txt" | head -n 20 || true
echo "report: $directory/report.txt"
exit "$status"
