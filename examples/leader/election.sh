#!/usr/bin/env bash
# An election among several candidates: leaders are killed, stopped and asked to resign, and nodes are killed and frozen.
# At each time at most one candidate writes to the journal, and another one takes over.
#
# Usage: election.sh PROGRAM      needs REDLOCK_NODES and REDLOCK_NODE_CONTROL: scripts/nodes.sh run -- election.sh ...
. "$(dirname "${BASH_SOURCE[0]}")/../../tests/support/script.sh"

program=$1
journal=$work/journal
touch "$journal"
declare -A pids=()
readonly ttl_ms=4000 # a leader on a busy machine must not lose its lock by a short stall
# A crashed leader's lock ends after one ttl, and a waiter notices it within 1.3 s. The rest is for a busy machine.
readonly bound_ms=12000

clean_up() {
  [ $? = 0 ] || tail -n 5 "$work"/*
  [ ${#pids[@]} = 0 ] || kill -KILL "${pids[@]}" 2>/dev/null || true
}

candidate() { # NAME [OPTION ...]
  "$program" "$1" "$journal" --ttl "$ttl_ms" "${@:2}" >"$work/$1" 2>&1 &
  pids[$1]=$!
}

now_ms() { # of the journal's clock
  awk '{ printf "%d", $1 * 1000 }' /proc/uptime
}

lines() { wc -l <"$journal"; }
leader() { tail -n 1 "$journal" | cut -d ' ' -f 3; }

says() { grep -q -- "$2" "$work/$1"; }
has_more_lines() { [ "$(lines)" -gt "$1" ]; }
is_led_by_another() { [ "$(leader)" != "$1" ]; }

takeover_from() { # NAME: prints the time between its last write and its successor's first
  wait_for "a successor of $1" is_led_by_another "$1"
  awk -v name="$1" '$3 == name { last = $1; next } last && !first { first = $1 }  $3 == name { first = 0 }
    END { print first - last }' "$journal"
}

retire() { # NAME: it resigns
  kill -TERM "${pids[$1]}"
  wait "${pids[$1]}" || die "$1 exits with $?"
  unset "pids[$1]"
}

for name in a b c; do candidate "$name"; done
wait_for "a first leader" has_more_lines 3
first=$(leader)
echo "elected: $(head -n 1 "$work/$first")"

# A minority of the nodes fails.
node kill 1
node pause 2
before=$(lines)
wait_for "writes while two of five nodes fail" has_more_lines $((before + 20))
[ "$(leader)" = "$first" ] || die "$(leader) replaced $first, which had a majority"
echo "two nodes failed: $first leads on"
node unpause 2
node start 1

# The leader is killed.
kill -KILL "${pids[$first]}"
wait "${pids[$first]}" 2>/dev/null || true
unset "pids[$first]"
took=$(takeover_from "$first")
[ "$took" -ge 0 ] && [ "$took" -le "$bound_ms" ] || die "the takeover took $took ms"
second=$(leader)
says "$second" "leads with token .*, after $first" || die "$second does not say whom it follows"
echo "$first was killed: $second leads after $took ms"

# The leader is stopped, and continues when another one leads.
kill -STOP "${pids[$second]}"
took=$(takeover_from "$second")
[ "$took" -ge 0 ] && [ "$took" -le "$bound_ms" ] || die "the takeover took $took ms"
third=$(leader)
kill -CONT "${pids[$second]}"
wait_for "$second to notice" says "$second" 'steps down\|is refused'
echo "$second was stopped: $third leads after $took ms; then $(grep 'steps down\|is refused' "$work/$second" | head -n 1)"

# Another one stops between its check and its write.
candidate d --stall
for name in "${!pids[@]}"; do [ "$name" = d ] || retire "$name"; done
wait_for "d to stop before a write" is_stopped "${pids[d]}"
candidate e
wait_for "e to lead" is_led_by_another d
kill -CONT "${pids[d]}"
wait_for "the refusal of d's write" says d 'is refused: the journal has seen token'
echo "a late write: $(grep refused "$work/d")"

# A majority of the nodes freezes: the leader steps down in time, and one leads again when the nodes continue.
for number in 3 4 5; do node pause "$number"; done
wait_for "e to step down" says e 'steps down'
before=$(lines)
sleep 0.5 # a leader would write five times
[ "$(lines)" = "$before" ] || die "$(leader) wrote without a majority"
for number in 3 4 5; do node unpause "$number"; done
wait_for "a leader after the freeze" has_more_lines "$before"
echo "three nodes froze: no leader; then $(leader) leads"

# The leader resigns: with a ttl of 20 s its successor cannot have waited for the end of the lock.
for name in "${!pids[@]}"; do retire "$name"; done
candidate f --ttl 20000
wait_for "f to lead" says f leads
candidate g --ttl 20000
kill -TERM "${pids[f]}"
took=$(takeover_from f)
[ "$took" -ge 0 ] && [ "$took" -le "$bound_ms" ] || die "the takeover took $took ms"
says f resigned || die "f did not resign"
wait "${pids[f]}" || die "f exits with $?"
unset "pids[f]"
echo "f resigned: g leads after $took ms"
retire g

awk '$2 < token { print "line " NR " has an older token"; wrong = 1 }
  $2 in by && by[$2] != $3 { print "two candidates wrote with token " $2; wrong = 1 }
  { token = $2; by[$2] = $3 } END { exit wrong }' "$journal" || die "the journal has the writes of two leaders"
echo "VERDICT: one leader at a time, in $(lines) writes with $(cut -d ' ' -f 2 "$journal" | sort -u | wc -l) tokens"
