#!/usr/bin/env bash
# A torture run keeps the guarantees. It can also fail: without the guard, the same faults break exclusion.
#
# Usage: torture_test.sh kept | no_guard   TORTURE CLIENT [REDLOCK]
set -uo pipefail

what=$1
torture=$2
client=$3
command=${4:-}
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

# run EXPECTED_STATUS ARGUMENT...: shows the output if the exit status is not the expected one.
run() {
  local expected=$1 status=0
  shift
  rm -rf "$directory/run"
  "$torture" --client "$client" --seed "$RANDOM" --told-ms 250 --directory "$directory/run" "$@" || status=$?
  [ "$status" -ne 77 ] || exit 77
  if [ "$status" -ne "$expected" ]; then
    echo "exit status $status, not $expected: torture $*"
    cat "$directory/run/report.txt"
    tail -n 20 "$directory"/run/*.log
    return 1
  fi
}

case $what in
  kept) run 0 ${command:+--command "$command"} --seconds 30 ;;
  no_guard)
    run 0 --seconds 12 --fault majority || exit 1
    for ((try = 0; try < 60; try++)); do # a busy machine acquires few locks, which may survive
      run 1 --seconds 6 --fault majority --no-guard && grep -q 'VIOLATION of exclusion' "$directory/run/report.txt" && exit 0
    done
    exit 1
    ;;
esac
