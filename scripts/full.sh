#!/usr/bin/env bash
# The large figures, by hand: what scripts/test.sh does for seconds, for long. Takes about three and a half hours.
#
# Usage: scripts/full.sh [--short]
#   --short   a tenth of each
#
# Prints each step's outcome at the end; their output is in build/full. Exit status 0 when nothing failed.
set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
# shellcheck source=scripts/lib/options.sh
. scripts/lib/options.sh

short=no
options_only "$@"
divisor=1
[ "$short" = no ] || divisor=10

mkdir -p build/full
outcomes=()
failed=0

# step NAME COMMAND...
step() {
  local name=$1 start=$SECONDS outcome=passed
  shift
  printf '\n== %s: %s ==\n' "$name" "$*"
  "$@" 2>&1 | tee "build/full/$name.log"
  if [ "${PIPESTATUS[0]}" -ne 0 ]; then
    outcome=FAILED
    failed=1
  fi
  outcomes+=("$(printf '%-12s %-7s %6d s' "$name" "$outcome" $((SECONDS - start)))")
}

churn() {
  cmake --preset release && cmake --build --preset release --parallel "$(nproc)" --target test_load &&
    REDLOCK_CHURN_SECONDS=$1 CK_RUN_CASE=churn build/release/tests/test_load
}

step model bash scripts/model.sh
step simulation bash scripts/sim.sh --operations $((10000000 / divisor))
step fuzz bash scripts/fuzz.sh --seconds $((600 / divisor))
step torture bash scripts/torture.sh --seconds $((3600 / divisor)) --directory build/full/torture
step judge bash scripts/judge.sh --reject --operations $((1000000 / divisor)) build/full/torture
step static bash scripts/static.sh --test --try
step churn churn $((600 / divisor))

printf '\n'
printf '%s\n' "${outcomes[@]}"
exit "$failed"
