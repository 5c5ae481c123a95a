#!/usr/bin/env bash
# The commands of README.md and docs/*.md work as printed, in a bare system. Blocks are taken from the documents themselves: indented blocks and
# ```sh are commands, ```text is output; blocks.txt lists what is not run here, each with the reason.
#
# Usage: blocks.sh check                  every block is run, or listed; blocks.txt has no other entries (a test of every build)
#        blocks.sh run [DOCUMENT...]      as root in a bare Debian, e.g. scripts/fresh.sh trixie -- tests/readme/blocks.sh run
#
# The last line of run is 'N passed, N failed', counted in blocks; exit status 0 when nothing failed.
. "$(dirname "$0")/../support/script.sh"

list=$project/tests/readme/blocks.txt
cd "$project"

# Prints each block as one line 'DOCUMENT<TAB>LINE<TAB>LANGUAGE<TAB>TEXT' with the text's newlines as \001. The language of an indented block is 'sh'.
blocks() { # DOCUMENT...
  awk '
    function flush() {
      sub(/(\001 *)+$/, "", text)
      if (text != "") printf "%s\t%d\t%s\t%s\n", file, first, language, text
      text = ""; kind = ""
    }
    FNR == 1 { flush(); blank = 1; file = FILENAME }
    kind == "fence" { if ($0 ~ /^ *```$/) flush(); else text = text $0 "\001"; next }
    /^ *```/ { flush(); kind = "fence"; language = $0; sub(/^ *```/, "", language); first = FNR + 1; blank = 0; next }
    /^    / && (kind == "indented" || blank) {
      if (kind == "") { kind = "indented"; language = "sh"; first = FNR }
      text = text substr($0, 5) "\001"; next
    }
    kind == "indented" && /^$/ { text = text "\001"; next }
    { if (kind == "indented") flush(); blank = $0 ~ /^$/ }
    END { flush() }' "$@"
}

# A command without its comment: what blocks.txt names.
bare() { sed -E 's/[[:space:]]+#.*$//; s/^#.*//; s/[[:space:]]+$//'; }

entries() { grep -v -e '^#' -e '^$' "$list" || true; }

# The reason for which this is not run; empty: there is none. An entry 'on CODENAME: ...' holds everywhere else.
reason() { # DOCUMENT ENTRY
  awk -F ' [|] ' -v document="$1" -v entry="$2" '$1 == document && $2 == entry { print $3; exit }' < <(entries)
}

# The lines of the block that are commands to run. A line that is listed becomes a comment.
commands() { # DOCUMENT TEXT SYSTEM
  local line why
  why=$(reason "$1" "block $(head -n 1 <<<"$2" | bare)")
  if [ -n "$why" ] && [[ $why != "on $3: "* ]]; then return; fi
  while IFS= read -r line; do
    why=$(reason "$1" "$(bare <<<"$line")")
    if [ -n "$why" ] && [[ $why != "on $3: "* ]]; then echo "# not run here: $line"; else printf '%s\n' "$line"; fi
  done <<<"$2"
}

faults() { # DOCUMENT...: prints what is wrong with the blocks and with the list
  local document number language text entry why line
  : >"$work/used"
  while IFS=$'\t' read -r document number language text; do
    text=$(tr '\001' '\n' <<<"$text")
    case $language in
      sh)
        echo "$document | block $(head -n 1 <<<"$text" | bare)" >>"$work/used"
        bare <<<"$text" | sed "s#^#$document | #" >>"$work/used"
        ;;
      text)
        # shellcheck disable=SC2016
        line=$(grep -E '^ *(scripts/|redlock |cmake |ctest |cc |sudo |apt|\$ )' <<<"$text" | head -n 1) || true
        [ -z "$line" ] || echo "$document:$number: a block of output has the command '$line'; indent the block, or use \`\`\`sh"
        ;;
      *)
        echo "$document | \`\`\`$language" >>"$work/used"
        [ -n "$(reason "$document" "\`\`\`$language")" ] || echo "$document:$number: no test has this block of '$language'; name it in tests/readme/blocks.txt"
        ;;
    esac
  done < <(blocks "$@")
  while IFS= read -r entry; do
    [[ $entry =~ ^[^|]+\ \|\ .+\ \|\ .+$ ]] || { echo "blocks.txt: '$entry' is not 'DOCUMENT | ENTRY | REASON'"; continue; }
    grep -qxF -- "${entry% | *}" "$work/used" || echo "blocks.txt: no document has '${entry% | *}'"
    why=${entry##* | }
    [[ $why =~ ^(tested\ by\ [a-z_./]+|not\ run:\ .+|on\ [a-z]+:\ .+)$ ]] || echo "blocks.txt: '$why' is no reason: 'tested by NAME', 'not run: WHY', 'on CODENAME: WHY'"
    if [[ $why == 'tested by '* ]]; then
      why=${why#tested by }
      [ -e "$why" ] || grep -rqE "NAME \"?$why( |\"|\$)" tests/*/CMakeLists.txt || echo "blocks.txt: there is no test '$why'"
    fi
  done < <(entries)
}

check() {
  cat >"$work/planted.md" <<'PLANTED'
text

    true            # a comment

```text
redlock run this
```

```rust
fn main() {}
```
PLANTED
  # shellcheck disable=SC2016
  printf '%s\n' 'gone.md | true | not run: gone' "$work/planted.md | true | tested by no.such" "$work/planted.md | true | because" >"$work/planted.txt"
  list=$work/planted.txt
  planted 5 faults "$work/planted.md"
  printf '%s | false | not run: planted\n%s | echo here | on sarge: planted\n' "$work/runs.md" "$work/runs.md" >"$work/planted.txt"
  printf 'a\n\n    false   # listed\n    echo here\n    true\n\nb\n\n    touch %s/ran\n\n    echo now; false; true\n' "$work" >"$work/runs.md"
  [ "$(run_documents "$work/runs.md" 2>&1 | tail -n 1)" = '1 passed, 1 failed' ] || die "of the planted blocks not one passed and one failed: $(run_documents "$work/runs.md")"
  [ -e "$work/ran" ] || die "a planted block was not run"
  list=$project/tests/readme/blocks.txt
  no_faults faults README.md docs/*.md
  echo "$(blocks README.md docs/*.md | cut -f 3 | grep -cx sh) blocks of commands, $(entries | wc -l) entries"
}

# What the documents' reader has: jobs of his own, and nodes. README's program is the first block of C.
give() {
  local name
  c_block README.md >program.c
  mkdir -p "$HOME/hiredis/include" # docs/tls.md: a hiredis of the reader's own
  ln -sfn /usr/include/hiredis "$HOME/hiredis/include/hiredis"
  ln -sfn "/usr/lib/$(uname -m)-linux-gnu" "$HOME/hiredis/lib"
  for name in make-reports make-report; do
    printf '#!/bin/sh\necho "%s ran"\n' "$name" >"/usr/local/bin/$name"
    chmod +x "/usr/local/bin/$name"
  done
}

# scripts/demo.sh comes last: it installs packages, and a reader may begin with another block.
in_order() { # DOCUMENT...
  blocks "$@" >"$work/blocks"
  grep -v $'\tscripts/demo.sh' "$work/blocks" || true
  grep $'\tscripts/demo.sh' "$work/blocks" || true
}

nodes=
start_nodes() {
  nodes=$work/nodes
  eval "$(scripts/nodes.sh start --quiet -n 5 --dir "$nodes")"
}
clean_up() { [ -z "$nodes" ] || scripts/nodes.sh stop --quiet --dir "$nodes" >/dev/null 2>&1 || true; }

run_documents() { # DOCUMENT...
  local document number language text system given passed=0 failed=0 broken=() start status
  system=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
  while IFS=$'\t' read -r -u 9 document number language text; do
    [ "$language" = sh ] || continue
    commands "$document" "$(tr '\001' '\n' <<<"$text")" "$system" >"$work/block.sh"
    grep -qv -e '^ *#' -e '^$' "$work/block.sh" || continue
    given=()
    if grep -q '^redlock ' "$work/block.sh"; then
      [ -n "$nodes" ] || start_nodes
      given=("REDLOCK_NODES=$REDLOCK_NODES")
    fi
    printf '\n== %s:%s ==\n' "$document" "$number"
    sed 's/^/    /' "$work/block.sh"
    start=$SECONDS status=0
    env -u REDLOCK_NODES -u REDLOCK_NODE_CONTROL "${given[@]}" timeout 1200 bash -e -o pipefail "$work/block.sh" </dev/null 9<&- >"$work/output" 2>&1 || status=$?
    if [ "$status" = 0 ]; then
      passed=$((passed + 1))
      tail -n 3 "$work/output"
    else
      failed=$((failed + 1))
      broken+=("$document:$number: exit status $status")
      tail -n 60 "$work/output"
    fi
    echo "exit status $status, $((SECONDS - start)) s"
  done 9< <(in_order "$@")
  [ ${#broken[@]} -eq 0 ] || printf '\nFailed:\n%s\n' "$(printf '  %s\n' "${broken[@]}")"
  printf '\n%d passed, %d failed\n' "$passed" "$failed"
  [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}

case ${1-} in
  check) check ;;
  run)
    [ "$(id -u)" = 0 ] || die "the documents' commands install packages and files: run them as root in a system of their own, see scripts/fresh.sh"
    shift
    [ $# -gt 0 ] || set -- README.md docs/*.md
    give
    run_documents "$@"
    ;;
  *) die "there are check and run" ;;
esac
