#!/usr/bin/env bash
# Checks four small models with spin, over all that can happen within their bounds: acquisition, guard and fencing (tests/simulation/model/redlock.pml);
# hand-over with offers and their withdrawal (handover.pml); readers with different ttls (readers.pml); a node that is one of two servers (witnesses.pml).
#
# Usage: scripts/model.sh
#
# With all rules no two clients that exclude each other hold the lock at once; without any one of the rules spin must find that they do. Fencing tokens stay
# unique and in order without the guard, too. Takes two minutes and up to 3.5 GiB. Exit status 0 when all came out so.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib/packages.sh
. scripts/lib/packages.sh

# shellcheck source=scripts/lib/options.sh
. scripts/lib/options.sh
options_only "$@"
packages_install model
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# check WHAT WANTED MODEL [DEFINE...]: WANTED is 'holds' or 'breaks'.
check() {
  local what=$1 wanted=$2 model=$3 got
  shift 3
  (cd "$work" && spin "$@" -a "$model" >/dev/null && gcc -O2 -DSAFETY -DCOLLAPSE -DMEMLIM=3500 -w -o pan pan.c && ./pan -E -m100000 >output)
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

cp tests/simulation/model/*.pml "$work"
check 'with the guard: exclusion and fencing' holds redlock.pml -DGUARD=1
check 'without it: exclusion (spin is to find that it breaks)' breaks redlock.pml -DGUARD=0
check 'without it: fencing' holds redlock.pml -DGUARD=0 -DEXCLUSION=0
check 'hand-over: exclusion' holds handover.pml
check 'the validity is counted from the message' breaks handover.pml -DFROM_OFFER=0
check 'messages of a withdrawn offer count' breaks handover.pml -DWHOLE=0
check "the key keeps what was left of the holder's ttl" breaks handover.pml -DNEW_TTL=0
check 'readers with different ttls: exclusion of the writer' holds readers.pml
check 'a reader that enters shortens the expiry' breaks readers.pml -DENTER=0
check "an extension shortens the reader's end" breaks readers.pml -DLONGER=0
check 'a reader that leaves takes the expiry to another end' breaks readers.pml -DLEAVE=0
check 'a node behind Sentinel, or in a cluster: its vote' holds witnesses.pml
check 'one witness confirms a master' breaks witnesses.pml -DMAJORITY=0
check 'what a witness has said counts for ever' breaks witnesses.pml -DAGE=0
check 'the quarantine is no longer than a lock' breaks witnesses.pml -DLONGER=0
check 'a lock is extended at once after a failover' breaks witnesses.pml -DSETTLES=0
check 'witnesses confirm a server, not a configuration' breaks witnesses.pml -DEPOCH=0
check 'a marker without the configuration' breaks witnesses.pml -DTERM=0
exit $failed
