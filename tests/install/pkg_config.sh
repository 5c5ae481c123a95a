#!/usr/bin/env bash
# An outside program is built and runs by what pkg-config says of the installed library: in C and in C++, shared and static.
#
# Usage: pkg_config.sh, and what common.sh takes
. "$(dirname "$0")/common.sh"

command -v pkg-config >/dev/null || exit 77
prefix=$work/prefix
install_and_move "$prefix"
export LD_LIBRARY_PATH=$prefix/$libraries

# asks MODE QUESTION: pkg-config's answer as words
asks() {
  local mode=()
  [ "$1" = shared ] || mode=(--static)
  PKG_CONFIG_PATH=$prefix/$libraries/pkgconfig pkg-config "${mode[@]}" "${@:2}" redlock
}

[ "$(asks shared --modversion)" = 0.1.0 ] || die "the version is $(asks shared --modversion)"
[ "$(realpath "$(asks shared --variable=includedir)")" = "$prefix/include" ] || die "the headers are not where they are said to be"
if asks shared --libs | grep -qE -- '-l(hiredis|ev)\b'; then die "who links the shared library needs neither hiredis nor libev"; fi

build_all() { # MODE
  local words
  read -ra words <<<"$(asks "$1" --cflags --libs)"
  quietly "$cc" -std=c11 "${warnings[@]}" "${flags[@]}" "$outside/program.c" "${words[@]}" -o "$work/c_$1"
  quietly "$cxx" -std=c++17 "${warnings[@]}" "${flags[@]}" "$outside/program.cpp" "${words[@]}" -o "$work/cpp_$1"
  works "$work/c_$1" C "$1"
  works "$work/cpp_$1" C++ "$1"
}

[ ! -e "$prefix/$libraries/libredlock.so" ] || build_all shared
rm -f "$prefix/$libraries"/libredlock.so* # with both there, -l takes the shared one
build_all static
