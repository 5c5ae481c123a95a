#!/usr/bin/env bash
# A CMake project that includes the library as the README describes can be built, with the shared library and with the
# static one.
#
# Usage: consumer.sh README CMAKE CC
set -euo pipefail

readme=$(realpath "$1")
cmake=$2
cc=$3
source=$(dirname "$readme")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

awk '/^```c$/ { inside = 1; next } /^```$/ && inside { exit } inside' "$readme" >program.c
# This test adds the library as source. tests/install uses the first line of the block.
awk '/^```cmake$/ { inside = 1; next } /^```$/ && inside { exit } inside' "$readme" |
  sed 's/^find_package(redlock .*: \(add_subdirectory(redlock)\)$/\1/' >block
grep -q '^add_subdirectory(redlock)$' block || { echo "consumer.sh: $readme has no CMake block with add_subdirectory(redlock)"; exit 1; }
grep -q '^target_link_libraries(program PRIVATE redlock::redlock)' block ||
  { echo "consumer.sh: $readme has no CMake block that links redlock::redlock"; exit 1; }
ln -s "$source" redlock
{
  echo 'cmake_minimum_required(VERSION 3.25)'
  echo 'project(consumer C)'
  echo 'add_executable(program program.c)'
  cat block
  echo 'add_executable(program_static program.c)'
  echo 'target_link_libraries(program_static PRIVATE redlock::redlock_static)'
} >CMakeLists.txt

"$cmake" -S . -B build -G Ninja -DCMAKE_C_COMPILER="$cc" >configured 2>&1 || { cat configured; exit 1; }
"$cmake" --build build >built 2>&1 || { cat built; exit 1; }
for program in program program_static; do
  if REDLOCK_NODES='' "build/$program" >printed; then
    echo "consumer.sh: $program found no fault with an empty list of nodes"
    exit 1
  fi
  grep -q 'the node list is empty' printed || { cat printed; exit 1; }
  echo "$program ok"
done
