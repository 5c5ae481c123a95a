#!/usr/bin/env bash
# The bash completion offers everything that redlock accepts: commands, options, values, and the words of the user's own
# command.
#
# Usage: completion_test.sh COMPLETION DIRECTORY_OF_REDLOCK
set -euo pipefail

PATH=$2:$PATH
# shellcheck source=/dev/null
source "$1"
complete -p redlock | grep -q 'complete -F _redlock redlock'
failed=0

# WORD ... [CURRENT]: prints the sorted completions of the last word.
completes() {
  COMP_WORDS=("$@")
  COMP_CWORD=$(($# - 1))
  _redlock
  printf '%s\n' "${COMPREPLY[@]}" | sort | tr '\n' ' '
}

expect() { # EXPECTED WORD ...
  local expected=$1 got
  shift
  got=$(completes "$@")
  if [ "$got" != "$expected " ]; then
    echo "'$*' completes '$got', not '$expected '"
    failed=1
  fi
}

expect_among() { # EXPECTED WORD ...
  local expected=$1 got
  shift
  got=" $(completes "$@")"
  if [[ $got != *" $expected "* ]]; then
    echo "'$*' completes '$got', without '$expected'"
    failed=1
  fi
}

expect 'release' redlock rel
expect 'doctor' redlock -v --nodes a:1 d
expect 'acquire' redlock --nodes acquire a # the first `acquire` is a value
expect '--nodes' redlock --no
expect '--fair --fence --for' redlock acquire --f
expect 'TERM' redlock acquire --loss-signal TE
expect 'USR1 USR2' redlock acquire --for 1 --loss-signal U
expect '--watch' redlock status x --w
expect '' redlock acquire --wait ''
expect '' redlock status ''
expect '--yes' redlock trust --y
expect '--on-lost' redlock run --o
expect '--parallel' redlock bench --p
expect_among "$BASHPID" redlock acquire --for "$BASHPID"
expect_among '/etc/passwd' redlock --config /etc/passw
expect_among 'true' redlock local -- tru
expect_among '/etc/passwd' redlock local -n 3 -- cat /etc/passw
# The completion offers every command and each of its options.
redlock --help | sed -n '/^commands/,/^$/s/^  \([a-z]*\) .*/\1/p' >"${TMPDIR:-/tmp}/redlock-commands.$$"
while read -r command; do
  expect_among "$command" redlock ''
  expect_among '--help' redlock "$command" --he
done <"${TMPDIR:-/tmp}/redlock-commands.$$"
[ "$(wc -l <"${TMPDIR:-/tmp}/redlock-commands.$$")" -ge 7 ] || failed=1
rm -f "${TMPDIR:-/tmp}/redlock-commands.$$"
exit $failed
