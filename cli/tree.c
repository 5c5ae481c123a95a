#define _GNU_SOURCE
#include "tree.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* PASSES: a process that forks while it is killed leaves a child, which the next pass finds. */
enum { FIRST_SIZE = 64, MOST_PROCESSES = 1 << 20, PASSES = 3 };

struct process {
    struct cli_process id;
    pid_t parent;
    pid_t group;
    char state;    /* as in proc(5) */
    char name[16]; /* of its program */
    long threads;
};

struct list {
    struct process *processes;
    size_t count;
    size_t size;
    bool torn;   /* processes may be missing: one ended while its children were read, or there was no memory */
    bool killed; /* the group has got SIGKILL */
};

/* --- Reading /proc --- */

/* Whether /proc shows our namespace of processes: it may be another's, as after unshare(1) without --mount-proc. Without
 * it only the command's group is known. */
static bool has_proc(void)
{
    char self[16] = "";

    return readlink("/proc/self", self, sizeof(self) - 1) > 0 && atoi(self) == (int)getpid();
}

/* Without stdio, because every process is read several times, and there is little time on a busy machine. */
static void read_line(const char *path, char *line, size_t size)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = file >= 0 ? read(file, line, size - 1) : 0;

    line[length > 0 ? length : 0] = '\0';
    close(file);
}

/* False: there is no such process. */
static bool read_process(pid_t pid, struct process *process)
{
    char path[64];
    char line[1024];
    char state = 'X';
    int parent = 0;
    int group = 0;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    read_line(path, line, sizeof(line));
    *process = (struct process){.id.pid = pid};
    const char *name_end = strrchr(line, ')'); /* the name itself may contain anything */
    if (name_end == NULL ||
        sscanf(name_end + 1, " %c %d %d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d %llu", &state,
               &parent, &group, &process->threads, &process->id.started) != 5)
        return false;
    snprintf(process->name, sizeof(process->name), "%.*s", (int)strcspn(strchr(line, '(') + 1, ")"),
             strchr(line, '(') + 1);
    process->parent = parent;
    process->group = group;
    process->state = state;
    return true;
}

static void add(struct list *list, const struct process *process)
{
    if (list->count == list->size) {
        size_t size = list->size > 0 ? 2 * list->size : FIRST_SIZE;
        struct process *larger =
            size <= MOST_PROCESSES ? realloc(list->processes, size * sizeof(*list->processes)) : NULL;
        if (larger == NULL) {
            list->torn = true;
            return; /* the next pass finds the others */
        }
        list->processes = larger;
        list->size = size;
    }
    list->processes[list->count++] = *process;
}

static void add_children_of_thread(struct list *list, pid_t parent, const char *thread)
{
    char path[64];
    struct process child;
    int pid;

    snprintf(path, sizeof(path), "/proc/%d/task/%.20s/children", (int)parent, thread);
    FILE *file = fopen(path, "re");
    while (file != NULL && fscanf(file, "%d", &pid) == 1)
        if (read_process(pid, &child))
            add(list, &child);
    if (file != NULL)
        fclose(file);
}

/* A kernel without CONFIG_PROC_CHILDREN: each process names its parent. */
static void add_children_by_parent(struct list *list, pid_t parent)
{
    DIR *processes = opendir("/proc");
    struct dirent *entry;
    struct process child;

    while (processes != NULL && (entry = readdir(processes)) != NULL)
        if (isdigit((unsigned char)entry->d_name[0]) && read_process((pid_t)atoi(entry->d_name), &child) &&
            child.parent == parent)
            add(list, &child);
    if (processes != NULL)
        closedir(processes);
}

static bool kernel_lists_children(void)
{
    static int lists = -1;
    char path[64];

    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    if (lists < 0)
        lists = access(path, F_OK) == 0;
    return lists != 0;
}

/* A child belongs to the thread that forked it. */
static void add_children_of(struct list *list, const struct process *process)
{
    char path[64];
    struct dirent *entry;
    pid_t parent = process->id.pid;

    if (!kernel_lists_children()) {
        add_children_by_parent(list, parent);
        return;
    }
    snprintf(path, sizeof(path), "%d", (int)parent);
    if (process->threads == 1) {
        add_children_of_thread(list, parent, path);
        return;
    }
    snprintf(path, sizeof(path), "/proc/%d/task", (int)parent);
    DIR *threads = opendir(path);
    while (threads != NULL && (entry = readdir(threads)) != NULL)
        if (isdigit((unsigned char)entry->d_name[0]))
            add_children_of_thread(list, parent, entry->d_name);
    if (threads != NULL)
        closedir(threads);
}

static bool is_same(const struct cli_process *a, const struct cli_process *b)
{
    return a->pid == b->pid && a->started == b->started;
}

/* The parent's number, or a child's, may have become that of a process that has nothing to do with the tree. */
static void drop_others(struct list *list, const struct process *parent, size_t first)
{
    struct process now;
    bool same = read_process(parent->id.pid, &now) && is_same(&now.id, &parent->id);
    size_t kept = first;

    for (size_t i = first; same && i < list->count; i++)
        if (list->processes[i].parent == parent->id.pid)
            list->processes[kept++] = list->processes[i];
    list->torn = list->torn || !same || kept < list->count || now.threads != parent->threads;
    list->count = kept;
}

static void add_children(struct list *list, struct process parent)
{
    size_t first = list->count;

    add_children_of(list, &parent);
    drop_others(list, &parent, first);
}

static bool is_stranger(const struct cli_tree *tree, const struct cli_process *process)
{
    for (size_t i = 0; i < tree->stranger_count; i++)
        if (is_same(&tree->strangers[i], process))
            return true;
    return false;
}

/* Drops strangers before their children would be listed. */
static void drop_strangers(const struct cli_tree *tree, struct list *list)
{
    size_t kept = 0;

    for (size_t i = 0; i < list->count; i++)
        if (!is_stranger(tree, &list->processes[i].id))
            list->processes[kept++] = list->processes[i];
    list->count = kept;
}

/* --- Signals to one process --- */

/* Opens the descriptor first: if the PID still has the same start time afterwards, it refers to that process. */
static void signal_process(const struct process *process, const int *numbers, size_t count)
{
    int descriptor = (int)syscall(SYS_pidfd_open, process->id.pid, 0);
    struct process now;

    bool same = read_process(process->id.pid, &now) && now.id.started == process->id.started;
    for (size_t i = 0; same && i < count; i++)
        /* Linux before 5.3 has no such calls, or no descriptor is left. */
        if (descriptor < 0 || (syscall(SYS_pidfd_send_signal, descriptor, numbers[i], NULL, 0) != 0 && errno == ENOSYS))
            kill(process->id.pid, numbers[i]);
    if (descriptor >= 0)
        close(descriptor);
}

static bool is_target(const struct cli_tree *tree, const struct process *process)
{
    return process->state != 'Z' && process->state != 'X' && process->id.pid != tree->spared;
}

/* While a process of the tree is in the group, its number is not another group's. */
static void kill_process(const struct cli_tree *tree, const struct process *process, struct list *list)
{
    static const int number = SIGKILL;
    bool in_group = tree->group > 0 && process->group == tree->group;

    if (!is_target(tree, process))
        return;
    if (in_group && !list->killed)
        kill(-tree->group, SIGKILL);
    list->killed = list->killed || in_group;
    if (!in_group)
        signal_process(process, &number, 1);
}

/* --- The tree --- */

/* Parents come before their children: an orphan that is adopted meanwhile has been listed with its first parent. */
static struct list read_once(const struct cli_tree *tree, bool killing)
{
    struct list list = {0};
    struct process root;
    struct process leader;

    if (!has_proc() || !read_process(tree->root, &root))
        return list;
    /* The group first, at once. Its leader is a child of ours until it is reaped. */
    if (killing && tree->group > 0 && read_process(tree->group, &leader) && leader.group == tree->group &&
        (leader.parent == tree->root || leader.parent == tree->spared))
        list.killed = kill(-tree->group, SIGKILL) == 0;
    add_children(&list, root);
    drop_strangers(tree, &list);
    for (size_t i = 0; i < list.count; i++) {
        add_children(&list, list.processes[i]);
        if (killing)
            kill_process(tree, &list.processes[i], &list);
    }
    return list;
}

static struct list read_tree(const struct cli_tree *tree)
{
    struct list list = read_once(tree, false);

    for (int pass = 1; list.torn && pass < PASSES; pass++) {
        free(list.processes);
        list = read_once(tree, false);
    }
    return list;
}

/* --- Signals --- */

/* The group's number cannot have been reused while a process of the tree is in it. Without /proc that cannot be
 * seen. */
static void signal_group(const struct cli_tree *tree, const struct list *list, const int *numbers, size_t count)
{
    bool used = tree->group > 0 && !has_proc();

    for (size_t i = 0; i < list->count && !used; i++)
        used = tree->group > 0 && list->processes[i].group == tree->group;
    for (size_t i = 0; used && i < count; i++)
        kill(-tree->group, numbers[i]);
}

static bool has_target(const struct cli_tree *tree, const struct list *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (is_target(tree, &list->processes[i]))
            return true;
    return false;
}

static void signal_tree(const struct cli_tree *tree, const int *numbers, size_t count)
{
    struct list list = read_tree(tree);

    signal_group(tree, &list, numbers, count);
    for (size_t i = 0; i < list.count; i++)
        if (is_target(tree, &list.processes[i]) && (tree->group == 0 || list.processes[i].group != tree->group))
            signal_process(&list.processes[i], numbers, count);
    free(list.processes);
}

void cli_tree_terminate(const struct cli_tree *tree)
{
    static const int numbers[] = {SIGTERM, SIGCONT};

    signal_tree(tree, numbers, sizeof(numbers) / sizeof(numbers[0]));
}

/* Kills each process when its children are known, not when all of the tree is: on a busy machine that takes long.
 * Returns whether a living process was found, or others may live. */
static bool kill_once(const struct cli_tree *tree)
{
    static const int number = SIGKILL;
    struct list list = read_once(tree, true);
    bool found = has_target(tree, &list) || list.torn;

    if (!list.killed)
        signal_group(tree, &list, &number, 1); /* without /proc */
    free(list.processes);
    return found;
}

void cli_tree_kill(const struct cli_tree *tree)
{
    for (int pass = 0; pass < PASSES && kill_once(tree); pass++)
        ;
}

void cli_tree_signal_group(const struct cli_tree *tree, int number)
{
    struct list list = read_tree(tree);

    signal_group(tree, &list, &number, 1);
    free(list.processes);
}

bool cli_tree_is_alive(const struct cli_tree *tree)
{
    struct list list = read_tree(tree);
    bool alive = has_target(tree, &list) || list.torn;

    free(list.processes);
    return alive;
}

size_t cli_tree_names(const struct cli_tree *tree, bool deaf, char names[CLI_TREE_NAMES_SIZE])
{
    enum { NAMED = 3 };
    struct list list = read_tree(tree);
    size_t found = 0;
    size_t length = 0;

    *names = '\0';
    for (size_t i = 0; i < list.count; i++) {
        const struct process *process = &list.processes[i];
        if (!is_target(tree, process) || (deaf && (kill(process->id.pid, 0) == 0 || errno != EPERM)))
            continue;
        if (found++ < NAMED)
            length += (size_t)snprintf(names + length, CLI_TREE_NAMES_SIZE - length, "%s%s (PID %d)",
                                       found > 1 ? ", " : "", process->name, (int)process->id.pid);
    }
    if (found > NAMED)
        snprintf(names + length, CLI_TREE_NAMES_SIZE - length, " and %zu more", found - NAMED);
    free(list.processes);
    return found;
}

bool cli_process_is_stopped(pid_t pid, bool unknown)
{
    struct process process;

    if (!has_proc())
        return unknown;
    return read_process(pid, &process) && process.state == 'T';
}

bool cli_tree_children(struct cli_process **children, size_t *count)
{
    struct list list = {0};
    struct process self;

    *children = NULL;
    *count = 0;
    if (has_proc() && read_process(getpid(), &self))
        add_children(&list, self);
    if (list.count > 0)
        *children = malloc(list.count * sizeof(**children));
    for (size_t i = 0; *children != NULL && i < list.count; i++)
        (*children)[(*count)++] = list.processes[i].id;
    bool complete = *count == list.count && !list.torn;
    free(list.processes);
    return complete;
}
