# What is installed, and how it is found again: the libraries, the headers, redlock.pc and the package of find_package(redlock).
#
# Components, so that packagers can split it: 'library' (what programs need to run), 'development' (what they need to be built), 'command'
# (redlock(1)) and 'documentation'. Debian's packages are made by debian/.

include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/redlock")

if(REDLOCK_BUILD_SHARED)
  install(TARGETS redlock EXPORT redlock_shared
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT library NAMELINK_COMPONENT development)
  install(EXPORT redlock_shared NAMESPACE redlock:: FILE redlock-shared.cmake
    DESTINATION "${package_dir}" COMPONENT development)
endif()
# A file of targets of its own: they need hiredis and libev, which those who link the shared library need not have.
install(TARGETS redlock_static EXPORT redlock_static
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT development)
install(EXPORT redlock_static NAMESPACE redlock:: FILE redlock-static.cmake
  DESTINATION "${package_dir}" COMPONENT development)

install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/redlock" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  COMPONENT development FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")

if(TARGET redlock_command)
  install(FILES "${PROJECT_SOURCE_DIR}/completions/redlock.bash"
    DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" RENAME redlock COMPONENT command)
  # Debian's zsh searches another directory for packages than zsh does upstream.
  set(zsh_completions "${CMAKE_INSTALL_DATADIR}/zsh/site-functions")
  if(CMAKE_INSTALL_PREFIX STREQUAL "/usr" AND EXISTS /etc/debian_version)
    set(zsh_completions "${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions")
  endif()
  install(FILES "${PROJECT_SOURCE_DIR}/completions/_redlock" DESTINATION "${zsh_completions}" COMPONENT command)
  install(FILES "${PROJECT_SOURCE_DIR}/completions/redlock.fish"
    DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d" COMPONENT command)
  install(TARGETS redlock_command RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT command)
  # Outside of the system's own directories nobody else tells it where the library is.
  if(REDLOCK_BUILD_SHARED AND NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")
    file(RELATIVE_PATH libraries "${CMAKE_INSTALL_FULL_BINDIR}" "${CMAKE_INSTALL_FULL_LIBDIR}")
    set_target_properties(redlock_command PROPERTIES INSTALL_RPATH "$ORIGIN/${libraries}")
  endif()
endif()

# The guides and examples, with the files that they refer to in the places of the source tree, so that every link works.
function(redlock_documents directory) # FILE...
  list(TRANSFORM ARGN PREPEND "${PROJECT_SOURCE_DIR}/")
  install(FILES ${ARGN} DESTINATION "${CMAKE_INSTALL_DOCDIR}/${directory}" COMPONENT documentation)
endfunction()
redlock_documents(. README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE)
redlock_documents(bench bench/README.md)
redlock_documents(src src/README.md)
redlock_documents(cli cli/README.md)
redlock_documents(man man/redlock.7)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs" "${PROJECT_SOURCE_DIR}/examples" DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT documentation)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/redlock" DESTINATION "${CMAKE_INSTALL_DOCDIR}/include" COMPONENT documentation)

# hiredis' versions are not compatible in their structs: an archive built on one must be linked with the same.
string(REGEX MATCH "^[0-9]+\\.[0-9]+" REDLOCK_HIREDIS_SERIES "${Hiredis_VERSION}")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/redlock-config.cmake.in"
  "${PROJECT_BINARY_DIR}/redlock-config.cmake"
  INSTALL_DESTINATION "${package_dir}" NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/redlock-config-version.cmake" COMPATIBILITY SameMajorVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/redlock-config.cmake"
  "${PROJECT_BINARY_DIR}/redlock-config-version.cmake"
  "${PROJECT_SOURCE_DIR}/cmake/FindHiredis.cmake"
  "${PROJECT_SOURCE_DIR}/cmake/FindLibev.cmake"
  DESTINATION "${package_dir}" COMPONENT development)

# redlock.pc names its prefix by the way from itself, so that the installed tree can be moved; directories outside the prefix stay
# where they are.
function(redlock_pc_directory result directory)
  cmake_path(IS_PREFIX CMAKE_INSTALL_PREFIX "${CMAKE_INSTALL_FULL_${directory}}" NORMALIZE inside)
  if(inside)
    file(RELATIVE_PATH relative "${CMAKE_INSTALL_PREFIX}" "${CMAKE_INSTALL_FULL_${directory}}")
    set(${result} "\${prefix}/${relative}" PARENT_SCOPE)
  else()
    set(${result} "${CMAKE_INSTALL_FULL_${directory}}" PARENT_SCOPE)
  endif()
endfunction()
redlock_pc_directory(pc_libdir LIBDIR)
redlock_pc_directory(pc_includedir INCLUDEDIR)
if(pc_libdir MATCHES "^\\\$")
  file(RELATIVE_PATH pc_prefix "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
  string(REGEX REPLACE "/$" "" pc_prefix "\${pcfiledir}/${pc_prefix}")
else()
  set(pc_prefix "${CMAKE_INSTALL_PREFIX}")
endif()
# The libraries that a static link needs, by name. Requires.private would ask for their .pc files where the shared library is linked, too; and
# libcrypto.pc for the libraries that a static OpenSSL needs (-lz -lzstd in Debian 13), which are not there where it is shared.
set(pc_libraries "-lhiredis -lev -lm -pthread")
if(REDLOCK_WITH_TLS)
  set(pc_libraries "-lhiredis_ssl -lhiredis -lssl -lcrypto -lev -lm -pthread")
endif()
foreach(file IN LISTS Libev_LIBRARY Hiredis_LIBRARY)
  cmake_path(GET file PARENT_PATH directory)
  if(NOT directory IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
    string(PREPEND pc_libraries "-L${directory} ")
  endif()
endforeach()
configure_file("${PROJECT_SOURCE_DIR}/cmake/redlock.pc.in" "${PROJECT_BINARY_DIR}/redlock.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/redlock.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT development)
