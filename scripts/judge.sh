#!/usr/bin/env bash
# Lets porcupine, a linearizability checker that others wrote and use, judge the histories of torture runs and of simulated worlds: tests/torture/judge.
#
# Usage: scripts/judge.sh [--reject] [--operations N] [DIRECTORY...]
#   DIRECTORY        of scripts/torture.sh: the judge must accept it
#   --operations N   also simulates that many (scripts/sim.sh), whose history it must accept
#   --reject         also makes runs without the guard, until two clients hold a lock at once: the judge must reject that one, and a simulated one
#
# Needs Go, which gets porcupine. Exit status 0 when every run is as it must be, 1 when one is not, else it was not judged.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib/options.sh
. scripts/lib/options.sh
# shellcheck source=scripts/lib/packages.sh
. scripts/lib/packages.sh

reject=no
operations=
options_read "$@"
[ "$reject" = yes ] || [ -n "$operations" ] || [ ${#words[@]} -gt 0 ] || options_refuse "it needs directories of torture runs, --operations or --reject; see --help."
command -v go >/dev/null || packages_install judge
mkdir -p build
(cd tests/torture/judge && go vet . && go build -o ../../../build/judge .)

# The judge itself: times become nanoseconds, validities microseconds.
while IFS='|' read -r name expected lines; do
  [ "${name#\#}" = "$name" ] || continue
  status=0
  sed 's/; */\n/g' <<<"$lines" | sed -E 's/^[0-9]+/&000000/; s/ (held|valid) ([0-9]+ [a-z]+) [0-9]+/&000/' >build/judged.history
  build/judge build/judged.history >/dev/null || status=$?
  [ "$status" = "$expected" ] || { echo "judge: $name: exit status $status, not $expected"; exit 1; }
done <tests/torture/judge/histories.txt

# rejects FILE...: ends the script if the judge does not.
rejects() {
  local status=0
  build/judge "$@" || status=$?
  [ "$status" != 1 ] || return 0
  echo "judge: exit status $status, not 1"
  exit 1
}

# simulate OPTION...: its history is build/simulated.history.
simulate() {
  rm -f build/simulated.history
  scripts/sim.sh --history "$PWD/build/simulated.history" "$@"
}

for directory in "${words[@]}"; do
  build/judge "$directory"/*.history
done
if [ -n "$operations" ]; then
  simulate --operations "$operations"
  build/judge build/simulated.history
fi
[ "$reject" = yes ] || exit 0

simulate --operations 5000 --beyond unguarded
rejects build/simulated.history
for ((try = 0; try < 30; try++)); do # a busy machine acquires few locks, which may survive
  scripts/torture.sh --seconds 12 --fault majority --no-guard --directory build/judged && continue
  grep -q 'VIOLATION of exclusion' build/judged/report.txt || continue
  rejects build/judged/*.history
  exit 0
done
echo "judge: no run without the guard had two holders"
exit 1
