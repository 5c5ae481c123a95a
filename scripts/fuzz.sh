#!/usr/bin/env bash
# Builds the fuzzers (clang) and runs them one after another. What they find lands in build/fuzz/tests/fuzz/found.
#
# Usage: scripts/fuzz.sh [--seconds S] [NAME...]
#   --seconds S   for each of them: 60
#   NAME          only these, e.g. replies; the targets are the directories of tests/fuzz/corpus
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib/options.sh
. scripts/lib/options.sh
# shellcheck source=scripts/lib/packages.sh
. scripts/lib/packages.sh

seconds=60
options_read "$@"
[[ $seconds =~ ^[1-9][0-9]*$ ]] || options_refuse "--seconds '$seconds' is not a number of seconds."
names=("${words[@]}")
if [ ${#names[@]} -eq 0 ]; then
  for directory in tests/fuzz/corpus/*/; do
    names+=("$(basename "$directory")")
  done
fi

for name in "${names[@]}"; do
  [ -d "tests/fuzz/corpus/$name" ] || options_refuse "there is no target '$name'; there are: $(ls -m tests/fuzz/corpus)"
done

packages_install build test
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --parallel "$(nproc)"

failed=0
for name in "${names[@]}"; do
  bash scripts/lib/fuzz_one.sh "build/fuzz/tests/fuzz/fuzz_$name" "tests/fuzz/corpus/$name" "$seconds" || failed=1
done
exit "$failed"
