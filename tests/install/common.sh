# shellcheck shell=bash
# Shared by the tests of the installed library. Source it with the arguments
# CMAKE BUILD_DIRECTORY LIBRARY_DIRECTORY CC CXX [LINKER_FLAG...]
#   LIBRARY_DIRECTORY   the library's directory below the prefix
#   LINKER_FLAG         what the instrumented library needs; the programs are compiled as a user's are
. "$(dirname "${BASH_SOURCE[0]}")/../support/script.sh"

# shellcheck disable=SC2034
cmake=$1 build=$2 libraries=$3 cc=$4 cxx=$5
shift 5
flags=("$@")
outside=$project/tests/install/outside
warnings=(-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror)
needs_server
unset DESTDIR PKG_CONFIG_PATH PKG_CONFIG_LIBDIR PKG_CONFIG_SYSROOT_DIR CMAKE_PREFIX_PATH

# Installs the library into a prefix and renames the prefix. Its files must be found at the new place.
install_and_move() { # PREFIX
  quietly "$cmake" --install "$build" --prefix "$work/before"
  mv "$work/before" "$1"
  if grep -rl "$work/before" "$1"; then die "these files name the directory that was installed into"; fi
}

# works PROGRAM LANGUAGE shared|static: the program acquires a lock on three nodes, and was linked with this kind of
# library.
works() {
  local printed needs
  needs=$(readelf -d "$1" | grep -c 'NEEDED.*libredlock\.so\.1' || true)
  case $3:$needs in
    shared:1 | static:0) ;;
    *) die "$1 is to be linked with the $3 library, and is not" ;;
  esac
  printed=$(bash "$project/scripts/nodes.sh" run --quiet -n 3 -- "$1" 2>&1) || die "$1 failed: $printed"
  grep -qE "^1\.0\.0: ${2//+/[+]}: done: [23] granted" <<<"$printed" || die "$1 got no lock: $printed"
  echo "$(basename "$1"): $printed"
}
