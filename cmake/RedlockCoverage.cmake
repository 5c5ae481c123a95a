# The target 'coverage': runs the tests and reports what they reached, as text here and as pages in coverage/index.html. It fails below
# the least that is asked for.

find_program(GCOVR gcovr)
if(NOT GCOVR)
  message(FATAL_ERROR "REDLOCK_COVERAGE=ON needs gcovr. Install it (Debian: gcovr), or build without coverage.")
endif()
if(CMAKE_C_COMPILER_ID MATCHES Clang)
  set(gcov --gcov-executable "llvm-cov gcov")
endif()

set(report "${PROJECT_BINARY_DIR}/coverage")
set(rules --filter "${PROJECT_SOURCE_DIR}/quorum/")
set(core --filter "${PROJECT_SOURCE_DIR}/src/")
set(measured
  ${GCOVR} ${gcov} --root "${PROJECT_SOURCE_DIR}" --object-directory "${PROJECT_BINARY_DIR}" "${PROJECT_BINARY_DIR}"
  # The branch of a failing assert is one that no test may take.
  --exclude-branches-by-pattern ".*\\bassert\\(.*")
include(ProcessorCount)
ProcessorCount(processors)
math(EXPR jobs "${processors} + 1")

# Counters add up over runs; those of an earlier build of a changed file would not match. Each program in one process is enough here, and what measures time or
# is killed on purpose tells nothing.
add_custom_target(coverage
  COMMAND find "${PROJECT_BINARY_DIR}" -name "*.gcda" -delete
  COMMAND ${CMAKE_CTEST_COMMAND} --test-dir "${PROJECT_BINARY_DIR}" --output-on-failure --parallel ${jobs}
    --label-exclude "forked|timing|torture|neighbour"
  COMMAND ${CMAKE_COMMAND} -E make_directory "${report}"
  COMMAND ${measured} ${rules} ${core} --html-details "${report}/index.html"
  COMMAND ${measured} ${rules} ${core}
  COMMAND ${measured} ${rules} ${core} --branches
  COMMAND ${CMAKE_COMMAND} -E echo "Pages: ${report}/index.html"
  COMMAND ${CMAKE_COMMAND} -E echo "quorum/, of whose branches all must be reached:"
  COMMAND ${measured} ${rules} --output "${report}/quorum.txt" --print-summary --fail-under-branch 100
  COMMAND ${CMAKE_COMMAND} -E echo "src/, of whose lines 90 % must be reached:"
  COMMAND ${measured} ${core} --output "${report}/src.txt" --print-summary --fail-under-line 90
  USES_TERMINAL VERBATIM)
