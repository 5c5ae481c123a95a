#!/usr/bin/env bash
# The five nodes of docker-compose.yml: start them, run something against them, take them down again.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export COMPOSE_PROJECT_NAME=${COMPOSE_PROJECT_NAME:-redlock}
prefix=${REDLOCK_PORT_PREFIX:-630}
default_image=redis:7.2-alpine
local_image=redlock-redis:debian
image=${REDIS_IMAGE:-$default_image}
healthy_within_s=60
engine_within_s=60

# An engine started here is remembered by this directory, so that a later "down" knows that it is ours to stop.
engine_state=/run/redlock-compose
start_engine=no
engine_is_for_this_run=no

usage() {
  cat <<USAGE
usage: scripts/compose.sh [--start-engine] COMMAND

  up                 start the five nodes and wait until all are healthy
  down               take them down; stop the engine if --start-engine started it
  env                print the shell variables that name the running nodes: eval "\$(scripts/compose.sh env)"
  node ACTION N      ACTION is kill, start, pause or unpause; N is 1 to 5
  run -- CMD ...     up, run CMD with those variables set, down; exits with CMD's status
  test [BUILD_DIR]   run: the tests that need nothing but nodes (ctest -L external-nodes; default build/dev)
  demo [ARG ...]     run: scripts/demo.sh
  image              make a local image of Debian's redis-server under the name in REDIS_IMAGE (default
                     $local_image), for machines that reach no image registry; needs root and debootstrap

  --start-engine     when no docker engine answers and we are root, start dockerd by hand, and stop it afterwards

environment: REDIS_IMAGE (default $default_image), REDLOCK_PORT_PREFIX (default 630: ports 6301 to 6305),
COMPOSE_PROJECT_NAME (default redlock), DEBIAN_MIRROR (for image; default: debootstrap's own)
USAGE
}

# shellcheck source=scripts/lib/trust.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/trust.sh"

say() { printf 'compose.sh: %s\n' "$*" >&2; }

die() {
  say "$@"
  exit 1
}

need() {
  command -v "$1" >/dev/null || die "$1 is missing; on Debian: apt-get install $2"
}

check_prefix() {
  if ! [[ $prefix =~ ^[1-9][0-9]{2,3}$ ]] || ((prefix * 10 + 5 > 65535)); then
    die "REDLOCK_PORT_PREFIX '$prefix' is not a number from 100 to 6553; the ports are this followed by 1 to 5"
  fi
}

compose() {
  if docker compose version >/dev/null 2>&1; then
    docker compose -f "$root/docker-compose.yml" "$@"
  elif command -v docker-compose >/dev/null; then
    docker-compose -f "$root/docker-compose.yml" "$@"
  else
    die "neither 'docker compose' nor docker-compose is installed; on Debian: apt-get install docker-compose"
  fi
}

exit_on_signals() {
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
}

# --- engine

engine_answers() { docker info >/dev/null 2>&1; }

engine_pid() {
  local pid
  pid=$(cat "$engine_state/dockerd.pid" 2>/dev/null) || return 1
  [[ $(cat "/proc/$pid/comm" 2>/dev/null) == dockerd ]] || return 1
  echo "$pid"
}

explain_no_engine() {
  docker info 2>&1 | tail -n 1 >&2 || true
  if ((EUID == 0)) && command -v dockerd >/dev/null; then
    die "no docker engine answers; start the service, or call again with --start-engine"
  fi
  die "no docker engine answers; install and start it (on Debian: apt-get install docker.io docker-compose), or become a user who may use it"
}

# The nodes are reached through the engine's proxy on loopback and send nothing out, so the machine's firewall,
# forwarding and default bridge need not change; a hand-started dockerd would leave them changed when it stops.
launch_engine() {
  ((EUID == 0)) || die "--start-engine needs root"
  need dockerd docker.io
  mkdir -p "$engine_state"
  say "no docker engine answers: starting dockerd by hand"
  setsid dockerd --iptables=false --ip6tables=false --ip-forward=false --bridge=none \
    >"$engine_state/dockerd.log" 2>&1 </dev/null &
  local launched=$! deadline=$((SECONDS + engine_within_s))
  echo "$launched" >"$engine_state/dockerd.pid"
  until engine_answers; do
    if ! kill -0 "$launched" 2>/dev/null || ((SECONDS > deadline)); then
      tail -n 5 "$engine_state/dockerd.log" >&2
      stop_engine
      die "dockerd did not come up; its last words are above"
    fi
    sleep 0.2
  done
}

ensure_engine() {
  need docker docker.io
  engine_answers && return
  [[ $start_engine == yes ]] || explain_no_engine
  engine_is_for_this_run=yes
  trap stop_engine_of_this_run EXIT
  exit_on_signals
  launch_engine
}

stop_engine() {
  [[ -d $engine_state ]] || return 0
  local pid
  if pid=$(engine_pid); then
    if [[ -n $(docker ps -q 2>/dev/null) ]]; then
      say "the engine started by --start-engine runs other containers; left running (process $pid)"
      return 0
    fi
    say "stopping the dockerd that --start-engine started"
    kill "$pid"
    while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
  fi
  rm -rf "$engine_state"
}

stop_engine_of_this_run() {
  if [[ $engine_is_for_this_run == yes ]]; then stop_engine; fi
}

# --- nodes

containers() {
  docker ps -a "$@" --filter "label=com.docker.compose.project=$COMPOSE_PROJECT_NAME"
}

container_of() {
  containers -q --filter "label=com.docker.compose.service=redis-$1"
}

node_list() {
  printf '127.0.0.1:%s1' "$prefix"
  printf ",127.0.0.1:$prefix%s" 2 3 4 5
}

print_env() {
  local nodes control
  nodes=$(node_list)
  printf -v control '%q node' "$root/scripts/compose.sh"
  printf 'export REDLOCK_NODES=%q\n' "$nodes"
  printf 'export REDLOCK_TEST_NODES=%q\n' "$nodes"
  printf 'export REDLOCK_NODE_CONTROL=%q\n' "$control"
}

ensure_image() {
  docker image inspect "$image" >/dev/null 2>&1 && return
  docker pull "$image" && return
  die "there is no image $image and it cannot be fetched; make one with: REDIS_IMAGE=$local_image scripts/compose.sh image" \
    "(and keep REDIS_IMAGE set)"
}

health_of() {
  docker inspect --format '{{.State.Health.Status}}' "$(container_of "$1")"
}

wait_until_healthy() {
  local deadline=$((SECONDS + healthy_within_s)) n
  for n in 1 2 3 4 5; do
    until [[ $(health_of "$n") == healthy ]]; do
      if ((SECONDS > deadline)); then
        compose logs --no-color --tail=5 "redis-$n" >&2
        say "redis-$n is not healthy after $healthy_within_s s"
        return 1
      fi
      sleep 0.2
    done
  done
}

thaw() {
  local paused
  mapfile -t paused < <(containers -q --filter status=paused)
  if ((${#paused[@]})); then docker unpause "${paused[@]}" >/dev/null; fi
}

start_nodes() {
  thaw
  compose up -d || return 1
  wait_until_healthy || return 1
  trust_nodes "$(node_list)" || return 1
  say "five nodes are healthy, and trusted: nothing can be locked on them yet: $(node_list)"
}

# A frozen process cannot act on a request to stop.
take_down() {
  thaw
  compose down --remove-orphans
}

stop_all() {
  trap '' INT TERM HUP
  take_down || say "could not take the nodes down; later: scripts/compose.sh down"
  stop_engine_of_this_run
}

refuse_if_up() {
  [[ -z $(containers -q) ]] ||
    die "the nodes are already there, and 'run' would take them down; use them with: eval \"\$(scripts/compose.sh env)\", or first: scripts/compose.sh down"
}

# --- commands

command_up() {
  ensure_engine
  ensure_image
  trap stop_all EXIT
  exit_on_signals
  start_nodes || die "the nodes did not start"
  trap - EXIT
}

command_down() {
  need docker docker.io
  engine_answers || explain_no_engine
  take_down
  stop_engine
}

command_node() {
  local action=${1-} n=${2-}
  [[ $action =~ ^(kill|start|pause|unpause)$ ]] || die "node: '$action' is not kill, start, pause or unpause"
  [[ $n =~ ^[1-5]$ ]] || die "node: '$n' is not a node number from 1 to 5"
  local container
  container=$(container_of "$n")
  [[ -n $container ]] || die "node: redis-$n does not exist; first: scripts/compose.sh up"
  docker "$action" "$container" >/dev/null
}

command_run() {
  [[ ${1-} == -- ]] && shift
  (($#)) || die "run: no command given; say: scripts/compose.sh run -- CMD ..."
  ensure_engine
  refuse_if_up
  ensure_image
  trap stop_all EXIT
  exit_on_signals
  start_nodes || die "the nodes did not start"
  eval "$(print_env)"
  local status=0
  "$@" || status=$?
  exit "$status"
}

command_test() {
  local build=${1:-$root/build/dev}
  [[ -f $build/CTestTestfile.cmake ]] || die "test: '$build' is not a build directory with tests; build first, or name it"
  # The sanitizers of Debian 12's compilers lose their way in kernels that randomise addresses over more bits.
  local fixed_addresses=()
  if setarch "$(uname -m)" -R true 2>/dev/null; then fixed_addresses=(setarch "$(uname -m)" -R); fi
  command_run -- "${fixed_addresses[@]}" ctest --test-dir "$build" -L external-nodes --no-tests=error --output-on-failure
}

make_root_filesystem() {
  debootstrap --variant=minbase --include=redis-server bookworm "$1" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"} >"$1.log" 2>&1 || {
    tail -n 5 "$1.log" >&2
    die "image: debootstrap failed; its last words are above"
  }
  chroot "$1" install -d -o redis -g redis /data
}

import_image() {
  tar -C "$1" --exclude='./var/cache/apt/*' --exclude='./var/lib/apt/lists/*' --exclude='./usr/share/doc/*' -c . |
    docker import --change 'USER redis' --change 'WORKDIR /data' --change 'CMD ["redis-server"]' - "$2"
}

# Not under the default name: an image named redis:7.2-alpine should be that image.
command_image() {
  local name=${REDIS_IMAGE:-$local_image}
  ((EUID == 0)) || die "image: debootstrap needs root"
  need debootstrap debootstrap
  ensure_engine
  image_work=$(mktemp -d)
  trap 'rm -rf "$image_work"; stop_engine_of_this_run' EXIT
  say "making $name from Debian packages; this takes about a minute"
  make_root_filesystem "$image_work/root"
  import_image "$image_work/root" "$name"
  say "made $name; use it with: export REDIS_IMAGE=$name"
}

main() {
  if [[ ${1-} == --start-engine ]]; then
    start_engine=yes
    shift
  fi
  local command=${1-}
  [[ -z $command ]] || shift
  check_prefix
  case $command in
  up | down | image)
    (($# == 0)) || die "$command takes no argument, got '$1'"
    "command_$command"
    ;;
  env) print_env ;;
  node | run | test) "command_$command" "$@" ;;
  demo) command_run -- "$root/scripts/demo.sh" "$@" ;;
  -h | --help | help) usage ;;
  *)
    usage >&2
    die "'$command' is not a command"
    ;;
  esac
}

main "$@"
