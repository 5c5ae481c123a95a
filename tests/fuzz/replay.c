/* Runs a fuzz target on the inputs in a directory, and on each of them truncated at every length. It does not need clang's
 * fuzzer. */
#include "fuzz.h"

#include "support/file.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Each length costs a run, so a long input is truncated at no more than this many lengths. */
enum { CUTS = 64 };

static unsigned runs;

static void run(const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc(size ? size : 1); /* exact size, so that a sanitizer detects a read of one byte too many */
    if (!exact)
        abort();
    memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    runs++;
}

static void replay_file(const char *path)
{
    struct bytes content = {0};
    if (!file_read(path, &content)) {
        fprintf(stderr, "replay: cannot read %s\n", path);
        exit(1);
    }
    size_t step = content.length / CUTS + 1;
    for (size_t size = 0; size < content.length; size += step)
        run((const uint8_t *)content.data, size);
    run((const uint8_t *)content.data, content.length);
    bytes_free(&content);
}

int main(int argc, char **argv)
{
    glob_t files = {0};
    char *pattern = fixture_text("%s/*", argc == 2 ? argv[1] : "");
    glob(pattern, 0, NULL, &files);
    for (size_t i = 0; i < files.gl_pathc; i++)
        replay_file(files.gl_pathv[i]);
    printf("%zu inputs, %u runs\n", files.gl_pathc, runs);
    bool found = files.gl_pathc > 0;
    globfree(&files);
    free(pattern);
    return found ? 0 : 1;
}
