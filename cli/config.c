#include "config.h"

#include "command.h"
#include "message.h"
#include "times.h"

#include <errno.h>
#include <ini.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PASSWORD_LINE_SIZE = 1024 }; /* more than the library accepts */
enum { KEYS_MAX = 24 };

/* Shared by the parser's callbacks. */
struct reading {
    const char *path;
    FILE *file;
    struct cli_settings *settings;
    int line;
    int error;            /* errno of a failed read; 0: none */
    bool indented;        /* the line */
    bool after_key;       /* a key of the same section came before, which the parser continues with an indented line */
    bool holds_password;  /* not in another file */
    bool said;            /* the first error has been reported; later ones are not */
    int set_in[KEYS_MAX]; /* the line that has set the key, or another key's same option; 0: none */
};

/* One key of the file, and the option that it sets. */
struct key {
    const char *name;
    bool (*take)(struct reading *reading, const struct key *key, const char *value);
    size_t offset; /* in redlock_options */
    uint32_t most; /* upper bound of a number; of milliseconds, at least 1 */
};

#define OPTION(field) offsetof(redlock_options, field)

/* Texts that live until the process ends. */
struct kept {
    struct kept *before;
    char text[];
};
static struct kept *kept;

char *cli_keep(const char *text)
{
    struct kept *keep = malloc(sizeof(*keep) + strlen(text) + 1);

    if (keep == NULL) {
        cli_say("out of memory");
        exit(CLI_SYSTEM);
    }
    keep->before = kept;
    kept = keep;
    return strcpy(keep->text, text);
}

/* --- Values --- */

__attribute__((format(printf, 2, 3))) static bool wrong(struct reading *reading, const char *format, ...)
{
    char text[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (!reading->said)
        cli_say("%s:%d: %s", reading->path, reading->line, text);
    reading->said = true;
    return false;
}

static void *option(struct reading *reading, const struct key *key)
{
    return (char *)&reading->settings->options + key->offset;
}

static const char byte_order_mark[] = "\xef\xbb\xbf"; /* some editors write it; it is no part of the password */

char *cli_password_read(const char *path)
{
    char line[PASSWORD_LINE_SIZE];
    char *password = NULL;
    FILE *file = fopen(path, "re");

    if (file == NULL)
        cli_say("cannot read a password from %s: %s", path, strerror(errno));
    else if (fgets(line, sizeof(line), file) == NULL)
        cli_say("cannot read a password from %s: it is empty, or not a file", path);
    else if (strchr(line, '\n') == NULL && !feof(file))
        cli_say("cannot read a password from %s: its first line is longer than %d bytes", path, PASSWORD_LINE_SIZE - 2);
    else {
        char *begin =
            strncmp(line, byte_order_mark, strlen(byte_order_mark)) == 0 ? line + strlen(byte_order_mark) : line;
        begin[strcspn(begin, "\r\n")] = '\0';
        if (*begin == '\0')
            cli_say("cannot read a password from %s: its first line is empty", path);
        else
            password = cli_keep(begin);
    }
    if (file != NULL)
        fclose(file);
    explicit_bzero(line, sizeof(line));
    return password;
}

/* A relative path starts at the config file's directory: the command may run in any. */
static bool take_password_file(struct reading *reading, const struct key *key, const char *value)
{
    const char *slash = *value != '/' ? strrchr(reading->path, '/') : NULL;
    char *path;

    if (asprintf(&path, "%.*s%s", slash != NULL ? (int)(slash + 1 - reading->path) : 0, reading->path, value) < 0)
        return wrong(reading, "out of memory");
    char *password = cli_password_read(path);
    free(path);
    if (password == NULL)
        return wrong(reading, "password-file: see above");
    *(const char **)option(reading, key) = password;
    return true;
}

/* The key may occur again, and continue in indented lines: each has one or more nodes. */
static bool take_nodes(struct reading *reading, const struct key *key, const char *value)
{
    const char *before = reading->settings->nodes;
    char *joined;

    (void)key;
    size_t size = strlen(value);
    size -= size > 0 && value[size - 1] == ','; /* the list continues in the next line */
    if (size == 0)
        return wrong(reading, "nodes: the list is empty; write for example: nodes = 10.0.0.1,10.0.0.2,10.0.0.3");
    if (cli_nodes_hold_password(value))
        reading->holds_password = true;
    if (asprintf(&joined, "%s%s%.*s", before != NULL ? before : "", before != NULL ? "," : "", (int)size, value) < 0)
        return wrong(reading, "out of memory");
    reading->settings->nodes = cli_keep(joined);
    free(joined);
    return true;
}

static bool take_duration(struct reading *reading, const struct key *key, const char *value)
{
    char most[CLI_DURATION_SIZE];
    int64_t milliseconds;

    if (!cli_duration_read(value, &milliseconds))
        return wrong(reading, "%s: '%s' is not a duration: " CLI_DURATION_FORM, key->name, value);
    if (milliseconds < 1 || milliseconds > key->most)
        return wrong(reading, "%s: '%s' is not from 1 ms to %s", key->name, value, cli_duration_exact(key->most, most));
    *(uint32_t *)option(reading, key) = (uint32_t)milliseconds;
    return true;
}

static bool take_number(struct reading *reading, const struct key *key, const char *value)
{
    char *end;
    unsigned long number = strtoul(value, &end, 10);

    if (value[0] < '0' || value[0] > '9' || *end != '\0' || number > key->most)
        return wrong(reading, "%s: '%s' is not a number from 0 to %u", key->name, value, key->most);
    *(uint32_t *)option(reading, key) = (uint32_t)number;
    return true;
}

static bool take_yes_no(struct reading *reading, const struct key *key, const char *value)
{
    bool yes = strcmp(value, "yes") == 0;

    if (!yes && strcmp(value, "no") != 0)
        return wrong(reading, "%s: '%s' is neither yes nor no", key->name, value);
    *(uint32_t *)option(reading, key) = yes;
    return true;
}

static bool take_text(struct reading *reading, const struct key *key, const char *value)
{
    *(const char **)option(reading, key) = cli_keep(value);
    if (key->offset == OPTION(password))
        reading->holds_password = true;
    return true;
}

static const struct key keys[] = {
    {"nodes", take_nodes, 0, 0},
    {"user", take_text, OPTION(user), 0},
    {"password", take_text, OPTION(password), 0},
    {"password-file", take_password_file, OPTION(password), 0},
    {"ttl", take_duration, OPTION(ttl_ms), CLI_TTL_MOST_MS},
    {"max-ttl", take_duration, OPTION(max_ttl_ms), CLI_TTL_MOST_MS},
    {"timeout", take_duration, OPTION(node_timeout_ms), CLI_TIMEOUT_MOST_MS},
    {"connect-timeout", take_duration, OPTION(connect_timeout_ms), CLI_TIMEOUT_MOST_MS},
    {"drift-ppm", take_number, OPTION(drift_ppm), 500000},
    {"database", take_number, OPTION(database), 1000000},
    {"prefix", take_text, OPTION(prefix), 0},
    {"deployment", take_text, OPTION(deployment), 0},
    {"marker-key", take_text, OPTION(marker_key), 0},
    {"channel-prefix", take_text, OPTION(channel_prefix), 0},
    {"label", take_text, OPTION(label), 0},
    {"guard", take_yes_no, OPTION(guard), 0},
    {"tls-ca-file", take_text, OPTION(tls_ca_file), 0},
    {"tls-ca-directory", take_text, OPTION(tls_ca_directory), 0},
    {"tls-certificate-file", take_text, OPTION(tls_certificate_file), 0},
    {"tls-key-file", take_text, OPTION(tls_key_file), 0},
    {"tls-server-name", take_text, OPTION(tls_server_name), 0},
};

enum { KEYS = sizeof(keys) / sizeof(keys[0]) };
_Static_assert((int)KEYS <= KEYS_MAX, "struct reading has a line for each");

/* --- The parser's callbacks --- */

static const struct key *find_key(const char *name, size_t length)
{
    for (size_t i = 0; i < KEYS; i++)
        if (strlen(keys[i].name) == length && strncmp(keys[i].name, name, length) == 0)
            return &keys[i];
    return NULL;
}

/* The line was meant as a key: only nodes continue, and none of them looks like "key = ...". */
static bool is_indented_key(const struct reading *reading, const struct key *key, const char *value)
{
    size_t length = strcspn(value, "= \t");

    if (!reading->indented || !reading->after_key)
        return false;
    return key->take != take_nodes || (strchr(value, '=') != NULL && find_key(value, length) != NULL);
}

/* Refuses a second value, except of nodes, which add up: a reader of the file could not tell which one counts. */
static bool note_line(struct reading *reading, const struct key *key)
{
    for (size_t i = 0; i < KEYS && key->take != take_nodes; i++)
        if (keys[i].offset == key->offset && keys[i].take != take_nodes && reading->set_in[i] != 0)
            return wrong(reading, "%s: line %d has set %s; keep one of the two", key->name, reading->set_in[i],
                         keys[i].name);
    reading->set_in[key - keys] = reading->line;
    return true;
}

static int on_value(void *user, const char *section, const char *name, const char *value)
{
    struct reading *reading = user;
    const struct key *key = find_key(name, strlen(name));

    if (*section != '\0' && strcmp(section, "redlock") != 0)
        return wrong(reading, "there is no section [%s]; put all keys in [redlock]", section);
    if (key == NULL && strcmp(name, "fair") == 0)
        return wrong(reading, "'fair' is no longer a key, because waiting is always fair: remove the line");
    if (key == NULL)
        return wrong(reading, "there is no key '%s'; redlock(1) lists them", name);
    if (is_indented_key(reading, key, value))
        return wrong(reading, "an indented line continues the key before it, as only nodes can; write each key at the "
                              "beginning of its line");
    reading->after_key = true;
    return note_line(reading, key) && key->take(reading, key, value);
}

/* Counts the lines, because the parser does not, and rejects lines that it would split. */
static char *read_line(char *line, int size, void *user)
{
    struct reading *reading = user;

    memset(line, '\n', (size_t)size); /* to find where fgets() has ended the text: the line may have a NUL byte, too */
    if (fgets(line, size, reading->file) == NULL) {
        reading->error = ferror(reading->file) ? errno : 0;
        return NULL;
    }
    size_t length = (size_t)((char *)memrchr(line, '\0', (size_t)size) - line);
    reading->line++;
    if (strlen(line) < length) {
        wrong(reading, "this line has a NUL byte");
        return NULL;
    }
    reading->indented = *line == ' ' || *line == '\t';
    if (line[strspn(line, " \t")] == '[')
        reading->after_key = false;
    if (strchr(line, '\n') == NULL && !feof(reading->file)) {
        wrong(reading, "this line is longer than %d bytes; write nodes in several lines: nodes = ...", size - 3);
        return NULL;
    }
    return line;
}

static void warn_of_readers(const struct reading *reading)
{
    struct stat status;

    if (reading->holds_password && fstat(fileno(reading->file), &status) == 0 && S_ISREG(status.st_mode) &&
        (status.st_mode & S_IROTH) != 0)
        cli_say("%s contains a password and every user can read it; run chmod 600 %s", reading->path, reading->path);
}

bool cli_config_read(const char *path, struct cli_settings *settings)
{
    struct reading reading = {.path = path, .settings = settings, .file = fopen(path, "re")};

    if (reading.file == NULL) {
        cli_say("cannot read %s: %s", path, strerror(errno));
        return false;
    }
    int bad_line = ini_parse_stream(read_line, &reading, on_value, &reading);
    if (reading.error != 0)
        cli_say("cannot read %s: %s", path, strerror(reading.error));
    else if (bad_line > 0 && !reading.said)
        cli_say("%s:%d: neither 'key = value' nor a [section] nor a ; comment", path, bad_line);
    warn_of_readers(&reading);
    fclose(reading.file);
    return reading.error == 0 && bad_line == 0 && !reading.said;
}
