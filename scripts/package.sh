#!/usr/bin/env bash
# Builds the Debian packages of debian/ (redlock, the library, libredlock-dev, libredlock-doc) for the system that it runs on.
#
# Usage: scripts/package.sh [--output DIR] [--try]
#   --output DIR   where they are put (default build/packages)
#   --try          then runs the packages' tests, debian/tests, on a bare Debian of this release in a temporary directory (as root, with
#                  debootstrap): they install the packages and use what is installed
#
# Every build of the same tree gives the same bytes, wherever and whenever it is made.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib/options.sh
. scripts/lib/options.sh
# shellcheck source=scripts/lib/packages.sh
. scripts/lib/packages.sh

output=build/packages
try=no
options_only "$@"

packages_install build package
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$output"
output=$(realpath "$output")

# A copy of the tree, because debhelper writes into it: the files that git knows, or all but the builds.
umask 022
mkdir "$work/redlock"
if [ -e .git ]; then
  git ls-files -z --cached --others --exclude-standard | xargs -0 sh -c 'for file; do [ ! -f "$file" ] || printf "%s\0" "$file"; done' sh
else
  find . -path ./build -prune -o -type f -print0
fi | tar --null -T - -c | tar -x -C "$work/redlock"

(cd "$work/redlock" && dpkg-buildpackage --build=binary --no-sign)
cp "$work"/*.deb "$output/"
ls -l "$output"/*.deb

if [ "$try" = yes ]; then
  exec bash scripts/lib/clean_room.sh "$output"
fi
