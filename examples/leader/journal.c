#define _GNU_SOURCE
#include "journal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static uint64_t last_token(FILE *file)
{
    char line[256];
    uint64_t token = 0;
    while (fgets(line, sizeof line, file))
        sscanf(line, "%*d %" SCNu64, &token);
    return token;
}

/* flock(2) makes the check and the write one step. */
enum journal_outcome journal_write(const char *path, uint64_t token, const char *candidate, uint64_t *seen)
{
    enum journal_outcome outcome = JOURNAL_FAILED;
    FILE *file = fopen(path, "a+e");
    if (file && flock(fileno(file), LOCK_EX) == 0) {
        rewind(file);
        *seen = last_token(file);
        outcome = token < *seen ? JOURNAL_REFUSED : JOURNAL_WRITTEN;
        if (outcome == JOURNAL_WRITTEN)
            fprintf(file, "%" PRId64 " %" PRIu64 " %s\n", now_ms(), token, candidate);
        if (fflush(file) != 0)
            outcome = JOURNAL_FAILED;
    }
    if (outcome == JOURNAL_FAILED)
        perror(path);
    if (file)
        fclose(file);
    return outcome;
}
