#!/usr/bin/env bash
# A torture run keeps the guarantees. It can also fail: without the guard, the same faults break exclusion, and so does a
# client with a planted bug.
#
# Usage: torture_test.sh kept SECONDS | no_guard | planted   TORTURE CLIENT PLANTED [REDLOCK]
set -uo pipefail

what=$1
seconds=0
if [ "$what" = kept ]; then
  seconds=$2
  shift
fi
torture=$2
client=$3
planted=$4
command=${5:-}
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

# run EXPECTED_STATUS ARGUMENT...: shows the output if the exit status is not the expected one.
run() {
  local expected=$1 status=0
  shift
  rm -rf "$directory/run"
  "$torture" --seed "$RANDOM" --told-ms 250 --directory "$directory/run" "$@" || status=$?
  [ "$status" -ne 77 ] || exit 77
  if [ "$status" -ne "$expected" ]; then
    echo "exit status $status, not $expected: torture $*"
    cat "$directory/run/report.txt"
    tail -n 20 "$directory"/run/*.log
    return 1
  fi
}

breaks_exclusion() {
  run 1 "$@" && grep -q 'VIOLATION of exclusion' "$directory/run/report.txt"
}

case $what in
  kept) run 0 --client "$client" ${command:+--command "$command"} --seconds "$seconds" ;;
  no_guard)
    run 0 --client "$client" --seconds 12 --fault majority &&
      breaks_exclusion --client "$client" --seconds 12 --fault majority --no-guard
    ;;
  planted) breaks_exclusion --client "$planted" --seconds 6 --fault delay ;;
esac
