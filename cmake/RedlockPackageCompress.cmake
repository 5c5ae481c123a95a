# Run by cpack on the staged files: Debian wants manual pages and changelogs compressed, without the time in it.

file(GLOB_RECURSE documents "${CPACK_TEMPORARY_DIRECTORY}/*")
list(FILTER documents INCLUDE REGEX "/man/man[1-9]/[^/]+[.][1-9]$|/doc/[^/]+/changelog([.]Debian)?$")
if(NOT documents)
  message(FATAL_ERROR "${CPACK_TEMPORARY_DIRECTORY}: no manual page is there")
endif()
foreach(document IN LISTS documents)
  execute_process(COMMAND gzip -9n -f "${document}" COMMAND_ERROR_IS_FATAL ANY)
endforeach()
