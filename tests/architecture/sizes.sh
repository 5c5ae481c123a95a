#!/usr/bin/env bash
# The limits on the sources of quorum, src and cli: 800 lines per file, 8 project includes per header, 32 fields per
# struct. It relies on the format that clang-format enforces.
#
# Usage: sizes.sh PROJECT_DIRECTORY
set -euo pipefail

cd "$1"
found=$(find quorum src cli -name '*.[ch]' -exec awk '
  FNR == 1 { includes = 0; name = "" }
  FNR == 801 { print FILENAME ": more than 800 lines" }
  /^#include "/ && FILENAME ~ /\.h$/ && ++includes == 9 { print FILENAME ": more than 8 project includes" }
  /^struct [a-z_]+ \{$/ { name = $2; fields = 0 }
  /^};/ { name = "" }
  name != "" && /^    [^ ].*;/ {
    sub(/\/\*.*/, "")
    while (gsub(/\([^()]*\)/, "")) { }
    if ($0 ~ /;/) fields += gsub(/,/, "") + 1
    if (fields > 32) { print FILENAME ": struct " name " has more than 32 fields"; name = "" }
  }' {} +)
[ -z "$found" ] || {
  echo "$found"
  exit 1
}
