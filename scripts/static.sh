#!/usr/bin/env bash
# Builds redlock as one static binary with TLS, on musl. It needs no file of the system that it runs on.
#
# Usage: scripts/static.sh [--output DIR] [--test] [--try]
#   --output DIR   the directory for the binary and its copyright (default build/static)
#   --test         then also builds and runs, on musl, those unit tests that need neither nodes nor servers
#   --try          then runs the binary against real servers in an empty root (as root)
#
# Runs on Debian 12 and 13. hiredis, libev, inih and OpenSSL are compiled from the sources that Debian 13 signs; where the mirror has not
# got a version of them, the next older one is taken. ~/.cache/redlock keeps them compiled until Debian publishes another version.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib/options.sh
. scripts/lib/options.sh
# shellcheck source=scripts/lib/packages.sh
. scripts/lib/packages.sh
# shellcheck source=scripts/lib/room.sh
. scripts/lib/room.sh

output=build/static
test=no
try=no
options_only "$@"

purposes=(static)
[ "$test" = no ] || purposes+=(static-test)
[ "$try" = no ] || purposes+=(static-try)
packages_install "${purposes[@]}"
mkdir -p "$output"
output=$(realpath "$output")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags="-O2 -fstack-protector-strong"

# --- The sources ---

# The system's own lists of packages stay as they are.
apt_options=(-o "Dir::Etc::SourceList=$work/apt/sources.list" -o "Dir::Etc::SourceParts=/dev/null"
  -o "Dir::State::Lists=$work/apt/lists" -o "Dir::State::status=/dev/null" -o "Dir::Cache=$work/apt/cache"
  -o "APT::Sandbox::User=root")

sources_update() {
  local release mirror security keys="[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"
  # shellcheck disable=SC2016
  security=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian-Security' 2>/dev/null | sort -u | head -n 1 || true)
  mkdir -p "$work/apt/lists/partial" "$work/apt/cache/archives/partial"
  for release in bookworm trixie; do
    mirror=$(room_mirror "$release")
    echo "deb-src $keys ${mirror:-http://deb.debian.org/debian} $release main"
    echo "deb-src $keys ${security:-http://deb.debian.org/debian-security} $release-security main"
  done >"$work/apt/sources.list"
  apt-get "${apt_options[@]}" -q update >"$work/log" 2>&1 || { cat "$work/log" >&2; return 1; }
}

# source_versions NAME: newest first
source_versions() {
  apt-cache "${apt_options[@]}" showsrc --only-source "$1" | sed -n 's/^Version: //p' | sort -ruV
}

# source_unpack NAME: to $work/source/NAME
source_unpack() {
  local version
  mkdir -p "$work/source"
  for version in $(source_versions "$1"); do
    if (cd "$work/source" && apt-get "${apt_options[@]}" -q --only-source source "$1=$version") >"$work/log" 2>&1; then
      (cd "$work/source" && find . -maxdepth 1 -name "$1-*" -type d -exec mv {} "$1" \;)
      echo "$1 $version" | tee -a "$prefix/versions"
      return 0
    fi
    room_say "the mirror has not got the source of $1 $version"
  done
  cat "$work/log" >&2
  return 1
}

# --- The libraries, each installed to $prefix/usr ---

build_hiredis() {
  make CC=musl-gcc OPTIMIZATION="$flags" CFLAGS="-I$prefix/usr/include" USE_SSL=1 static
  mkdir -p "$prefix/usr/include/hiredis"
  cp ./*.h "$prefix/usr/include/hiredis/"
  cp libhiredis.a libhiredis_ssl.a "$prefix/usr/lib/"
}

build_libev() {
  ./configure --prefix="$prefix/usr" --disable-shared CC=musl-gcc CFLAGS="$flags"
  make install
}

build_libinih() {
  # shellcheck disable=SC2086
  musl-gcc $flags -c ini.c
  ar rcs "$prefix/usr/lib/libinih.a" ini.o
  cp ini.h "$prefix/usr/include/"
}

# Without what a client of Redis never uses. The settings and modules of the system's OpenSSL may be of another version, so the binary reads
# none; /etc/ssl/certs it does read.
build_openssl() {
  CC=musl-gcc CFLAGS=$flags ./Configure --prefix=/usr --libdir=lib --openssldir=/etc/ssl no-shared no-tests no-docs no-engine no-legacy \
    no-module no-dso no-autoload-config no-secure-memory no-afalgeng no-async no-comp no-dtls no-srp no-cms no-ts no-cmp no-ui-console \
    no-aria no-bf no-camellia no-cast no-gost no-idea no-md4 no-mdc2 no-rc2 no-rc4 no-seed no-sm2 no-sm3 no-sm4 no-whirlpool
  make build_libs
  make install_dev DESTDIR="$prefix"
}

build_check() {
  ./configure --prefix="$prefix/usr" --disable-shared --disable-subunit --disable-build-docs CC=musl-gcc
  make -C lib
  make -C src install
  cp check_stdint.h "$prefix/usr/include/"
}

build_lua5.1() {
  cd src
  rm lua.c luac.c print.c
  echo '#define DEB_HOST_MULTIARCH "static"' >lua5.1-deb-multiarch.h
  musl-gcc -O2 -DLUA_USE_POSIX -c ./*.c
  ar rcs "$prefix/usr/lib/liblua5.1.a" ./*.o
  cp ./*.h "$prefix/usr/include/"
  ar rcs "$prefix/usr/lib/libm.a" # CMake looks for it; musl has it in libc.a
}

# libraries PREFIX NAME...: compiles them, or takes those of an earlier run.
libraries() {
  local name key kept
  prefix=$1
  shift
  key=$(
    (
      musl-gcc --version
      dpkg-query -W -f '${Version}\n' musl-dev
      for name in "$@"; do
        echo "$name"
        source_versions "$name"
        declare -f "build_$name"
      done
    ) | cksum | cut -d ' ' -f 1
  )
  kept=$room_cache/static-$room_arch-${prefix##*/}-$key.tar
  mkdir -p "$prefix/usr/include" "$prefix/usr/lib"
  if [ -f "$kept" ] && [ -O "$kept" ] && tar -xf "$kept" -C "$prefix"; then
    return 0
  fi
  for name in "$@"; do
    source_unpack "$name"
    echo "compiling $name ..."
    (
      set -e
      cd "$work/source/$name"
      export MAKEFLAGS=-j$(nproc)
      "build_$name"
    ) >"$work/log" 2>&1 || { tail -n 40 "$work/log" >&2; room_say "$name does not compile (see above)"; return 1; }
    printf '\n\n==== %s ====\n\n' "$name" | cat - "$work/source/$name/debian/copyright" >>"$prefix/copyright"
  done
  rm -f "$prefix"/usr/lib/*.la
  # An unwritable cache only costs time.
  if mkdir -p "$room_cache" 2>/dev/null && tar -cf "$kept.$$" -C "$prefix" . 2>/dev/null; then
    rm -f "$room_cache/static-$room_arch-${prefix##*/}-"*.tar
    mv "$kept.$$" "$kept"
  else
    rm -f "$kept.$$"
  fi
}

# --- redlock ---

# configure BUILD_DIRECTORY PREFIXES OPTION...: finds libraries in the prefixes alone. Those of the system are for another libc.
configure() {
  local build=$1 prefixes=$2
  shift 2
  cmake -S . -B "$build" -G Ninja -DCMAKE_C_COMPILER=musl-gcc -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS="$flags" \
    -DCMAKE_EXE_LINKER_FLAGS="-static -Wl,-z,relro,-z,now" -DCMAKE_FIND_ROOT_PATH="$prefixes" \
    -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_PACKAGE=ONLY \
    -DREDLOCK_WERROR=ON -DREDLOCK_TLS=ON -DREDLOCK_BUILD_SHARED=OFF -DREDLOCK_BUILD_BENCH=OFF -DREDLOCK_BUILD_EXAMPLES=OFF "$@" >"$work/log" ||
    { cat "$work/log" >&2; return 1; }
}

sources_update
libraries "$work/libraries" openssl hiredis libev libinih
cat "$prefix/versions"
configure "$work/build" "$prefix" -DREDLOCK_BUILD_TESTS=OFF
cmake --build "$work/build" --target redlock_command
strip -o "$output/redlock" "$work/build/cli/redlock"
if readelf -lW "$output/redlock" | grep -qE 'INTERP|DYNAMIC'; then
  room_say "$output/redlock is not static"
  exit 1
fi
cat LICENSE "$prefix/copyright" >"$output/copyright"
printf '\n\n==== musl ====\n\n' | cat - /usr/share/doc/musl-dev/copyright >>"$output/copyright"
ls -l "$output/redlock"

if [ "$test" = yes ]; then
  libraries "$work/test-libraries" check lua5.1
  configure "$work/test" "$work/libraries;$prefix"
  # shellcheck disable=SC2046
  cmake --build "$work/test" --target $(ctest --test-dir "$work/test/tests/rules" -N | sed -n 's/.*: \([a-z_]*\)$/test_\1/p') \
    $(ctest --test-dir "$work/test/tests/parts" -N | sed -n 's/.*: \([a-z_]*\)$/test_\1/p')
  for tests in rules parts; do
    ctest --test-dir "$work/test/tests/$tests" -LE nofork --output-on-failure --parallel "$(nproc)"
  done
fi
if [ "$try" = yes ]; then
  bash scripts/lib/empty_root.sh "$output/redlock"
fi
