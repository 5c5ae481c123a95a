/* A child process that dies with us. */
#ifndef BENCH_PROCESS_H
#define BENCH_PROCESS_H

#include <stdio.h>
#include <sys/types.h>

struct process {
    pid_t pid;  /* 0: none */
    FILE *to;   /* its standard input, when asked for */
    FILE *from; /* its standard output, when asked for */
};

enum process_io { PROCESS_SILENT, PROCESS_PIPED };

/* The program is looked up in PATH unless it has a slash. Ends the benchmark with a message when it cannot be started. */
void process_start(struct process *process, const char *const *arguments, enum process_io io);

/* Closes its input and waits for its end; returns the exit status, or -1 when a signal ended it. */
int process_finish(struct process *process);

void process_kill(struct process *process);

/* Whether it has ended by itself. */
int process_ended(struct process *process);

/* A line it wrote, without the newline. Ends the benchmark with a message when it has ended. */
void process_read_line(struct process *process, char *line, size_t size);

/* The path of a program that was built beside this one. */
const char *process_sibling(const char *name, char *path, size_t size);

_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
