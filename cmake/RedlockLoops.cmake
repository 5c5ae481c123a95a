# The event loops that examples, tests and benchmarks use, if they are installed: the targets PkgConfig::LIBUV,
# PkgConfig::LIBEVENT and PkgConfig::GLIB, and REDLOCK_ASIO_INCLUDE.

find_package(PkgConfig QUIET)
foreach(loop IN ITEMS LIBUV:libuv:libuv1-dev LIBEVENT:libevent:libevent-dev GLIB:glib-2.0:libglib2.0-dev)
  string(REPLACE ":" ";" loop ${loop})
  list(GET loop 0 name)
  list(GET loop 1 module)
  list(GET loop 2 package)
  if(PkgConfig_FOUND)
    pkg_check_modules(${name} QUIET IMPORTED_TARGET GLOBAL ${module})
  endif()
  if(NOT TARGET PkgConfig::${name})
    message(STATUS "Examples and tests with ${module} are left out: they need ${package} and pkg-config")
  endif()
endforeach()

find_path(REDLOCK_ASIO_INCLUDE asio.hpp)
mark_as_advanced(REDLOCK_ASIO_INCLUDE)
if(NOT REDLOCK_ASIO_INCLUDE)
  message(STATUS "Examples and tests with Asio are left out: they need libasio-dev")
endif()

# Coroutines, where the compiler has them.
function(redlock_use_asio target)
  target_include_directories(${target} SYSTEM PRIVATE ${REDLOCK_ASIO_INCLUDE})
  target_link_libraries(${target} PRIVATE Threads::Threads)
  # Asio uses fences, which ThreadSanitizer does not know.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
  if("cxx_std_20" IN_LIST CMAKE_CXX_COMPILE_FEATURES)
    target_compile_features(${target} PRIVATE cxx_std_20)
  endif()
endfunction()
