/*
 * Stories: tests of redlock(1), written as what a user types and sees. NAME_test.c runs those in NAME.txt; a test that needs
 * more than these steps is a TEST() in C. A story is a heading and steps, one a line; a line that ends in " \" goes on in the
 * next. STORY=TEXT in the environment runs only the stories whose heading contains the text.
 *
 *   == a lock that is held is not obtained          [own nodes]: only this story's; [no nodes]; otherwise shared ones
 *   hold test:x
 *   > run -n test:x -- true => NOT_OBTAINED: held by
 *   delete test:x
 *
 * A story with rows runs once for each. {NAME} is the row's column, a value of `let`, or one of {nodes}, {node1} ...
 * (addresses), {patience} (SCENE_PATIENCE), {server} (the program). A step behind ?NAME is left out where that value is empty; "-" is an empty column.
 * The steps above the first story begin each. `each` instead of `rows` tells the rows one after the other in one test: where they
 * leave nothing behind, that is quick.
 *
 *   rows SIGNAL STATUS
 *   | TERM | 143
 *
 * Programs. The last one that a step has started or named is the one that the steps below are about.
 *   > WORDS => END      redlock with these words, as bash(1) splits them, until its end; NAME=VALUE before them is for it
 *   ~> WORDS => END     the same, again while the machine is so late that it ends with NO_QUORUM
 *   $ LINE => END       bash(1) with this line, in which $R is redlock
 *   NAME> WORDS, NAME$ LINE  in the background
 *   ends END            it ends: with this STATUS, a number, a name of scene.h, -SIGTERM (by that signal) or 128+SIGTERM;
 *                       STATUS: TEXT, without output, and its errors are one line that contains the text; or 0,
 *                       `prints TEXT`, which is all its output, with an end of line
 *   terminates          SIGTERM ends it, and the command that it runs
 *   shows TEXT          its output or its errors contain it, now or soon
 *   times NUMBER TEXT   its output contains it this often, or more often, now or soon
 *   count NUMBER TEXT   its output contains it exactly this often
 *   out TEXT, err TEXT  its output, or its errors, contain it;  out= TEXT, err= TEXT: are the text;  not TEXT: neither has it
 *   json FILTER == TEXT what jq(1) prints for its output
 *   let NAME HOW        sets a value: `json FILTER`, `number TEXT` (soon behind the text in its output), `line` (the first of
 *                       its output), `pid`, `holder`, `child [PID]`, `file TEXT`, `directory`, `text TEXT`,
 *                       `output`
 *   signal SIGTERM      sends it the signal;  kill SIGTERM PID: to any process, or group
 *   stopped             waits until it is stopped;  running PID: until that is not
 *   type KEYS           on its terminal;  hang-up: closes that;  foreground PID: waits until the group has the foreground
 *   PID is a number, or the name of a value with one; -PID: of a group
 *   gone PID            there is no such process;  soon-gone PID: soon;  ended PID: soon, or it is a zombie;  lives PID
 *   subreaper           orphans become children of this test, of which `reap PID` says that it soon ends with 0, `reap any` that
 *                       one ends
 *
 * Nodes and surroundings.
 *   hold KEY            by another client;  delete KEY;  on NUMBER KEY: so many nodes have the key, now or soon
 *   renewals NUMBER KEY waits for them;  nothing-left: waits until no key is
 *   redis [N ...] WORDS [=> REPLY]  these nodes, counted from 1, or each, execute it. In a word \x20 is a space
 *   kill-node N ..., stop-node N ..., repair
 *   cluster N [OPTION]  this story's own nodes, not trusted yet; password=TEXT, clocks, rename=COMMAND ...
 *   shift MS            all its clocks
 *   nodes LIST, config TEXT, terminal on, off: of the programs started next;  older CALL: see program.h
 *   clock               a duration begins here, of which `took least|most MS` says how long it was
 *   repeat N            the steps up to `again` are done N times; {i} is the number
 *   pause US N          for N times so many microseconds, where the pause is the subject
 *   root                the rest needs root
 *
 * In a TEXT, \n, \e, \\ and \xHH are those bytes.
 */
#ifndef TESTS_COMMAND_STORY_H
#define TESTS_COMMAND_STORY_H

#include "scene.h"

/* Runs the tests of the suite and the stories in NAME.txt. Returns the program's exit status. */
int story_run(Suite *suite, const char *name);

#define STORY_PROGRAM(name)                                                                                            \
    int main(void)                                                                                                     \
    {                                                                                                                  \
        return story_run(registered_suite("cli_" name), name);                                                         \
    }

#endif
