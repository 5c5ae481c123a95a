/* Runs a fuzz target on the inputs in a directory, on each of them truncated at every length, and on this many random
 * inputs. It does not need clang's fuzzer. */
#include "fuzz.h"

#include "rules/random.h"
#include "support/file.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Each length costs a run, so a long input is truncated at no more than this many lengths. */
enum { CUTS = 64 };

static unsigned inputs, runs;

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
    inputs++;
    size_t step = content.length / CUTS + 1;
    for (size_t size = 0; size < content.length; size += step)
        run((const uint8_t *)content.data, size);
    run((const uint8_t *)content.data, content.length);
    bytes_free(&content);
}

static void run_random(unsigned long count)
{
    uint64_t seed = 1;
    for (; count > 0; count--) {
        uint8_t data[512];
        size_t size = random_below(&seed, sizeof data + 1);
        for (size_t i = 0; i < size; i++)
            data[i] = (uint8_t)next_random(&seed);
        run(data, size);
    }
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

int main(int argc, char **argv)
{
    struct dirent **entries;
    int count = argc == 3 ? scandir(argv[1], &entries, is_visible, alphasort) : -1;
    for (int i = 0; i < count; i++) {
        char file[4096];
        snprintf(file, sizeof file, "%s/%s", argv[1], entries[i]->d_name);
        replay_file(file);
        free(entries[i]);
    }
    if (count >= 0) {
        free(entries);
        run_random(strtoul(argv[2], NULL, 10));
    }
    printf("%u inputs, %u runs\n", inputs, runs);
    return inputs > 0 ? 0 : 1;
}
