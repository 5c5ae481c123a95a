#!/usr/bin/env bash
# The README's program, built with the README's command lines against an installed library, behaves as the README
# describes.
#
# Usage: program.sh with the arguments of tests/install/common.sh
. "$(dirname "$0")/../install/common.sh"

readme=$project/README.md
# The first block of C, and the lines that compile it.
c_block "$readme" >"$work/program.c"
mapfile -t lines < <(sed -n 's/^    cc \(.*\)$/\1/p' "$readme")
grep -q redlock_acquire "$work/program.c" || die "$readme has no C program that acquires"
[ ${#lines[@]} -ge 2 ] || die "$readme has fewer than two lines that begin with 'cc'"

quietly "$cmake" --install "$build" --prefix "$work/prefix"
export CPATH=$work/prefix/include LIBRARY_PATH=$work/prefix/$libraries LD_LIBRARY_PATH=$work/prefix/$libraries
export PKG_CONFIG_PATH=$work/prefix/$libraries/pkgconfig
cd "$work"
for line in "${lines[@]}"; do
  case $line in
    *libredlock.a*)
      [ -f "$LIBRARY_PATH/libredlock.a" ] || die "no static library was installed"
      kind=static
      ;;
    *)
      [ -e "$LIBRARY_PATH/libredlock.so" ] || continue # built without: REDLOCK_BUILD_SHARED=OFF
      kind=shared
      ;;
  esac
  echo "cc $line"
  rm -f program
  # shellcheck disable=SC2016
  if [[ $line == *'$(pkg-config '* ]] && ! command -v pkg-config >/dev/null; then die "the README says pkg-config, which is not here"; fi
  eval "words=(${line%%#*})" # as a shell reads it: the README's lines may ask pkg-config
  "$cc" -std=c11 -Wall -Wextra -Wpedantic -Werror "${flags[@]}" "${words[@]}"
  case $kind:$(readelf -d program | grep -c 'NEEDED.*libredlock') in
    shared:1 | static:0) ;;
    *) die "the program is to be linked with the $kind library, and is not" ;;
  esac
  # shellcheck disable=SC2016 # A timeout that no busy machine exceeds.
  printed=$("$project/scripts/nodes.sh" run --quiet -n 5 -- \
    bash -c 'long="?timeout_ms=20000"; REDLOCK_NODES=redis://${REDLOCK_NODES//,/$long,redis://}$long ./program') || die "it failed: $printed"
  echo "$printed"
  grep -qE '^done: [345] granted' <<<"$printed" || die "not granted by a majority of five"
  grep -qE '^mine for [1-9][0-9]{3} ms' <<<"$printed" || die "not valid for about its ttl of 10 s"
done

if REDLOCK_NODES='' ./program >output; then die "it found no fault with an empty list of nodes"; fi
grep -q 'the node list is empty' output || die "it does not say that the list of nodes is empty"
