#!/usr/bin/env bash
# Checks small models with spin, over all that can happen within their bounds (tests/simulation/model): acquisition, guard and fencing (redlock.pml); clients
# whose max_ttl differs (max_ttl.pml); healing and release by token (heal.pml); a lock that two processes hold (adopted.pml); hand-over with offers, their
# withdrawal and proof (handover.pml); readers with different ttls, and a writer that becomes one (readers.pml); a node that is one of two servers
# (witnesses.pml).
#
# Usage: scripts/model.sh [--quick]
#   --quick   without redlock.pml and witnesses.pml: each of the others takes a few seconds and 0.3 GiB
#
# With all rules no two clients that exclude each other hold the lock at once; without any one of the rules spin must find that they do, or that a released
# key stays. Fencing tokens stay unique and in order without the guard, too. Takes three minutes and up to 3.5 GiB. Exit status 0 when all came out so.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib/packages.sh
. scripts/lib/packages.sh

# shellcheck source=scripts/lib/options.sh
. scripts/lib/options.sh
quick=no
options_only "$@"
packages_install model
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
flags=(-O1)

# check WHAT WANTED MODEL [DEFINE...]: WANTED is 'holds' or 'breaks'.
check() {
  local what=$1 wanted=$2 model=$3 got
  shift 3
  (cd "$work" && spin "$@" -a "$model" >/dev/null && gcc "${flags[@]}" -DSAFETY -DMEMLIM=3500 -w -o pan pan.c && ./pan -E -m100000 >output)
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
check 'max_ttl that differs: exclusion' holds max_ttl.pml
check 'a ttl may be above the max_ttl of its client' breaks max_ttl.pml -DLIMIT=0
check 'each node counts with the max_ttl of its own marker' breaks max_ttl.pml -DLARGEST=0
check 'a client writes its own max_ttl over a larger one' breaks max_ttl.pml -DKEEPS=0
check 'a client does not write a larger one to other markers' breaks max_ttl.pml -DWRITES=0
check 'a grant counts without proof' breaks max_ttl.pml -DPROOF=0
check 'a max_ttl learned during a round spares its grants' breaks max_ttl.pml -DVOIDS=0
check 'no node that the client reaches knows the max_ttl' breaks max_ttl.pml -DKNOWN=0
check 'healing and release by token: nothing stays' holds heal.pml
check 'a second heal before the reply to the first' breaks heal.pml -DONE=0
check 'a heal is sent again behind the release' breaks heal.pml -DRESEND=0
check 'a lock that is gone is not undone where it was healed' breaks heal.pml -DUNDO=0
check 'a lock that was passed on is undone when it expires' breaks heal.pml -DLEFT=0
check 'a renewal is under way during the release' breaks heal.pml -DAPART=0
check 'a lock of two processes: exclusion' holds adopted.pml
check 'a lock that is gone is undone where it was ever healed' breaks adopted.pml -DSINCE=0
check 'three nodes lose their data' breaks adopted.pml -DLOSSES=3
check 'hand-over: exclusion' holds handover.pml
check 'the validity is counted from the message' breaks handover.pml -DFROM_OFFER=0
check 'messages of a withdrawn offer count' breaks handover.pml -DWHOLE=0
check "the key keeps what was left of the holder's ttl" breaks handover.pml -DNEW_TTL=0
check 'messages count without proof' breaks handover.pml -DPROOF=0
check 'readers with different ttls: exclusion of the writer' holds readers.pml
check 'a reader that enters shortens the expiry' breaks readers.pml -DENTER=0
check "an extension shortens the reader's end" breaks readers.pml -DLONGER=0
check 'a reader that leaves takes the expiry to another end' breaks readers.pml -DLEAVE=0
check "a downgrade changes the end of the writer's key" breaks readers.pml -DKEPT=0
check 'a writer is one until its downgrade is confirmed' breaks readers.pml -DCOUNTS=0
[ "$quick" = no ] || exit $failed
flags=(-O2 -DCOLLAPSE)
check 'with the guard: exclusion and fencing' holds redlock.pml -DGUARD=1
check 'without it: exclusion (spin is to find that it breaks)' breaks redlock.pml -DGUARD=0
check 'without it: fencing' holds redlock.pml -DGUARD=0 -DEXCLUSION=0
check 'a node behind Sentinel, or in a cluster: its vote' holds witnesses.pml
check 'one witness confirms a master' breaks witnesses.pml -DMAJORITY=0
check 'what a witness has said counts for ever' breaks witnesses.pml -DAGE=0
check 'the quarantine is no longer than a lock' breaks witnesses.pml -DLONGER=0
check 'a lock is extended at once after a failover' breaks witnesses.pml -DSETTLES=0
check 'witnesses confirm a server, not a configuration' breaks witnesses.pml -DEPOCH=0
check 'a marker without the configuration' breaks witnesses.pml -DTERM=0
exit $failed
