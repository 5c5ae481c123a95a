#!/usr/bin/env bash
# Installs packages on a clean Debian 12 in a temporary directory, and runs what was installed, as a user would who has only these.
#
# Usage: clean_room.sh DIRECTORY_OF_DEBS          as root; debootstrap takes the system from the mirror that apt uses here
set -euo pipefail

debs=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=scripts/lib/packages.sh
. scripts/lib/packages.sh

[ "$(id -u)" = 0 ] || { echo "clean_room.sh: a system of its own can only be made as root." >&2; exit 1; }
packages_install clean_room
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Codename: bookworm' | sort -u | head -n 1)
room=$(mktemp -d)
leave() {
  umount "$room/proc" 2>/dev/null || true
  rm -rf --one-file-system "$room"
}
trap leave EXIT

debootstrap --variant=minbase bookworm "$room" "${mirror:-http://deb.debian.org/debian}" >"$room.log" 2>&1 || {
  tail -n 20 "$room.log"
  exit 1
}
rm "$room.log"
# What reaches the mirror here reaches it in there.
cp /etc/resolv.conf /etc/hosts "$room/etc/"
apt-config dump | grep -E '^Acquire::(https?|Check-)' >"$room/etc/apt/apt.conf.d/99clean-room" || true
mount -t proc proc "$room/proc"
mkdir "$room/debs"
cp "$debs"/*.deb "$room/debs/"
cp -r tests/install/outside "$room/outside"

inside() { # COMMAND...
  chroot "$room" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} "$@"
}
apt_get() {
  inside apt-get -q -y --no-install-recommends "$@" >"$room/printed" 2>&1 || { cat "$room/printed"; return 1; }
}

apt_get update
echo "== the command and its library"
deb() { (cd "$room" && echo ./debs/"$1"_*.deb); }
apt_get install "$(deb redlock)" "$(deb libredlock0)"
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
  man -P cat 7 redlock | grep -q PROMISES'

echo "== removed"
apt_get purge redlock libredlock0 libredlock-dev
left=$(inside find / -xdev -path /proc -prune -o -path /debs -prune -o -path /outside -prune -o -path /tmp -prune -o -name '*redlock*' -print)
[ -z "$left" ] || { printf 'left behind: %s\n' "$left"; exit 1; }
echo "all is well"
