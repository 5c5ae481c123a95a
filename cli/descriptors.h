/* Open descriptors. */
#ifndef CLI_DESCRIPTORS_H
#define CLI_DESCRIPTORS_H

#include <stdbool.h>

/* Closes all from this one on. False: some may be open, because neither close_range(2), of Linux 5.9, nor /proc is
 * there. Async-signal-safe. */
bool cli_descriptors_close_from(int first);

#endif
