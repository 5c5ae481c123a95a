#!/usr/bin/env bash
# Runs the job as its schedules do, on four "machines" whose clocks differ, while nodes are killed and frozen: each time
# exactly one machine runs it, and none without a majority.
#
# Usage: try.sh DIRECTORY_OF_REDLOCK      needs REDLOCK_NODES and REDLOCK_NODE_CONTROL
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../../tests/support/script.sh"

redlock=$1
LEAST_S=9 # instead of 30: longer than the machines differ and wait, also on a busy machine
export REPORTS=$work/reports
# On a busy machine the replies of the remaining nodes may be late.
printf 'timeout = 5s\nconnect-timeout = 5s\n' >"$work/config"
export REDLOCK_CONFIG=$work/config
mkdir "$work/bin"
# shellcheck disable=SC2016 # for the job, which takes no time
printf '#!/bin/sh\necho "$REDLOCK_RESOURCE" >>"$REPORTS"\n' >"$work/bin/make-report"
chmod +x "$work/bin/make-report"

python3 "$here/commands.py" >"$work/commands"
mapfile -t commands <"$work/commands"
[ ${#commands[@]} = 3 ] || die "there are not three schedules: ${commands[*]}"
for command in "${commands[@]}"; do
  [ "$command" = "${commands[0]}" ] || die "the schedules differ: '$command' and '${commands[0]}'"
done
[[ ${commands[0]} = *"--at-least 30s"* ]] || die "the schedules do not keep the lock: ${commands[0]}"

# The lock of the slot before has ended.
await_end() { PATH=$redlock:$PATH redlock run -q -w 1m jobs/report -- true; }

runs=0
tick() { # WHAT STATUSES [COMMAND]: machines start the job within 2 s, and exit with one of these; COMMAND runs meanwhile
  local machines=() machine status command=${commands[runs % 3]}
  : >"$REPORTS"
  command=${command/--at-least 30s/--at-least ${LEAST_S}s}
  local delay
  for delay in 0 0.5 1.2 2; do
    (sleep "$delay" && PATH=$work/bin:$redlock:$PATH exec sh -c "$command" 2>>"$work/errors") &
    machines+=($!)
  done
  sleep 0.3
  "${@:3}"
  for machine in "${machines[@]}"; do
    status=0
    wait "$machine" || status=$?
    [[ $2 = *" $status "* ]] || die "$1: a machine exits with $status: $(tail -n 1 "$work/errors")"
  done
  runs=$((runs + 1))
}

ran_once() {
  [ "$(cat "$REPORTS")" = jobs/report ] || die "$1: the job ran $(wc -l <"$REPORTS") times"
  echo "$1: the job ran once"
}

tick "all nodes" ' 0 '
ran_once "all nodes"
await_end
tick "one node killed meanwhile" ' 0 ' node kill 1
ran_once "one node killed meanwhile"
await_end
node pause 2
tick "one killed, one frozen" ' 0 '
ran_once "one killed, one frozen"
await_end
node pause 3
# A machine may see the two votes of another one, and exit with 0: skipped.
tick "a majority failed" ' 0 69 '
[ ! -s "$REPORTS" ] || die "the job ran without a majority"
grep -q 'no majority of the nodes can be reached' "$work/errors" || die "no machine says why: $(tail -n 1 "$work/errors")"
echo "a majority failed: no machine ran the job"
node unpause 2
node unpause 3
tick "two nodes are back" ' 0 '
ran_once "two nodes are back"
await_end
echo "VERDICT: never twice"
