#!/usr/bin/env bash
# Runs the library in simulated worlds of clients, nodes, networks and clocks, with faults; see docs/testing.md.
#
# Usage: scripts/sim.sh [--seed N] [--operations N] [--boundary] [--history FILE]
#        scripts/sim.sh --world N [--trace] [--beyond CLASS] [--without FAULTS] [--history FILE]
#   --seed N        which worlds (1); the same number gives the same worlds
#   --operations N  how many calls of the library are simulated at least (100000)
#   --boundary      as many again for each assumption that is broken alone, or up to eight times as many until exclusion
#                   breaks: which promises break, and which do not
#   --world N       one world, by the number and the options that a failure printed
#   --trace         prints every event in it
#   --history FILE  appends the locks of all worlds to this file, for scripts/judge.sh
#   --commands FILE  appends the commands that a node executes, and its replies, to this file, for a comparison with a real server
#   --identity ID   of that node: the real server's run_id and master_replid
#   --beyond CLASS      with one assumption broken
#   --without FAULTS    without these faults, separated by commas
#
# Optimised, without sanitizers. Exit status 0 when no promise was broken.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

# shellcheck source=scripts/lib/options.sh
. scripts/lib/options.sh
options_only "$@"
# shellcheck source=scripts/lib/packages.sh
. scripts/lib/packages.sh
packages_install build test >&2

log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { cmake --preset release && cmake --build --preset release --parallel "$(nproc)" --target sim; } >"$log" 2>&1; then
  cat "$log" >&2
  exit 2
fi
build/release/tests/simulation/sim "$@"
