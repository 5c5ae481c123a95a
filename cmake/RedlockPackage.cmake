# Debian packages, made by scripts/package.sh (cpack -G DEB). Three, as Debian splits libraries: a machine that runs jobs needs no headers,
# and another interface of the library can be installed beside this one.
#
#   redlock         the command, its manual and completion; redlock(7)
#   libredlock0.1   the shared library
#   libredlock-dev  headers, archive, pkg-config and CMake files, manual of the functions

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME redlock)
set(CPACK_PACKAGE_VENDOR "The redlock authors")
set(CPACK_PACKAGE_CONTACT "${REDLOCK_PACKAGE_MAINTAINER}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "") # each package has its own
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_COMPONENTS_ALL command library development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}/src") # the command needs the library of this very build
set(version "${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}")
set(library libredlock${REDLOCK_INTERFACE_VERSION})
set(about "redlock grants a lock when a majority of N independent Redis servers
grants it, renews it while it is held, and notifies its holder if it is lost.")

function(redlock_package component name section)
  cmake_parse_arguments(PARSE_ARGV 3 arg "" "SUMMARY;TEXT" "DEPENDS;SUGGESTS")
  string(TOUPPER "${component}" prefix)
  string(PREPEND prefix CPACK_DEBIAN_)
  list(JOIN arg_DEPENDS ", " depends)
  list(JOIN arg_SUGGESTS ", " suggests)
  set(${prefix}_PACKAGE_NAME "${name}" PARENT_SCOPE)
  set(${prefix}_PACKAGE_SECTION "${section}" PARENT_SCOPE)
  set(${prefix}_PACKAGE_DEPENDS "${depends}" PARENT_SCOPE)
  set(${prefix}_PACKAGE_SUGGESTS "${suggests}" PARENT_SCOPE)
  set(${prefix}_DESCRIPTION "${arg_SUMMARY}\n${about}\n\n${arg_TEXT}" PARENT_SCOPE)

  # What a package says of itself; RedlockPackageCompress.cmake compresses it.
  set(doc "${PROJECT_BINARY_DIR}/package/${name}")
  string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)
  file(CONFIGURE OUTPUT "${doc}/changelog.Debian" @ONLY CONTENT
"redlock (@version@) unstable; urgency=medium

  * Release @PROJECT_VERSION@: see changelog.gz.

 -- @REDLOCK_PACKAGE_MAINTAINER@  @now@
")
  file(READ "${PROJECT_SOURCE_DIR}/LICENSE" license)
  string(REGEX MATCH "Copyright \\(c\\) ([^\n]+)" notice "${license}")
  set(notice "${CMAKE_MATCH_1}")
  string(REGEX REPLACE "^.*Copyright[^\n]*\n\n" "" license "${license}")
  string(REGEX REPLACE "\n$" "" license "${license}")
  string(REPLACE "\n\n" "\n.\n" license "${license}")
  string(REPLACE "\n" "\n " license "${license}")
  file(CONFIGURE OUTPUT "${doc}/copyright" @ONLY CONTENT
"Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: redlock

Files: *
Copyright: @notice@
License: Expat

License: Expat
 @license@
")
  install(FILES "${doc}/copyright" "${doc}/changelog.Debian" DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/${name}"
    COMPONENT ${component} EXCLUDE_FROM_ALL)
  install(FILES "${PROJECT_SOURCE_DIR}/CHANGELOG.md" DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/${name}" RENAME changelog
    COMPONENT ${component} EXCLUDE_FROM_ALL)
endfunction()

redlock_package(command redlock utils
  DEPENDS "${library} (= ${version})"
  SUGGESTS redis-server
  SUMMARY "run programs under a distributed lock over Redis servers"
  TEXT "This is the command: it runs any program while it holds a lock, and shows
who holds what and what is wrong with the servers.")
redlock_package(library ${library} libs
  SUMMARY "distributed lock over Redis servers - library"
  TEXT "This is the shared library.")
set(archive_needs libhiredis-dev libev-dev)
if(REDLOCK_WITH_TLS)
  list(APPEND archive_needs libssl-dev)
endif()
redlock_package(development libredlock-dev libdevel
  DEPENDS "${library} (= ${version})" ${archive_needs}
  SUGGESTS "redlock (= ${version})" pkg-config
  SUMMARY "distributed lock over Redis servers - development files"
  TEXT "This is what programs in C and C++ are built with: the headers, the
archive, the files for pkg-config and CMake, and the manual.")
# cpack would write these by itself, with scripts that call ldconfig instead of the trigger.
file(WRITE "${PROJECT_BINARY_DIR}/package/shlibs" "libredlock ${REDLOCK_INTERFACE_VERSION} ${library} (>= ${PROJECT_VERSION})\n")
file(WRITE "${PROJECT_BINARY_DIR}/package/triggers" "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA "${PROJECT_BINARY_DIR}/package/shlibs" "${PROJECT_BINARY_DIR}/package/triggers")
set(CPACK_PRE_BUILD_SCRIPTS "${PROJECT_SOURCE_DIR}/cmake/RedlockPackageCompress.cmake")

include(CPack)
