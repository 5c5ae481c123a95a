/* A child process that dies with this process. */
#ifndef BENCH_PROCESS_H
#define BENCH_PROCESS_H

#include <stdio.h>
#include <sys/types.h>

struct process {
    pid_t pid;  /* 0: none */
    FILE *to;   /* its standard input, if requested */
    FILE *from; /* its standard output, if requested */
};

enum process_io { PROCESS_SILENT, PROCESS_PIPED };

/* The program is searched in PATH unless its name has a slash. Ends the benchmark with a message if it cannot be
 * started. */
void process_start(struct process *process, const char *const *arguments, enum process_io io);

/* Closes its input and waits for its end. Returns the exit status, or -1 if a signal ended it. */
int process_finish(struct process *process);

void process_kill(struct process *process);

/* Returns true if it has ended by itself. */
int process_ended(struct process *process);

/* Reads one line of its output, without the newline. Ends the benchmark with a message if the process has ended. */
void process_read_line(struct process *process, char *line, size_t size);

/* The path of a program in the same directory as this one. */
const char *process_sibling(const char *name, char *path, size_t size);

_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
