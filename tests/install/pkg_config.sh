#!/usr/bin/env bash
# A separate program is built with the flags that pkg-config prints for the installed library, and runs: in C and in
# C++, shared and static. pkg-config finds no other package's file: it would need those of static libraries, too.
#
# Usage: pkg_config.sh with the arguments of common.sh
. "$(dirname "$0")/common.sh"

command -v pkg-config >/dev/null || exit 77
prefix=$work/prefix
install_and_move "$prefix"
export LD_LIBRARY_PATH=$prefix/$libraries${HIREDIS_ROOT:+:$HIREDIS_ROOT/lib}

# asks MODE OPTION: prints the words of pkg-config's output
asks() {
  local mode=()
  [ "$1" = shared ] || mode=(--static)
  PKG_CONFIG_PATH='' PKG_CONFIG_LIBDIR=$prefix/$libraries/pkgconfig pkg-config "${mode[@]}" "${@:2}" redlock
}

[ "$(asks shared --modversion)" = 1.0.0 ] || die "the version is $(asks shared --modversion)"
[ "$(realpath "$(asks shared --variable=includedir)")" = "$prefix/include" ] || die "the headers are not where they are said to be"
if asks shared --libs | grep -qE -- '-l(hiredis|ev)\b'; then die "who links the shared library needs neither hiredis nor libev"; fi

build_all() { # MODE
  local compile link
  read -ra compile <<<"$(asks "$1" --cflags)"
  read -ra link <<<"$(asks "$1" --libs)"
  quietly "$cc" -std=c11 "${warnings[@]}" "${compile[@]}" -c "$outside/program.c" -o "$work/c_$1.o"
  quietly "$cc" "${flags[@]}" "$work/c_$1.o" "${link[@]}" -o "$work/c_$1"
  quietly "$cxx" -std=c++17 "${warnings[@]}" "${compile[@]}" -c "$outside/program.cpp" -o "$work/cpp_$1.o"
  quietly "$cxx" "${flags[@]}" "$work/cpp_$1.o" "${link[@]}" -o "$work/cpp_$1"
  works "$work/c_$1" C "$1"
  works "$work/cpp_$1" C++ "$1"
}

[ ! -e "$prefix/$libraries/libredlock.so" ] || build_all shared
rm -f "$prefix/$libraries"/libredlock.so* # if both are installed, -l takes the shared one
build_all static
