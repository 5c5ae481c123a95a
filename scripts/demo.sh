#!/usr/bin/env bash
# From a bare machine to a flash sale that cannot oversell: installs missing packages, builds, starts five Redis masters
# on free ports, and lets several processes sell a limited stock: without a lock, under redlock, and while masters fail.
#
# Usage: scripts/demo.sh [--program FILE] [OPTION of flash_sale ...]
#   --program FILE    a flash_sale built before; without it one is built in build/demo
#   --items N         how many are for sale (200)
#   --sellers N       processes that sell them (8)
#   --think-ms N      from looking at the stock to taking an item, and between customers (5)
#   --kill COMMAND    the third sale: kills one of the masters
#   --stop COMMAND    the third sale: freezes another one
#
# With REDLOCK_NODES set these masters are used, and none is started. They are spared unless the user says how to make two of
# them fail, by REDLOCK_DEMO_KILL and REDLOCK_DEMO_STOP (e.g. "docker kill redis-2"), or by REDLOCK_NODE_CONTROL, a command
# that takes "kill N", "pause N", "unpause N" and "start N" (as scripts/compose.sh demo has it).
#
# The exit status is flash_sale's: 0 all as promised, 1 a sale under the lock went wrong, 2 it could not be tried,
# 3 the sale without a lock did not oversell. Nothing is left behind but build/demo.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib/options.sh
. scripts/lib/options.sh
# shellcheck source=scripts/lib/packages.sh
. scripts/lib/packages.sh

program=
options=()

die() {
  printf 'demo.sh: %s\n' "$*" >&2
  exit 2
}

take_arguments() {
  local name items='' sellers='' think_ms='' kill='' stop=''
  options_only "$@"
  [ -z "$program" ] || [ -x "$program" ] || die "--program '$program' is not a program that can be run"
  for name in items sellers think_ms kill stop; do
    [ -z "${!name}" ] || options+=("--${name//_/-}" "${!name}")
  done
}

# Quiet unless it fails.
build() {
  local log
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  echo "Building ..."
  if ! { cmake -S . -B build/demo -G Ninja -DCMAKE_BUILD_TYPE=Release -DREDLOCK_BUILD_TESTS=OFF -DREDLOCK_BUILD_BENCH=OFF &&
    cmake --build build/demo --target flash_sale; } >"$log" 2>&1; then
    cat "$log" >&2
    die "the build failed; its output is above"
  fi
  rm -f "$log"
  trap - EXIT
  program=build/demo/examples/flash_sale
}

# With separate masters, which end with nodes.sh even if this script is killed.
sell_on_own_masters() {
  echo "Starting five Redis masters ..."
  REDLOCK_DEMO_RESTORE=no exec scripts/nodes.sh run --quiet -n 5 -- scripts/demo.sh --program "$program" "${options[@]}"
}

decide_on_faults() {
  local control=${REDLOCK_NODE_CONTROL-}
  kill=${REDLOCK_DEMO_KILL-${control:+$control kill 2}}
  stop=${REDLOCK_DEMO_STOP-${control:+$control pause 4}}
}

# Masters that are not ours go on as they were before. What REDLOCK_DEMO_KILL and _STOP did, only their author can undo.
restore_masters() {
  if [ -z "${REDLOCK_DEMO_KILL-}" ]; then sh -c "$REDLOCK_NODE_CONTROL start 2" >/dev/null 2>&1 || true; fi
  if [ -z "${REDLOCK_DEMO_STOP-}" ]; then sh -c "$REDLOCK_NODE_CONTROL unpause 4" >/dev/null 2>&1 || true; fi
}

sell() {
  local kill stop command status=0
  decide_on_faults
  command=("$program" ${kill:+--kill "$kill"} ${stop:+--stop "$stop"} "${options[@]}")
  if [ -z "${REDLOCK_NODE_CONTROL-}" ] || [ "${REDLOCK_DEMO_RESTORE-}" = no ]; then
    exec "${command[@]}"
  fi
  trap restore_masters EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  "${command[@]}" || status=$?
  exit "$status"
}

main() {
  take_arguments "$@"
  if [ -z "$program" ]; then
    packages_install build demo
    build
  fi
  if [ -n "${REDLOCK_NODES-}" ]; then
    sell
  else
    sell_on_own_masters
  fi
}

main "$@"
