/*
 * Stories: tests of redlock(1), written as what a user types and sees. NAME_test.c runs those in NAME.txt; a test that needs
 * more than these steps is a TEST() in C, which takes them with story_tell(). A story is a heading and steps, one a line; a line that ends in " \" goes on in the
 * next. A heading is the name of a test for TEST_ONLY (test.h).
 *
 *   == a lock that is held is not obtained          [own nodes]: only this story's; [no nodes]; otherwise shared ones
 *   hold test:x
 *   > run -n test:x -- true => NOT_OBTAINED: held by
 *   delete test:x
 *
 * A story with rows runs once for each. {NAME} is the row's column, a value of `let`, or one of {nodes}, {node1} ...
 * (addresses), {patience} (a config with long timeouts), {server} (the program), {rights} (those of redlock(7)), or of a fake node: its address
 * {F}, {F.port}, {F.accepted} (connections). A step behind ?NAME is left out where that value is empty; "-" is an empty column.
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
 *   ends END            it ends: with this STATUS, a number, a name below, -SIGTERM (by that signal) or 128+SIGTERM;
 *                       STATUS: TEXT, without output, and its errors are one line that contains the text; or 0,
 *                       `prints TEXT`, which is all its output, with an end of line
 *   terminates          SIGTERM ends it, and the command that it runs
 *   shows TEXT          its output or its errors contain it, now or soon
 *   times NUMBER TEXT   its output contains it this often, or more often, now or soon
 *   count NUMBER TEXT   its output contains it exactly this often
 *   out TEXT, err TEXT  its output, or its errors, contain it;  out= TEXT, err= TEXT: are the text;  not TEXT: neither has it
 *   json FILTER == TEXT what jq(1) prints for its output
 *   let NAME HOW        sets a value: `json FILTER`, `number TEXT` (soon behind the text in its output), `line` (the first of
 *                       its output), `pid`, `child [PID]`, `file TEXT`, `directory`, `text TEXT`,
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
 *   script [N ...] LUA [=> REPLY]   the same with a script
 *   kill-node N ..., stop-node N ..., repair
 *   cluster N [OPTION ...]  this story's own nodes, not trusted yet; password=TEXT, clocks, tls=DIRECTORY (of server.pem,
 *                       server.key, authority.pem), verify (requires a client certificate), acl=LINES to the end, or words of
 *                       the server's command line, '' for an empty one
 *   shift MS [N ...]    its clocks;  password N TEXT: from now on
 *   fake F              a fake node (fake_server.h);  info F FIELD VALUE: of its INFO;  deaf F: refuses connections
 *   rule F [odd] [argument=WORD] [connection=N] [then=reset|shutdown] COMMAND => REPLY   replies this without executing it, or
 *                       nothing; odd: to every other one, from the first on
 *   proxy NAME          NAME is an address whose connections lead to the nodes 1 and 2 in turn
 *   nodes LIST, config TEXT, terminal on, off: of the programs started next;  older CALL: without it and later system calls
 *   clock               a duration begins here, of which `took least|most MS` says how long it was
 *   repeat N            the steps up to `again` are done N times; {i} is the number. `again LINE`: only if bash(1) says so
 *   pause US N          for N times so many microseconds, where the pause is the subject
 *   only LINE           the rest is left out if this line of bash(1) fails;  delegate PATH: if it cannot be marked as a control
 *                       group that is delegated
 *
 * In a TEXT, \n, \e, \\ and \xHH are those bytes.
 */
#ifndef TESTS_COMMAND_STORY_H
#define TESTS_COMMAND_STORY_H

#include "real/held.h"

#include "support/fixture.h"

#include <sys/types.h>

/* The exit statuses that redlock(1) documents. */
enum { NOT_OBTAINED = 1, USAGE = 64, NO_QUORUM = 69, SYSTEM = 71, LOST = 75, MISCONFIGURED = 78 };

/* Cases without nodes, with five nodes that serve all tests of the program, and with five for each test. The nodes are trusted
 * before the test, with timeouts that a loaded machine does not reach. After each test no key may be left on them. */
extern struct test_case case_no_nodes, case_shared_nodes, case_own_nodes;

/* Takes these steps, one a line, in a test in C, or a part of one. */
void story_tell(const char *steps);
/* The process that a value names. */
pid_t story_process(const char *name);
/* Number of nodes that have the key. */
size_t scene_copies(const char *key);

/* Runs the tests of the suite and the stories in NAME.txt. Returns the program's exit status. */
int story_run(Suite *suite, const char *name);

#define STORY_PROGRAM(name)                                                                                            \
    int main(void)                                                                                                     \
    {                                                                                                                  \
        return story_run(registered_suite("cli_" name), name);                                                         \
    }

/* --- Programs, driven as a user drives them: program.c --- */

/* They run in bash(1), with the test's environment without HOME and variables that begin with REDLOCK or XDG. $R is redlock: that of
 * this build, or what REDLOCK_TEST_PROGRAM names. What they write is kept in memory. They are killed at the end of the test. */
struct program {
    struct program *next;
    pid_t pid;
    bool has_ended; /* and is reaped */
    int status;     /* of one that has: its exit status, or minus the signal that ended it */
    int output;     /* a memory file, or the terminal's master */
    int errors;     /* a memory file; -1: on a terminal */
    struct bytes output_text, errors_text;
};

/* How the next programs start. All zero at the start of a test without nodes. */
extern struct program_setting {
    const char *nodes;  /* REDLOCK_NODES; NULL: not set */
    const char *config; /* REDLOCK_CONFIG; NULL: /dev/null */
    bool terminal;      /* in a separate session on a separate terminal, which gets standard output and error */
    int newest_call;    /* system calls with a larger number are missing, as on an older kernel; 0: none is */
} program_setting;

enum { PROGRAM_SOON_MS = 60000 };

/* A text as by printf(3), valid until the end of the test. */
char *program_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
struct program *program_start(const char *line);
void programs_end(void);
/* The oldest child; 0 if it has none. */
pid_t program_child(pid_t parent);
/* Whether no process has this PID. */
bool program_is_gone(pid_t pid);
/* Reaps it if it has. */
bool program_has_ended(struct program *program);
/* Everything it has written so far; valid until the next call. On a terminal both functions return the same text. */
const char *program_output(struct program *program);
const char *program_errors(struct program *program);
void program_type(const struct program *program, const char *keys);
/* Closes the terminal, as when its window is closed. */
void program_hang_up(const struct program *program);

/* --- Steps about nodes and surroundings: scene.c --- */

/* Takes a step. False: the verb is of no such step. */
bool scene_take_step(const char *verb, char *rest);
/* A value that no step sets; NULL: there is none. */
const char *scene_value(const char *name, size_t length);
/* Writes a file that only its owner can read. Returns its path. It is removed at the end of the test. Call it before
 * a node is killed, because it counts the open descriptors. */
const char *scene_file(const char *text);

/* --- For steps --- */

/* Forgets the programs and values of the test before. */
void story_begin(void);
_Noreturn void story_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define STORY_REQUIRE(condition, ...)                                                                                  \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            story_fail(__VA_ARGS__);                                                                                   \
    } while (0)

/* Waits until the condition is true. */
#define STORY_SOON(condition, ...)                                                                                     \
    do {                                                                                                               \
        for (uint64_t story_began_ns = test_now_ns(); !(condition); story_wait(story_began_ns))                        \
            STORY_REQUIRE(test_now_ns() - story_began_ns < PROGRAM_SOON_MS * 1000000ull, __VA_ARGS__);                 \
    } while (0)
void story_wait(uint64_t began_ns);

static inline bool is(const char *word, const char *other)
{
    return strcmp(word, other) == 0;
}

static inline bool begins(const char *text, const char *word)
{
    return strncmp(text, word, strlen(word)) == 0;
}

/* Returns the first word, and moves the text behind it and its spaces. */
char *story_take_word(char **text);
/* Ends the text before the separator. Returns what is behind its last occurrence; NULL: there is none. */
char *story_split_off(char *text, const char *separator);
char *story_unescape(char *text);
/* A number, or one with a name, perhaps behind '-' or "128+". */
int story_number(const char *text);
/* The latest value of a name counts. */
void story_set_value(const char *name, const char *text);

#endif
