#include "real/published_rights.h"

#include "real/held.h"
#include "support/file.h"
#include "support/fixture.h"

enum { LINE_SIZE = 4096 };

static const char command[] = "ACL SETUSER ";

/* Reads the paragraph that `from` begins, as one line. */
static void take_paragraph(char *line, char *from)
{
    char *end = strstr(from, "\n."), *rest = NULL;
    if (end)
        *end = '\0';
    line[0] = '\0';
    for (const char *word = strtok_r(from, " \n", &rest); word; word = strtok_r(NULL, " \n", &rest))
        snprintf(line + strlen(line), LINE_SIZE - strlen(line), "%s%s", *line != '\0' ? " " : "", word);
}

static void take_out(char *line, const char *word)
{
    char *at = line;
    while ((at = strstr(at, word)) != NULL && (at[strlen(word)] != ' ' && at[strlen(word)] != '\0'))
        at++;
    if (at == NULL || at == line)
        fixture_fail("'%s' is not in '%s'", word, line);
    memmove(at - 1, at + strlen(word), strlen(at + strlen(word)) + 1);
}

static const char *read_rights(char *line, const char *path)
{
    struct bytes document = {0};
    if (!file_read(path, &document))
        fixture_fail("cannot read %s", path);
    char *from = strstr(document.data, command);
    if (from == NULL)
        fixture_fail("no '%s' in %s", command, path);
    take_paragraph(line, from + strlen(command));
    bytes_free(&document);
    if (!server_program_has(SERVER_CHANNEL_ACL)) { /* redlock(7): leave these out */
        take_out(line, "resetchannels");
        take_out(line, "&redlock:*");
    }
    return line;
}

const char *published_rights(void)
{
    static char line[LINE_SIZE];
    return line[0] != '\0' ? line : read_rights(line, DOCUMENTS_DIRECTORY "/man/redlock.7");
}

redlock_options published_options(uint32_t ttl_ms)
{
    redlock_options options = held_options(ttl_ms, 1);
    options.prefix = PUBLISHED_PREFIX;
    options.user = PUBLISHED_USER;
    options.password = PUBLISHED_PASSWORD;
    return options;
}

const char *published_rights_without(const char *words)
{
    static char line[LINE_SIZE];
    char *copy = fixture_text("%s", words), *rest = copy, *word;
    snprintf(line, sizeof line, "%s", published_rights());
    while ((word = strsep(&rest, " ")) != NULL)
        take_out(line, word);
    free(copy);
    return line;
}
