/*
 * The command line of redlock(1). Any words are either accepted or rejected with the exit status for misuse. The
 * commands are the real ones, except that they do nothing.
 */
#include "fuzz.h"

#include "cli/command.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORDS_MAX = 24, COMMANDS_MAX = 16 };

int redlock_main(int argc, char **argv); /* defined in cli/main.c */

static unsigned ran;

static int run_nothing(const struct cli_arguments *arguments)
{
    int words = 0;
    ran++;
    while (arguments->words[words])
        words++;
    fuzz_require(words == arguments->count, "%d words, said to be %d", words, arguments->count);
    return CLI_OK;
}

/* Linked in place of the table in which cli/main.c looks up commands. */
extern const struct cli_command *__wrap_cli_commands[];
const struct cli_command *__wrap_cli_commands[COMMANDS_MAX + 1];
extern const struct cli_command *const __real_cli_commands[];
static struct cli_command copies[COMMANDS_MAX];

static void copy_commands(void)
{
    for (unsigned i = 0; __real_cli_commands[i]; i++) {
        fuzz_require(i < COMMANDS_MAX, "more commands than room");
        copies[i] = *__real_cli_commands[i];
        copies[i].run = run_nothing;
        copies[i].use = NULL;
        __wrap_cli_commands[i] = &copies[i];
    }
}

/* Discards standard output, because the commands print much for random command lines. */
static void be_quiet(void)
{
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere < 0 || dup2(nowhere, STDOUT_FILENO) < 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *words[WORDS_MAX + 2] = {NULL};
    int count = 0;
    char *text = malloc(size + 9);
    if (!text)
        abort();
    if (!copies[0].run) {
        copy_commands();
        be_quiet();
    }
    memcpy(text, "redlock", 8);
    memcpy(text + 8, data, size);
    text[8 + size] = '\0';
    for (size_t at = 0; at < size + 8 && count < WORDS_MAX; at += strlen(text + at) + 1)
        words[count++] = strdup(text + at);
    char *kept[WORDS_MAX + 2];
    memcpy(kept, words, sizeof kept); /* redlock_main() reorders the words */
    unsigned before = ran;
    int status = redlock_main(count, words);
    fuzz_require(status == CLI_OK || status == CLI_USAGE || status == CLI_MISCONFIGURED, "exit status %d", status);
    fuzz_require(ran == before || status == CLI_OK, "ran, and failed with %d", status);
    for (int i = 0; i < count; i++)
        free(kept[i]);
    free(text);
    return 0;
}
