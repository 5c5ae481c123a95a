/* The process name for ps(1), killall(1) and pkill(1): a process that watches another needs a different name, so that
 * the two are not killed together. */
#ifndef CLI_PROCESS_NAME_H
#define CLI_PROCESS_NAME_H

/* Records the position of the arguments, and replaces them by copies, because the name overwrites them; called by
 * main(). */
void cli_process_name_note(int argc, char **argv);

/* Replaces the name, up to 15 bytes, and overwrites the arguments. Async-signal-safe. */
void cli_process_name_set(const char *name);

#endif
