#!/usr/bin/env bash
# The shared library exports exactly the functions that the public header declares. A program that takes the address of
# each declared function links against it, as C and as C++, and finds the version it was built for.
#
# Usage: exports.sh CC CXX NM INCLUDE_DIRECTORY LIBRARY VERSION [COMPILER_FLAG...]
. "$(dirname "$0")/../support/script.sh"

cc=$1
cxx=$2
nm=$3
include=$4
library=$5
version=$6
shift 6

# One declaration per record. Declarations with a body, and types, declare no symbol.
echo '#include <redlock/redlock.h>' | "$cc" -E -P -I "$include" -x c - |
  awk 'BEGIN { RS = ";" }
    { gsub(/[[:space:]]+/, " ") }
    /typedef|static|\{/ { next }
    match($0, /(^|[ *])redlock_[a-z0-9_]+ ?\(/) { name = substr($0, RSTART, RLENGTH); gsub(/[ *(]/, "", name); print name }' |
  sort -u >"$work/declared"
"$nm" -D --defined-only "$library" | awk '$(NF-1) != "A" { sub(/@.*/, "", $NF); print $NF }' | sort -u >"$work/exported"

[ -s "$work/declared" ] || die "no function is declared in $include/redlock/redlock.h"
differences() {
  diff "$work/declared" "$work/exported" |
    sed -n 's/^< /declared, not exported: /p; s/^> /exported, not declared: /p' || true
}
no_faults differences

{
  echo '#include <redlock/redlock.h>'
  echo '#include <stdio.h>'
  echo 'typedef void (*function)(void);'
  echo 'int main(void) {'
  echo '  static const function all[] = {'
  sed 's/.*/    (function)&,/' "$work/declared"
  echo '  };'
  echo '  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)'
  echo '    if (!all[i]) return 1;'
  echo '  puts(redlock_version());'
  echo '}'
} >"$work/user.c"

for language in c c++; do
  compiler=$cc
  [ $language = c ] || compiler=$cxx
  "$compiler" "$@" -I "$include" -x $language "$work/user.c" -x none "$library" \
    -Wl,-rpath,"$(dirname "$library")" -o "$work/user"
  answered=$("$work/user")
  [ "$answered" = "$version" ] || die "redlock_version() answers '$answered' from $language; the project's version is $version"
done

declared_version=$(printf '#include <redlock/redlock.h>\nREDLOCK_VERSION_MAJOR.REDLOCK_VERSION_MINOR.REDLOCK_VERSION_PATCH\n' |
  "$cc" -E -P -I "$include" -x c - | tail -n 1 | tr -d ' ')
[ "$declared_version" = "$version" ] || die "REDLOCK_VERSION_* say $declared_version; the project's version is $version"
echo "$(wc -l <"$work/declared") functions"
