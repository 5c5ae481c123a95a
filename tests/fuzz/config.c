/* The config file of redlock(1). Any bytes are either read or rejected with a message that has the file, the line
 * and no control character. */
#include "fuzz.h"

#include "cli/config.h"
#include "cli/message.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char path[32];
static bool said; /* a message with the file's name was printed */

/* Allocations that the command keeps until it exits. Here they are freed after each input: ten minutes of inputs
 * would otherwise fill the memory. */
static void *kept[4096];
static size_t kept_count;
static bool reading; /* the fuzzer's own allocations also come through the wrapped functions */

void *__wrap_malloc(size_t size);
void *__real_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
    void *memory = __real_malloc(size);
    fuzz_require(kept_count < sizeof kept / sizeof kept[0], "%zu texts of one file", kept_count);
    if (reading)
        kept[kept_count++] = memory;
    return memory;
}

static void forget_kept(void)
{
    while (kept_count > 0)
        free(kept[--kept_count]);
}

void __wrap_cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The real function escapes control characters. Here it only matters that a message was printed. */
void __wrap_cli_say(const char *format, ...)
{
    char text[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    said = said || strstr(text, path);
}

/* The config file may name other files, which are read too. Only harmless ones are opened. */
FILE *__wrap_fopen(const char *name, const char *mode);
FILE *__real_fopen(const char *name, const char *mode);

FILE *__wrap_fopen(const char *name, const char *mode)
{
    bool own = strcmp(name, path) == 0; /* no other descriptor: reading from a pipe would block indefinitely */
    return __real_fopen(own ? name : "/dev/null", mode);
}

static void check_settings(const struct cli_settings *settings)
{
    const redlock_options *options = &settings->options;
    fuzz_require(options->drift_ppm <= 1000000, "drift_ppm %u", options->drift_ppm);
    fuzz_require(options->guard <= 1, "guard %u", options->guard);
    fuzz_require(!settings->nodes || settings->nodes[0], "nodes of nothing");
    fuzz_require(!settings->nodes || !strchr(settings->nodes, '\n'), "an end of line in the nodes");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cli_settings settings = {.options = REDLOCK_OPTIONS_INIT};
    int file = memfd_create("config", MFD_CLOEXEC);
    if (file < 0 || write(file, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    said = false;
    reading = true;
    bool understood = cli_config_read(path, &settings);
    reading = false;
    if (understood)
        check_settings(&settings);
    else
        fuzz_require(said, "refused without the file's name");
    close(file);
    forget_kept();
    return 0;
}
