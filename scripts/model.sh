#!/usr/bin/env bash
# Checks a model of acquisition, guard and fencing with spin, over all that can happen within its bounds: three nodes, two clients, a restart.
#
# Usage: scripts/model.sh
#
# Three runs: with the guard two clients never hold the lock at once; without it spin must find that they do; and without it fencing tokens stay unique and
# in order all the same. Takes a minute or two and up to 3.5 GiB. The model is tests/simulation/model/redlock.pml.
# Exit status 0 when all three came out so.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib/packages.sh
. scripts/lib/packages.sh

case ${1:-} in
  '') ;;
  -h | --help)
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"
    exit 0
    ;;
  *)
    echo "scripts/model.sh: '$1' is not understood; there is --help." >&2
    exit 2
    ;;
esac

packages_install model
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# check WHAT WANTED DEFINE...: WANTED is 'holds' or 'breaks'.
check() {
  local what=$1 wanted=$2 got
  shift 2
  (cd "$work" && spin "$@" -a redlock.pml >/dev/null && gcc -O2 -DSAFETY -DCOLLAPSE -DMEMLIM=3500 -w -o pan pan.c && ./pan -m100000 >output)
  # A search that was cut short has shown nothing.
  if grep -q 'assertion violated' "$work/output"; then
    got=breaks
  elif grep -q 'errors: 0' "$work/output" && ! grep -qiE 'not completed|out of memory|depth too small' "$work/output"; then
    got=holds
  else
    got='was not searched whole'
  fi
  printf '%-58s %s, %s states\n' "$what" "$got" "$(awk '/states, stored/ { print $1 }' "$work/output")"
  if [ "$got" != "$wanted" ]; then
    failed=1
    cat "$work/output"
  fi
}

cp tests/simulation/model/redlock.pml "$work"
check 'with the guard: exclusion and fencing' holds -DGUARD=1
check 'without it: exclusion (spin is to find that it breaks)' breaks -DGUARD=0
check 'without it: fencing' holds -DGUARD=0 -DEXCLUSION=0
exit $failed
