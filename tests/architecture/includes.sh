#!/usr/bin/env bash
# The allowed includes between the layers: include <- quorum <- src; cli and examples use only the public header. Inside
# src a floor includes itself and the floors below it: core <- link <- node <- lock <- client. A file there declares its
# exported functions in a header of the same name.
#
# Usage: includes.sh PROJECT_DIRECTORY
set -euo pipefail
shopt -s nullglob

cd "$1"
types='<(assert|limits|stdbool|stddef|stdint|string)\.h>'
violations=0

# includes FILE: prints "LINE HEADER", the header with its quotes or brackets.
includes() {
  sed -nE 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*([<"][^>"]*[>"]).*/\1/;T;=;p' "$1" | paste -d ' ' - -
}

# resolves HEADER DIRECTORY...: whether the quoted header is a file in one of the directories.
resolves() {
  local header=$1 directory
  shift
  case $header in *..*) return 1 ;; esac
  for directory in "$@"; do
    [ ! -f "$directory/$header" ] || return 0
  done
  return 1
}

floors=(core link node lock client)

# is_below FILE HEADER: whether src/FLOOR/... HEADER is on the file's own floor or a lower one.
is_below() {
  local floor
  for floor in "${floors[@]}"; do
    case $2 in src/"$floor"/*) return 0 ;; esac
    case $1 in src/"$floor"/*) return 1 ;; esac
  done
  return 1
}

# allowed LAYER FILE HEADER
allowed() {
  local layer=$1 file=$2 header=$3 inner
  inner=${header:1:-1}
  case $layer:$header in
    include:\<stddef.h\> | include:\<stdint.h\>) return 0 ;;
    # The wrapper needs the header beside it and the C++ library, whose headers have no suffix.
    include:\<redlock/redlock.h\>) [[ $file == *.hpp ]] ;;
    include:\<*) [[ $file == *.hpp && $inner =~ ^[a-z_]+$ ]] ;;
    include:*) return 1 ;;
    quorum:\<*) [[ $header =~ ^$types$ ]] ;;
    quorum:\"quorum/*) resolves "$inner" . ;;
    quorum:*) resolves "$inner" quorum ;;
    src:\"src/*) is_below "$file" "$inner" && resolves "$inner" . ;;
    src:\"quorum/* | src:\"redlock/*) resolves "$inner" . include ;;
    src:\"*) return 1 ;;
    # The command proves that the public header suffices for a program.
    cli:\<hiredis/* | cli:\<ev.h\>) return 1 ;;
    *:\<quorum/* | *:\<src/*) return 1 ;;
    *:\<redlock/*) resolves "$inner" include ;;
    *:\<*) return 0 ;;
    *) resolves "$inner" "$layer" "${file%/*}" ;;
  esac
}

check_layer() {
  local layer=$1 file line header
  while read -r file; do
    while read -r line header; do
      if ! allowed "$layer" "$file" "$header"; then
        echo "$file:$line: $layer/ must not include $header"
        violations=$((violations + 1))
      fi
    done < <(includes "$file")
  done < <(find "$layer" -name '*.[ch]' -o -name '*.[ch]pp' | sort)
}

for layer in include quorum src cli examples; do
  [ ! -d "$layer" ] || check_layer "$layer"
done

# A file's exported functions are declared in the header of the same name.
check_own_header() {
  local file name
  while read -r file; do
    [ ! -f "${file%.c}.h" ] || continue
    name=$(sed -nE '/^static/d;s/^[a-z][a-z0-9_ ]*[ *](rl_[a-z0-9_]+)\(.*[^;]$/\1/p' "$file" | head -n 1)
    [ -n "$name" ] || continue
    echo "$file: exports $name, but there is no ${file%.c}.h"
    violations=$((violations + 1))
  done < <(find src -mindepth 2 -name '*.c' | sort)
}
[ ! -d src ] || check_own_header
[ "$violations" -eq 0 ]
