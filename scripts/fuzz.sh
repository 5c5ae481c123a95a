#!/usr/bin/env bash
# Builds the fuzzers (clang) and runs them one after another. What they find lands in build/fuzz/tests/fuzz/found.
#
# Usage: scripts/fuzz.sh [--seconds S] [NAME...]
#   --seconds S   for each of them: 60
#   NAME          only these, e.g. replies; the targets are the directories of tests/fuzz/corpus
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib/packages.sh
. scripts/lib/packages.sh

seconds=60
names=()
while [ $# -gt 0 ]; do
  case $1 in
    --seconds)
      seconds=${2:-}
      shift
      ;;
    -h | --help)
      sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    -*)
      echo "scripts/fuzz.sh: '$1' is not understood; there are --seconds and --help." >&2
      exit 2
      ;;
    *) names+=("$1") ;;
  esac
  shift
done
if ! [[ $seconds =~ ^[1-9][0-9]*$ ]]; then
  echo "scripts/fuzz.sh: --seconds '$seconds' is not a number of seconds." >&2
  exit 2
fi
if [ ${#names[@]} -eq 0 ]; then
  for directory in tests/fuzz/corpus/*/; do
    names+=("$(basename "$directory")")
  done
fi

packages_install build test
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --parallel "$(nproc)"

failed=0
for name in "${names[@]}"; do
  if [ ! -d "tests/fuzz/corpus/$name" ]; then
    echo "scripts/fuzz.sh: there is no target '$name'; there are: $(ls -m tests/fuzz/corpus)" >&2
    exit 2
  fi
  bash scripts/lib/fuzz_one.sh "build/fuzz/tests/fuzz/fuzz_$name" "tests/fuzz/corpus/$name" "$seconds" || failed=1
done
exit "$failed"
