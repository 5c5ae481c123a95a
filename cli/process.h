/* What a process that is forked to watch another changes about itself. */
#ifndef CLI_PROCESS_H
#define CLI_PROCESS_H

#include <stdbool.h>

/* Its name for ps(1), killall(1) and pkill(1) must be different, so that the two are not killed together. */

/* Records the position of the arguments, and replaces them by copies, because the name overwrites them; called by
 * main(). */
void cli_process_name_note(int argc, char **argv);

/* Replaces the name, up to 15 bytes, and overwrites the arguments. Async-signal-safe. */
void cli_process_name_set(const char *name);

/* Closes all from this one on. False: some may be open, because neither close_range(2), of Linux 5.9, nor /proc is
 * there. Async-signal-safe. */
bool cli_descriptors_close_from(int first);

#endif
