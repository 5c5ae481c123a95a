/* The nodes and surroundings of the stories: trusted nodes, fake ones, other clients. After each test no key may be left on
 * the nodes. */
#ifndef TESTS_COMMAND_SCENE_H
#define TESTS_COMMAND_SCENE_H

#include "program.h"
#include "real/held.h"

/* Cases without nodes, with five nodes that serve all tests of the program, and with five for each test. The nodes are
 * trusted before the test, for program_setting, with timeouts that a loaded machine does not reach. */
extern struct test_case case_no_nodes, case_shared_nodes, case_own_nodes;

/* A config file without TLS or passwords, with long timeouts. */
#define SCENE_PATIENCE "timeout = 10s\nconnect-timeout = 10s\n"

/* Ends the quarantine of these nodes. */
void scene_trust(const char *nodes);

/* Writes a file that only its owner can read. Returns its path. It is removed at the end of the test. Call it before
 * a node is killed, because it counts the open descriptors. */
const char *scene_file(const char *text);

/* Number of nodes that have the key. */
size_t scene_copies(const char *key);

/* A value of story.h that no step sets; NULL: there is none. */
const char *scene_value(const char *name, size_t length);

/* Takes a step of story.h about nodes and surroundings. False: the verb is of no such step. */
bool scene_take_step(const char *verb, char *rest);

#endif
