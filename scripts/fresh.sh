#!/usr/bin/env bash
# Makes a bare Debian or Ubuntu system in a temporary directory, clones the committed tree into it (or copies a release's tree, which is no clone), and runs
# the commands of README's "Try it" in it: they must install all that they need. Needs root; debootstrap takes the system from apt's mirror.
#
# Usage: scripts/fresh.sh [RELEASE] [-- COMMAND...]
#   RELEASE       bookworm (Debian 12, the default), trixie (Debian 13) or noble (Ubuntu 24.04)
#   -- COMMAND    is run instead, in the clone, e.g. -- scripts/test.sh --quick, or -- bash to look around
#
# Uncommitted changes are not in the clone. The base system is kept for the day in ~/.cache/redlock; the rest is removed at the end.
# The exit status is COMMAND's, or 0 when README's commands all exit with 0; 1 when no system can be made, 2 for misuse.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib/packages.sh
. scripts/lib/packages.sh
# shellcheck source=scripts/lib/room.sh
. scripts/lib/room.sh

release=bookworm
command=()
case ${1-} in
  -h | --help)
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"
    exit 0
    ;;
  '' | --) ;;
  *)
    release=$1
    shift
    ;;
esac
room_known "$release"
case ${1-} in
  '') [ $# -eq 0 ] || set -- '' ;;
  --)
    shift
    command=("$@")
    [ $# -gt 0 ] || { room_say "a command must follow --; see --help"; exit 2; }
    ;;
  *)
    room_say "'$1' is not understood; see --help"
    exit 2
    ;;
esac

# The commands of README's section "Try it", one per line.
readme_commands() {
  awk '/^## / { there = $0 == "## Try it" } there && /^    scripts\// { print $1 }' README.md
}

# try COMMAND...: records the exit status, the duration, and the load average beside it.
try() {
  local start=$SECONDS status=0
  room_inside env --chdir=/root/redlock "$@" || status=$?
  summary+=("$(printf '%-24s exit status %d, %d s, load average %s' "$*" "$status" $((SECONDS - start)) "$(cut -d ' ' -f 1-3 /proc/loadavg)")")
  return "$status"
}

if [ -e .git ]; then
  git diff --quiet HEAD 2>/dev/null || room_say "note: uncommitted changes are left out"
fi
room_make "$release"
if [ -e .git ]; then
  git clone --quiet --no-hardlinks "$PWD" "$room/root/redlock"
else
  mkdir "$room/root/redlock"
  tar --exclude=./build -c . | tar -x -C "$room/root/redlock"
fi

if [ ${#command[@]} -gt 0 ]; then
  room_inside env --chdir=/root/redlock "${command[@]}"
  exit
fi

failed=0
summary=()
mapfile -t commands < <(readme_commands)
[ ${#commands[@]} -eq 2 ] || { room_say "README's section 'Try it' has ${#commands[@]} commands, not two"; exit 1; }
for words in "${commands[@]}"; do
  try "$words" || failed=1
done
printf '\nIn a bare %s:\n' "$release"
printf '  %s\n' "${summary[@]}"
exit "$failed"
