#!/usr/bin/env bash
# Runs the job as its schedules do, on four "machines" whose clocks differ, while nodes are killed and frozen: each time
# exactly one machine runs it, and none without a majority.
#
# Usage: try.sh DIRECTORY_OF_REDLOCK      needs REDLOCK_NODES and REDLOCK_NODE_CONTROL
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../../tests/support/script.sh"

redlock=$1
export REPORTS=$work/reports
# -n tries once: on a busy machine the replies of the remaining nodes may be late.
printf 'timeout = 5s\nconnect-timeout = 5s\n' >"$work/config"
export REDLOCK_CONFIG=$work/config
mkdir "$work/bin"
cp "$here/at_least.sh" "$work/bin"
# shellcheck disable=SC2016 # for the job
printf '#!/bin/sh\necho "$REDLOCK_RESOURCE" >>"$REPORTS"\n' >"$work/bin/make-report"
# The job takes no time. at_least.sh sleeps until the other machines have ended, instead of most of a minute.
# shellcheck disable=SC2016
printf '#!/bin/sh\nuntil [ -e "$REPORTS.over" ]; do /bin/sleep 0.05; done\n[ "$1" -ge 30 ] && [ "$1" -le 60 ]\n' >"$work/bin/sleep"
chmod +x "$work/bin/"*

python3 "$here/commands.py" >"$work/commands"
mapfile -t commands <"$work/commands"
[ ${#commands[@]} = 3 ] || die "there are not three schedules: ${commands[*]}"
for command in "${commands[@]}"; do
  [ "$command" = "${commands[0]}" ] || die "the schedules differ: '$command' and '${commands[0]}'"
done

three_ended() { [ "$(jobs -r | wc -l)" -le 1 ]; }

runs=0
tick() { # WHAT STATUSES: four machines start the job, and exit with one of these
  local machines=() machine status command=${commands[runs % 3]}
  : >"$REPORTS"
  rm -f "$REPORTS.over"
  for machine in 1 2 3 4; do
    PATH=$work/bin:$redlock:$PATH sh -c "$command" 2>>"$work/errors" &
    machines+=($!)
    sleep 0.3
  done
  wait_for "$1: three machines end" three_ended
  touch "$REPORTS.over"
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
node kill 1
tick "one node killed" ' 0 '
ran_once "one node killed"
node pause 2
tick "one killed, one frozen" ' 0 '
ran_once "one killed, one frozen"
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
echo "VERDICT: never twice"
