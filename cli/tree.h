/*
 * The command's process tree: every process that descends from one of redlock's own. A process can leave its process
 * group and its session, but not this tree as long as one of redlock's processes lives: each is a subreaper, so an
 * orphan becomes its child (prctl(2), PR_SET_CHILD_SUBREAPER).
 */
#ifndef CLI_TREE_H
#define CLI_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* A process; the start time distinguishes it from a later one with the same number. */
struct cli_process {
    pid_t pid;
    unsigned long long started; /* clock ticks since boot */
};

struct cli_tree {
    pid_t root;   /* its descendants are the tree; it gets no signal itself */
    pid_t spared; /* a child of the root that gets none either, but its descendants do; 0: none */
    pid_t group;  /* the command's process group, signalled as one: no fork(2) can slip through; 0: none */
    const struct cli_process *strangers; /* children of the root that are not redlock's: their subtrees get no signal */
    size_t stranger_count;
};

/* Sends SIGTERM to each process of the tree, and SIGCONT, because a stopped process does not handle SIGTERM. */
void cli_tree_terminate(const struct cli_tree *tree);

/* Sends SIGKILL to each process of the tree. A process that forks meanwhile may leave a child: call again until the
 * tree is empty. */
void cli_tree_kill(const struct cli_tree *tree);

/* Sends the signal to the group, if a process of the tree is in it: its number may be another group's otherwise. */
void cli_tree_signal_group(const struct cli_tree *tree, int number);

/* Whether a process of the tree lives. A zombie does not. */
bool cli_tree_is_alive(const struct cli_tree *tree);

/* Writes "sleep (PID 12), server (PID 13) and 4 more"; deaf: only those that this user may not signal. Returns their
 * number. */
enum { CLI_TREE_NAMES_SIZE = 160 };
size_t cli_tree_names(const struct cli_tree *tree, bool deaf, char names[CLI_TREE_NAMES_SIZE]);

/* Whether this process is stopped; unknown: what to return if it cannot be known, without /proc. */
bool cli_process_is_stopped(pid_t pid, bool unknown);

/* The children of this process, in memory that the caller frees; NULL where there are none. False: no memory. */
bool cli_tree_children(struct cli_process **children, size_t *count);

#endif
