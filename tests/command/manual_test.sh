#!/usr/bin/env bash
# redlock(1) has a section for every command and an entry for each of its options, as --help lists them.
#
# Usage: manual_test.sh PAGE DIRECTORY_OF_REDLOCK
set -euo pipefail

page=$1
redlock=$2/redlock
failed=0

# The section of a command. Some commands share one: ".Ss acquire, extend, release".
section() {
  awk -v name="$1" '/^\.S[sh] / { inside = $0 ~ "^\\.Ss (.*[ ,])?" name "(,|$)" } inside' "$page"
}

options() { # COMMAND: its own long options
  "$redlock" "$1" --help | sed -n '/^options:/,/^$/p' | grep -oE -- '--[a-z-]+' | sort -u
}

check() { # COMMAND OPTION ...
  local command=$1 text option
  shift
  text=$(section "$command")
  if [ -z "$text" ]; then
    echo "redlock(1) has no section on $command"
    failed=1
  fi
  for option in "$@"; do
    if ! grep -qE -- "Fl -${option#--}( |\$)" <<<"$text"; then
      echo "redlock(1) does not tell of $command $option"
      failed=1
    fi
  done
}

commands=$("$redlock" --help | sed -n '/^commands/,/^$/s/^  \([a-z]*\) .*/\1/p')
[ "$(wc -l <<<"$commands")" -ge 8 ]
for command in $commands; do
  # shellcheck disable=SC2046 # one word each
  check "$command" $(options "$command")
  if "$redlock" "$command" --help | grep -E '.{121}'; then
    echo "redlock $command --help has lines that are longer than 120 characters"
    failed=1
  fi
done
if (check trust --no-such-option && exit "$failed") >/dev/null; then
  echo "manual_test.sh: a planted option was not missed"
  failed=1
fi
exit "$failed"
