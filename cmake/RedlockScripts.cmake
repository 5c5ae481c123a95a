# The Lua scripts as C: text and SHA1, which is what EVALSHA names them by. The .lua files stay the only source.
# A line "-- include NAME" stands for include/NAME.lua. Lines that are comments, but for the first, and indentation are left out: every new
# connection carries these texts. The numbers of src/node/limits.h replace their names. The texts that result are put beside
# the output, too, as scripts/NAME.lua.
#
# A line "-- Answers {one, other}" in a script names the elements of its answer: the C code must have them, in this
# order, as RL_SCRIPT_ONE, RL_SCRIPT_OTHER and RL_SCRIPT_ELEMENTS.

# The limits as a list of names and values.
function(redlock_script_limits result)
  set(header "${CMAKE_CURRENT_SOURCE_DIR}/node/limits.h")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${header}")
  file(STRINGS "${header}" lines REGEX "^#define RL_[A-Z_]+ +(\\(?-?[0-9]+\\)?|\"[^\"]+\")$")
  list(TRANSFORM lines REPLACE "^#define (RL_[A-Z_]+) +([^ ]+)$" "\\1;\\2")
  set(${result} "${lines}" PARENT_SCOPE)
endfunction()

function(redlock_script_text name result)
  set(directory "${CMAKE_CURRENT_SOURCE_DIR}/node/scripts")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${directory}/${name}.lua")
  file(READ "${directory}/${name}.lua" text)
  while(text MATCHES "-- include ([a-z]+)\n")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${directory}/include/${CMAKE_MATCH_1}.lua")
    file(READ "${directory}/include/${CMAKE_MATCH_1}.lua" part)
    string(REPLACE "-- include ${CMAKE_MATCH_1}\n" "${part}" text "${text}")
  endwhile()
  redlock_script_limits(limits)
  while(limits)
    list(POP_FRONT limits limit value)
    string(REPLACE "${limit}" "${value}" text "${text}")
  endwhile()
  if(text MATCHES "RL_[A-Z_]+")
    message(FATAL_ERROR "${name}.lua: ${CMAKE_MATCH_0} is not defined in src/node/limits.h")
  endif()
  string(REGEX REPLACE "\n *--[^\n]*" "" text "${text}")
  string(REGEX REPLACE "\n +" "\n" text "${text}")
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

# Static asserts that the C code agrees with the script's list of answers.
function(redlock_script_elements name result)
  file(STRINGS "${CMAKE_CURRENT_SOURCE_DIR}/node/scripts/${name}.lua" line REGEX "^-- Answers {[a-z_, ]+}$")
  if(NOT line)
    set(${result} "" PARENT_SCOPE)
    return()
  endif()
  string(REGEX MATCHALL "[a-z_]+" elements "${line}")
  list(REMOVE_ITEM elements "nswers")
  list(APPEND elements "elements")
  string(TOUPPER "${name}" prefix)
  set(index 0)
  set(asserts "")
  foreach(element IN LISTS elements)
    string(TOUPPER "${element}" element)
    string(APPEND asserts "_Static_assert(RL_${prefix}_${element} == ${index}, \"as in ${name}.lua\");\n")
    math(EXPR index "${index} + 1")
  endforeach()
  set(${result} "${asserts}" PARENT_SCOPE)
endfunction()

function(redlock_scripts output)
  cmake_path(GET output PARENT_PATH directory)
  set(rows "")
  set(asserts "")
  set(texts "") # as numbers: a string this long is more than a compiler need take
  foreach(name IN LISTS ARGN)
    redlock_script_text(${name} text)
    file(CONFIGURE OUTPUT "${directory}/scripts/${name}.lua" @ONLY CONTENT "@text@")
    string(SHA1 hash "${text}")
    string(HEX "${text}" bytes)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
    redlock_script_elements(${name} elements)
    string(APPEND asserts "${elements}")
    string(APPEND texts "static const char ${name}_text[] = {${bytes}0};\n")
    string(APPEND rows "    {\"${name}\", \"${hash}\", ${name}_text},\n")
  endforeach()
  file(CONFIGURE OUTPUT "${output}" @ONLY CONTENT
"/* Made from src/node/scripts by cmake/RedlockScripts.cmake. */
#include \"src/node/script.h\"

@texts@
const struct rl_script rl_scripts[RL_SCRIPTS] = {
@rows@};
")
  file(CONFIGURE OUTPUT "${directory}/script_answers.c" @ONLY CONTENT
"/* Made from src/node/scripts by cmake/RedlockScripts.cmake. */
#include \"src/node/guard.h\"
#include \"src/node/reply.h\"

@asserts@")
endfunction()
