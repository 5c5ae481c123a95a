# FindInih - the parser of config files.
#
# Hint:    INIH_ROOT (variable or environment)
# Targets: Inih::Inih
# Sets:    Inih_FOUND, Inih_INCLUDE_DIR, Inih_LIBRARY

find_path(Inih_INCLUDE_DIR ini.h HINTS "${INIH_ROOT}" ENV INIH_ROOT PATH_SUFFIXES include)
find_library(Inih_LIBRARY inih HINTS "${INIH_ROOT}" ENV INIH_ROOT PATH_SUFFIXES lib lib64)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Inih
  REQUIRED_VARS Inih_LIBRARY Inih_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "Install libinih-dev (inih-devel), set INIH_ROOT to its prefix, or leave the command out with -DREDLOCK_BUILD_CLI=OFF.")

if(Inih_FOUND AND NOT TARGET Inih::Inih)
  add_library(Inih::Inih UNKNOWN IMPORTED)
  set_target_properties(Inih::Inih PROPERTIES
    IMPORTED_LOCATION "${Inih_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${Inih_INCLUDE_DIR}")
endif()

mark_as_advanced(Inih_INCLUDE_DIR Inih_LIBRARY)
