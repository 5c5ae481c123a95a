#!/usr/bin/env bash
# scripts/release.sh makes the same tarball each time, of a tree whose parts say the same version, and refuses any other.
. "$(dirname "$0")/../support/script.sh"

git --version >/dev/null 2>&1 || skip "there is no git (Debian: apt-get install git)"
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
mkdir -p "$work/tree/include/redlock" "$work/tree/debian" "$work/tree/scripts/lib" "$work/tree/packaging/vcpkg/redlock"
cd "$work/tree"
cp "$project/scripts/release.sh" scripts/
cp "$project/scripts/lib/options.sh" scripts/lib/
for file in CMakeLists.txt CHANGELOG.md include/redlock/redlock.h debian/changelog packaging/vcpkg/redlock/vcpkg.json; do
  cp "$project/$file" "$file"
done
commit() {
  git add .
  git -c user.name=test -c user.email=test@example.invalid commit -qm test
}
release() { # TEXT STATUS WORD...
  local text=$1 expected=$2 status=0 output
  shift 2
  output=$(bash scripts/release.sh --output "$work/made" "$@" 2>&1) || status=$?
  [ "$status" = "$expected" ] && [[ $output == *"$text"* ]] || die "release.sh $*: status $status and not $expected, or without '$text': $output"
}

release 'is not understood' 2 --no-such-option
release 'is no git repository' 1 --only-tarball
git init -q .
commit
release 'git tag --sign v' 0 --only-tarball
mv "$work/made" "$work/first"
touch CHANGELOG.md
release 'git tag --sign v' 0 --only-tarball
cmp "$work"/first/*.tar.gz "$work"/made/*.tar.gz || die "two tarballs of one commit differ"
[ "$(tar -tf "$work"/made/*.tar.gz | grep -vc '/$')" = "$(git ls-files | wc -l)" ] || die "the tarball is not the tree"
sed -i 's/^## \[[0-9].*/## next/' CHANGELOG.md
git -c user.name=test -c user.email=test@example.invalid commit -qam test --allow-empty
release "CHANGELOG.md has no heading" 1
echo >>CHANGELOG.md
release 'changes that are not committed' 1 --only-tarball
sed -i '1s/(.*)/(9.9)/' debian/changelog
commit
release "debian/changelog of 9.9" 1 --only-tarball
