#!/usr/bin/env bash
# The public header compiles alone and without a warning in every supported version of C and C++; the C++ wrapper does
# from C++17 on.
#
# Usage: header.sh CC CXX INCLUDE_DIRECTORY SOURCE [CXX_SOURCE]
#   SOURCE       includes the header, compiled as C and as C++
#   CXX_SOURCE   includes the wrapper; here for a second time, which has no effect
set -euo pipefail

cc=$1
cxx=$2
include=$3
source=$4
cxx_source=${5:-}
warnings=(-Wall -Wextra -Wpedantic -Werror -Wconversion -Wshadow -Wundef -Wcast-qual -Wpointer-arith)

for standard in c99 c11 c17; do
  "$cc" -std=$standard "${warnings[@]}" -Wstrict-prototypes -I "$include" -fsyntax-only -x c "$source"
  echo "$standard ok"
done
for standard in c++11 c++17 c++20; do
  "$cxx" -std=$standard "${warnings[@]}" -Wold-style-cast -I "$include" -fsyntax-only -x c++ "$source"
  echo "$standard ok"
done
[ -n "$cxx_source" ] || exit 0
for standard in c++17 c++20; do
  "$cxx" -std=$standard "${warnings[@]}" -Wold-style-cast -Wsign-conversion -Wnon-virtual-dtor -Woverloaded-virtual \
    -I "$include" -include redlock/redlock.hpp -fsyntax-only -x c++ "$cxx_source"
  echo "wrapper $standard ok"
done
# In the wrong order of includes the use of the client for Asio is an error that says so.
printf '#include <redlock/redlock.hpp>\nint main() { redlock::async_client client(1, "x"); }\n' |
  { ! "$cxx" -std=c++17 -I "$include" -fsyntax-only -x c++ - 2>&1; } | grep -q 'include <asio.hpp> or <boost/asio.hpp> before'
