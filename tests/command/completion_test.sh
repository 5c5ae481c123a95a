#!/usr/bin/env bash
# The bash completion offers everything that redlock accepts: commands, options, values, and the words of the user's own
# command.
#
# Usage: completion_test.sh COMPLETIONS_DIRECTORY DIRECTORY_OF_REDLOCK
set -euo pipefail

PATH=$2:$PATH
# shellcheck source=/dev/null
source "$1/redlock.bash"
complete -p redlock | grep -q 'complete -F _redlock redlock'
failed=0

completes() { # LINE: prints the sorted completions of its last word
  read -ra COMP_WORDS <<<"$(sed 's/[:=]\+/ & /g' <<<"$1")" # readline splits words there, by COMP_WORDBREAKS
  [[ $1 != *' ' ]] || COMP_WORDS+=('')
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  _redlock
  printf '%s\n' "${COMPREPLY[@]}" | sort | paste -sd ' '
}

expect() { # EXPECTED LINE [among]: they are all that are offered, or among them
  local got
  got=$(completes "$2")
  if [ "$got" = "$1" ] || [[ ${3-} = among && " $got " == *" $1 "* ]]; then return; fi
  echo "'$2' completes '$got', not '$1'"
  failed=1
}

while IFS='|' read -r expected line; do
  expect "$expected" "$line"
done < <(grep -v '^#' "$(dirname "$0")/completions.txt")
expect "$BASHPID" "redlock acquire --for $BASHPID" among
expect '/etc/passwd' 'redlock --config /etc/passw' among
expect '/etc/passwd' 'redlock --config=/etc/passw' among
expect 'true' 'redlock local -- tru' among
expect 'true' 'redlock local --server tru' among
expect '/etc/passwd' 'redlock local -n 3 -- cat /etc/passw' among
mapfile -t commands < <(redlock --help | sed -n '/^commands/,/^$/s/^  \([a-z]*\) .*/\1/p')
[ ${#commands[@]} -ge 7 ] || failed=1
for command in "${commands[@]}"; do
  expect "$command" 'redlock ' among
  expect "$(redlock "$command" --help | sed -nE 's/^ +(-., )?(--[a-z-]+).*/\2/p' | sort | paste -sd ' ')" "redlock $command --"
done
exit $failed
