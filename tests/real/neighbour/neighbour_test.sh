#!/usr/bin/env bash
# Coexistence with node-redlock: both of its major versions in use and redlock(1) lock the same key on real servers. There are never two
# holders; each sees the other's lock, and extends and releases its own.
#
# Usage: neighbour_test.sh REDLOCK MODULES      on $REDLOCK_TEST_NODES, otherwise on five new nodes. MODULES: where install.sh has put the packages
. "$(dirname "$0")/../../support/script.sh"
needs_server
redlock=$1 key=test:shared-with-node
export NODE_PATH=$2
clean_up() {
  touch "$work/over"
  [ -z "${them_PID-}" ] || kill "$them_PID"
  wait
}
export REDLOCK_NODES=${REDLOCK_TEST_NODES-${REDLOCK_NODES-}}
[ -n "$REDLOCK_NODES" ] || exec "$project/scripts/nodes.sh" run --quiet -- bash "$0" "$@"
neighbour=$project/tests/real/neighbour/neighbour.js
printf 'timeout = 5s\nconnect-timeout = 5s\n' >"$work/config" # for a busy machine
export REDLOCK_CONFIG=$work/config

# they WORDS...: the neighbour's answer to this command.
they() {
  echo "$*" >&"${them[1]}"
  IFS= read -r -t 60 answer <&"${them[0]}" || die "the neighbour has ended, or does not answer: $*"
}

they_say() { # BEGINNING WORDS...
  they "${@:2}"
  [[ $answer = "$1"* ]] || die "the neighbour says '$answer', not '$1', to: ${*:2}"
}

# everywhere FILTER: what status says of each node, of which the last may be late.
everywhere() { [ "$("$redlock" status "$key" --json | jq "all(.resources[0].nodes[]; $1)")" = true ]; }
lasts() { everywhere '.remaining_ms > 10000'; }
is_free() { everywhere '.state == "free"'; }
is_theirs() { everywhere ".token == \"$value\""; }

each_sees_the_others_lock_and_extends_its_own() { # VERSION
  coproc them { exec node "$neighbour" "$1" "$REDLOCK_NODES"; }
  IFS= read -r -t 60 answer <&"${them[0]}" && [ "$answer" = ready ] || die "the neighbour is not ready: $answer"
  they_say 'ok ' acquire "$key" 10000
  value=${answer#ok }
  wait_for "their key on every node" is_theirs
  they_say ok extend 50000
  wait_for "their extension on every node" lasts
  if "$redlock" run -n "$key" -- true 2>"$work/said"; then die "two holders: theirs and ours"; fi
  grep -q 'held by' "$work/said" || die "run says: $(cat "$work/said")"
  is_theirs || die "their key was changed"
  they_say ok release
  wait_for "the end of their lock" is_free
  value=$("$redlock" acquire "$key" --ttl 10s)
  wait_for "our key on every node" is_theirs
  "$redlock" extend "$key" "$value" --ttl 29s
  wait_for "our extension on every node" lasts
  they_say 'refused ' acquire "$key" 60000
  is_theirs || die "our key was changed"
  "$redlock" release "$key" "$value"
  they_say 'ok ' acquire "$key" 60000
  they_say ok release
  exec {them[1]}>&-
  wait "$them_PID"
}

# Each holder makes a directory, which only one can.
export witness=$work/witness
compete() { # until the neighbours are done; the pauses are the work without the lock
  until [ -e "$work/over" ]; do
    "$redlock" run --wait 100ms "$key" -- sh -c 'mkdir "$witness" || exit 99; sleep 0.02; rmdir "$witness"; echo' >>"$work/held" 2>"$work/said.$1" ||
      [ $? != 99 ] || echo overlap >>"$work/overlaps"
    sleep "0.0$((RANDOM % 4))"
  done
}

each_sees_the_others_lock_and_extends_its_own 4
each_sees_the_others_lock_and_extends_its_own 5
for i in 1 2; do
  compete $i &
done
for version in 4 5; do
  command node "$neighbour" $version "$REDLOCK_NODES" <<<"compete $key $witness 6" >"$work/said.$version" &
  theirs+=($!)
done
wait "${theirs[@]}"
touch "$work/over"
wait
for version in 4 5; do
  grep -qx 'ok 0' "$work/said.$version" || die "node-redlock $version says: $(cat "$work/said.$version")"
done
[ ! -e "$work/overlaps" ] || die "two holders"
[ -s "$work/held" ] || die "ours never had the lock"
