#!/usr/bin/env bash
# scripts/nodes.sh: starts, names, breaks, mends and stops nodes, cleans up whatever happens, and is clear about bad input.
. "$(dirname "$0")/../support/script.sh"
needs_server
nodes=$project/scripts/nodes.sh
dir=$work/nodes
export TMPDIR=$work

clean_up() { "$nodes" stop --dir "$dir" --quiet 2>/dev/null || true; }

ping() { # host:port
  local reply=
  exec 3<>"/dev/tcp/${1%:*}/${1##*:}" || return 1
  printf 'PING\r\n' >&3
  read -r -t 5 reply <&3 || true
  exec 3>&-
  [ "$reply" = $'+PONG\r' ]
} 2>/dev/null

fails_saying() { # words command...
  local words=$1 said
  shift
  if said=$("$@" 2>&1); then die "$* should fail"; fi
  [[ $said == *"$words"* ]] || die "$* should say '$words', but says: $said"
}

variables=$("$nodes" start -n 3 --dir "$dir" --quiet -- --maxmemory 10mb)
eval "$variables"
IFS=, read -r -a list <<<"$REDLOCK_NODES"
[ ${#list[@]} = 3 ] || die "three nodes were asked for, not: $REDLOCK_NODES"
for node in "${list[@]}"; do ping "$node" || die "$node does not answer"; done
"$nodes" status --dir "$dir" >/dev/null || die "status does not say that all run"
[ "$("$nodes" env --dir "$dir")" = "$variables" ] || die "env and start differ"

$REDLOCK_NODE_CONTROL kill 2
if ping "${list[1]}"; then die "node 2 answers though it was killed"; fi
ping "${list[0]}" || die "node 1 died with node 2"
fails_saying "belongs to a node in $dir/2;" "$nodes" start -n 1 --base-port "${list[1]##*:}" --dir "$work/other"
if "$nodes" status --dir "$dir" >"$work/status"; then die "status says that all run, but node 2 is down"; fi
grep -q '^2 .* down$' "$work/status" || die "status does not show node 2 down"
$REDLOCK_NODE_CONTROL start 2
ping "${list[1]}" || die "node 2 does not answer after its start"
$REDLOCK_NODE_CONTROL pause 3
grep -q '^3 .* paused$' <("$nodes" status --dir "$dir" || true) || die "status does not show node 3 paused"
$REDLOCK_NODE_CONTROL unpause 3
ping "${list[2]}" || die "node 3 does not answer after it was unpaused"

fails_saying 'there are nodes in' "$nodes" start --dir "$dir"
fails_saying "no node '4'" "$nodes" node kill 4 --dir "$dir"
fails_saying "did not start on port" "$nodes" start -n 1 --dir "$work/other" -- --nonsense
[ ! -e "$work/other" ] || die "a start that failed left its directory"
fails_saying 'is not empty' "$nodes" start --dir "$work"
fails_saying 'there is no /none' env REDLOCK_SERVER_PROGRAM=/none "$nodes" start --dir "$work/other"
fails_saying "'0' is not a number from 1 to 32" "$nodes" start -n 0
fails_saying "'--nonsense' is not understood" "$nodes" start --nonsense
fails_saying 'no command' "$nodes" nonsense
fails_saying 'wants a command' "$nodes" run

"$nodes" stop --dir "$dir" --quiet
[ ! -e "$dir" ] || die "stop left $dir"
for node in "${list[@]}"; do if ping "$node"; then die "$node answers after stop"; fi; done
fails_saying 'there are no nodes' "$nodes" stop --dir "$dir"

status=0
# shellcheck disable=SC2016 # for the shell that run starts
"$nodes" run -n 2 --quiet -- sh -c 'echo "$REDLOCK_NODES"; cat; exit 7' <<<input >"$work/out" || status=$?
[ "$status" = 7 ] || die "run gives $status instead of the command's 7"
grep -qx input "$work/out" || die "the command of run did not get its input"

# Behind Sentinel. The present master is what is failed over and killed.
if server_client >/dev/null; then
  eval "$("$nodes" start -n 1 --sentinel --dir "$dir" --quiet)"
  [[ $REDLOCK_NODES =~ ^sentinel://127.0.0.1:([0-9]+),127.0.0.1:([0-9]+),127.0.0.1:([0-9]+)/m1$ ]] || die "one node was asked for, not: $REDLOCK_NODES"
  for sentinel in "${BASH_REMATCH[@]:1}"; do
    state=$("$(server_client)" -p "$sentinel" SENTINEL MASTER m1 | paste -sd ' ')
    [[ $state = *'num-slaves 1 num-other-sentinels 2 '* ]] || die "a Sentinel does not know the replica or the others yet: $state"
  done
  master() { "$(server_client)" -p "$sentinel" SENTINEL GET-MASTER-ADDR-BY-NAME m1 | paste -sd :; }
  first=$(master)
  $REDLOCK_NODE_CONTROL failover 1
  for ((i = 0; i < 600; i++)); do
    [ "$(master)" = "$first" ] || break
    sleep 0.1
  done
  second=$(master)
  ping "$second" || die "the new master $second does not answer"
  $REDLOCK_NODE_CONTROL kill 1
  if ping "$second"; then die "the master answers though it was killed"; fi
  $REDLOCK_NODE_CONTROL start 1
  ping "$second" || die "the server that was down does not answer"
  "$nodes" status --dir "$dir" >"$work/status" || die "status does not say that all run"
  [ "$(wc -l <"$work/status")" = 5 ] || die "a node behind Sentinel is five processes"
  "$nodes" stop --dir "$dir" --quiet
  if ping "$second"; then die "$second answers after stop"; fi

  # The marker has the epoch, and the config file the tag.
  eval "$("$nodes" start -n 1 --cluster --dir "$dir" --quiet)"
  [[ $REDLOCK_NODES =~ ^cluster://127.0.0.1:([0-9]+)(,127.0.0.1:[0-9]+){5}$ ]] || die "one cluster was asked for, not: $REDLOCK_NODES"
  port=${BASH_REMATCH[1]}
  grep -qx 'marker-key = {redlock}:marker' "$REDLOCK_CONFIG" || die "no tag in $REDLOCK_CONFIG"
  [[ $("$(server_client)" -p "$port" GET '{redlock}:marker') =~ ^2\ [0-9a-f]+\ 0\ 0\ 1000000000\ 0\ .*\ trusted\  ]] || die "the marker is not trusted"
  $REDLOCK_NODE_CONTROL failover 1
  for ((i = 0; i < 600; i++)); do
    [[ $("$(server_client)" -p "$port" ROLE | head -n 1) = master ]] || break
    sleep 0.1
  done
  [ "$("$nodes" status --dir "$dir" | wc -l)" = 6 ] || die "a cluster is six processes"
  "$nodes" stop --dir "$dir" --quiet
  if ping "127.0.0.1:$port"; then die "127.0.0.1:$port answers after stop"; fi
  if readlink "/tmp/redlock-ports-$(id -u)"/* | grep -qF "$dir/"; then die "stop kept a port"; fi
fi

# The command is told of the signal, and the nodes are gone when run is.
mkfifo "$work/ready"
# shellcheck disable=SC2016
"$nodes" run -n 2 --quiet -- sh -c 'trap "exit 3" TERM; echo "$REDLOCK_NODES" > "$1"; while :; do sleep 0.05; done' sh "$work/ready" &
run=$!
IFS=, read -r -a list <"$work/ready"
ping "${list[1]}" || die "run's node ${list[1]} does not answer"
kill -TERM "$run"
status=0
wait "$run" || status=$?
[ "$status" = 3 ] || die "run gives $status instead of the 3 of the command that was ended"
if ping "${list[1]}"; then die "${list[1]} outlived its run"; fi
[ "$(ls "$work")" = "out
ready
status" ] || die "left over: $(ls "$work")"
