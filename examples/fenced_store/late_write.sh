#!/usr/bin/env bash
# A holder is stopped right before it writes, for longer than the validity of its lock. Another process acquires the
# lock and writes. Then the first one continues and writes too late: the store rejects it.
#
# Usage: late_write.sh PROGRAM sqlite|redis      needs REDLOCK_NODES
. "$(dirname "${BASH_SOURCE[0]}")/../../tests/support/script.sh"

program=$1
kind=$2
first=
clean_up() {
  [ $? = 0 ] || cat "$work/first"
  [ -z "$first" ] || kill -KILL "$first" 2>/dev/null || true
}

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
wait_for "the first is stopped with the lock" is_stopped "$first"
echo "the first: $(cat "$work/first"); then it was stopped"

"$program" "$store" "from the second" | sed 's/^/the second: /'
echo "stored: $(stored)"

kill -CONT "$first"
status=0
wait "$first" || status=$?
first=
sed '1d; s/^/the first, going on: /' "$work/first"
echo "stored: $(stored)"
[ "$status" = 3 ] && [ "$(stored)" = "from the second" ] || die "the late write was not refused (status $status)"
echo "VERDICT: the late write was refused"
