#define _GNU_SOURCE
#include "process_name.h"

#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

static char *first; /* of the bytes of all arguments, which the kernel lays out one behind the other */
static char *end;
static char *copies;

void cli_process_name_note(int argc, char **argv)
{
    if (argc == 0)
        return;
    first = argv[0];
    end = argv[0];
    for (int i = 0; i < argc && argv[i] == end; i++)
        end += strlen(argv[i]) + 1;
    free(copies);
    copies = malloc((size_t)(end - first));
    if (copies == NULL) {
        end = first; /* no name can be set */
        return;
    }
    memcpy(copies, first, (size_t)(end - first));
    for (int i = 0; i < argc; i++)
        if (argv[i] >= first && argv[i] < end)
            argv[i] = copies + (argv[i] - first);
}

void cli_process_name_set(const char *name)
{
    char *byte = first;

    prctl(PR_SET_NAME, name);
    while (byte < end)
        *byte++ = '\0';
    for (byte = first; byte + 1 < end && *name != '\0'; byte++)
        *byte = *name++;
}
