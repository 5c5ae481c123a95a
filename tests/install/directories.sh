#!/usr/bin/env bash
# Installations as packagers make them: into a staging directory (DESTDIR), with a library directory outside the prefix,
# and without the shared library. pkg-config and find_package follow these settings.
#
# Usage: directories.sh with the arguments of common.sh
. "$(dirname "$0")/common.sh"

command -v pkg-config >/dev/null || exit 77
prefix=$work/prefix
quietly "$cmake" -S "$project" -B "$work/build" -G Ninja -DCMAKE_C_COMPILER="$cc" -DCMAKE_BUILD_TYPE=None -DREDLOCK_BUILD_SHARED=OFF \
  -DREDLOCK_BUILD_TESTS=OFF -DREDLOCK_BUILD_BENCH=OFF -DREDLOCK_BUILD_EXAMPLES=OFF \
  -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR="$work/libraries"
quietly "$cmake" --build "$work/build"

export DESTDIR=$work/stage
quietly "$cmake" --install "$work/build"
unset DESTDIR
[ ! -e "$prefix" ] && [ ! -e "$work/libraries" ] || die "something was installed outside of DESTDIR"
[ -f "$work/stage$prefix/include/redlock/redlock.h" ] && [ -f "$work/stage$work/libraries/libredlock.a" ] ||
  die "not everything is below DESTDIR"
mv "$work/stage$prefix" "$prefix"
mv "$work/stage$work/libraries" "$work/libraries"

export PKG_CONFIG_PATH=$work/libraries/pkgconfig
read -ra words <<<"$(pkg-config --static --cflags --libs redlock)"
quietly "$cc" -std=c11 "${warnings[@]}" "$outside/program.c" "${words[@]}" -o "$work/c_pkg_config"
works "$work/c_pkg_config" C static

# redlock::redlock is then the static library.
quietly "$cmake" -S "$outside" -B "$work/outside" -G Ninja -Dredlock_DIR="$work/libraries/cmake/redlock" \
  -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" -DTARGETS=redlock
quietly "$cmake" --build "$work/outside" --target c_redlock
works "$work/outside/c_redlock" C static
