/* What the library's Lua scripts do, for the fake server, which runs no Lua. fake_node_test.c holds the model against the
 * scripts themselves on a real server. */
#ifndef TESTS_SUPPORT_LOCK_SCRIPTS_H
#define TESTS_SUPPORT_LOCK_SCRIPTS_H

#include "fake_node.h"

/* For fake_server_set_script_handler(); ends the test at a script it does not know. */
fake_script_handler lock_scripts_run;

#endif
