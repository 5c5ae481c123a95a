#!/usr/bin/env bash
# The documents match the tree. Every file that they link to or name in `code` exists. Every identifier in `code` that
# contains a '_' occurs in the tree outside the documents. README has at most 1,500 words, its figures of speed are those
# of bench/README.md, and docs/README.md lists every document. The test first plants such faults, and fails unless they
# are found.
. "$(dirname "$0")/../support/script.sh"

cd "$project"

# The text in backquotes, without -D of options and libcheck's variables.
code() { # DOCUMENT
  # shellcheck disable=SC2016
  grep -oE '`[^`]+`' "$1" | tr -d '`' | sed 's/-D//g; s/CK_[A-Z_]*//g' || true
}

paths() { # DOCUMENT: paths in code; may be patterns
  code "$1" | grep -oE '(^|[ "])(include|quorum|src|cli|tests|bench|examples|scripts|cmake|docs)/[A-Za-z0-9_./*-]*' | tr -d ' "' | sort -u || true
}

names() { # DOCUMENT: identifiers in code
  code "$1" | sed 's|[a-z]*/[A-Za-z0-9_./*-]*||g' | grep -oE '[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)+' | sort -u || true
}

# Everything written by hand except the documents, because invented names in them must not count.
find include quorum src cli tests bench examples scripts cmake CMakeLists.txt CMakePresets.json docker-compose.yml -type f \
  ! -name '*.md' ! -path 'tests/readme/*' -exec cat {} + >"$work/tree"
# The metrics, to which the library adds the prefix.
grep -oE '"[a-z]+(_[a-z]+)+"' src/client/statistics.c | tr -d '"' | sed 's/^/redlock_/' >>"$work/tree"
# The names of tests, which CMake makes from those of their files.
find tests -name '*.c' -o -path 'tests/command/*.txt' |
  sed -E 's:tests/rules/:quorum_:; s:tests/(fake|real|fuzz)/:\1_:; s:tests/command/:cli_:; s:(_test)?\.(c|txt)$::' >>"$work/tree"

check() { # DOCUMENT...: prints the faults
  local document target name
  for document in "$@"; do
    sh tests/readme/links.sh "$document"
    while read -r target; do
      compgen -G "$target" >/dev/null || echo "$document: there is no $target"
    done < <(paths "$document")
    while read -r name; do
      grep -qwF -- "$name" "$work/tree" || echo "$document: nothing is called $name"
    done < <(names "$document")
  done
}

# README is the front door: short, and its figures are quoted from where they are explained.
door() { # README BENCH_README INDEX DOCUMENT...
  local words figure document
  words=$(wc -w <"$1")
  [ "$words" -le 1500 ] || echo "$1: $words words are more than 1,500"
  while read -r figure; do
    grep -qwF -- "$figure" "$2" || echo "$1: the figure $figure is not in $2"
  done < <(sed -n '/^## Speed/,/^## Where/p' "$1" | grep '^|' | grep -oE '[0-9][0-9.,]*[0-9]|[0-9]')
  for document in "${@:4}"; do
    grep -qF "]($(basename "$document"))" "$3" || [ "$document" = "$3" ] || echo "$3: $document is missing"
  done
}

{
  printf '## Speed\n| 7 |\n| 12,345 | 0.5 |\n## Where\n'
  printf 'word %.0s' {1..1500}
} >"$work/door.md"
echo '12,345 [one](one.md)' >"$work/bench.md"
planted 4 door "$work/door.md" "$work/bench.md" "$work/bench.md" one.md two.md
no_faults door README.md bench/README.md docs/README.md docs/*.md

# shellcheck disable=SC2016
printf '[a](no/such/file.md) `redlock_no_such_function()` `src/no_such_file.c`\n' >"$work/planted.md"
planted 3 check "$work/planted.md"

mapfile -t documents < <(find . -name '*.md' ! -path './build*' ! -path './.*')
no_faults check "${documents[@]}"
printf '%s\n' "${documents[@]}"
