#!/usr/bin/env bash
# Runs an example and checks its output and its exit status.
#
# Usage: try.sh [--nodes N [--patient]] STATUS PATTERN... -- COMMAND...
#   --nodes N   on N temporary masters, which the command finds in REDLOCK_NODES; exits with 77 (skipped) if there is no
#               server program
#   --patient   with a timeout for each node that no busy machine exceeds
#   PATTERN     an extended regular expression that must match a line of the output, including standard error
set -euo pipefail

scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/scripts
nodes=$scripts/nodes.sh
# shellcheck source=scripts/lib/server.sh
. "$scripts/lib/server.sh"
run=()
if [ "$1" = --nodes ]; then
  server_available || exit 77
  run=("$nodes" run --quiet -n "$2" --)
  shift 2
fi
if [ "$1" = --patient ]; then
  # shellcheck disable=SC2016 # for the shell behind nodes.sh
  run+=(bash -c 'long="?timeout_ms=20000"; REDLOCK_NODES=redis://${REDLOCK_NODES//,/$long,redis://}$long exec "$@"' --)
  shift
fi
expected=$1
shift
patterns=()
while [ "$1" != -- ]; do
  patterns+=("$1")
  shift
done
shift

status=0
output=$("${run[@]}" "$@" 2>&1) || status=$?
printf '%s\n' "$output"

wrong=0
if [ "$status" != "$expected" ]; then
  echo "try.sh: the exit status is $status, not $expected"
  wrong=1
fi
for pattern in "${patterns[@]}"; do
  if ! grep -qE -- "$pattern" <<<"$output"; then
    echo "try.sh: no line matches: $pattern"
    wrong=1
  fi
done
exit "$wrong"
