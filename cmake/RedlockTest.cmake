# How tests are built and registered.
#
#   redlock_add_test(NAME name SOURCES file...
#     [PURE]         the rules alone: link the quorum objects only, neither libredlock nor the test support
#     [INTERNAL]     may include "quorum/..." and "src/..." beside the public header
#     [NO_NOFORK]    needs Check's fork mode (death tests, tests that end in a signal)
#     [LABELS ...]   unit     pure or scripted, runs under valgrind
#                    timed    scripted, not under valgrind
#                    threads  runs under ThreadSanitizer
#                    servers  needs redis-server
#                    children forks or ends processes: the same on every kind of server
#                    timing   measures time: runs alone
#     [BY_CASE]      long: one test for each of the program's cases, NAME.CASE, so that they run side by side
#     [LIBRARIES target...] [TIMEOUT seconds])
#   A Check program, run once per CK_FORK mode: NAME (label `forked`) and NAME.nofork (label `nofork`). scripts/test.sh runs the former in
#   `dev` and the latter in the other builds. Exit status 77 is "skipped".
#   The targets tests_unit and tests_threads build the programs of these labels alone.
#
#   redlock_add_script_test(NAME name COMMAND ... [LABELS ...] [TIMEOUT seconds] [ENVIRONMENT VAR=value...])
#
# REDLOCK_TEST_LAUNCHER is put before every test program, e.g. valgrind and its options; by default the emulator of a cross compilation.

set(REDLOCK_TEST_LAUNCHER "${CMAKE_CROSSCOMPILING_EMULATOR}" CACHE STRING "Command put before every test program, a list")

find_program(REDLOCK_BASH bash REQUIRED)

# A busy machine gives a test a tenth of a processor.
set(redlock_test_slowdown 3)
if(REDLOCK_TEST_LAUNCHER)
  set(redlock_test_slowdown 20)
elseif(REDLOCK_SANITIZE OR REDLOCK_COVERAGE)
  set(redlock_test_slowdown 4)
endif()

# A sanitizer's finding must end the test, with a stack to read.
set(redlock_test_environment "")
if(REDLOCK_SANITIZE)
  set(redlock_test_environment
    UBSAN_OPTIONS=print_stacktrace=1
    ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
    "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=${PROJECT_SOURCE_DIR}/tests/support/thread_sanitizer.supp")
endif()

function(redlock_register_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "COMMAND;LABELS;ENVIRONMENT;TIMEOUT") # TIMEOUT may be given without a value
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  math(EXPR timeout "${arg_TIMEOUT} * ${redlock_test_slowdown}")
  add_test(NAME ${name} COMMAND ${arg_COMMAND} COMMAND_EXPAND_LISTS)
  # A test that may take longer starts sooner: the last one to run decides when all have.
  set_tests_properties(${name} PROPERTIES
    LABELS "${arg_LABELS}"
    TIMEOUT ${timeout}
    COST ${timeout}
    SKIP_RETURN_CODE 77
    ENVIRONMENT "${redlock_test_environment};${arg_ENVIRONMENT}")
  if("timing" IN_LIST arg_LABELS)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL TRUE)
  elseif(arg_LABELS MATCHES "simulation|exhaustive|torture|install")
    # scripts/test.sh runs four tests per processor, because most of them wait. These compute: each takes the place of three, so that the
    # tests that wait find a processor. They start first: later, three places are rarely free together, and these would be left to the end.
    math(EXPR cost "${timeout} + 10000")
    set_tests_properties(${name} PROPERTIES PROCESSORS 3 COST ${cost})
  endif()
endfunction()

foreach(label IN ITEMS unit threads)
  add_custom_target(tests_${label})
endforeach()

function(redlock_add_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "PURE;INTERNAL;NO_NOFORK;BY_CASE" "NAME;TIMEOUT" "SOURCES;LABELS;LIBRARIES")
  if(NOT DEFINED arg_NAME OR NOT DEFINED arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "redlock_add_test: NAME and SOURCES are needed, '${arg_UNPARSED_ARGUMENTS}' is not understood.")
  endif()

  set(target test_${arg_NAME})
  add_executable(${target} ${arg_SOURCES})
  # All in one place, so that a test is started as build/dev/tests/test_NAME, whichever folder has its source.
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  target_compile_definitions(${target} PRIVATE $<$<COMPILE_LANGUAGE:C>:_GNU_SOURCE=>) # C++ compilers define it themselves
  target_link_libraries(${target} PRIVATE redlock_compile_options Check::Check ${arg_LIBRARIES})
  if(arg_PURE)
    target_link_libraries(${target} PRIVATE redlock_quorum)
  else()
    target_link_libraries(${target} PRIVATE redlock_test_support redlock_static)
  endif()
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/tests")
  if(arg_PURE OR arg_INTERNAL)
    target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}")
  endif()

  foreach(label IN ITEMS unit threads)
    if(label IN_LIST arg_LABELS)
      add_dependencies(tests_${label} ${target})
    endif()
  endforeach()

  # Check's own limit of 4 s is too short for a case that computes on a busy machine.
  set(environment CK_DEFAULT_TIMEOUT=30 "CK_TIMEOUT_MULTIPLIER=${redlock_test_slowdown}")
  set(rest COMMAND ${REDLOCK_TEST_LAUNCHER} $<TARGET_FILE:${target}> TIMEOUT "${arg_TIMEOUT}")
  set(cases all)
  if(arg_BY_CASE)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${arg_SOURCES})
    file(STRINGS ${arg_SOURCES} cases REGEX "^(REAL|TEST)_[A-Z_]*CASE[A-Z_]*\\(")
    list(TRANSFORM cases REPLACE "^[A-Z_]*\\(([a-z_]+).*" "\\1")
  endif()
  foreach(case IN LISTS cases)
    set(name ${arg_NAME})
    set(here ${environment})
    if(arg_BY_CASE)
      string(APPEND name .${case})
      list(APPEND here CK_RUN_CASE=${case})
    endif()
    if(arg_NO_NOFORK)
      redlock_register_test(${name} ${rest} LABELS ${arg_LABELS} ENVIRONMENT ${here} CK_FORK=yes)
    else()
      # Under a launcher one mode is enough; the label 'forked' lets it be left out.
      redlock_register_test(${name} ${rest} LABELS ${arg_LABELS} forked ENVIRONMENT ${here} CK_FORK=yes)
      redlock_register_test(${name}.nofork ${rest} LABELS ${arg_LABELS} nofork ENVIRONMENT ${here} CK_FORK=no)
    endif()
  endforeach()
endfunction()

function(redlock_add_script_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;TIMEOUT" "COMMAND;LABELS;ENVIRONMENT")
  if(NOT DEFINED arg_NAME OR NOT DEFINED arg_COMMAND OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "redlock_add_script_test: NAME and COMMAND are needed, '${arg_UNPARSED_ARGUMENTS}' is not understood.")
  endif()
  redlock_register_test(${arg_NAME} COMMAND ${arg_COMMAND} TIMEOUT "${arg_TIMEOUT}"
    LABELS ${arg_LABELS} script ENVIRONMENT ${arg_ENVIRONMENT})
endfunction()
