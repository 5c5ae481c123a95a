/* The effects of the library's Lua scripts for the fake server, which executes no Lua. fake_node_test.c compares
 * this model with the scripts on a real server. */
#ifndef TESTS_SUPPORT_LOCK_SCRIPTS_H
#define TESTS_SUPPORT_LOCK_SCRIPTS_H

#include "fake_node.h"

/* For fake_server_set_script_handler(). Ends the test if it gets an unknown script. */
fake_script_handler lock_scripts_run;

#endif
