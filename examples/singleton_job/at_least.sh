#!/bin/sh
# Runs CMD and takes at least this long: at_least.sh SECONDS CMD [ARG ...]. Exits as CMD does.
#
# Under redlock run it keeps the lock for that time. The clocks of the machines differ, so a machine may start its job
# when another one has finished: without this, a short job would run twice. Choose SECONDS above the difference of the
# clocks, and below the interval of the job.
set -u

least=$1
shift
began=$(date +%s)
status=0
"$@" || status=$?
left=$((began + least - $(date +%s)))
if [ "$left" -gt 0 ]; then
  sleep "$left"
fi
exit "$status"
