#!/usr/bin/env bash
# The Debian packages together contain the files that 'cmake --install' installs, each file once. Their fields are
# correct, and their programs run. scripts/package.sh --try tests the same on a clean system, if one can be created.
#
# Usage: package.sh with the arguments of common.sh
. "$(dirname "$0")/common.sh"

for tool in dpkg-deb dpkg-shlibdeps dpkg-buildflags file; do
  command -v "$tool" >/dev/null || exit 77
done
REDLOCK_SKIP_PACKAGES=1 CC=$cc quietly bash "$project/scripts/package.sh" --output "$work/debs"
cd "$work"

deb() { echo "$work/debs/$1"_0.1.0-1_*.deb; }
field() { dpkg-deb -f "$(deb "$1")" "$2"; }
files() { dpkg-deb -c "$1" | awk '$1 !~ /^d/ { print $6 }' | sed 's:^\./usr/::; s:\.gz$::'; }

has() { # PACKAGE FIELD PATTERN
  grep -qE "$3" <<<"$(field "$1" "$2")" || die "$1: $2 is '$(field "$1" "$2")', without $3"
}
has redlock Depends 'libredlock0.1 \(= 0\.1\.0-1\)'
has redlock Depends 'libc6 \('
has redlock Depends 'libinih1'
has libredlock0.1 Depends 'libhiredis'
has libredlock0.1 Depends 'libev4'
has libredlock-dev Depends 'libredlock0.1 \(= 0\.1\.0-1\), libhiredis-dev, libev-dev'
for package in redlock libredlock0.1 libredlock-dev; do
  has "$package" Version '^0\.1\.0-1$'
  has "$package" Maintainer '^.+ <.+@.+>$'
  has "$package" Description '^(run|distributed) '
  if dpkg-deb -I "$(deb "$package")" conffiles >/dev/null 2>&1; then die "$package has conffiles; the library reads no files"; fi
done
has redlock Section '^utils$'
has libredlock0.1 Section '^libs$'
has libredlock-dev Section '^libdevel$'
[ "$(dpkg-deb -I "$(deb libredlock0.1)" shlibs)" = 'libredlock 0.1 libredlock0.1 (>= 0.1.0)' ] || die "libredlock0.1: other programs would depend on something else"

# The same files as an ordinary installation, but for the library directory, the build type and Debian's directory for zsh in their names.
names() { sed -E 's:^lib/[^/]+-[^/]+/:lib/:; s:/vendor-completions/:/site-functions/:; s:-(none|debug|release|relwithdebinfo)\.cmake$:-TYPE.cmake:' | sort; }
for package in redlock libredlock0.1 libredlock-dev; do
  files "$(deb "$package")" | grep -Ev "^share/doc/$package/(changelog|copyright)"
done | names >packaged
quietly "$cmake" --install "$build" --prefix "$work/installed"
(cd installed && find . -type f -o -type l) | sed "s:^\./::; s:^$libraries/:lib/:" | names >installed_files
diff packaged installed_files || die "packages (<) and installation (>) differ"

mkdir root
for package in redlock libredlock0.1 libredlock-dev; do
  dpkg-deb -x "$(deb "$package")" root
done
[ "$(LD_LIBRARY_PATH=$(dirname root/usr/lib/*/libredlock.so.0.1) root/usr/bin/redlock --version)" = 'redlock 0.1.0' ] || die "the command does not run"
if readelf -d root/usr/bin/redlock | grep -q 'R.*PATH'; then die "the packaged command looks for its library elsewhere"; fi
if command -v lintian >/dev/null; then
  lintian --fail-on error "$work"/debs/*.deb
fi
