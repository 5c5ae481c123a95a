# The Lua scripts as C: text and SHA1, which is what EVALSHA names them by. The .lua files stay the only source.

function(redlock_scripts output)
  set(rows "")
  foreach(name IN LISTS ARGN)
    set(file "${CMAKE_CURRENT_SOURCE_DIR}/scripts/${name}.lua")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
    file(READ "${file}" text)
    string(SHA1 hash "${text}")
    string(REPLACE "\\" "\\\\" text "${text}")
    string(REPLACE "\"" "\\\"" text "${text}")
    string(REPLACE "\n" "\\n\"\n     \"" text "${text}")
    string(APPEND rows "    {\"${name}\",\n     \"${hash}\",\n     \"${text}\"},\n")
  endforeach()
  file(CONFIGURE OUTPUT "${output}" @ONLY CONTENT
"/* Made from src/scripts by cmake/RedlockScripts.cmake. */
#include \"src/script.h\"

const struct rl_script rl_scripts[RL_SCRIPTS] = {
@rows@};
")
endfunction()
