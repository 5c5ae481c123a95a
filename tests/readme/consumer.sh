#!/usr/bin/env bash
# A CMake project that includes the library as the README describes can be built, with the shared library and with the
# static one.
#
# Usage: consumer.sh CMAKE CC
. "$(dirname "$0")/../support/script.sh"

readme=$project/README.md
cd "$work"
c_block "$readme" >program.c
# This test adds the library as source. tests/install uses the first line of the block.
awk '/^```cmake$/ { inside = 1; next } /^```$/ && inside { exit } inside' "$readme" |
  sed 's/^find_package(redlock .*: \(add_subdirectory(redlock)\)$/\1/' >block
grep -q '^add_subdirectory(redlock)$' block || die "$readme has no CMake block with add_subdirectory(redlock)"
grep -q '^target_link_libraries(program PRIVATE redlock::redlock)' block ||
  die "$readme has no CMake block that links redlock::redlock"
ln -s "$project" redlock
{
  echo 'cmake_minimum_required(VERSION 3.25)'
  echo 'project(consumer C)'
  echo 'add_executable(program program.c)'
  cat block
  echo 'add_executable(program_static program.c)'
  echo 'target_link_libraries(program_static PRIVATE redlock::redlock_static)'
} >CMakeLists.txt

quietly "$1" -S . -B build -G Ninja -DCMAKE_C_COMPILER="$2"
quietly "$1" --build build
for program in program program_static; do
  if REDLOCK_NODES='' "build/$program" >output; then die "$program found no fault with an empty list of nodes"; fi
  grep -q 'the node list is empty' output || die "$program says: $(cat output)"
  echo "$program ok"
done
