#!/usr/bin/env bash
# The Debian packages of debian/ contain the files that 'cmake --install' installs, each once; programs depend on the right library; what was built is
# hardened; another build, in elsewhere, time zone and language, gives the same bytes; lintian has nothing to say. scripts/package.sh --try runs the
# tests of debian/tests on a clean system, if one can be created.
#
# Usage: package.sh with the arguments of common.sh
. "$(dirname "$0")/common.sh"

for tool in blhc dh lintian; do
  command -v "$tool" >/dev/null || skip "there is no $tool"
done
make_packages() { # DIRECTORY COMMAND...
  local directory=$1
  shift
  mkdir "$directory"
  "$@" env REDLOCK_SKIP_PACKAGES=1 TMPDIR="$directory" bash "$project/scripts/package.sh" --output "$directory/debs" >"$directory/log" 2>&1 ||
    { tail -n 40 "$directory/log"; die "scripts/package.sh failed"; }
}
make_packages "$work/one" env TZ=UTC
cd "$work"
debs=$work/one/debs

version=$(sed -n 's/^ *VERSION //p' "$project/CMakeLists.txt")
interface=$(objdump -p "$build/src/libredlock.so" | sed -n 's/^ *SONAME *libredlock\.so\.//p')
[ "$(dpkg-parsechangelog -l "$project/debian/changelog" -S Version)" = "$version" ] || die "debian/changelog is not of version $version"
packages=(redlock "libredlock$interface" libredlock-dev libredlock-doc)
for package in "${packages[@]}"; do
  [ -f "$debs/${package}_$version"_*.deb ] || die "there is no package $package"
done

depends() { dpkg-deb -f "$debs/$1"_*.deb Depends; }
grep -q "libredlock$interface (>= 1.0.0)" <<<"$(depends redlock)" || die "the command depends on $(depends redlock)"
grep -q "libredlock$interface (= $version)" <<<"$(depends libredlock-dev)" || die "the headers depend on $(depends libredlock-dev)"

# The same files as an ordinary installation, but for the library directory, the build type and Debian's directories in their names.
names() {
  sed -E 's:^lib/[^/]+-[^/]+/:lib/:; s:/vendor-completions/:/site-functions/:; s:share/doc/(lib)?redlock(-doc)?/:share/doc/redlock/:
    s:-(none|debug|release|relwithdebinfo)\.cmake$:-TYPE.cmake:' | sort
}
for package in "${packages[@]}"; do
  dpkg-deb -c "$debs/$package"_*.deb | awk '$1 !~ /^d/ { print $6 }' | sed 's:^\./usr/::; s:\.gz$::' | grep -Ev "^share/doc/$package/(changelog|copyright)"
done | names >packaged
quietly "$cmake" --install "$build" --prefix "$work/installed"
(cd installed && find . -type f -o -type l) | sed "s:^\./::; s:^$libraries/:lib/:" | names >installed_files
diff packaged installed_files || die "packages (<) and installation (>) differ"
# shellcheck disable=SC2046
no_faults sh "$project/tests/readme/links.sh" $(find installed -name '*.md')

# Flags are in the log of the build, and not of CMake's own trials.
blhc --all --ignore-line '.*CMakeFiles/(CMakeScratch|CMakeTmp).*' one/log || die "the build is not hardened"
quietly lintian --fail-on error,warning,info "$debs"/*.deb

make_packages "$work/elsewhere" env TZ=Asia/Tokyo LC_ALL=C.UTF-8
for file in "$debs"/*.deb; do
  cmp "$file" "elsewhere/debs/${file##*/}" || die "two builds differ"
done
