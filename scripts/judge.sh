#!/usr/bin/env bash
# Lets porcupine, a linearizability checker that others wrote and use, judge the histories of torture runs: tests/torture/judge.
#
# Usage: scripts/judge.sh [--reject] [DIRECTORY...]
#   DIRECTORY   of scripts/torture.sh: the judge must accept it
#   --reject    also makes runs without the guard, until two clients hold a lock at once: the judge must reject that one
#
# Needs Go, which gets porcupine. Exit status 0 when every run is as it must be, 1 when one is not, else it was not judged.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib/options.sh
. scripts/lib/options.sh
# shellcheck source=scripts/lib/packages.sh
. scripts/lib/packages.sh

reject=no
options_read "$@"
[ "$reject" = yes ] || [ ${#words[@]} -gt 0 ] || options_refuse "it needs directories of torture runs, or --reject; see --help."
command -v go >/dev/null || packages_install judge
mkdir -p build
(cd tests/torture/judge && go vet . && go test . && go build -o ../../../build/judge .)

for directory in "${words[@]}"; do
  build/judge "$directory"/*.history
done
[ "$reject" = yes ] || exit 0

for ((try = 0; try < 30; try++)); do # a busy machine acquires few locks, which may survive
  scripts/torture.sh --seconds 12 --fault majority --no-guard --directory build/judged && continue
  grep -q 'VIOLATION of exclusion' build/judged/report.txt || continue
  status=0
  build/judge build/judged/*.history || status=$?
  [ "$status" = 1 ] && exit 0
  echo "judge: exit status $status, not 1"
  exit 1
done
echo "judge: no run without the guard had two holders"
exit 1
