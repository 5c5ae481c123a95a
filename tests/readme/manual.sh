#!/usr/bin/env bash
# The manual pages are well-formed. Every function of the public header is in the NAME and the SYNOPSIS of exactly one
# page, with the header's arguments. redlock_result_text(3) explains every status. No quotation mark is closed in the wrong place.
. "$(dirname "$0")/../support/script.sh"

cd "$project"

declared() { # HEADER: "NAME ARGUMENT,ARGUMENT", a line for each function, without spaces in the arguments
  sed -e ':join;/^#.*\\$/{N;s/\\\n/ /;b join}' -e '/^#/d' "$1" | tr '\n' ' ' | sed 's:/\*[^*]*\*\+\([^/*][^*]*\*\+\)*/: :g' | tr ';' '\n' |
    sed -nE '/typedef|\{/!s/.*[ *](redlock_[a-z_]+)\(([^)]*)\) *$/\1 \2/p' | sed 's/ /\t/' |
    awk -F'\t' '{ gsub(/[ \t]+/, "", $2); print $1, $2 }'
}

shown() { # PAGE...: the same of the pages' synopses
  awk '/^\.Sh/ { inside = /SYNOPSIS/ } inside && /^\.Fn redlock_/ {
      name = $2; $1 = $2 = ""; gsub(/" "/, ","); gsub(/[" ]/, ""); print name, $0 }' "$@" | sed 's/ \+/ /'
}

named() { # PAGE...
  awk '/^\.Sh/ { inside = /NAME/ } inside && /^\.Nm redlock_/ { print $2 }' "$@"
}

statuses() { # HEADER
  sed -n '/^enum redlock_status/,/^}/p' "$1" | grep -oE 'REDLOCK_[A-Z_]+'
}

wrong() { # HEADER PAGE...: the declarations that the pages lack, have in excess, or have in another form
  local header=$1 status
  shift
  declared "$header" | sort >"$work/declared"
  shown "$@" | sort >"$work/shown"
  diff "$work/declared" "$work/shown" | sed -n 's/^< /no page shows: /p; s/^> /not in the header: /p' || true
  diff <(cut -d' ' -f1 "$work/declared") <(named "$@" | sort) |
    sed -n 's/^< /in the NAME of no page: /p; s/^> /in a NAME, but not in the header: /p' || true
  for status in $(statuses "$header"); do
    grep -qE "^\.It Dv $status( |\$)" man/redlock_result_text.3 || echo "man/redlock_result_text.3: $status is missing"
  done
}

cat >"$work/planted.h" <<'PLANTED'
/* int redlock_in_a_comment(void); */
API int redlock_no_such_function(int a,
                                 int b);
enum redlock_status {
    REDLOCK_NO_SUCH_STATUS = -99
};
PLANTED
printf '.Sh NAME\n.Nm redlock_gone\n.Sh SYNOPSIS\n.Fn redlock_gone void\n' >"$work/planted.3"
found_of_planted() {
  wrong "$work/planted.h" "$work/planted.3" |
    grep -E 'shows: redlock_no_such_function inta,intb$|header: redlock_gone( void)?$|NAME of no page: redlock_no|NO_SUCH_STATUS is'
}
planted 5 found_of_planted
no_faults wrong include/redlock/redlock.h man/redlock_*.3
echo "$(wc -l <"$work/declared") functions"
for page in man/redlock_*.3; do
  grep -qx "  $(basename "$page" .3))\?" man/CMakeLists.txt || die "man/CMakeLists.txt: $page is not installed"
  grep -qx ".It Xr $(basename "$page" .3) 3" man/redlock.3 || die "man/redlock.3: $page is not in the list"
done

# A macro that quotes its arguments, as .Dq, quotes to the end of its line: a second one on the line closes its quotes beside the first one's.
doubled_quotes() { # PAGE...
  local page
  for page in "$@"; do
    mandoc -T utf8 "$page" | LC_ALL=C grep -E '’’|””|’”|”’' | sed "s|^ *|$(basename "$page"): |" || true
  done
}

if command -v mandoc >/dev/null; then
  mandoc -T lint -W warning man/*.[1-9]
  printf '.Dd November 21, 2026\n.Dt PLANTED 3\n.Os\n.Sh NAME\n.Pq Dq one , Dq two\n' >"$work/planted.3"
  planted 1 doubled_quotes "$work/planted.3"
  no_faults doubled_quotes man/*.[1-9]
fi
