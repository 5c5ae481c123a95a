# How every target of this project is compiled: the language, the warnings, the instrumentation.
#
# redlock_compile_options  INTERFACE target, linked PRIVATE by everything we build and by nothing we install.
# redlock_leave_out_sanitizer(target undefined|all)  for a target that links redlock_compile_options already

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# The library is C alone. What uses redlock.hpp, in tests and examples, is C++.
if(REDLOCK_BUILD_TESTS OR REDLOCK_BUILD_EXAMPLES)
  include(CheckLanguage)
  check_language(CXX)
  if(CMAKE_CXX_COMPILER)
    enable_language(CXX)
    set(CMAKE_CXX_STANDARD 17)
    set(CMAKE_CXX_STANDARD_REQUIRED ON)
    set(CMAKE_CXX_EXTENSIONS OFF)
  endif()
endif()

# A lock whose rules no longer hold must stop, in Release too.
foreach(config IN ITEMS RELEASE RELWITHDEBINFO MINSIZEREL)
  foreach(language IN ITEMS C CXX)
    string(REGEX REPLACE "(^| )[-/]D *NDEBUG($| )" " " CMAKE_${language}_FLAGS_${config} "${CMAKE_${language}_FLAGS_${config}}")
  endforeach()
endforeach()

add_library(redlock_compile_options INTERFACE)

set(warnings
  -Wall -Wextra -Wpedantic
  -Wconversion -Wsign-conversion -Wdouble-promotion
  -Wshadow -Wundef -Wvla
  -Wmissing-declarations -Wredundant-decls
  -Wpointer-arith -Wcast-qual -Wwrite-strings
  -Wformat=2 -Wimplicit-fallthrough -Wswitch-enum -Wfloat-equal)
set(warnings_c -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wnested-externs -Wbad-function-cast)
set(warnings_cxx -Wold-style-cast -Wnon-virtual-dtor -Woverloaded-virtual)
set(warnings_gnu
  -Wcast-align=strict -Wlogical-op -Wduplicated-cond -Wduplicated-branches
  -Wformat-overflow=2 $<$<COMPILE_LANGUAGE:C>:-Wjump-misses-init>)
set(warnings_clang
  -Wcast-align -Wunreachable-code-aggressive
  -Wassign-enum -Wshorten-64-to-32
  -Wno-enum-float-conversion # clang 19 has it in -Wextra: constants are enumerators here, and exact as doubles
  -Wno-string-conversion) # assert(!"why this cannot be reached")

target_compile_options(redlock_compile_options INTERFACE
  ${warnings}
  $<$<COMPILE_LANGUAGE:C>:${warnings_c}>
  $<$<COMPILE_LANGUAGE:CXX>:${warnings_cxx}>
  $<$<C_COMPILER_ID:GNU>:${warnings_gnu}>
  $<$<C_COMPILER_ID:Clang,AppleClang>:${warnings_clang}>
  $<$<BOOL:${REDLOCK_WERROR}>:-Werror>)

if(REDLOCK_SANITIZE)
  set(known address undefined thread leak)
  foreach(sanitizer IN LISTS REDLOCK_SANITIZE)
    if(NOT sanitizer IN_LIST known)
      message(FATAL_ERROR "REDLOCK_SANITIZE: '${sanitizer}' is not one of ${known}. Example: -DREDLOCK_SANITIZE='address;undefined'")
    endif()
  endforeach()
  if("thread" IN_LIST REDLOCK_SANITIZE AND ("address" IN_LIST REDLOCK_SANITIZE OR "leak" IN_LIST REDLOCK_SANITIZE))
    message(FATAL_ERROR "REDLOCK_SANITIZE: 'thread' cannot be combined with 'address' or 'leak'. Use two build directories.")
  endif()
  list(JOIN REDLOCK_SANITIZE "," sanitizers)
  target_compile_options(redlock_compile_options INTERFACE
    -fsanitize=${sanitizers} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(redlock_compile_options INTERFACE -fsanitize=${sanitizers})
endif()

# Compiles a target without a sanitizer, or without `all`. A target's own options come before those of the libraries it links, and the
# last option counts, so this is a library, too.
function(redlock_leave_out_sanitizer target sanitizer)
  if(REDLOCK_SANITIZE)
    add_library(${target}_without_sanitizer INTERFACE)
    target_compile_options(${target}_without_sanitizer INTERFACE -fno-sanitize=${sanitizer})
    target_link_libraries(${target} PRIVATE ${target}_without_sanitizer)
  endif()
endfunction()

if(REDLOCK_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "REDLOCK_FUZZ needs clang's libFuzzer. Use the preset 'fuzz', or -DCMAKE_C_COMPILER=clang.")
  endif()
  target_compile_options(redlock_compile_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

if(REDLOCK_COVERAGE)
  target_compile_options(redlock_compile_options INTERFACE --coverage -fprofile-update=atomic)
  target_link_options(redlock_compile_options INTERFACE --coverage)
endif()
