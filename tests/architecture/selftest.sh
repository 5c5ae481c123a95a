#!/usr/bin/env bash
# Plants one violation of every rule of the other scripts in this directory, and fails unless each is found and named.
#
# Usage: selftest.sh CC CXX NM SCRIPT_DIRECTORY
. "$(dirname "$0")/../support/script.sh"

cc=$1
cxx=$2
nm=$3
scripts=$4
failures=0

# finds WORD COMMAND...: the command must fail, and its output must contain the word.
finds() {
  local word=$1 output
  shift
  if output=$("$@" 2>&1); then
    echo "not found: $word, by $*"
  elif [[ $output != *"$word"* ]]; then
    echo "failed without naming $word: $*"
    echo "$output"
  else
    echo "found: $word"
    return
  fi
  failures=$((failures + 1))
}

accepts() {
  if ! "$@"; then
    echo "refused what is allowed: $*"
    failures=$((failures + 1))
  fi
}

# object NAME CODE: compiles the code like the rules, and prints the object's path.
object() {
  echo "$2" | "$cc" -O1 -c -x c - -o "$work/$1.o"
  echo "$work/$1.o"
}

purity() {
  bash "$scripts/purity.sh" "$nm" plain "$@"
}

test_purity() {
  local pure
  pure=$(object pure '#include <string.h>
    #include <assert.h>
    int other(void); int f(char *a, int n) { assert(n); memset(a, n, 100 + (unsigned)n); return other(); }')
  accepts purity "$pure" "$(object other 'int other(void) { return 1; }')"
  finds other purity "$pure"
  finds 'No such file' purity "$pure;$pure"
  finds malloc purity "$(object heap '#include <stdlib.h>
    void *f(void) { return malloc(9); }')"
  finds __asan_ purity "$(object sanitizer 'void __asan_init(void); void f(void) { __asan_init(); }')"
  finds "no objects" purity
}

# tree FILE LINE: a project that is correct except for the line added to the file.
tree() {
  rm -rf "$work/tree"
  mkdir -p "$work/tree/"{include/redlock,quorum,src/{core,node,client},cli,examples/shop}
  cd "$work/tree"
  printf '#include <stdint.h>\n' >include/redlock/redlock.h
  printf '#include <redlock/redlock.h>\n#include <string_view>\n' >include/redlock/redlock.hpp
  printf '#include <stdint.h>\n' >quorum/tally.h
  printf '#include "quorum/tally.h"\n#include "tally.h"\n#include <string.h>\n' >quorum/tally.c
  printf '#include <redlock/redlock.h>\n#include "src/node/node.h"\n#include "src/core/timer.h"\n#include "quorum/tally.h"\n#include <ev.h>\n' >src/node/node.c
  touch src/node/node.h src/core/timer.h src/client/client.h
  printf '#include <redlock/redlock.h>\n#include <stdio.h>\n' | tee cli/main.c >examples/first.c
  printf '#include "stock.h"\n' >examples/shop/shop.c
  touch examples/shop/stock.h
  if [ $# -gt 0 ]; then echo "$2" >>"$1"; fi
  cd - >/dev/null
}

test_includes() {
  local includes=(bash "$scripts/includes.sh" "$work/tree")
  tree && accepts "${includes[@]}"
  tree quorum/tally.c '#include <time.h>' && finds 'quorum/tally.c:4: quorum/ must not include <time.h>' "${includes[@]}"
  tree quorum/tally.h '#  include "../src/node/node.h"' && finds '"../src/node/node.h"' "${includes[@]}"
  tree quorum/tally.h '#include "src/node/node.h"' && finds '"src/node/node.h"' "${includes[@]}"
  tree include/redlock/redlock.h '#include <ev.h>' && finds '<ev.h>' "${includes[@]}"
  tree include/redlock/redlock.h '#include <string_view>' && finds '<string_view>' "${includes[@]}"
  tree include/redlock/redlock.hpp '#include <ev.h>' && finds '<ev.h>' "${includes[@]}"
  tree src/node/node.c '#include "src/client/client.h"' && finds 'src/node/node.c:6: src/ must not include "src/client/client.h"' "${includes[@]}"
  tree src/core/timer.h '#include "src/node/node.h"' && finds '"src/node/node.h"' "${includes[@]}"
  tree src/client/release.c 'int rl_release_start(void) {' && finds 'src/client/release.c: exports rl_release_start, but there is no src/client/release.h' "${includes[@]}"
  tree src/node/node.c '#include "node.h"' && finds '"node.h"' "${includes[@]}"
  tree src/node/node.c '#include "cli/main.h"' && finds '"cli/main.h"' "${includes[@]}"
  tree cli/main.c '#include "src/node/node.h"' && finds '"src/node/node.h"' "${includes[@]}"
  tree cli/main.c '#include <hiredis/hiredis.h>' && finds '<hiredis/hiredis.h>' "${includes[@]}"
  tree examples/first.c '#include "../quorum/tally.h"' && finds '"../quorum/tally.h"' "${includes[@]}"
  tree examples/shop/shop.c '#include "quorum/tally.h"' && finds '"quorum/tally.h"' "${includes[@]}"
  tree examples/first.c '#include <redlock/internal.h>' && finds '<redlock/internal.h>' "${includes[@]}"
}

test_sizes() {
  local sizes=(bash "$scripts/sizes.sh" "$work/tree") fields
  tree && accepts "${sizes[@]}"
  tree src/node/node.c "$(seq 800)" && finds 'src/node/node.c: more than 800 lines' "${sizes[@]}"
  tree src/node/node.h "$(seq -f '#include "src/core/%g.h"' 9)" && finds 'src/node/node.h: more than 8 project' "${sizes[@]}"
  fields=$(seq -f '    int a%g, b;' 15)
  tree src/node/node.h "$(printf 'struct rl_node {\n%s\n    int (*c)(int d, int e);\n};' "$fields")" && accepts "${sizes[@]}"
  tree src/node/node.h "$(printf 'struct rl_node {\n%s\n    int c;\n    int d;\n    int e;\n};' "$fields")" &&
    finds 'src/node/node.h: struct rl_node has more than 32 fields' "${sizes[@]}"
}

test_circles() {
  local folder=$work/core.dir/lock circles=(bash "$scripts/circles.sh" "$nm" 2)
  mkdir -p "$folder" "$work/core.dir/node"
  object core.dir/lock/a 'int b(void); int a(void) { return b(); }'
  object core.dir/lock/b 'int a(void); int c(void); int b(void) { return a() + c(); }'
  object core.dir/lock/c 'int c(void) { return 1; }'
  accepts "${circles[@]}" "$folder"/{a,b,c}.o
  object core.dir/lock/c 'int a(void); int c(void) { return a(); }'
  finds '3 files call each other in a circle' "${circles[@]}" "$folder"/{a,b,c}.o
  object core.dir/node/b 'int a(void); int b(void) { return a(); }'
  finds 'files of several folders' "${circles[@]}" "$folder/a.o" "$work/core.dir/node/b.o"
}

# header DECLARATIONS: a public header with these declarations.
header() {
  mkdir -p "$work/include/redlock"
  cat >"$work/include/redlock/redlock.h" <<HEADER
#pragma once
#include <stddef.h>
#define REDLOCK_VERSION_MAJOR 1
#define REDLOCK_VERSION_MINOR 2
#define REDLOCK_VERSION_PATCH 3
#ifdef __cplusplus
extern "C"
#endif
const char *redlock_version(void);
typedef void (*redlock_callback)(int a);
$1
HEADER
}

library() {
  echo 'const char *redlock_version(void) { return "1.2.3"; }' "$1" |
    "$cc" -shared -fPIC -x c - -o "$work/libredlock.so"
}

test_exports() {
  local exports=(bash "$scripts/exports.sh" "$cc" "$cxx" "$nm" "$work/include" "$work/libredlock.so")
  header '' && library '' && accepts "${exports[@]}" 1.2.3
  finds "version is 1.2.4" "${exports[@]}" 1.2.4
  header '' && library 'int rl_inner;' && finds 'not declared: rl_inner' "${exports[@]}" 1.2.3
  header 'int redlock_missing(int a);' && library '' && finds 'not exported: redlock_missing' "${exports[@]}" 1.2.3
  header 'int redlock_mangled(int a);' && library 'int redlock_mangled(int a) { return a; }' &&
    finds 'redlock_mangled' "${exports[@]}" 1.2.3
}

test_header() {
  local check=(bash "$scripts/header.sh" "$cc" "$cxx" "$work/include" "$work/user.c")
  printf '#include <redlock/redlock.h>\nint main(void) { return 0; }\n' >"$work/user.c"
  header '' && accepts "${check[@]}"
  header 'int redlock_private(int private, ...);' && finds private "${check[@]}"
  header 'struct redlock_empty {};' && finds redlock_empty "${check[@]}"
  header 'unknown_t redlock_f(void);' && finds unknown_t "${check[@]}"
}

test_purity
test_includes
test_sizes
test_circles
test_exports
test_header
[ "$failures" -eq 0 ]
