# FindHiredis - the Redis client library, 0.14 and later.
#
# Distributions disagree: Debian 12 ships a HiredisConfig.cmake without targets, upstream another name and only when it was
# built by CMake. Looking at the files themselves works everywhere.
#
# Hint:    HIREDIS_ROOT (variable or environment): the prefix of a hiredis installed elsewhere; nothing else is then looked at.
# Targets: Hiredis::Hiredis, and Hiredis::SSL where hiredis_ssl is there too.
# Sets:    Hiredis_FOUND, Hiredis_VERSION, Hiredis_INCLUDE_DIR, Hiredis_LIBRARY, Hiredis_SSL_LIBRARY

if(NOT HIREDIS_ROOT AND DEFINED ENV{HIREDIS_ROOT})
  set(HIREDIS_ROOT "$ENV{HIREDIS_ROOT}")
endif()

# A changed hint must not be answered from the cache.
if(NOT "${HIREDIS_ROOT}" STREQUAL "${_Hiredis_ROOT_SEEN}")
  unset(Hiredis_INCLUDE_DIR CACHE)
  unset(Hiredis_LIBRARY CACHE)
  unset(Hiredis_SSL_LIBRARY CACHE)
  set(_Hiredis_ROOT_SEEN "${HIREDIS_ROOT}" CACHE INTERNAL "")
endif()

set(_Hiredis_where)
if(HIREDIS_ROOT)
  set(_Hiredis_where PATHS "${HIREDIS_ROOT}" NO_DEFAULT_PATH)
endif()
find_path(Hiredis_INCLUDE_DIR hiredis/hiredis.h ${_Hiredis_where} PATH_SUFFIXES include)
find_library(Hiredis_LIBRARY hiredis ${_Hiredis_where}
  PATH_SUFFIXES lib lib64 "lib/${CMAKE_LIBRARY_ARCHITECTURE}")

# Both halves of one installation, or none: hiredis_ssl reaches into hiredis' private structs.
if(Hiredis_LIBRARY AND EXISTS "${Hiredis_INCLUDE_DIR}/hiredis/hiredis_ssl.h")
  get_filename_component(_Hiredis_lib_dir "${Hiredis_LIBRARY}" DIRECTORY)
  find_library(Hiredis_SSL_LIBRARY hiredis_ssl PATHS "${_Hiredis_lib_dir}" NO_DEFAULT_PATH)
endif()

if(Hiredis_INCLUDE_DIR)
  set(_Hiredis_version_parts)
  foreach(part IN ITEMS MAJOR MINOR PATCH)
    file(STRINGS "${Hiredis_INCLUDE_DIR}/hiredis/hiredis.h" _Hiredis_line
      REGEX "^#define[ \t]+HIREDIS_${part}[ \t]+[0-9]+" LIMIT_COUNT 1)
    string(REGEX MATCH "[0-9]+$" _Hiredis_part "${_Hiredis_line}")
    list(APPEND _Hiredis_version_parts "${_Hiredis_part}")
  endforeach()
  list(JOIN _Hiredis_version_parts "." Hiredis_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Hiredis
  REQUIRED_VARS Hiredis_LIBRARY Hiredis_INCLUDE_DIR
  VERSION_VAR Hiredis_VERSION
  REASON_FAILURE_MESSAGE "Install libhiredis-dev (hiredis-devel), or set HIREDIS_ROOT to a prefix that has include/hiredis/hiredis.h.")

if(Hiredis_FOUND AND NOT TARGET Hiredis::Hiredis)
  add_library(Hiredis::Hiredis UNKNOWN IMPORTED)
  set_target_properties(Hiredis::Hiredis PROPERTIES
    IMPORTED_LOCATION "${Hiredis_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${Hiredis_INCLUDE_DIR}")
endif()
if(Hiredis_FOUND AND Hiredis_SSL_LIBRARY AND NOT TARGET Hiredis::SSL)
  add_library(Hiredis::SSL UNKNOWN IMPORTED)
  set_target_properties(Hiredis::SSL PROPERTIES
    IMPORTED_LOCATION "${Hiredis_SSL_LIBRARY}"
    INTERFACE_LINK_LIBRARIES Hiredis::Hiredis)
endif()

mark_as_advanced(Hiredis_INCLUDE_DIR Hiredis_LIBRARY Hiredis_SSL_LIBRARY)
