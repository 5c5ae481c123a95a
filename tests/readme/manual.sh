#!/usr/bin/env bash
# The manual pages are well-formed, and redlock(3) has every function and status of the public header.
#
# Usage: manual.sh PROJECT_DIRECTORY
set -euo pipefail

cd "$1"

words() { # HEADER: "MACRO WORD": functions and statuses
  grep -oE '\bredlock_[a-z_]+\(' "$1" | tr -d '(' | sed 's/^/Fn /'
  sed -n '/^enum redlock_status/,/^}/p' "$1" | grep -oE 'REDLOCK_[A-Z_]+' | sed 's/^/Dv /'
}

missing() { # HEADER
  words "$1" | sort -u | while read -r macro word; do
    grep -qE "^\.(It )?$macro $word( |\$)" man/redlock.3 || echo "man/redlock.3: $word is missing"
  done
}

planted=$(mktemp)
trap 'rm -f "$planted"' EXIT
printf 'int redlock_no_such_function(void);\nenum redlock_status {\n    REDLOCK_NO_SUCH_STATUS = -99\n};\n' >"$planted"
if [ "$(missing "$planted" | wc -l)" != 2 ]; then
  echo "manual.sh: the planted words were not missed"
  exit 1
fi

wrong=$(missing include/redlock/redlock.h)
if [ -n "$wrong" ]; then
  printf '%s\n' "$wrong"
  exit 1
fi
echo "redlock(3) has $(words include/redlock/redlock.h | sort -u | wc -l) functions and statuses"
if command -v mandoc >/dev/null; then
  status=0
  mandoc -T lint man/*.[1-9] || status=$?
  [ "$status" -le 1 ] # 1 is style, that is: pages referred to that are not installed here
fi
