# shellcheck shell=bash
# Shared by the tests that are scripts, also by those of the examples. A test that sources this has $project and a directory $work, which is removed
# when it ends, after the function clean_up.
set -euo pipefail

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
clean_up() { :; }
trap 'clean_up; rm -rf "$work"' EXIT

die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

skip() {
  echo "skipped: $*" >&2
  exit 77
}

needs_server() {
  # shellcheck source=scripts/lib/server.sh
  . "$project/scripts/lib/server.sh"
  server_available || skip "there is no $(server_program); install it or set REDLOCK_SERVER_PROGRAM"
}

# quietly COMMAND...: prints the command's output only if it fails.
quietly() {
  "$@" >"$work/printed" 2>&1 || { cat "$work/printed"; die "failed: $*"; }
}

c_block() { # DOCUMENT: its first block of C
  awk '/^```c$/ { inside = 1; next } /^```$/ && inside { exit } inside' "$1"
}

# planted COUNT CHECK ARG...: the check must print a line for each of COUNT planted faults.
planted() {
  local found
  found=$("${@:2}")
  [ "$(wc -l <<<"$found")" = "$1" ] || die "the $1 planted faults were not found, but: $found"
}

# no_faults CHECK ARG...: the check must print nothing.
no_faults() {
  local found
  found=$("$@")
  [ -z "$found" ] || die "$found"
}

# wait_for WHAT COMMAND...: until the command succeeds.
wait_for() {
  local what=$1 try
  shift
  for ((try = 0; try < 1200; try++)); do
    if "$@"; then return; fi
    sleep 0.05
  done
  die "this did not happen within a minute: $what"
}

is_stopped() { [ "$(cut -d ' ' -f 3 "/proc/$1/stat" 2>/dev/null)" = T ]; } # PID

# node ACTION NUMBER: a fault of one of the nodes of scripts/nodes.sh.
node() {
  # shellcheck disable=SC2086 # a command with its arguments
  $REDLOCK_NODE_CONTROL "$@"
}
