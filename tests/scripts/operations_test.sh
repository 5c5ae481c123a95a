#!/usr/bin/env bash
# The procedures of docs/operations.md, step by step, on real servers. A job holds a lock while all nodes are replaced one by
# one, and must not lose it.
#
# Usage: operations_test.sh DIRECTORY_OF_REDLOCK DOCUMENT
. "$(dirname "$0")/../support/script.sh"

redlock=$1/redlock
document=$2
nodes=$project/scripts/nodes.sh
needs_server
command -v redis-cli >/dev/null || skip "there is no redis-cli; install redis-tools"
export TMPDIR=$work
export REDLOCK_CONFIG=$work/config
job=

clean_up() {
  [ $? = 0 ] || "$redlock" doctor >&2 || true
  [ -z "$job" ] || kill -KILL "$job" 2>/dev/null || true
  "$nodes" stop --dir "$work/first" --quiet 2>/dev/null || true
  "$nodes" stop --dir "$work/second" --quiet 2>/dev/null || true
}

# Each step is one of the document; at the end none may be missing.
: >"$work/steps"
step() { # HEADING NUMBER
  echo "$1: $2" | tee -a "$work/steps"
}

configure() { # MAX_TTL
  printf 'nodes = %s\nttl = %s\nmax-ttl = %s\ntimeout = 5s\nconnect-timeout = 5s\n' "$REDLOCK_NODES" "$1" "$1" >"$REDLOCK_CONFIG"
}

doctor_exits_with() {
  local status=0
  "$redlock" doctor >"$work/doctor" 2>&1 || status=$?
  [ "$status" = "$1" ]
}

shows() { grep -q "^    $1: " "$work/doctor"; }

cli() { # NODE COMMAND ...: NODE is host:port
  redis-cli -p "${1##*:}" "${@:2}" >/dev/null
}

# Whether every node of the list has the lock. Without it on all of them the lock may not outlive the loss of a node.
is_on_all() { # RESOURCE NODES
  local node
  for node in ${2//,/ }; do
    [ "$(redis-cli -p "${node##*:}" EXISTS "$1")" = 1 ] || return 1
  done
}

# nodes.sh trusts its nodes: these are new again.
start() { # DIRECTORY COUNT
  eval "$("$nodes" start -n "$2" --dir "$work/$1" --quiet)"
  IFS=, read -r -a list <<<"$REDLOCK_NODES"
  for node in "${list[@]}"; do cli "$node" FLUSHALL; done
}

heading="New nodes"
step "$heading" 1
start first 3
first=$REDLOCK_NODES
configure 10s
unset REDLOCK_NODES
step "$heading" 2
doctor_exits_with 2 && shows quarantine || die "new nodes are not in quarantine"
step "$heading" 3
"$redlock" trust --yes >/dev/null
step "$heading" 4
wait_for "trusted nodes grant locks" doctor_exits_with 0

# A job that runs until $work/over exists, and loses no lock.
# shellcheck disable=SC2016 # for the job
"$redlock" run --grace 1s job -- sh -c 'until [ -e "$0" ]; do sleep 0.1; done' "$work/over" 2>"$work/job" &
job=$!

heading="Restarting, upgrading or replacing a node"
for number in 1 2 3; do
  step "$heading" 1
  wait_for "doctor exits with 0 before node $number is replaced" doctor_exits_with 0
  wait_for "all nodes have the lock before node $number is replaced" is_on_all job "$first"
  step "$heading" 2
  "$nodes" node kill "$number" --dir "$work/first"
  doctor_exits_with 1 && shows unreachable || die "doctor does not see that node $number is down"
  "$redlock" run -w 10s other -- true || die "no lock with one node down"
  step "$heading" 3
  "$nodes" node start "$number" --dir "$work/first"
  wait_for "the quarantine of the empty server" eval 'doctor_exits_with 1 && shows quarantine'
  step "$heading" 4
  wait_for "the end of the quarantine" doctor_exits_with 0
  kill -0 "$job" 2>/dev/null || {
    status=0
    wait "$job" || status=$?
    die "the job ended with status $status: $(cat "$work/job")"
  }
done
touch "$work/over"
wait "$job" || die "the job lost its lock: $(cat "$work/job")"
job=
echo "the job kept its lock while all nodes were replaced"

heading="Changing the list of nodes"
step "$heading" 1
step "$heading" 2 # every lock has been released
step "$heading" 3
start second 2
both=$first,$REDLOCK_NODES
REDLOCK_NODES=$both
configure 10s
unset REDLOCK_NODES
step "$heading" 4
doctor_exits_with 2 || die "five nodes grant locks before they are trusted"
"$redlock" trust --yes >/dev/null
step "$heading" 5
wait_for "the new list grants locks" doctor_exits_with 0
"$redlock" run -w 10s other -- true || die "no lock on the new list"
status=0
"$redlock" --nodes "$first" doctor >"$work/doctor" || status=$?
[ "$status" = 2 ] && shows other-deployment || die "a client of the old list still has a vote"

heading="Changing max_ttl"
step "$heading" 1
REDLOCK_NODES=$both configure 11s
wait_for "a larger max_ttl is accepted" doctor_exits_with 0
REDLOCK_NODES=$both configure 1s
doctor_exits_with 1 && shows other-max-ttl || die "doctor does not see the different max_ttl"
step "$heading" 2 # every lock has been released
step "$heading" 3
step "$heading" 4
for node in ${both//,/ }; do
  cli "$node" DEL redlock:marker
done
step "$heading" 5
"$redlock" trust --yes >/dev/null
doctor_exits_with 0 || die "a marker kept the larger max_ttl"

# The steps of the section "Procedures": "### HEADING", then "N. TEXT".
awk '/^## / { inside = $0 == "## Procedures" } inside && sub(/^### /, "") { heading = $0 }
  inside && /^[0-9]+\. / { print heading ": " $1 + 0 }' "$document" >"$work/documented"
[ "$(wc -l <"$work/documented")" -ge 14 ] || die "$document has fewer steps than expected"
diff <(sort -u "$work/documented") <(sort -u "$work/steps") || die "the steps of $document (<) and of this test (>) differ"
