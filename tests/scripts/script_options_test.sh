#!/usr/bin/env bash
# Scripts that build a program and hand their options on to it refuse what is none of its options before they build; what is one they take. Each option
# of each script reaches the variable of its name.
#
# Usage: script_options_test.sh SIM
. "$(dirname "$0")/../support/script.sh"

sim=$1
failed=0

# A build that only says that it was begun.
printf '#!/bin/sh\necho BUILDING\nexit 1\n' >"$work/cmake"
chmod +x "$work/cmake"

says() { # TEXT SCRIPT WORD ...
  local text=$1 output
  shift
  output=$(PATH=$work:$PATH REDLOCK_SKIP_PACKAGES=1 bash "$project/scripts/$1" "${@:2}" 2>&1) && status=0 || status=$?
  if [ "$status" -ne 2 ] || [[ $output != *"$text"* ]] || { [ "$text" != BUILDING ] && [[ $output == *BUILDING* ]]; }; then
    printf "%s: status %s and not '%s': %s\n" "$*" "$status" "$text" "$output" >&2
    failed=1
  fi
}

says "'--no-such-option' is not understood" sim.sh --seed 1 --no-such-option
says "'-x' is not understood" sim.sh -x
says "'--seed' needs a value" sim.sh --boundary --seed
says BUILDING sim.sh --seed=1 --boundary
says "'--no-such-option' is not understood" test.sh --quick --no-such-option
says "'--server' needs a value" test.sh --server
says "--quick takes no value" test.sh --quick=yes
says "'now' is not understood" full.sh now
says "there is no target 'no-such-target'" fuzz.sh --seconds 1 no-such-target
says "'--no-such-option' is not understood" walk.sh --no-such-option
says "'--no-such-option' is not understood" demo.sh --no-such-option 5
says "want a number from 1 on" mutants.sh --generated 0
says "'docs' has no code to change" mutants.sh --generated 1 docs
says "counts no lines" mutants.sh --generated 1 --build docs src/lock
says "'--items' needs a value" demo.sh --items
says BUILDING demo.sh --items 5 --kill 'kill -KILL 1' --sellers=3
for option in $("$sim" --help | grep -oE -- '--[a-z]+( [A-Z])?' | sed 's/ [A-Z]$/=1/' | sort -u); do
  says BUILDING sim.sh "$option"
done

cd "$project" || exit
for script in $(grep -l '^\. scripts/lib/options.sh' scripts/*.sh); do
  while read -r option value; do
    value=${value:+seen}
    # shellcheck disable=SC2016 # the script of that name expands it
    seen=$(variable=${option//-/_} bash -c '. scripts/lib/options.sh; options_read "$@"; echo "${!variable-}"' "$script" "--$option" ${value:+"$value"})
    if [ "$seen" != "${value:-yes}" ]; then
      echo "$script --$option ${value:-}: the variable is '$seen'" >&2
      failed=1
    fi
  done < <(sed -nE '2,/^set /s/^#   --([a-z-]+)( [A-Z]+)?.*/\1\2/p' "$script")
done
exit "$failed"
