#include "story.h"

#include "support/bytes.h"
#include "support/clock.h"
#include "support/file.h"
#include "support/fixture.h"
#include "support/process.h"
#include "support/server_program.h"
#include "support/temp_dir.h"

#include <ctype.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COLUMNS = 8, VALUES = 32, ACTORS = 8, REDIS_WORDS = 8, NODES_MOST = 8 };

struct line {
    char *text;
    unsigned number;
};

/* A story, or one row of it. */
struct story {
    TTest test;
    struct test_case *of;
    const struct line *step;
    size_t steps;
    const char *columns, *row; /* separated by spaces, and by bars; NULL: it has no rows */
    bool follows;              /* in the test of the row before it */
};

static const char *path; /* of the file */
static struct line *lines;
static size_t lines_count, common; /* steps before the first story, which begin each */
static struct story *stories;
static size_t count;

/* --- The running story --- */

static struct {
    struct value {
        const char *name, *text;
    } value[VALUES];
    size_t values;
    struct actor {
        const char *name;
        struct program *program;
    } actor[ACTORS];
    size_t actors;
    struct program *program; /* the one that the steps are about */
    uint64_t clock_ns;
    const char *step; /* as it is done, with its values */
    unsigned line;
    bool over;
} now;

_Noreturn static void failed(const char *format, ...) __attribute__((format(printf, 1, 2)));

_Noreturn static void failed(const char *format, ...)
{
    char why[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    ck_abort_msg("%s:%u: '%s': %s; output: %.3000s; errors: %.3000s", path, now.line, now.step, why,
                 now.program ? program_output(now.program) : "", now.program ? program_errors(now.program) : "");
}

#define REQUIRE(condition, ...)                                                                                        \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            failed(__VA_ARGS__);                                                                                       \
    } while (0)

/* --- Words and values --- */

static bool is(const char *word, const char *other)
{
    return strcmp(word, other) == 0;
}

static bool begins(const char *text, const char *word)
{
    return strncmp(text, word, strlen(word)) == 0;
}

/* Returns the first word, and moves the text behind it and its spaces. */
static char *take_word(char **text)
{
    char *word = *text;
    *text += strcspn(*text, " ");
    if (**text != '\0')
        *(*text)++ = '\0';
    *text += strspn(*text, " ");
    return word;
}

/* Ends the text before the separator. Returns what is behind its last occurrence; NULL: there is none. */
static char *split_off(char *text, const char *separator)
{
    char *last = NULL;
    for (char *at = text; (at = strstr(at, separator)) != NULL; at++)
        last = at;
    if (last == NULL)
        return NULL;
    char *rest = last + strlen(separator);
    while (last > text && last[-1] == ' ')
        last--;
    *last = '\0';
    return rest + strspn(rest, " ");
}

static char *unescape(char *text)
{
    static const char letters[] = "ne\\tr", bytes[] = "\n\033\\\t\r";
    char *to = text;
    for (const char *at = text; *at != '\0'; at++) {
        const char *letter = *at == '\\' && at[1] != '\0' ? strchr(letters, at[1]) : NULL;
        unsigned byte;
        if (letter != NULL) {
            *to++ = bytes[letter - letters];
            at++;
        } else if (*at == '\\' && sscanf(at, "\\x%2x", &byte) == 1) {
            *to++ = (char)byte;
            at += 3;
        } else {
            *to++ = *at;
        }
    }
    *to = '\0';
    return text;
}

static void set_value(const char *name, const char *text)
{
    REQUIRE(now.values < VALUES, "too many values");
    now.value[now.values++] = (struct value){name, text};
}

/* The latest one. */
static const char *value_of(const char *name, size_t length)
{
    for (size_t i = now.values; i-- > 0;)
        if (strlen(now.value[i].name) == length && strncmp(now.value[i].name, name, length) == 0)
            return now.value[i].text;
    if (length == 5 && strncmp(name, "nodes", 5) == 0)
        return cluster_nodes_string(cluster);
    if (length == 5 && strncmp(name, "node", 4) == 0)
        return cluster_address(cluster, (size_t)(name[4] - '1'));
    if (length == 6 && strncmp(name, "server", 6) == 0)
        return server_program();
    return length == 8 && strncmp(name, "patience", 8) == 0 ? SCENE_PATIENCE : NULL;
}

/* Puts the values in, and those in them. What is in braces without being one stays. */
static char *with_values(const char *text)
{
    struct bytes made = {0};
    bool changed = false;
    while (*text != '\0') {
        size_t length = *text == '{' ? strcspn(text + 1, "{} ") : 0;
        const char *value = length > 0 && text[length + 1] == '}' ? value_of(text + 1, length) : NULL;
        if (value != NULL)
            bytes_append(&made, value, strlen(value));
        else
            bytes_append(&made, text, 1);
        text += value != NULL ? length + 2 : 1;
        changed = changed || value != NULL;
    }
    bytes_append(&made, "", 1);
    char *copy = program_text("%s", made.data);
    bytes_free(&made);
    return changed ? with_values(copy) : copy;
}

#define NAMED(of)                                                                                                      \
    of(SIGTERM) of(SIGKILL) of(SIGINT) of(SIGHUP) of(SIGQUIT) of(SIGUSR1) of(SIGUSR2) of(SIGSTOP) of(SIGCONT)          \
        of(SIGALRM) of(SIGTSTP) of(NOT_OBTAINED) of(USAGE) of(NO_QUORUM) of(SYSTEM) of(LOST) of(MISCONFIGURED)         \
            of(SYS_pidfd_open) of(SYS_pidfd_send_signal) of(SYS_close_range)
#define NAME_OF(number)  #number,
#define VALUE_OF(number) number,
static const char *const number_names[] = {NAMED(NAME_OF)};
static const int numbers[] = {NAMED(VALUE_OF)};

/* A number, or one with a name, perhaps behind '-' or "128+". */
static int number_of(const char *text)
{
    bool negative = *text == '-', added = strncmp(text, "128+", 4) == 0;
    const char *name = text + (added ? 4 : negative);
    int number = -1;
    for (int i = 0; i < ROWS(numbers); i++)
        number = is(number_names[i], name) ? numbers[i] : number;
    if (isdigit((unsigned char)*name))
        number = atoi(name);
    REQUIRE(number >= 0, "'%s' is no number", text);
    return added ? 128 + number : negative ? -number : number;
}

/* --- Programs --- */

static bool has_ended(void *program)
{
    return !program_is_running(program);
}

static void ends(char *end)
{
    bool prints = begins(end, "prints ");
    char *says = strstr(end, ": ");
    if (says != NULL && !prints) {
        *says = '\0';
        says = unescape(says + 2);
    }
    REQUIRE(wait_until(has_ended, now.program, PROGRAM_SOON_MS), "it does not end");
    int status = program_wait(now.program), expected = prints ? 0 : number_of(end);
    REQUIRE(status == expected, "exit status %d, not %d", status, expected);
    const char *output = program_output(now.program), *errors = program_errors(now.program);
    if (prints)
        REQUIRE(strcmp(output, program_text("%s\n", unescape(end + 7))) == 0, "another output");
    else if (says != NULL)
        REQUIRE(strstr(errors, says) != NULL && *output == '\0' && strchr(errors, '\n') != NULL &&
                    strchr(errors, '\n')[1] == '\0',
                "not one line with '%s', or some output", says);
}

static void start(char kind, char *line)
{
    now.program = kind == '>' ? program_start_words(line) : program_start_bash(line);
}

/* The machine may be so late that the wait ends before the nodes have replied. */
static void run(char kind, char *line, bool again)
{
    uint64_t deadline = test_deadline_ns(PROGRAM_SOON_MS);
    char *end = split_off(line, " => ");
    do {
        start(kind, line);
        REQUIRE(wait_until(has_ended, now.program, PROGRAM_SOON_MS), "it does not end");
    } while (again && program_wait(now.program) == NO_QUORUM && test_now_ns() < deadline);
    if (end != NULL)
        ends(end);
}

/* A number, or a value's name. */
static pid_t process_of(const char *text)
{
    bool is_group = *text == '-';
    const char *value = value_of(text + is_group, strlen(text + is_group));
    int pid = atoi(value ? value : text + is_group);
    REQUIRE(pid > 1, "'%s' is no process", text);
    return is_group ? -pid : pid;
}

static const char *found(const char *how, char *rest)
{
    struct program *program = now.program;
    pid_t pid = program ? program_pid(program) : 0;
    if (is(how, "json"))
        return scene_json(program, rest);
    if (is(how, "number"))
        return program_text("%d", program_number(program, unescape(rest)));
    if (is(how, "line"))
        return program_text("%.*s", (int)strcspn(program_output(program), "\n"), program_output(program));
    if (is(how, "pid"))
        return program_text("%d", (int)pid);
    if (is(how, "holder"))
        return program_text("%d", (int)program_process(program, PROGRAM_HOLDER));
    if (is(how, "child"))
        return program_text("%d", (int)program_child(*rest == '\0' ? pid : process_of(rest)));
    if (is(how, "output"))
        return program_text("%s", program_output(program));
    if (is(how, "text"))
        return rest;
    if (is(how, "file"))
        return scene_file(unescape(rest));
    REQUIRE(is(how, "directory"), "there is no value '%s'", how);
    const char *directory = temp_dir_path(temp_dir_make());
    real_note_descriptors();
    return directory;
}

/* Looks at what it has written, or soon writes. */
static bool take_text_step(const char *verb, char *text)
{
    const char *output = program_output(now.program), *errors = program_errors(now.program);
    bool counts = is(verb, "times") || is(verb, "count");
    unsigned number = counts ? (unsigned)number_of(take_word(&text)) : 0;
    char *expected = is(verb, "json") ? split_off(text, " == ") : NULL;
    if (expected == NULL)
        unescape(text);
    if (is(verb, "shows"))
        REQUIRE(program_says(now.program, text), "not shown");
    else if (is(verb, "times"))
        REQUIRE(program_says_again(now.program, text, number - 1), "not shown so often");
    else if (is(verb, "count"))
        REQUIRE(program_count(now.program, text) == number, "%u times", program_count(now.program, text));
    else if (is(verb, "out"))
        REQUIRE(strstr(output, text) != NULL, "not in its output");
    else if (is(verb, "err"))
        REQUIRE(strstr(errors, text) != NULL, "not in its errors");
    else if (is(verb, "out="))
        REQUIRE(strcmp(output, text) == 0, "another output");
    else if (is(verb, "err="))
        REQUIRE(strcmp(errors, text) == 0, "other errors");
    else if (is(verb, "not"))
        REQUIRE(strstr(output, text) == NULL && strstr(errors, text) == NULL, "it is written");
    else if (expected != NULL)
        REQUIRE(is(scene_json(now.program, text), unescape(expected)), "it is '%s'", scene_json(now.program, text));
    else
        return false;
    return true;
}

/* An orphan, which is a child of this process since `subreaper`. */
static bool is_reaped(void *process)
{
    int status = 0;
    pid_t pid = *(pid_t *)process;
    return waitpid(pid, &status, WNOHANG) > 0 && (pid < 0 || status == 0);
}

static bool take_process_step(const char *verb, char *rest)
{
    if (is(verb, "ends")) {
        ends(rest);
    } else if (is(verb, "let")) {
        const char *name = take_word(&rest), *how = take_word(&rest);
        set_value(name, found(how, rest));
    } else if (is(verb, "terminates")) {
        program_signal(now.program, SIGTERM);
        ends(program_text("128+SIGTERM"));
    } else if (is(verb, "signal")) {
        program_signal(now.program, number_of(rest));
    } else if (is(verb, "kill")) {
        int number = number_of(take_word(&rest));
        REQUIRE(kill(process_of(rest), number) == 0, "there is no such process");
    } else if (is(verb, "stopped")) {
        REQUIRE(wait_until(program_is_stopped, now.program, PROGRAM_SOON_MS), "it is not");
    } else if (is(verb, "running")) {
        real_until(NULL, !process_stopped(&(struct process){.pid = process_of(rest)}));
    } else if (is(verb, "foreground")) {
        real_until(NULL, program_foreground(now.program) == process_of(rest));
    } else if (is(verb, "type")) {
        program_type(now.program, unescape(rest));
    } else if (is(verb, "hang-up")) {
        program_hang_up(now.program);
    } else if (is(verb, "gone")) {
        REQUIRE(program_is_gone(process_of(rest)), "it is there");
    } else if (is(verb, "soon-gone")) {
        REQUIRE(program_soon_gone(process_of(rest)), "it is there");
    } else if (is(verb, "ended")) {
        real_until(NULL, process_has_ended(process_of(rest)));
    } else if (is(verb, "reap")) {
        pid_t pid = is(rest, "any") ? -1 : process_of(rest);
        REQUIRE(wait_until(is_reaped, &pid, PROGRAM_SOON_MS), "it lives on, or has failed");
    } else if (is(verb, "subreaper")) {
        prctl(PR_SET_CHILD_SUBREAPER, 1);
    } else if (is(verb, "lives")) {
        REQUIRE(!process_has_ended(process_of(rest)), "it has ended");
    } else {
        return false;
    }
    return true;
}

/* --- Nodes and surroundings --- */

struct copies {
    const char *key;
    size_t wanted;
};

static bool are_there(void *copies)
{
    const struct copies *expected = copies;
    return scene_held_on(expected->key) == expected->wanted;
}

/* The bits of the numbers in front; of all nodes if there are none. */
static unsigned take_nodes(char **text)
{
    unsigned nodes = 0;
    while (isdigit((unsigned char)**text))
        nodes |= 1u << (atoi(take_word(text)) - 1);
    return nodes ? nodes : ~0u;
}

static void on_nodes(void (*act)(struct cluster *, size_t), char *list)
{
    while (*list != '\0')
        act(cluster, (size_t)number_of(take_word(&list)) - 1);
}

static void redis(char *rest)
{
    const char *word[REDIS_WORDS] = {NULL}, *expected = split_off(rest, " => ");
    char reply[4096];
    unsigned nodes = take_nodes(&rest);
    for (size_t i = 0; i < REDIS_WORDS && *rest != '\0'; i++)
        word[i] = unescape(take_word(&rest));
    for (size_t i = 0; i < cluster_size(cluster); i++) {
        if (!(nodes & 1u << i))
            continue;
        REQUIRE(cluster_command(cluster, i, reply, sizeof reply, word[0], word[1], word[2], word[3], word[4], word[5],
                                word[6], word[7], NULL),
                "node %zu does not reply", i + 1);
        REQUIRE(expected == NULL || is(reply, expected), "node %zu replies %s", i + 1, reply);
    }
}

static void make_cluster(size_t nodes, char *rest)
{
    struct cluster_node_options each = {.own_clock = is(rest, "clocks")};
    const char *arguments[2 * REDIS_WORDS] = {NULL};
    if (begins(rest, "password="))
        each.password = rest + strlen("password=");
    if (begins(rest, "rename=")) {
        rest += strlen("rename=");
        for (size_t i = 0; i < REDIS_WORDS && *rest != '\0'; i += 3) {
            arguments[i] = "--rename-command";
            arguments[i + 1] = take_word(&rest);
            arguments[i + 2] = "";
        }
        each.arguments = arguments;
    }
    scene_cluster(nodes, &each);
}

static bool take_node_step(const char *verb, char *rest)
{
    bool counts = is(verb, "on") || is(verb, "renewals") || is(verb, "cluster") || is(verb, "shift");
    size_t number = counts ? (size_t)number_of(take_word(&rest)) : 0;
    struct copies copies = {rest, number};
    if (is(verb, "on"))
        REQUIRE(wait_until(are_there, &copies, REAL_SOON_MS), "on %zu nodes", scene_held_on(rest));
    else if (is(verb, "renewals"))
        scene_await_renewals(rest, (unsigned)number);
    else if (is(verb, "cluster"))
        make_cluster(number, rest);
    else if (is(verb, "hold"))
        scene_hold(rest);
    else if (is(verb, "delete"))
        scene_delete(rest);
    else if (is(verb, "nothing-left"))
        REQUIRE(real_nothing_left(NULL), "there is");
    else if (is(verb, "redis"))
        redis(rest);
    else if (is(verb, "kill-node"))
        on_nodes(cluster_kill, rest);
    else if (is(verb, "stop-node"))
        on_nodes(cluster_stop, rest);
    else if (is(verb, "repair"))
        cluster_repair(cluster);
    else if (is(verb, "shift"))
        for (size_t i = 0; i < cluster_size(cluster); i++)
            cluster_shift_clock(cluster, i, 1000 * (int64_t)number);
    else
        return false;
    return true;
}

static void took(char *rest)
{
    bool least = is(take_word(&rest), "least");
    uint64_t took_ms = (test_now_ns() - now.clock_ns) / 1000000, bound_ms = (uint64_t)number_of(rest);
    REQUIRE(least ? took_ms >= bound_ms : took_ms <= bound_ms, "%llu ms", (unsigned long long)took_ms);
}

static void pause_for(uint64_t us)
{
    struct timespec time = test_timespec(us * 1000);
    nanosleep(&time, NULL);
}

static bool take_setting_step(const char *verb, char *rest)
{
    if (is(verb, "nodes"))
        program_setting.nodes = *rest == '\0' ? NULL : rest;
    else if (is(verb, "config"))
        program_setting.config = *rest == '\0' ? NULL : scene_file(unescape(rest));
    else if (is(verb, "terminal"))
        program_setting.terminal = !is(rest, "off");
    else if (is(verb, "older"))
        program_setting.newest_call = number_of(rest) - 1;
    else if (is(verb, "clock"))
        now.clock_ns = test_now_ns();
    else if (is(verb, "took"))
        took(rest);
    else if (is(verb, "pause"))
        pause_for((uint64_t)number_of(take_word(&rest)) * (uint64_t)number_of(rest));
    else if (is(verb, "root"))
        now.over = geteuid() != 0;
    else
        return false;
    return true;
}

/* --- Steps --- */

static bool is_start(const char *word)
{
    size_t length = strlen(word);
    return length > 0 && (word[length - 1] == '>' || word[length - 1] == '$');
}

static void start_actor(char *word, char *line)
{
    size_t length = strlen(word) - 1;
    char kind = word[length];
    if (length == 0 || is(word, "~>")) {
        run(kind, line, length > 0);
        return;
    }
    REQUIRE(now.actors < ACTORS, "too many programs");
    word[length] = '\0';
    start(kind, line);
    now.actor[now.actors++] = (struct actor){word, now.program};
}

static void take_step(char *text)
{
    char *word = take_word(&text);
    for (size_t i = 0; i < now.actors; i++)
        if (strcmp(now.actor[i].name, word) == 0) {
            now.program = now.actor[i].program;
            word = take_word(&text);
            break;
        }
    if (is_start(word)) {
        start_actor(word, text);
        return;
    }
    REQUIRE(take_process_step(word, text) || take_node_step(word, text) || take_setting_step(word, text) ||
                (now.program && take_text_step(word, text)),
            "there is no step '%s'", word);
}

static void set_columns(const struct story *story)
{
    char *names = program_text("%s", story->columns), *rest = program_text("%s", story->row);
    while (*names != '\0') {
        char *cell = rest + strspn(rest, " "), *end = strstr(cell, " | ");
        rest = end != NULL ? end + 3 : cell + strlen(cell);
        if (end != NULL)
            *end = '\0';
        for (size_t length = strlen(cell); length > 0 && cell[length - 1] == ' ';)
            cell[--length] = '\0';
        set_value(take_word(&names), is(cell, "-") ? "" : with_values(cell));
    }
}

static void take_steps(const struct line *step, size_t steps);

/* Takes the steps up to `again`, several times. Returns their number. */
static size_t repeat(const struct line *step, size_t steps, int times)
{
    size_t count_inside = 0;
    while (count_inside < steps && !is(step[count_inside].text, "again"))
        count_inside++;
    for (int i = 1; i <= times; i++) {
        size_t values = now.values;
        set_value("i", program_text("%d", i));
        take_steps(step, count_inside);
        now.values = values;
    }
    return count_inside;
}

static void take_steps(const struct line *step, size_t steps)
{
    for (size_t i = 0; i < steps && !now.over; i++) {
        char *text = with_values(step[i].text);
        now.line = step[i].number;
        now.step = program_text("%s", text);
        if (*text == '?') {
            const char *name = take_word(&text) + 1, *value = value_of(name, strlen(name));
            if (value == NULL || *value == '\0')
                continue;
        }
        if (begins(text, "repeat "))
            i += repeat(step + i + 1, steps - i - 1, number_of(text + strlen("repeat ")));
        else if (!is(text, "again"))
            take_step(text);
    }
}

static void tell(int i)
{
    const struct story *story = &stories[i];
    do {
        memset(&now, 0, sizeof now);
        take_steps(lines, common);
        if (story->row)
            set_columns(story);
        take_steps(story->step, story->steps);
    } while (++story < &stories[count] && story->follows);
}

/* --- The file --- */

/* Without blank lines and comments. */
static void read_lines(void)
{
    struct bytes content = {0};
    unsigned number = 1;
    if (!file_read(path, &content))
        fixture_fail("cannot read %s", path);
    for (char *at = content.data, *next; *at != '\0'; at = next) {
        unsigned first = number;
        char *end = strchr(at, '\n');
        for (; end - at >= 2 && strncmp(end - 2, " \\", 2) == 0; end = strchr(end, '\n'), number++) {
            char *more = end + 1 + strspn(end + 1, " ");
            memmove(end - 1, more, strlen(more) + 1);
        }
        number++;
        *end = '\0';
        next = end + 1;
        at += strspn(at, " ");
        if (*at == '\0' || *at == '#')
            continue;
        lines = fixture_reallocate(lines, (lines_count + 1) * sizeof *lines);
        lines[lines_count++] = (struct line){at, first};
    }
}

static void add_story(struct story story)
{
    stories = fixture_reallocate(stories, (count + 1) * sizeof *stories);
    stories[count++] = story;
}

static struct test_case *case_of(char *heading)
{
    char *nodes = split_off(heading, " [");
    return nodes == NULL ? &case_shared_nodes : strcmp(nodes, "own nodes]") == 0 ? &case_own_nodes : &case_no_nodes;
}

static void find_stories(void)
{
    while (!begins(lines[common].text, "== "))
        common++;
    for (size_t i = common; i < lines_count;) {
        char *heading = lines[i].text + 3;
        struct story story = {.of = case_of(heading), .test = {heading, tell, path, (int)lines[i].number}};
        size_t before = count;
        bool together = i + 1 < lines_count && begins(lines[i + 1].text, "each ");
        if (together || (i + 1 < lines_count && begins(lines[i + 1].text, "rows ")))
            story.columns = lines[++i].text + 5;
        for (i++; i < lines_count && *lines[i].text == '|'; i++) {
            story.row = lines[i].text + 1;
            story.follows = together && count > before;
            add_story(story);
        }
        story.step = &lines[i];
        while (i < lines_count && !begins(lines[i].text, "== "))
            i++;
        story.steps = (size_t)(&lines[i] - story.step);
        if (count == before)
            add_story(story);
        for (size_t k = before; k < count; k++) {
            stories[k].step = story.step;
            stories[k].steps = story.steps;
        }
    }
}

int story_run(Suite *suite, const char *name)
{
    const char *wanted = getenv("STORY");
    bool needs_control = false;
    path = fixture_text("%s/%s.txt", STORY_DIRECTORY, name);
    read_lines();
    find_stories();
    for (size_t i = 0; i < lines_count; i++)
        needs_control = needs_control || begins(lines[i].text, "kill-node ") || begins(lines[i].text, "stop-node ");
    for (size_t i = 0; i < count; i++) {
        struct test_case *of = stories[i].of;
        if (stories[i].follows || (wanted && !strstr(stories[i].test.name, wanted)))
            continue;
        if (!of->tcase)
            of->tcase = of->create(suite, of->name);
        tcase_add_loop_test(of->tcase, &stories[i].test, (int)i, (int)i + 1);
    }
    return real_run(suite, needs_control);
}
