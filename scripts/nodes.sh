#!/usr/bin/env bash
# Throw-away Redis masters on free loopback ports: start them, use them, take them down again. See usage below.
set -euo pipefail

default_dir=${TMPDIR:-/tmp}/redlock-nodes-$(id -u)
dir=
count=5
base_port=
quiet=no
redis_arguments=()
command=()
ready_within_s=20
mark=.redlock-nodes # only a directory with this file is removed
bound_to_us=no      # yes: the servers end with this script
reserved=/tmp/redlock-ports-$(id -u) # a link to the process's directory for each port, while the directory is there
kind=server         # sentinel: each node is two servers behind three Sentinels; cluster: six servers of a Redis Cluster
members=6
slot=2639           # of {redlock}

usage() {
  cat <<USAGE
usage: scripts/nodes.sh COMMAND [OPTION ...]

  start [-n N] [--sentinel | --cluster] [--dir DIR] [--base-port P] [-- REDIS_ARGUMENT ...]
                     start N nodes (default 5) and print the shell variables that name them:
                     eval "\$(scripts/nodes.sh start)"
  env [--dir DIR]    print these variables again
  status [--dir DIR] one line per node; the exit status is 0 when all run
  node ACTION N [--dir DIR]
                     ACTION is kill, start, pause or unpause; N counts from 1. Behind Sentinel, or in a
                     cluster, it is for the present master, and start for the server that is down; failover
                     fails it over
  stop [--dir DIR]   stop exactly these nodes and remove DIR
  run [-n N] [--sentinel | --cluster] [--base-port P] -- CMD ...
                     start, run CMD with the variables set, stop; exits with CMD's status

  --dir DIR          where their files are kept; start wants it new or empty (default $default_dir)
  --base-port P      ports P, P+1 ... instead of free ones
  --sentinel         each node is a master with a replica, behind three Sentinels: sentinel://...
  --cluster          each node is a Redis Cluster of three masters and three replicas: cluster://... The prefix is
                     {redlock}: and the marker key {redlock}:marker, in a config file that \$REDLOCK_CONFIG names
  --quiet            no messages but errors

The servers keep nothing on disk (--save "" --appendonly no) unless a REDIS_ARGUMENT says otherwise.
environment: REDLOCK_SERVER_PROGRAM, the server to run (default redis-server, or valkey-server where only that is installed)
USAGE
}

# shellcheck source=scripts/lib/trust.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/trust.sh"
# shellcheck source=scripts/lib/server.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/server.sh"
server=$(server_program)

say() { [ "$quiet" = yes ] || printf 'nodes.sh: %s\n' "$*" >&2; }

die() {
  printf 'nodes.sh: %s\n' "$*" >&2
  exit 1
}

misused() {
  printf 'nodes.sh: %s\n' "$*" >&2
  usage >&2
  exit 2
}

# --- arguments

take_number() { # name value least most
  if ! [[ $2 =~ ^[0-9]{1,5}$ ]] || ((10#$2 < $3 || 10#$2 > $4)); then
    misused "$1 '$2' is not a number from $3 to $4"
  fi
}

take_options() {
  while [ $# -gt 0 ]; do
    case $1 in
      -n)
        take_number -n "${2-}" 1 32
        count=$((10#$2))
        shift
        ;;
      --dir)
        [ -n "${2-}" ] || misused "--dir wants a directory"
        dir=$2
        shift
        ;;
      --base-port)
        take_number --base-port "${2-}" 1 65535
        base_port=$((10#$2))
        shift
        ;;
      --quiet) quiet=yes ;;
      --sentinel) kind=sentinel ;;
      --cluster) kind=cluster ;;
      --)
        shift
        command=("$@")
        break
        ;;
      *) misused "'$1' is not understood" ;;
    esac
    shift
  done
  local ports=$count last=65535
  case $kind in
    sentinel) ports=$((count * 5)) ;;
    cluster)
      ports=$((count * members))
      last=55535 # the servers talk to each other 10000 above
      ;;
  esac
  if [ -n "$base_port" ] && ((base_port + ports - 1 > last)); then
    misused "--base-port $base_port leaves no room for $ports ports up to $last"
  fi
}

# --- one process: its directory holds pid, port, command and log. A node is one; behind Sentinel its processes are below its directory

# Is the process in its pid file still this node? Its number may long be another's.
node_runs() {
  local pid
  pid=$(cat "$1/pid" 2>/dev/null) || return 1
  [ "$(readlink "/proc/$pid/cwd" 2>/dev/null)" = "$1" ]
}

node_state() {
  local pid rest
  # It may end between one look and the next.
  if ! node_runs "$1" || ! pid=$(cat "$1/pid") || ! rest=$(cat "/proc/$pid/stat" 2>/dev/null); then
    echo down
    return
  fi
  case ${rest##*) } in
    T*) echo paused ;;
    Z*) echo down ;;
    *) echo running ;;
  esac
}

# In a separate session, so that an interrupt at the terminal reaches the user's command alone.
launch() {
  local node=$1 words=() bind=()
  shift
  if [ "$bound_to_us" = yes ] && command -v setpriv >/dev/null; then
    bind=(setpriv --pdeathsig KILL)
  fi
  words=(setsid "${bind[@]}" "$@")
  : >"$node/log"
  (cd "$node" && exec "${words[@]}" </dev/null >>"$node/log" 2>&1) &
  echo $! >"$node/pid"
  disown # or the shell would report its end
}

# Waits until the server is ready, or has written the words; status 1: it failed. Reads its log: on its port another server may answer.
await_ready() { # process [pattern]
  local node=$1 deadline=$((SECONDS + ready_within_s))
  until grep -qiE "${2:-ready to accept connections|\+monitor master}" "$node/log"; do
    kill -0 "$(cat "$node/pid")" 2>/dev/null || return 1
    ((SECONDS <= deadline)) || return 1
    sleep 0.01
  done
}

start_on_port() { # node port
  local words=("$server" --port "$2" --bind 127.0.0.1 --dir "$1" --daemonize no --save '' --appendonly no
    --repl-diskless-sync-delay 0 "${redis_arguments[@]}" --loglevel notice --logfile '')
  case ${1##*/} in
    member-*) words+=(--cluster-enabled yes --cluster-node-timeout 2000) ;;
    server-2) words+=(--replicaof 127.0.0.1 "$(cat "${1%/*}/server-1/port")") ;;
    sentinel-*)
      configure_sentinel "$1" "$2"
      words=("$server" "$1/sentinel.conf" --sentinel --loglevel notice --logfile '')
      ;;
  esac
  printf '%s\n' "$2" >"$1/port"
  printf '%q ' "${words[@]}" >"$1/command"
  launch "$1" "${words[@]}"
  # A Sentinel hears of a replica from the master, every ten seconds: the replica is there before it starts.
  await_ready "$1" && { [ "${1##*/}" != server-2 ] || await_ready "$1" 'sync: Finished with success'; }
}

configure_sentinel() { # process port
  local node=${1%/*} name
  name=m${node##*/}
  cat >"$1/sentinel.conf" <<CONF
port $2
bind 127.0.0.1
dir $1
sentinel monitor $name 127.0.0.1 $(cat "$node/server-1/port") 2
sentinel down-after-milliseconds $name 1000
sentinel failover-timeout $name 5000
CONF
}

# A node that is down still has its port: the nodes of another deployment must not take its place, and its vote.
reserve() { # process port
  mkdir -p "$reserved"
  [ -d "$reserved/$2" ] || rm -f "$reserved/$2" # a process that was not stopped
  ln -s -T "$1" "$reserved/$2" 2>/dev/null
}

release() { # process
  local link
  link=$reserved/$(cat "$1/port" 2>/dev/null) || return 0
  if [ "$(readlink "$link")" = "$1" ]; then rm -f "$link"; fi
}

port_was_taken() { grep -q 'Address already in use' "$1/log"; }

explain_failure() { # node port
  tail -n 5 "$1/log" >&2
  stop_all
  die "$server did not start on port $2; its last words are above"
}

# Below the ports that the kernel gives to outgoing connections: none of them can take the place of a node that is down.
start_on_free_port() {
  local node=$1 port attempt
  for ((attempt = 0; attempt < 50; attempt++)); do
    port=$((10000 + (RANDOM * 32768 + RANDOM) % 20000))
    reserve "$node" "$port" || continue
    start_on_port "$node" "$port" && return
    release "$node"
    port_was_taken "$node" || break
  done
  explain_failure "$node" "$port"
}

start_process() { # directory, number of its port
  local port=$((base_port + $2 - 1))
  mkdir -p "$1"
  if [ -z "$base_port" ]; then
    start_on_free_port "$1"
  else
    reserve "$1" "$port" || {
      stop_all
      die "port $port belongs to a node in $(readlink "$reserved/$port"); stop its nodes, or name another --base-port"
    }
    start_on_port "$1" "$port" || explain_failure "$1" "$port"
  fi
}

start_node() { # number
  local node=$dir/$1 process at parts
  case $kind in
    server)
      start_process "$node" "$1"
      return
      ;;
    sentinel) parts=(server-1 server-2 sentinel-1 sentinel-2 sentinel-3) ;;
    cluster) parts=(member-{1..6}) ;;
  esac
  at=$((($1 - 1) * ${#parts[@]} + 1))
  for process in "${parts[@]}"; do
    start_process "$node/$process" "$at"
    at=$((at + 1))
  done
}

# Their masters have the first of their numbers, and a replica each.
join_cluster() { # node
  local ports deadline=$((SECONDS + ready_within_s)) process
  ports=$(sed 's/^/127.0.0.1:/' "$1"/member-?/port)
  # shellcheck disable=SC2086 # one word each
  "$(server_client)" --cluster create $ports --cluster-replicas 1 --cluster-yes >"$1/create.log" ||
    { tail -n 5 "$1/create.log" >&2; stop_all; die "node ${1##*/} does not become a cluster; the last words are above"; }
  for process in "$1"/member-?; do
    until [ "$(ask_member "$process" CLUSTER INFO | grep -c '^cluster_state:ok')" = 1 ] &&
      [ "$(ask_member "$process" CLUSTER NODES | grep -c ' \(myself,\)\?slave ')" = 3 ]; do
      ((SECONDS <= deadline)) || die "the servers of node ${1##*/} do not find each other"
      sleep 0.1
    done
  done
}

ask_member() { # process word...
  local process=$1
  shift
  "$(server_client)" -p "$(cat "$process/port")" "$@" | tr -d '\r'
}

# As the first server that runs knows it: the lines of CLUSTER NODES, with the owner of the slot first.
cluster_nodes() { # node
  local process
  for process in "$1"/member-?; do
    if [ "$(node_state "$process")" = running ]; then
      ask_member "$process" CLUSTER NODES
      return
    fi
  done
}

owner_of() { # node: its id and port
  cluster_nodes "$1" | awk -v slot="$slot" '
    $3 ~ /master/ && $3 !~ /fail/ {
      for (i = 9; i <= NF; i++) {
        split($i, range, "-")
        last = range[2] == "" ? range[1] : range[2]
        if ($i !~ /^\[/ && range[1] + 0 <= slot && slot <= last + 0) { split($2, place, /[:@]/); print $1, place[2] }
      }
    }'
}

ask_sentinel() { # node word...
  local node=$1
  shift
  "$(server_client)" -p "$(cat "$node/${sentinel:-sentinel-1}/port")" SENTINEL "$@" "m${node##*/}"
}

# Until the Sentinels know the replica and each other, they fail nothing over.
await_sentinels() { # node
  local deadline=$((SECONDS + ready_within_s)) sentinel
  for sentinel in sentinel-{1..3}; do
    until [[ $(ask_sentinel "$1" MASTER | paste -sd ' ') = *'num-slaves 1 num-other-sentinels 2 '* ]]; do
      ((SECONDS <= deadline)) || die "the Sentinels of node ${1##*/} do not find each other"
      sleep 0.1
    done
  done
}

# The present master's directory.
master_of() { # node
  local port process
  if is_cluster "$1"; then
    port=$(owner_of "$1" | cut -d ' ' -f 2)
  else
    port=$(ask_sentinel "$1" GET-MASTER-ADDR-BY-NAME | tail -n 1)
  fi
  for process in "$1"/[sm]e*er-?; do
    [ "$(cat "$process/port")" != "$port" ] || echo "$process"
  done
}

is_group() { [ -d "$1/sentinel-1" ]; }
is_cluster() { [ -d "$1/member-1" ]; }

end_node() {
  local pid
  node_runs "$1" || return 0
  pid=$(cat "$1/pid")
  kill -KILL "$pid" 2>/dev/null || true
  while [ "$(node_state "$1")" != down ]; do sleep 0.01; done
}

# --- all nodes

nodes() {
  local number
  for ((number = 1; ; number++)); do
    [ -d "$dir/$number" ] || return 0
    echo "$dir/$number"
  done
}

# Their processes.
processes() {
  local node
  while read -r node; do
    if is_group "$node" || is_cluster "$node"; then
      printf '%s\n' "$node"/[sm]*-?
    else
      printf '%s\n' "$node"
    fi
  done < <(nodes)
}

need_nodes() {
  dir=${dir:-$default_dir}
  [ -f "$dir/$mark" ] || die "there are no nodes in $dir; start some with: scripts/nodes.sh start"
  dir=$(cd "$dir" && pwd -P)
}

make_dir() {
  dir=${dir:-$default_dir}
  if [ -f "$dir/$mark" ]; then
    die "there are nodes in $dir already; stop them (scripts/nodes.sh stop --dir $dir) or name another --dir"
  fi
  [ -d "$dir" ] || mkdir -m 700 "$dir" || die "cannot make the directory $dir"
  [ -O "$dir" ] || die "$dir belongs to another user; name another --dir"
  [ -z "$(ls -A "$dir")" ] || die "$dir is not empty; name a new or empty directory with --dir"
  dir=$(cd "$dir" && pwd -P)
  : >"$dir/$mark"
}

need_server() {
  command -v "$server" >/dev/null ||
    die "there is no $server; install it (Debian: apt-get install redis-server) or set REDLOCK_SERVER_PROGRAM to its path"
}

start_all() {
  local number marker=redlock:marker
  for ((number = 1; number <= count; number++)); do
    start_node "$number"
  done
  if [ "$kind" != server ]; then
    server_client >/dev/null || die "there is no redis-cli; install it (Debian: apt-get install redis-tools)"
  fi
  for ((number = 1; number <= count; number++)); do
    case $kind in
      sentinel) await_sentinels "$dir/$number" ;;
      cluster) join_cluster "$dir/$number" ;;
    esac
  done
  if [ "$kind" = cluster ]; then
    printf 'prefix = {redlock}:\nmarker-key = {redlock}:marker\n' >"$dir/redlock.conf"
    marker='{redlock}:marker'
  fi
  trust_nodes "$(master_list)" "$marker" || die "the nodes do not take the guard's marker"
  say "$count new nodes, trusted: nothing can be locked on them yet"
}

stop_all() {
  local node
  while read -r node; do
    end_node "$node"
    release "$node"
  done < <(processes)
  if [ -f "$dir/$mark" ]; then rm -rf -- "$dir"; fi
}

node_list() {
  local node separator= ports
  while read -r node; do
    if is_group "$node"; then
      ports=$(sed 's/^/127.0.0.1:/' "$node"/sentinel-?/port | paste -sd ,)
      printf '%ssentinel://%s/m%s' "$separator" "$ports" "${node##*/}"
    elif is_cluster "$node"; then
      printf '%scluster://%s' "$separator" "$(sed 's/^/127.0.0.1:/' "$node"/member-?/port | paste -sd ,)"
    else
      printf '%s127.0.0.1:%s' "$separator" "$(cat "$node/port")"
    fi
    separator=,
  done < <(nodes)
}

# The masters of new nodes.
master_list() {
  local node
  while read -r node; do
    if is_group "$node"; then node=$node/server-1; fi
    if is_cluster "$node"; then node=$(master_of "$node"); fi
    printf '127.0.0.1:%s\n' "$(cat "$node/port")"
  done < <(nodes) | paste -sd ,
}

print_env() {
  local list self
  list=$(node_list)
  self=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/nodes.sh
  printf 'export REDLOCK_NODES=%q\n' "$list"
  [ ! -f "$dir/redlock.conf" ] || printf 'export REDLOCK_CONFIG=%q\n' "$dir/redlock.conf"
  printf 'export REDLOCK_NODE_CONTROL=%q\n' "$(printf '%q --dir %q node' "$self" "$dir")"
}

print_status() {
  local node state all=0
  while read -r node; do
    state=$(node_state "$node")
    printf '%s 127.0.0.1:%s pid %s %s\n' "${node#"$dir/"}" "$(cat "$node/port")" "$(cat "$node/pid")" "$state"
    [ "$state" = running ] || all=1
  done < <(processes)
  return "$all"
}

# --- one node by hand

start_again() {
  local node=$1 words=()
  [ "$(node_state "$node")" = down ] || die "node ${node##*/} runs already"
  eval "words=($(cat "$node/command"))"
  launch "$node" "${words[@]}"
  await_ready "$node" || {
    tail -n 5 "$node/log" >&2
    die "node ${node##*/} did not start; its last words are above"
  }
}

# Behind Sentinel or in a cluster: the process that the action is for.
choose_process() { # action node
  local process
  if [ "$1" != start ]; then
    master_of "$2"
    return
  fi
  for process in "$2"/[sm]e*er-?; do
    [ "$(node_state "$process")" != down ] || echo "$process"
  done | head -n 1
}

fail_over_cluster() { # node
  local owner port process
  owner=$(owner_of "$1" | cut -d ' ' -f 1)
  port=$(cluster_nodes "$1" | awk -v owner="$owner" '$4 == owner && $3 !~ /fail/ { split($2, place, /[:@]/); print place[2]; exit }')
  for process in "$1"/member-?; do
    if [ "$(cat "$process/port")" = "$port" ]; then
      [ "$(ask_member "$process" CLUSTER FAILOVER)" = OK ] || die "node ${1##*/} cannot be failed over now"
      return
    fi
  done
  die "node ${1##*/} has no good replica"
}

control() { # action number
  local node=$dir/$2
  if is_cluster "$node" && [ "$1" = failover ]; then
    fail_over_cluster "$node"
    return
  fi
  if is_group "$node" || is_cluster "$node"; then
    if [ "$1" = failover ]; then
      [ "$(ask_sentinel "$node" FAILOVER)" = OK ] || die "node $2 has a failover in progress, or no good replica"
      return
    fi
    node=$(choose_process "$1" "$node")
    [ -n "$node" ] || die "node $2 has no server to $1"
  fi
  case $1 in
    kill | pause | unpause) node_runs "$node" || die "node $2 does not run" ;;
  esac
  case $1 in
    kill) end_node "$node" ;;
    pause) kill -STOP "$(cat "$node/pid")" ;;
    unpause) kill -CONT "$(cat "$node/pid")" ;;
    start) start_again "$node" ;;
    *) misused "'$1' is no action for a node: kill, start, pause or unpause" ;;
  esac
}

# --- commands

command_start() {
  redis_arguments=("${command[@]}")
  need_server
  make_dir
  trap 'stop_all; exit 130' INT
  trap 'stop_all; exit 143' TERM HUP
  start_all
  trap - INT TERM HUP
  print_env
  say "$count nodes in $dir"
}

# In the background, so that a signal to this script is answered at once; with the user's own input and interrupts. A signal can come before the command is
# there, or while it ends: wait(1) gives the command's status only if no trap has run meanwhile, and gives it again when asked again.
run_command() {
  local child='' signalled='' status
  trap 'signalled=INT' INT # the command has it from the terminal, too: let it end in its own way
  trap 'signalled=TERM; [ -z "$child" ] || kill -TERM "$child" 2>/dev/null || true' TERM HUP
  (
    trap - INT TERM HUP EXIT
    exec "${command[@]}"
  ) <&0 &
  child=$!
  [ -z "$signalled" ] || kill -"$signalled" "$child" 2>/dev/null || true
  while
    signalled='' status=0
    wait "$child" || status=$?
    [ -n "$signalled" ]
  do :; done
  return "$status"
}

command_run() {
  local status=0
  [ ${#command[@]} -gt 0 ] || misused "run wants a command after --"
  [ -z "$dir" ] || misused "run makes a directory of its own; leave --dir out"
  need_server
  bound_to_us=yes
  dir=$(mktemp -d "${TMPDIR:-/tmp}/redlock-nodes-XXXXXX")
  trap stop_all EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  dir=$(cd "$dir" && pwd -P)
  : >"$dir/$mark"
  start_all
  eval "$(print_env)"
  say "$count nodes in $dir"
  run_command || status=$?
  exit "$status"
}

command_node() {
  local action=${1-} number=${2-}
  [ $# -ge 2 ] || misused "node wants an action and a number"
  shift 2
  take_options "$@"
  need_nodes
  if ! [[ $number =~ ^[1-9][0-9]*$ ]] || ! [ -d "$dir/$number" ]; then
    die "there is no node '$number' in $dir"
  fi
  control "$action" "$number"
}

main() {
  # Options may come first: a command that others complete, as REDLOCK_NODE_CONTROL, needs its --dir before.
  while [ "${1-}" = --dir ]; do
    [ -n "${2-}" ] || misused "--dir wants a directory"
    dir=$2
    shift 2
  done
  local verb=${1-}
  [ $# -eq 0 ] || shift
  case $verb in
    start | env | status | stop | run) take_options "$@" ;;
  esac
  case $verb in
    start) command_start ;;
    run) command_run ;;
    env) need_nodes && print_env ;;
    status) need_nodes && print_status ;;
    stop)
      need_nodes
      stop_all
      say "stopped, $dir removed"
      ;;
    node) command_node "$@" ;;
    -h | --help | help) usage ;;
    '') misused "a command is needed" ;;
    *) misused "there is no command '$verb'" ;;
  esac
}

main "$@"
