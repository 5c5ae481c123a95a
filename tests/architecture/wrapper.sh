#!/usr/bin/env bash
# The C++ wrapper is complete: it calls every function of the blocking API and sets every option.
#
# Usage: wrapper.sh INCLUDE_DIRECTORY
. "$(dirname "$0")/../support/script.sh"

# C++ programs call these functions directly: texts, numbers, handles, and the asynchronous functions. Constructors set the defaults.
left_out='redlock_(attach|options_init|acquire_options_init|call_options_init|lock_client|locks|version|status_name|outcome_name|finding_(name|text|remedy)|loss_(name|text)|histogram_bound_us|histogram_quantile_us)'

fields() { # HEADER STRUCT
  sed -n "/^typedef struct $2 {/,/^}/p" "$1" | sed ':join;N;$!b join;s:/\*[^*]*\*\+\([^/*][^*]*\*\+\)*/::g' |
    sed -nE 's/^ .*[ *]([a-z_]+); *$/\1/p' | grep -vx struct_size
}

missing() { # HEADER WRAPPER
  local word
  grep -oE '^REDLOCK_API .*\bredlock_[a-z_]+\(' "$1" | grep -oE 'redlock_[a-z_]+\($' | tr -d '(' | grep -vE "_async\$|^$left_out\$" | sort -u |
    while read -r word; do
      grep -qE "\b$word\(" "$2" || echo "$word() is not called by the wrapper"
    done
  for word in $(fields "$1" redlock_options); do
    grep -qE "\bto\.$word = " "$2" || echo "the option '$word' is not set by the wrapper"
  done
  for word in $(fields "$1" redlock_acquire_options); do
    grep -qE "\bnative\.$word = " "$2" || echo "the acquire option '$word' is not set by the wrapper"
  done
}

cat >"$work/planted.h" <<'PLANTED'
REDLOCK_API int redlock_planted(int a);
REDLOCK_API int redlock_planted_async(int a);
typedef struct redlock_options {
    size_t struct_size;
    const char *planted_option; /* none */
} redlock_options;
typedef struct redlock_acquire_options {
    uint32_t planted_acquire;
} redlock_acquire_options;
PLANTED
planted 3 missing "$work/planted.h" "$1/redlock/redlock.hpp"
no_faults missing "$1/redlock/redlock.h" "$1/redlock/redlock.hpp"
