#!/usr/bin/env bash
# The rules use no I/O, no clock, no random numbers and no heap. The symbols that the objects of quorum/ leave
# undefined, and do not define for each other, must be on a short list.
#
# Usage: purity.sh NM plain|instrumented OBJECT...
. "$(dirname "$0")/../support/script.sh"

nm=$1
build=$2
shift 2
[ $# -gt 0 ] || die "no objects to look at"
"$nm" "$@" >/dev/null

# Compilers emit calls of the mem* functions (clang: bcmp for memcmp) and of __popcountdi2. The others belong to assert() and hardening.
allowed='mem(cpy|set|move|cmp)|__mem(cpy|set|move)_chk|bcmp|__popcountdi2|__assert_fail|__stack_chk_fail|_GLOBAL_OFFSET_TABLE_'
if [ "$build" = instrumented ]; then
  allowed+='|__(asan|ubsan|tsan|sanitizer|gcov|llvm_profile|start_asan|stop_asan)_.*|___asan_.*'
fi

needed=$(comm -23 \
  <("$nm" --undefined-only "$@" | awk 'NF >= 2 && $(NF-1) ~ /^[UwW]$/ { print $NF }' | sort -u) \
  <("$nm" --defined-only "$@" | awk 'NF == 3 { print $3 }' | sort -u))
forbidden=$(grep -vxE "$allowed" <<<"$needed" | grep -v '^$' || true)

if [ -n "$forbidden" ]; then
  echo "quorum/ must stay pure; it uses:"
  for symbol in $forbidden; do
    for object in "$@"; do
      "$nm" --undefined-only "$object" | awk -v s="$symbol" -v o="${object##*/}" '$NF == s { print "  " s " in " o }'
    done
  done
  exit 1
fi
echo "$# objects, outside symbols: $(echo "$needed" | tr '\n' ' ')"
