/* The name that a process shows, to ps(1) and to killall(1) and pkill(1): a process that watches another must not be
 * killed together with it by one name. */
#ifndef CLI_PROCESS_NAME_H
#define CLI_PROCESS_NAME_H

/* Remembers where the arguments are; to be called by main(). */
void cli_process_name_note(int argc, char **argv);

/* Replaces the name, up to 15 bytes, and the command line: the arguments are gone. Async-signal-safe. */
void cli_process_name_set(const char *name);

#endif
