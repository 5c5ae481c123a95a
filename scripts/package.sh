#!/usr/bin/env bash
# Builds the Debian packages (redlock, libredlock0.1, libredlock-dev) for the system that it runs on.
#
# Usage: scripts/package.sh [--output DIR] [--try]
#   --output DIR   where they are put (default build/packages)
#   --try          then installs them on a bare Debian of this release in a temporary directory (as root, with debootstrap), and
#                  runs the installed programs
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib/packages.sh
. scripts/lib/packages.sh

output=build/packages
try=no
while [ $# -gt 0 ]; do
  case $1 in
    --output)
      output=${2:?"--output needs a directory"}
      shift
      ;;
    --try) try=yes ;;
    -h | --help)
      sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    *)
      echo "scripts/package.sh: '$1' is not understood; there are --output and --try." >&2
      exit 2
      ;;
  esac
  shift
done

packages_install build package
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$output"
output=$(realpath "$output")

# The distribution's own flags: optimised, hardened. Without Ubuntu's link-time optimisation, which ties the static library to one compiler.
eval "$(DEB_BUILD_MAINT_OPTIONS=optimize=-lto dpkg-buildflags --export=sh)"
cmake -S . -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=None -DCMAKE_INSTALL_PREFIX=/usr \
  -DREDLOCK_BUILD_TESTS=OFF -DREDLOCK_BUILD_BENCH=OFF -DREDLOCK_BUILD_EXAMPLES=OFF
cmake --build "$work/build"
(cd "$work/build" && cpack -G DEB -B "$work/made")
cp "$work"/made/*.deb "$output/"
ls -l "$output"/*.deb

if [ "$try" = yes ]; then
  exec bash scripts/lib/clean_room.sh "$output"
fi
