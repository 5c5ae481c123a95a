#!/usr/bin/env bash
# Runs the tests of debian/tests on a bare Debian in a temporary directory: they install the packages, and use what is installed as a user would.
# Then the packages are removed, and must leave nothing behind.
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
mkdir -p "$room/debs" "$room/tree/tests/install" "$room/tree/tests/readme"
cp "$debs"/*.deb "$room/debs/"
cp -r debian "$room/tree/"
cp -r tests/install/outside "$room/tree/tests/install/"
cp tests/readme/links.sh "$room/tree/tests/readme/"

inside() { room_inside env LC_ALL=C "$@"; } # COMMAND...
quietly() { # COMMAND...
  inside "$@" >"$room/printed" 2>&1 || { cat "$room/printed"; return 1; }
}

quietly apt-get -q update
quietly apt-get -q -y --no-install-recommends install autopkgtest
inside sh -c 'cd / && exec autopkgtest --no-built-binaries /debs/*.deb /tree -- null'

echo "== removed"
quietly apt-get -q -y purge redlock 'libredlock*'
left=$(inside find /usr /etc /var/lib /var/cache /opt -xdev -path /var/cache/man -prune -o -name '*redlock*' -print)
[ -z "$left" ] || { printf 'left behind: %s\n' "$left"; exit 1; }
echo "all is well"
