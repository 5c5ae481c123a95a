#!/usr/bin/env bash
# From a bare Debian 12 to the measured figures: installs missing packages, builds for release, measures, plots.
#
# Usage: scripts/bench.sh [--quick] [--check] [--output DIRECTORY] [GROUP...]
#   --quick    a quarter of the rounds
#   --check    ends with one line per target, 'target NAME VALUE LIMIT ok|MISS|noisy'; exit status 1 when one is missed
#   --minutes  how long the group hold lasts; default: one, with --quick half of one
#   --output   where bench.json, the distributions (.dat) and their plots (.svg) go; default: bench/results
# Groups; without a name all of them, except those that say otherwise:
set -uo pipefail
exec </dev/null

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
# shellcheck source=scripts/lib/packages.sh
. scripts/lib/packages.sh

# The groups are those that bench/main.c has.
help() {
  sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"
  sed -n '/^} groups\[\] = {/,/^};/p' bench/main.c | tr -d '\n' |
    sed -E 's/\{"([a-z]+)", "([^"]*)", [a-z_]+, *(true|false)\},/\n  \1\t\2 \3\n/g' |
    sed -nE 's/ false$//; s/ true$/ (only when named)/; /^  [a-z]+\t/p' | expand -t 13
}

output=bench/results
arguments=()
while [ $# -gt 0 ]; do
  case $1 in
    --output)
      if [ $# -lt 2 ]; then
        echo "scripts/bench.sh: --output needs a directory" >&2
        exit 2
      fi
      output=$2
      shift
      ;;
    -h | --help)
      help
      exit 0
      ;;
    --minutes)
      arguments+=("$1" "${2:?"--minutes needs a number"}")
      shift
      ;;
    --quick | --check) arguments+=("$1") ;;
    -*)
      echo "scripts/bench.sh: '$1' is not understood; there are --quick, --check, --minutes, --output and --help." >&2
      exit 2
      ;;
    *) arguments+=("$1") ;;
  esac
  shift
done

# plot GROUP HEADING
plot() {
  if [ "$output/$1.dat" -nt "$started" ]; then
    gnuplot -e "data='$output/$1.dat'; picture='$output/$1.svg'; heading='$2'" bench/plot.gnuplot &&
      echo "plot: $output/$1.svg"
  fi
}

# The peers of the group peers, as far as their tools are there, beside the benchmark's programs. Their packages come
# from the registries that go and npm are configured for, into the build directory.
build_peers() {
  local programs=$PWD/build/bench/bench peers=$PWD/build/bench/peers name node
  rm -f "$programs"/bench-peer-*
  if command -v go >/dev/null; then
    for name in peer-redsync peer-etcd etcd-member; do
      (cd bench/peers && GOMODCACHE=$peers/go GOFLAGS="${GOFLAGS:-} -modcacherw" \
        go build -o "$programs/bench-$name" "./$name") || return
    done
  else
    echo "redsync and etcd need go (1.26 or later), which is not here." >&2
  fi
  if command -v npm >/dev/null; then
    node=$peers/node-redlock
    mkdir -p "$node" && cp bench/peers/node-redlock/* "$node" &&
      (cd "$node" && npm install --no-audit --no-fund --no-package-lock --loglevel=error) >&2 || return
    printf '#!/bin/sh\nexec node "%s/worker.js" "$@"\n' "$node" >"$programs/bench-peer-node-redlock" &&
      chmod +x "$programs/bench-peer-node-redlock"
  else
    echo "node-redlock needs npm, which is not here." >&2
  fi
}

packages_install build bench || exit
# Neither tests nor examples: their packages would have to be installed, too.
cmake --preset release --no-warn-unused-cli -B build/bench -DREDLOCK_WERROR=OFF -DREDLOCK_BUILD_TESTS=OFF -DREDLOCK_BUILD_EXAMPLES=OFF >/dev/null &&
  cmake --build build/bench --parallel "$(nproc)" -- --quiet || exit
case " ${arguments[*]} " in *" peers "*) build_peers || exit ;; esac

mkdir -p "$output" || exit
started=$(mktemp)
trap 'rm -f "$started"' EXIT
build/bench/bench/bench --output "$output" "${arguments[@]}"
status=$?
{
  plot latency "Time to acquire a lock: five nodes up"
  plot faults "Time to acquire a lock: five nodes, of which one or two were killed or stopped"
} >&2
exit "$status"
