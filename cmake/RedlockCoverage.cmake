# The target 'coverage': runs the tests and reports what they reached, as text here and as pages in coverage/index.html.

find_program(GCOVR gcovr)
if(NOT GCOVR)
  message(FATAL_ERROR "REDLOCK_COVERAGE=ON needs gcovr. Install it (Debian: gcovr), or build without coverage.")
endif()
if(CMAKE_C_COMPILER_ID MATCHES Clang)
  set(gcov --gcov-executable "llvm-cov gcov")
endif()

set(report "${PROJECT_BINARY_DIR}/coverage")
set(measured
  ${GCOVR} ${gcov} --root "${PROJECT_SOURCE_DIR}" --object-directory "${PROJECT_BINARY_DIR}" "${PROJECT_BINARY_DIR}"
  --filter "${PROJECT_SOURCE_DIR}/quorum/" --filter "${PROJECT_SOURCE_DIR}/src/"
  # The branch of a failing assert is one that no test may take.
  --exclude-branches-by-pattern ".*\\bassert\\(.*")

# Counters add up over runs; those of an earlier build of a changed file would not match.
add_custom_target(coverage
  COMMAND find "${PROJECT_BINARY_DIR}" -name "*.gcda" -delete
  COMMAND ${CMAKE_CTEST_COMMAND} --test-dir "${PROJECT_BINARY_DIR}" --output-on-failure
  COMMAND ${CMAKE_COMMAND} -E make_directory "${report}"
  COMMAND ${measured} --html-details "${report}/index.html"
  COMMAND ${measured} --print-summary
  COMMAND ${measured} --branches
  COMMAND ${CMAKE_COMMAND} -E echo "Pages: ${report}/index.html"
  USES_TERMINAL VERBATIM)
