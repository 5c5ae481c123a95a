#!/usr/bin/env bash
# The documents keep up with the tree: every file they link to or name in `code` is there, and every identifier in `code` that
# has a '_' occurs in the tree outside the documents. Plants such faults first, and fails unless they are found.
#
# Usage: documents.sh PROJECT_DIRECTORY
set -euo pipefail

cd "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

links() { # DOCUMENT: the relative targets of its links and pictures, without anchors
  grep -oE '\]\([^)]+\)' "$1" | sed -E 's/^\]\(//; s/\)$//; s/#.*//' | grep -vE '^(https?:|mailto:|$)' || true
}

# What stands in backquotes, without options' -D and libcheck's variables.
code() { # DOCUMENT
  # shellcheck disable=SC2016
  grep -oE '`[^`]+`' "$1" | tr -d '`' | sed 's/-D//g; s/CK_[A-Z_]*//g' || true
}

paths() { # DOCUMENT: in code; may be patterns
  code "$1" | grep -oE '(^|[ "])(include|quorum|src|cli|tests|bench|examples|scripts|cmake|docs)/[A-Za-z0-9_./*-]*' | tr -d ' "' | sort -u || true
}

names() { # DOCUMENT: identifiers in code
  code "$1" | sed 's|[a-z]*/[A-Za-z0-9_./*-]*||g' | grep -oE '[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)+' | sort -u || true
}

# Everything that is written by hand, but the documents: names made up there do not count.
find include quorum src cli tests bench examples scripts cmake CMakeLists.txt CMakePresets.json docker-compose.yml -type f \
  ! -name '*.md' ! -path 'tests/readme/*' -exec cat {} + >"$work/tree"
# The metrics: the library puts the prefix before each.
grep -oE '"[a-z]+(_[a-z]+)+"' src/client/statistics.c | tr -d '"' | sed 's/^/redlock_/' >>"$work/tree"

check() { # DOCUMENT...: prints what is wrong
  local document target name
  for document in "$@"; do
    while read -r target; do
      [ -e "$(dirname "$document")/$target" ] || echo "$document: there is no $target"
    done < <(links "$document")
    while read -r target; do
      compgen -G "$target" >/dev/null || echo "$document: there is no $target"
    done < <(paths "$document")
    while read -r name; do
      grep -qwF -- "$name" "$work/tree" || echo "$document: nothing is called $name"
    done < <(names "$document")
  done
}

# shellcheck disable=SC2016
printf '[a](no/such/file.md) `redlock_no_such_function()` `src/no_such_file.c`\n' >"$work/planted.md"
if [ "$(check "$work/planted.md" | wc -l)" != 3 ]; then
  echo "documents.sh: the planted faults were not found:"
  check "$work/planted.md"
  exit 1
fi

mapfile -t documents < <(find . -name '*.md' ! -path './build*' ! -path './.*')
wrong=$(check "${documents[@]}")
printf '%s\n' "${documents[@]}"
if [ -n "$wrong" ]; then
  printf '\n%s\n' "$wrong"
  exit 1
fi
