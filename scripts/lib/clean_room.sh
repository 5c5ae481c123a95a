#!/usr/bin/env bash
# Installs packages on a bare Debian in a temporary directory, and runs the installed programs, as a user with only these packages would.
#
# Usage: clean_room.sh DIRECTORY_OF_DEBS [RELEASE]          as root; RELEASE is the one that they were built on: this one, unless named
set -euo pipefail

debs=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=scripts/lib/packages.sh
. scripts/lib/packages.sh
# shellcheck source=scripts/lib/room.sh
. scripts/lib/room.sh

room_make "${2:-$(. /etc/os-release && echo "${VERSION_CODENAME-}")}"
mkdir "$room/debs"
cp "$debs"/*.deb "$room/debs/"
cp -r tests/install/outside "$room/outside"

inside() { room_inside env LC_ALL=C "$@"; } # COMMAND...
apt_get() {
  inside apt-get -q -y --no-install-recommends "$@" >"$room/printed" 2>&1 || { cat "$room/printed"; return 1; }
}

apt_get update
echo "== the command and its library"
deb() { (cd "$room" && echo ./debs/"$1"_*.deb); }
apt_get install "$(deb redlock)" "$(deb libredlock0.1)"
inside redlock --version
apt_get install redis-server
inside redlock local -n 3 -- sh -ec '
  redlock run --fence --ttl 5s clean -- sh -ec "
    test -n \"\$REDLOCK_TOKEN\" && test \"\$REDLOCK_FENCE\" -gt 0
    redlock status --json clean | grep -q \"\\\"state\\\":\\\"held\\\"\"
    ! redlock run -n clean -- true 2>/dev/null"
  redlock acquire --ttl 5s clean >/token
  redlock extend clean - </token
  redlock release clean - </token
  redlock status clean | grep -q free
  redlock doctor >/dev/null'

echo "== programs built against the development files"
apt_get install "$(deb libredlock-dev)" g++ cmake make pkg-config man-db
inside sh -ec '
  cd /tmp
  cc /outside/program.c $(pkg-config --cflags --libs redlock) -o c
  c++ -std=c++17 /outside/program.cpp $(pkg-config --cflags --libs redlock) -o cpp
  cmake -S /outside -B build -DCOMPONENTS="shared;static" -DTARGETS="redlock;redlock_static" >log
  cmake --build build >>log
  for program in ./c ./cpp build/c_redlock build/cpp_redlock_static; do
    redlock local -n 3 -- $program
  done
  man -P cat redlock_extend | grep -q "never shortens"
  man -P cat 7 redlock | grep -q GUARANTEES'

echo "== removed"
apt_get purge redlock libredlock0.1 libredlock-dev
left=$(inside find / -xdev -path /proc -prune -o -path /debs -prune -o -path /outside -prune -o -path /tmp -prune -o -path /var/cache/man -prune -o -name '*redlock*' -print)
[ -z "$left" ] || { printf 'left behind: %s\n' "$left"; exit 1; }
echo "all is well"
