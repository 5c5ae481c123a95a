#!/usr/bin/env bash
# What programs that are built with this header rely on when they run with a later library: the functions, the layout of the structs, and the values of
# the constants. All that libredlock.abi and constants.txt hold must still be so; more functions, constants and options at the end may come.
# docs/compatibility.md says why.
#
# Usage: abi.sh check|renew CC INCLUDE_DIRECTORY LIBRARY
. "$(dirname "$0")/../support/script.sh"

action=$1
cc=$2
include=$3
library=$4
here=$project/tests/architecture
remedy="If a program built before runs unchanged with this, see docs/compatibility.md, renew the record: cmake --build --preset dev --target renew_abi"

command -v abidw >/dev/null || skip "there is no abidw; install abigail-tools"

# A struct that only the library's sources define is none of the ABI.
abidw --exported-interfaces-only --drop-private-types --headers-dir "$include/redlock" --no-corpus-path --no-show-locs --no-comp-dir-path --no-elf-needed --no-parameter-names --no-write-default-sizes --type-id-style hash \
  --out-file "$work/abi" "$library"
grep -q '<class-decl ' "$work/abi" || die "$library has no debug information"

# Each enumerator and each numeric macro with its value. Those of the version change with it.
{
  printf '#include <redlock/redlock.h>\n#include <stdio.h>\nint main(void)\n{\n'
  {
    echo '#include <redlock/redlock.h>' | "$cc" -E -P -I "$include" -x c - | grep -oE '\bREDLOCK_[A-Z0-9_]+\b'
    echo '#include <redlock/redlock.h>' | "$cc" -E -dM -I "$include" -x c - | sed -nE 's/^#define (REDLOCK_[A-Z0-9_]+) +\(?-?[0-9].*/\1/p'
  } | grep -v '^REDLOCK_VERSION_' | sort -u | sed 's/.*/    printf("& %lld\\n", (long long)&);/'
  echo '}'
} >"$work/constants.c"
"$cc" -I "$include" "$work/constants.c" -o "$work/constants"
"$work/constants" >"$work/constants.txt"

if [ "$action" = renew ]; then
  sed "s,path='[^']*/src/,path='src/," "$work/abi" >"$here/libredlock.abi" # whatever the build directory
  cp "$work/constants.txt" "$here/constants.txt"
  exit
fi

lost=$(LC_ALL=C comm -23 <(LC_ALL=C sort "$here/constants.txt") <(LC_ALL=C sort "$work/constants.txt"))
[ -z "$lost" ] || die "no longer so: $lost
$remedy"
abidiff --no-added-syms --suppressions "$here/abi.suppressions" "$here/libredlock.abi" "$work/abi" ||
  die "the ABI has changed (see above). $remedy"
echo "$(grep -c '<function-decl ' "$here/libredlock.abi") functions, $(wc -l <"$here/constants.txt") constants"
