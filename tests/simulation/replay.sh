#!/usr/bin/env bash
# The same seed gives the same world, to the last command, so every failure can be reproduced.
#
# Usage: replay.sh SIM
set -euo pipefail

sim=$1
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

for world in 11 12 13; do
  "$sim" --world $world --trace >"$directory/first"
  "$sim" --world $world --trace >"$directory/second"
  if ! cmp "$directory/first" "$directory/second"; then
    echo "World $world is not the same twice."
    exit 1
  fi
  if [ "$(wc -l <"$directory/first")" -lt 1000 ]; then
    echo "In world $world little has happened."
    exit 1
  fi
done
