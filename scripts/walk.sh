#!/usr/bin/env bash
# How far a reader has to go: the .c files, the functions and the frames through which one plain acquire on a warm client passes, from the call on a libev
# loop to the callback, with five nodes and default options. Every function of the library is instrumented (-finstrument-functions), and none inlined.
#
# Usage: scripts/walk.sh [--list]
#   --list   prints the files, and the deepest stack, too
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib/options.sh
. scripts/lib/options.sh
# shellcheck source=scripts/lib/packages.sh
. scripts/lib/packages.sh

list=no
options_only "$@"

packages_install build walk
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
program=build/walk/program
if ! { cmake --preset user -B build/walk -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS='-O0 -g -finstrument-functions' \
  -DREDLOCK_BUILD_CLI=OFF -DREDLOCK_INSTALL=OFF -DREDLOCK_TLS=OFF &&
  cmake --build build/walk --target redlock_static &&
  cc -g -Iinclude scripts/lib/walk.c build/walk/src/libredlock.a -lhiredis -lev -lm -pthread -no-pie -o "$program"; } >"$work/log" 2>&1; then
  cat "$work/log" >&2
  exit 1
fi
scripts/nodes.sh run --quiet -n 5 -- "$program" >"$work/walk"

# Prints 'FUNCTION<TAB>FILE' for each address.
named() { addr2line -s -f -e "$program" | paste - - | sed "s/:.*//"; }
sed '/^$/,$d' "$work/walk" | addr2line -f -e "$program" | paste - - | sed -E "s#\t$PWD/#\t#; s#:[0-9?]+.*##" >"$work/functions"
sed '1,/^$/d' "$work/walk" | named >"$work/stack"
grep -P '\t(src|quorum)/.*[.]c$' "$work/functions" >"$work/ours"

if [ "$list" = yes ]; then
  echo "Functions by file:"
  cut -f 2 "$work/ours" | sort | uniq -c
  echo "The deepest stack:"
  awk -F '\t' '{ printf "%3d  %-40s %s\n", NR, $1, $2 }' "$work/stack"
fi
# The lease is where the lock begins; what it calls is not on the way any more.
frames=$(awk -F '\t' '$2 == "lease.c" { print NR - 1; exit }' "$work/stack")
echo "one plain acquire: $(wc -l <"$work/ours") functions in $(cut -f 2 "$work/ours" | sort -u | wc -l) .c files; ${frames:-?} frames between the socket and the lease, $(wc -l <"$work/stack") at the deepest"
