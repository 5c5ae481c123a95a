# FindLibev - the event loop. Debian ships no pkg-config file for it.
#
# Hint:    LIBEV_ROOT (variable or environment)
# Targets: Libev::Libev
# Sets:    Libev_FOUND, Libev_VERSION, Libev_INCLUDE_DIR, Libev_LIBRARY

# Some distributions put ev.h under libev/, to keep libevent's ev.h apart.
find_path(Libev_INCLUDE_DIR ev.h HINTS "${LIBEV_ROOT}" ENV LIBEV_ROOT PATH_SUFFIXES include include/libev libev)
find_library(Libev_LIBRARY ev HINTS "${LIBEV_ROOT}" ENV LIBEV_ROOT PATH_SUFFIXES lib lib64)

if(Libev_INCLUDE_DIR)
  set(_Libev_version_parts)
  foreach(part IN ITEMS MAJOR MINOR)
    file(STRINGS "${Libev_INCLUDE_DIR}/ev.h" _Libev_line REGEX "^#define[ \t]+EV_VERSION_${part}[ \t]+[0-9]+" LIMIT_COUNT 1)
    string(REGEX MATCH "[0-9]+$" _Libev_part "${_Libev_line}")
    list(APPEND _Libev_version_parts "${_Libev_part}")
  endforeach()
  list(JOIN _Libev_version_parts "." Libev_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Libev
  REQUIRED_VARS Libev_LIBRARY Libev_INCLUDE_DIR
  VERSION_VAR Libev_VERSION
  REASON_FAILURE_MESSAGE "Install libev-dev (libev-devel), or set LIBEV_ROOT to its prefix.")

if(Libev_FOUND AND NOT TARGET Libev::Libev)
  add_library(Libev::Libev UNKNOWN IMPORTED)
  set_target_properties(Libev::Libev PROPERTIES
    IMPORTED_LOCATION "${Libev_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${Libev_INCLUDE_DIR}")
endif()

mark_as_advanced(Libev_INCLUDE_DIR Libev_LIBRARY)
