# FindCheck - libcheck, the unit test framework.
#
# Hint:    CHECK_ROOT (variable or environment)
# Targets: Check::Check
# Sets:    Check_FOUND, Check_VERSION, Check_INCLUDE_DIR, Check_LIBRARY

find_path(Check_INCLUDE_DIR check.h HINTS "${CHECK_ROOT}" ENV CHECK_ROOT PATH_SUFFIXES include)
# Debian has only archives; the plain one is not position independent, which our executables are.
find_library(Check_LIBRARY NAMES check_pic check HINTS "${CHECK_ROOT}" ENV CHECK_ROOT PATH_SUFFIXES lib lib64)
find_library(Check_SUBUNIT_LIBRARY subunit)

if(Check_INCLUDE_DIR)
  set(_Check_version_parts)
  foreach(part IN ITEMS MAJOR MINOR MICRO)
    file(STRINGS "${Check_INCLUDE_DIR}/check.h" _Check_line REGEX "^#define[ \t]+CHECK_${part}_VERSION" LIMIT_COUNT 1)
    string(REGEX MATCH "[0-9]+" _Check_part "${_Check_line}")
    list(APPEND _Check_version_parts "${_Check_part}")
  endforeach()
  list(JOIN _Check_version_parts "." Check_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Check
  REQUIRED_VARS Check_LIBRARY Check_INCLUDE_DIR
  VERSION_VAR Check_VERSION
  REASON_FAILURE_MESSAGE "Install check (check-devel), or build without tests: -DREDLOCK_BUILD_TESTS=OFF.")

if(Check_FOUND AND NOT TARGET Check::Check)
  set(_Check_needs Threads::Threads m rt)
  if(Check_SUBUNIT_LIBRARY)
    list(PREPEND _Check_needs "${Check_SUBUNIT_LIBRARY}")
  endif()
  add_library(Check::Check UNKNOWN IMPORTED)
  set_target_properties(Check::Check PROPERTIES
    IMPORTED_LOCATION "${Check_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${Check_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES "${_Check_needs}")
endif()

mark_as_advanced(Check_INCLUDE_DIR Check_LIBRARY Check_SUBUNIT_LIBRARY)
