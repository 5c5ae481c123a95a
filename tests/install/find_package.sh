#!/usr/bin/env bash
# A separate CMake project finds the installed library, links its targets in C and in C++, and runs. Unsuitable versions
# and components are rejected.
#
# Usage: find_package.sh with the arguments of common.sh
. "$(dirname "$0")/common.sh"

prefix=$work/prefix
install_and_move "$prefix"

configure() { # DIRECTORY SOURCE OPTION...
  "$cmake" -S "$2" -B "$work/$1" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" \
    -DCMAKE_EXE_LINKER_FLAGS="${flags[*]}" "${@:3}"
}

kinds=(static)
[ ! -e "$prefix/$libraries/libredlock.so" ] || kinds=(shared static)
targets=("${kinds[@]/static/redlock_static}")
targets=("${targets[@]/shared/redlock}")
list() { local IFS=';'; echo "$*"; }

quietly configure outside "$outside" -DCOMPONENTS="$(list "${kinds[@]}")" -DTARGETS="$(list "${targets[@]}")"
quietly "$cmake" --build "$work/outside"
for i in "${!kinds[@]}"; do
  works "$work/outside/c_${targets[i]}" C "${kinds[i]}"
  works "$work/outside/cpp_${targets[i]}" C++ "${kinds[i]}"
done

# refuses WORD LINE OPTION...: a project with this find_package line must not configure; the error contains the word. Only what CMake knows
# of the compiler stays for the next one.
refuses() {
  mkdir -p "$work/refused"
  printf 'cmake_minimum_required(VERSION 3.16)\nproject(refused LANGUAGES CXX)\n%s\n' "$2" >"$work/refused/CMakeLists.txt"
  if configure refused/build "$work/refused" -U '*REDIS*' -U '*iredis*' -U 'REDLOCK*' -U 'redlock*' "${@:3}" >"$work/printed" 2>&1; then die "this was accepted: ${*:2}"; fi
  tr -s ' \n' ' ' <"$work/printed" | grep -qF "$1" || { cat "$work/printed"; die "refused without naming '$1': ${*:2}"; }
}
refuses 'version: 1.0.0' 'find_package(redlock 1.1 REQUIRED)'
refuses 'version: 1.0.0' 'find_package(redlock 0.1 REQUIRED)'
refuses 'needs Hiredis' 'find_package(redlock 1.0 REQUIRED COMPONENTS static)' -DHIREDIS_ROOT="$work/nowhere"
refuses 'redlock' 'find_package(redlock 1.0 REQUIRED COMPONENTS nonsense)'
[ "${kinds[0]}" = static ] && exit

# A program that links the shared library needs neither hiredis nor libev.
mkdir "$work/shared"
printf '%s\n' 'cmake_minimum_required(VERSION 3.16)' 'project(shared LANGUAGES CXX)' 'find_package(redlock 1.0.0 REQUIRED)' \
  'if(TARGET redlock::redlock_static OR NOT TARGET redlock::redlock)' '  message(FATAL_ERROR "not what is there")' 'endif()' \
  >"$work/shared/CMakeLists.txt"
quietly configure shared/build "$work/shared" -DHIREDIS_ROOT="$work/nowhere"

# The wrapper's targets.
refuses 'needs asio.hpp or boost/asio.hpp' "set(CMAKE_FIND_USE_CMAKE_SYSTEM_PATH OFF)
set(CMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH OFF)
find_package(redlock 1.0 REQUIRED COMPONENTS asio)"
if [ -e /usr/include/asio.hpp ]; then
  mkdir "$work/wrapper"
  printf '%s\n' 'cmake_minimum_required(VERSION 3.16)' 'project(wrapper LANGUAGES CXX)' 'find_package(redlock 1.0 REQUIRED COMPONENTS cxx asio)' \
    "add_executable(plain $outside/program.cpp)" 'target_link_libraries(plain PRIVATE redlock::cxx)' \
    "add_executable(loop $project/examples/loops/asio.cpp)" 'target_link_libraries(loop PRIVATE redlock::asio)' >"$work/wrapper/CMakeLists.txt"
  quietly configure wrapper/build "$work/wrapper" -DCMAKE_CXX_STANDARD=20
  quietly "$cmake" --build "$work/wrapper/build"
  works "$work/wrapper/build/plain" C++ shared
  bash "$project/scripts/nodes.sh" run --quiet -n 3 -- "$work/wrapper/build/loop"
fi
