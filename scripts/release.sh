#!/usr/bin/env bash
# Makes a release of the commit that is checked out: its tarball, and Debian's packages made from it. All tests pass first, in bare systems and in the
# tree of the tarball, which is no git repository.
#
# Usage: scripts/release.sh [--output DIR] [--only-tarball]
#   --output DIR     where the files are put (default build/release)
#   --only-tarball   without the tests and the packages
#
# The tarball has the same bytes whenever it is made. The signatures are a person's: the commands are printed at the end.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib/options.sh
. scripts/lib/options.sh

output=build/release
only_tarball=no
options_only "$@"
say() { echo "scripts/release.sh: $*" >&2; }

# --- The tree is whole, and says one version ---

[ -e .git ] || { say "$PWD is no git repository: a release is made of a commit"; exit 1; }
[ -z "$(git status --porcelain)" ] || { say "there are changes that are not committed: commit them or set them aside"; exit 1; }
version=$(sed -n 's/^ *VERSION //p' CMakeLists.txt)
header=$(sed -n 's/^#define REDLOCK_VERSION_[A-Z]* *\([0-9]*\)$/\1/p' include/redlock/redlock.h | paste -sd .)
debian=$(sed -n '1s/^redlock (\(.*\)) .*/\1/p' debian/changelog)
vcpkg=$(sed -n 's/^  "version": "\(.*\)",$/\1/p' packaging/vcpkg/redlock/vcpkg.json)
for place in "packaging/vcpkg/redlock/vcpkg.json $vcpkg" "include/redlock/redlock.h $header" "debian/changelog $debian"; do
  [ "${place#* }" = "$version" ] || { say "CMakeLists.txt is of version $version, and ${place% *} of ${place#* }"; exit 1; }
done
if ! grep -qE "^## \[$version\] - [0-9]{4}-[0-9]{2}-[0-9]{2}$" CHANGELOG.md; then
  if [ "$only_tarball" = yes ]; then
    say "note: CHANGELOG.md has no heading '## [$version] - DATE'"
  else
    say "CHANGELOG.md has no heading '## [$version] - DATE': write it and commit it"
    exit 1
  fi
fi

# --- The tarball, and what is made from it ---

mkdir -p "$output"
output=$(realpath "$output")
tarball=$output/redlock-$version.tar.gz
git archive --format=tar --prefix="redlock-$version/" HEAD | gzip -9n >"$tarball.part"
mv "$tarball.part" "$tarball"
if [ "$only_tarball" = no ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  tar -x -C "$work" -f "$tarball"
  (cd "$work/redlock-$version" && .ci/run && scripts/package.sh --output "$output" --try)
fi
(cd "$output" && sha256sum -- *.tar.gz $(compgen -G '*.deb') >SHA256SUMS && cat SHA256SUMS)
cat <<END

Made of commit $(git rev-parse HEAD). To sign and to announce it:
  git tag --sign v$version
  gpg --detach-sign --armor $output/SHA256SUMS
END
