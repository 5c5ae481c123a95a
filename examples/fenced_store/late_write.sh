#!/usr/bin/env bash
# A holder is stopped right before it writes, for longer than the validity of its lock. Another process acquires the
# lock
# and writes. Then the first one continues and writes too late: the store rejects it.
#
# Usage: late_write.sh PROGRAM sqlite|redis      needs REDLOCK_NODES
set -euo pipefail

program=$1
kind=$2
work=$(mktemp -d)
first=
cleanup() {
  if [ -n "$first" ]; then
    kill -KILL "$first" 2>/dev/null || true
  fi
  rm -rf "$work"
}
trap cleanup EXIT

if [ "$kind" = redis ]; then
  # The application's Redis may be one of the nodes, because its key differs from the lock's.
  node=${REDLOCK_NODES%%,*}
  port=${node##*:}
  port=${port%%[!0-9]*}
  store=redis:$port
else
  store=sqlite:$work/data.db
fi

stored() {
  if [ "$kind" = redis ]; then
    redis-cli -p "$port" HGET fenced-store-data value
  else
    sqlite3 "$work/data.db" 'SELECT value FROM store'
  fi
}

"$program" "$store" "from the first" --stall >"$work/first" 2>&1 &
first=$!
for _ in $(seq 600); do
  # A program that has ended has no state.
  state=$(cut -d ' ' -f 3 "/proc/$first/stat" 2>/dev/null) || break
  if [ "$state" = T ]; then break; fi
  sleep 0.05
done
[ "$state" = T ] || { echo "the first never got the lock:"; cat "$work/first"; exit 1; }
echo "the first: $(cat "$work/first"); then it was stopped"

"$program" "$store" "from the second" | sed 's/^/the second: /'
echo "stored: $(stored)"

kill -CONT "$first"
status=0
wait "$first" || status=$?
first=
sed '1d; s/^/the first, going on: /' "$work/first"
echo "stored: $(stored)"
if [ "$status" != 3 ] || [ "$(stored)" != "from the second" ]; then
  echo "VERDICT: WRONG: the late write was not refused (status $status)"
  exit 1
fi
echo "VERDICT: the late write was refused"
