#!/usr/bin/env bash
# Plants known bugs, one at a time, in copies of the source: each must be caught by the rules' own tests or by the simulator. A simulator that finds
# nothing could be one that sees nothing.
#
# Usage: scripts/mutants.sh [--build DIRECTORY] [--jobs N] [--only TEXT] [--quick]
#        scripts/mutants.sh [--build DIRECTORY] [--jobs N] --generated N [--seed S] [--seconds N] [PATH]
#   --build DIRECTORY  a build that is there already; without it build/release is made, or build/coverage for --generated
#   --jobs N           N at a time (default: one per processor)
#   --only TEXT        those whose names contain this
#   --quick            of the bugs that need named tests, only whether they still fit the source and compile
#   --generated N      instead of the list, N mutants of the C files below PATH (default: src), a random sample of those that universalmutator makes (it
#                      is installed for this run, in a temporary directory). Survivors are printed with their text; status 0: none
#   --seed S           draws the same sample again (default: a random one, which is printed)
#   --seconds N        runs the quickest of a mutant's tests, together no longer than this; the others are left out
#
# The bugs are in tests/simulation/mutants.txt; one that does not fit the source any more is an error. The last line is 'planted N caught N'.
# Exit status 0 when every one was caught.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib/options.sh
. scripts/lib/options.sh
root=$PWD build='' jobs=$(nproc) only='' quick='' generated='' seed=$RANDOM seconds=0
options_read "$@"
for option in jobs generated seed seconds; do
  [[ ${!option:-1} =~ ^[0-9]{1,9}$ ]] || options_refuse "--$option wants a number, not '${!option}'."
done
[ "${generated:-1}" -ge 1 ] && [ "$jobs" -ge 1 ] || options_refuse "--generated and --jobs want a number from 1 on."
[ -n "$generated" ] || [ ${#words[@]} -eq 0 ] || options_refuse "'${words[0]}' is not understood; a PATH is for --generated."
[ ${#words[@]} -le 1 ] || options_refuse "'${words[1]}' is one PATH too many."
path=${words[0]-src}
if [ -n "$build" ]; then
  [ -d "$build" ] || options_refuse "--build: there is no directory '$build'."
  build=$(cd "$build" && pwd)
fi

work=$(mktemp -d)

# kill_left DIRECTORY: all processes of the test programs that ran for it, also those that left the process group.
kill_left() {
  local left
  left=$(grep -lsz "^REDLOCK_MUTANT=$1/" /proc/[0-9]*/environ | tr -dc '0-9\n' || true)
  # shellcheck disable=SC2086 # one word for each process
  [ -z "$left" ] || kill -KILL $left 2>/dev/null || true
}
trap 'kill_left "$work"; rm -rf "$work"' EXIT

if [ -n "$generated" ]; then
  path=${path#./}
  if [[ ! $path =~ ^(quorum|src|cli)(/|$) ]] || [[ -z $(find "$path" -name '*.c' 2>/dev/null) ]]; then
    options_refuse "'$path' has no code to change: PATH is a .c file of quorum, src or cli, or a directory that has some."
  fi
  if [ -n "$build" ] && ! grep -qsE '^REDLOCK_COVERAGE:BOOL=(ON|1)$' "$build/CMakeCache.txt"; then
    options_refuse "--build: '$build' counts no lines; --generated wants a build of the preset 'coverage'."
  fi
  if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install --quiet universalmutator==1.14.1; } >"$work/log" 2>&1; then
    cat "$work/log" >&2
    options_refuse "cannot install universalmutator; --generated needs python3-venv and access to PyPI."
  fi
fi

if [ -z "$build" ]; then
  preset=${generated:+coverage}
  preset=${preset:-release}
  build=$root/build/$preset
  { cmake --preset "$preset" && { [ -n "$generated" ] || cmake --build --preset release --parallel "$jobs"; }; } >"$work/log" 2>&1 || {
    cat "$work/log" >&2
    exit 2
  }
fi

if [ -n "$generated" ]; then
  REDLOCK_MUTANT=$work/ "$work/venv/bin/python3" scripts/lib/generated_mutants.py --build "$build" --work "$work" --jobs "$jobs" --generated "$generated" \
    --seed "$seed" --seconds "$seconds" --path "$path"
  exit
fi

# --- Planting ---

# replace OLD NEW <FILE: the one line that is OLD, apart from its indentation, becomes NEW. Status 3: there is not exactly one.
replace() {
  old=$1 new=$2 awk '
    { line = $0; sub(/^[ \t]+/, "", line); sub(/[ \t]+$/, "", line) }
    line == ENVIRON["old"] { match($0, /^[ \t]*/); print substr($0, 1, RLENGTH) ENVIRON["new"]; found++; next }
    { print }
    END { exit found == 1 ? 0 : 3 }'
}

# replace_in_scripts OLD NEW SCRIPT... <script.c: the same in the texts of these scripts, those that have the line.
replace_in_scripts() {
  local old=$1 new=$2 script text bytes found=0 out=$work/$BASHPID.script
  shift 2
  cat >"$out"
  for script in "$@"; do
    text=$out.lua
    replace "$old" "$new" <"$build/src/scripts/$script.lua" >"$text" || continue
    found=1
    bytes=$(od -An -v -tx1 "$text" | tr -d '\n' | sed 's/ \([0-9a-f][0-9a-f]\)/0x\1,/g')
    script=$script bytes=$bytes awk '
      index($0, "static const char " ENVIRON["script"] "_text[] = {") == 1 {
        print "static const char " ENVIRON["script"] "_text[] = {" ENVIRON["bytes"] "0};"
        next
      }
      { print }' "$out" >"$out.new"
    mv "$out.new" "$out"
  done
  cat "$out"
  [ $found = 1 ] || return 3
}

# numbers TEXT: the text with the numbers of limits.h, as the build writes it.
numbers() {
  local text=$1 limit value
  while read -r _ limit value; do
    text=${text//"$limit"/"$value"}
  done < <(grep -E '^#define RL_[A-Z_]+ ' "$root/src/node/limits.h")
  echo "$text"
}

# --- Building ---

# command TARGET: how the build makes it.
command_of() {
  ninja -C "$build" -t commands "$1" | tail -n 1 | sed 's/^: && //;s/ && :$//;s/ccache //'
}

# compile DIRECTORY SOURCE OBJECT FILE [OPTION]: runs the build's command that compiles SOURCE into OBJECT, but compiles FILE into DIRECTORY.
compile() {
  local command
  command=$(command_of "$3")
  command=${command// -o "$3" / -o $1/mutant.o }
  command=${command// -MF "$3".d/ -MF $1/mutant.d}
  command=${command/% -c */ -O1 -w ${5-} -iquote "$root/${2%/*}" -c $4}
  (cd "$build" && eval "$command")
}

# link DIRECTORY TARGET OBJECT: TARGET, with the mutant for OBJECT.
link() {
  local command
  command=$(command_of "$2")
  command=${command// "$3" / $1/mutant.o }
  command=${command// -o "$2" / -o $1/${2##*/} }
  (cd "$build" && eval "$command")
}

# --- One bug ---

# run_test DIRECTORY SECONDS PROGRAM: with a time limit; its children end with it.
run_test() {
  local status=0
  { REDLOCK_MUTANT=$1/ timeout -k 5 "$2" "$3"; } >"$1/output" 2>&1 || status=$?
  kill_left "$1"
  return $status
}

# check_named TEST[:CASE]: a program of the build has this test and a case of this name. Check runs nothing, and succeeds, where there is none.
check_named() {
  local test=${1%%:*} case=${1#*:} object source
  grep -q "^tests/test_$test:" "$work/targets" || return 1
  [ "$test" != "$1" ] || return 0
  while read -r object; do
    source=${object/CMakeFiles\/test_$test.dir\//}
    ! grep -qE "(tcase_create|_case)\([^\"]*\"$case\"|_CASE(_WITH(IN)?)?\($case," "$root/${source%.o}" || return 0
  done < <(ninja -C "$build" -t query "tests/test_$test" | grep -o "tests/[a-z]*/CMakeFiles/test_$test.dir/.*\.o$")
  return 1
}

# caught_by_tests DIRECTORY FILE OBJECT: the tests of that rule; prints which. The limit is on processor time: a busy machine catches no bug.
caught_by_tests() {
  local name test tests
  name=${2##*/} && name=${name%.c}
  tests=("test_quorum_$name" test_quorum_round test_quorum_round_exhaustive)
  [[ $2 != cli/* ]] || tests=("test_cli_$name")
  for test in "${tests[@]}"; do
    grep -q "^tests/$test:" "$work/targets" || continue
    link "$1" "tests/$test" "$3" >"$1/output" 2>&1 || return 2
    if ! (ulimit -t 30 && CK_FORK=no run_test "$1" 600 "$1/${test##*/}"); then
      echo "its test (${test##*test_})"
      return 0
    fi
  done
  return 1
}

# link_named DIRECTORY FILE TEST: the test with the mutant of FILE.
link_named() {
  local own=tests/parts/${3}_test.c object=tests/parts/CMakeFiles/test_$3.dir/${3}_test.c.o command
  if grep -qsF "#include \"$2\"" "$root/$own"; then # it runs the source, not the library's object
    mkdir -p "$1/own/${2%/*}"
    cp "$1/source.c" "$1/own/$2"
    compile "$1/own" "$own" "$object" "$root/$own" "-iquote $1/own" && link "$1/own" "tests/test_$3" "$object" && mv "$1/own/test_$3" "$1"
    return
  fi
  command=$(command_of "tests/test_$3")
  # Linked before the archive, the mutant takes the place of the object in it.
  command=${command/ src\/libredlock.a/ $1\/mutant.o src\/libredlock.a}
  command=${command// -o tests\/test_$3/ -o $1\/test_$3}
  (cd "$build" && eval "$command")
}

# caught_by_named DIRECTORY FILE TEST[:CASE]...: tests of the library that the list names; prints which.
caught_by_named() {
  local directory=$1 file=$2 named test status
  shift 2
  for named in "$@"; do
    test=${named%%:*}
    link_named "$directory" "$file" "$test" >"$directory/output" 2>&1 || return 2
    status=0
    [ "$test" = "$named" ] || export CK_RUN_CASE=${named#*:}
    CK_FORK=yes CK_TIMEOUT_MULTIPLIER=2 run_test "$directory" 300 "$directory/test_$test" || status=$?
    unset CK_RUN_CASE
    if [ $status != 0 ]; then
      echo "its test ($test)"
      return 0
    fi
  done
  return 1
}

# caught_by_simulation DIRECTORY OBJECT
caught_by_simulation() {
  local seed status
  link "$1" tests/simulation/sim "$2" >"$1/output" 2>&1 || return 2
  for seed in {1..20}; do
    status=0
    # A limit on processor time: a busy machine is not a simulation that does not end.
    (ulimit -t 120 && exec timeout 1800 "$1/sim" --seed $seed --operations 80000) >"$1/output" 2>&1 || status=$?
    if [ $status = 124 ] || [ $status = 137 ] || [ $status = 152 ]; then
      echo "simulation: does not end"
      return 0
    elif [ $status != 0 ] && ! grep -q '^BROKEN: this run shows none' "$1/output"; then
      sed -n 's/^BROKEN: \([^,]*\),.*\(after [0-9]* operations\).*/simulation: \1 \2/p;s/^BROKEN: an assertion.*/simulation: an assertion/p' "$1/output"
      return 0
    fi
  done
  return 1
}

# see FUNCTION ARGUMENT...: tries to catch the bug. missed: 0 caught, `by` what it prints; 1 missed; 2 nothing was run, because a program does not link.
see() {
  missed=0
  by=$("$@") || missed=$?
}

# For the list of results.
note() {
  printf '%-8s %-52s %s\n' "$@"
}

try_one() {
  local directory=$work/$1 name=$2 file=$3 old=$4 new=$5 source=$3 object by scripts tests missed=1 only_syntax=''
  read -r -a tests <<<"$6"
  mkdir -p "$directory"
  if ! replace "$old" "$new" <"$root/$file" >"$directory/planted"; then
    note STALE "$name" "$file has not exactly one line '$old'"
    return
  fi
  case $file in
    quorum/*.c) object=quorum/CMakeFiles/redlock_quorum.dir/${file##*/}.o ;;
    src/*.c) object=src/CMakeFiles/redlock_core.dir/${file#src/}.o ;;
    cli/*.c) object=tests/command/CMakeFiles/test_cli_$(basename "$file" .c).dir/__/__/$file.o ;;
    src/node/scripts/*)
      object=src/CMakeFiles/redlock_core.dir/script.c.o
      scripts=("$build"/src/scripts/*.lua)
      case $file in src/node/scripts/include/*) ;; *) scripts=("$file") ;; esac
      scripts=("${scripts[@]##*/}")
      if ! replace_in_scripts "$(numbers "$old")" "$(numbers "$new")" "${scripts[@]%.lua}" <"$build/src/script.c" >"$directory/source.c"; then
        note STALE "$name" "no script in $build has the line '$old'"
        return
      fi
      ;;
    *)
      note BROKEN "$name" "$file: the build makes no object from this file alone"
      return
      ;;
  esac
  [ -e "$directory/source.c" ] || cp "$directory/planted" "$directory/source.c"
  if [ -n "$quick" ] && [ ${#tests[@]} -gt 0 ]; then only_syntax=-fsyntax-only; fi
  if ! compile "$directory" "$source" "$object" "$directory/source.c" "$only_syntax" >"$directory/output" 2>&1; then
    note BROKEN "$name" "does not compile: $(grep -m 1 error "$directory/output" || head -n 1 "$directory/output")"
    return
  fi
  if [ -n "$quick" ] && [ ${#tests[@]} -gt 0 ]; then
    note fits "$name" "$6"
    return
  fi
  case $file in
    quorum/* | cli/*) see caught_by_tests "$directory" "$file" "$object" ;;
  esac
  [ $missed != 1 ] || [ ${#tests[@]} = 0 ] || see caught_by_named "$directory" "$file" "${tests[@]}"
  [ $missed != 1 ] || [[ $file == cli/* ]] || see caught_by_simulation "$directory" "$object"
  case $missed in
    0) note caught "$name" "$by" ;;
    2) note BROKEN "$name" "does not link: $(grep -m 1 -E 'undefined|error|failed' "$directory/output")" ;;
    *) note MISSED "$name" "$file: $new" ;;
  esac
}

# --- All of them ---

ninja -C "$build" -t targets all >"$work/targets"
if ! "$build/tests/simulation/sim" --seed 1 --operations 5000 >"$work/log" 2>&1; then
  echo "scripts/mutants.sh: the simulator finds something without any planted bug:" >&2
  cat "$work/log" >&2
  exit 2
fi

while read -r named; do
  if ! check_named "$named"; then
    echo "scripts/mutants.sh: mutants.txt names the test '$named', which does not exist." >&2
    exit 2
  fi
done < <(sed -n 's/^= //p' tests/simulation/mutants.txt | tr ' ' '\n' | sort -u)

# Once, and before the bugs: two that run ninja at a time disturb each other.
if [ -z "$quick" ]; then
  sed -n 's/^= //p' tests/simulation/mutants.txt | tr ' ' '\n' | sed 's|:.*||;s|^|tests/test_|' | sort -u | xargs ninja -C "$build" >"$work/log" 2>&1 || {
    cat "$work/log" >&2
    exit 2
  }
fi

number=0 file='' tests=''
while IFS= read -r name; do
  case $name in
    '' | '#'*) continue ;;
    '@ '*) file=${name#@ } tests='' && continue ;;
    '= '*) tests=${name#= } && continue ;;
  esac
  IFS= read -r old && IFS= read -r new
  [[ $name == *"$only"* ]] || continue
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do
    wait -n || true
  done
  number=$((number + 1))
  try_one $number "$name" "$file" "${old#- }" "${new#+ }" "$tests" >"$work/result.$number" &
done <tests/simulation/mutants.txt
wait

for ((i = 1; i <= number; i++)); do
  cat "$work/result.$i"
done
caught=$(cat "$work"/result.* | grep -c '^caught' || true)
number=$((number - $(cat "$work"/result.* | grep -c '^fits' || true)))
printf '\nplanted %d caught %d\n' "$number" "$caught"
[ "$number" -gt 0 ] && [ "$caught" = "$number" ]
