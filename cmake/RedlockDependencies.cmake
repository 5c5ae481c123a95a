# What we are built on, and which optional parts of it are there.
#
# Sets REDLOCK_WITH_TLS: whether rediss:// is compiled in.

# Our own modules, also where a toolchain prefers the packages' files.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(Hiredis 0.14 MODULE REQUIRED)
find_package(Libev 4.24 MODULE REQUIRED)
if(REDLOCK_BUILD_CLI)
  find_package(Inih MODULE REQUIRED)
endif()
if(REDLOCK_BUILD_TESTS)
  find_package(Check 0.15 MODULE REQUIRED)
endif()

if(NOT REDLOCK_TLS MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "REDLOCK_TLS is '${REDLOCK_TLS}'; it must be AUTO, ON or OFF.")
endif()
set(REDLOCK_WITH_TLS FALSE)
if(NOT REDLOCK_TLS STREQUAL "OFF")
  if(TARGET Hiredis::SSL)
    find_package(OpenSSL 1.1.1 QUIET)
  endif()
  if(TARGET Hiredis::SSL AND OPENSSL_FOUND)
    set(REDLOCK_WITH_TLS TRUE)
  elseif(REDLOCK_TLS STREQUAL "ON")
    if(TARGET Hiredis::SSL)
      set(missing "OpenSSL's headers are not there (libssl-dev, openssl-devel)")
    else()
      set(missing "no hiredis_ssl of the same version stands beside it")
    endif()
    message(FATAL_ERROR
      "REDLOCK_TLS=ON needs hiredis >= 1.0 with hiredis_ssl, and OpenSSL. Found hiredis ${Hiredis_VERSION} in ${Hiredis_LIBRARY}, "
      "but ${missing}.\n"
      "Point HIREDIS_ROOT at a hiredis built with USE_SSL=1, or use REDLOCK_TLS=AUTO to build without TLS.")
  endif()
endif()

if(REDLOCK_WITH_TLS)
  message(STATUS "TLS: yes (hiredis_ssl, OpenSSL ${OPENSSL_VERSION})")
else()
  message(STATUS "TLS: no (REDLOCK_TLS=${REDLOCK_TLS}, hiredis ${Hiredis_VERSION})")
endif()
