#include "story.h"

#include "support/file.h"
#include "support/fixture.h"
#include "support/process.h"

#include <ctype.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { VALUES = 64, ACTORS = 8, STEPS_MOST = 64 };

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

static const char *path = ""; /* of the file */
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

void story_begin(void)
{
    memset(&now, 0, sizeof now);
}

/* What the program that the steps are about has written so far; "" if there is none. */
static const char *story_output(void)
{
    return now.program ? program_output(now.program) : "";
}

static const char *story_errors(void)
{
    return now.program ? program_errors(now.program) : "";
}

void story_fail(const char *format, ...)
{
    char why[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    ck_abort_msg("%s:%u: '%s': %s; output: %.3000s; errors: %.3000s", path, now.line, now.step, why, story_output(),
                 story_errors());
}

void story_wait(uint64_t began_ns)
{
    poll(NULL, 0, test_now_ns() - began_ns < 50000000 ? 1 : 10);
}

/* --- Words and values --- */

char *story_take_word(char **text)
{
    char *word = *text;
    *text += strcspn(*text, " ");
    if (**text != '\0')
        *(*text)++ = '\0';
    *text += strspn(*text, " ");
    return word;
}

char *story_split_off(char *text, const char *separator)
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

char *story_unescape(char *text)
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

void story_set_value(const char *name, const char *text)
{
    STORY_REQUIRE(now.values < VALUES, "too many values");
    now.value[now.values++] = (struct value){name, text};
}

/* The latest one. */
static const char *value_of(const char *name, size_t length)
{
    for (size_t i = now.values; i-- > 0;)
        if (strlen(now.value[i].name) == length && strncmp(now.value[i].name, name, length) == 0)
            return now.value[i].text;
    return scene_value(name, length);
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

int story_number(const char *text)
{
    bool negative = *text == '-', added = strncmp(text, "128+", 4) == 0;
    const char *name = text + (added ? 4 : negative);
    int number = -1;
    for (int i = 0; i < ROWS(numbers); i++)
        number = is(number_names[i], name) ? numbers[i] : number;
    if (isdigit((unsigned char)*name))
        number = atoi(name);
    STORY_REQUIRE(number >= 0, "'%s' is no number", text);
    return added ? 128 + number : negative ? -number : number;
}

/* --- Programs --- */

static bool shows(const char *text)
{
    return strstr(story_output(), text) || strstr(story_errors(), text);
}

static unsigned count_shown(const char *text)
{
    unsigned shown = 0;
    for (const char *at = story_output(); (at = strstr(at, text)) != NULL; at += strlen(text))
        shown++;
    return shown;
}

/* What comes after the text; NULL: it, or the end of a number, is not there yet. */
static const char *number_behind(const char *text)
{
    const char *found = strstr(story_output(), text);
    return found && strpbrk(found + strlen(text), " .\r\n") ? found + strlen(text) : NULL;
}

static void ends(char *end)
{
    bool prints = begins(end, "prints ");
    char *says = prints ? NULL : strstr(end, ": ");
    if (says != NULL) {
        *says = '\0';
        says = story_unescape(says + 2);
    }
    STORY_SOON(program_has_ended(now.program), "it does not end");
    int status = now.program->status, expected = prints ? 0 : story_number(end);
    STORY_REQUIRE(status == expected, "exit status %d, not %d", status, expected);
    const char *output = story_output(), *errors = story_errors();
    if (prints)
        STORY_REQUIRE(is(output, program_text("%s\n", story_unescape(end + 7))), "another output");
    else if (says != NULL)
        STORY_REQUIRE(strstr(errors, says) != NULL && *output == '\0' && strchr(errors, '\n') != NULL &&
                          strchr(errors, '\n')[1] == '\0',
                      "not one line with '%s', or some output", says);
}

static void start(char kind, const char *line)
{
    static const char redlock[] = "while [[ $1 == [A-Z]*=* ]]; do export \"$1\"; shift; done; exec \"$R\" \"$@\"";
    now.program = program_start(kind == '>' ? program_text("set -- %s\n%s", line, redlock) : line);
}

/* The machine may be so late that the wait ends before the nodes have replied. */
static void run(char kind, char *line, bool again)
{
    uint64_t deadline = test_deadline_ns(PROGRAM_SOON_MS);
    char *end = story_split_off(line, " => ");
    do {
        start(kind, line);
        STORY_SOON(program_has_ended(now.program), "it does not end");
    } while (again && now.program->status == NO_QUORUM && test_now_ns() < deadline);
    if (end != NULL)
        ends(end);
}

/* Returns the program of this line after its end. It is not the one that the steps are about. */
static struct program *run_beside(const char *line)
{
    struct program *program = program_start(line);
    STORY_SOON(program_has_ended(program), "it does not end");
    return program;
}

/* What jq(1) prints for the output, without its last newline: an independent program decides whether it is JSON. */
static const char *json(const char *filter)
{
    struct program *jq = run_beside(program_text("jq -r '%s' <<'JSON'\n%s\nJSON", filter, story_output()));
    STORY_REQUIRE(jq->status == 0, "jq: %s", program_errors(jq));
    return program_text("%.*s", (int)strcspn(program_output(jq), "\n"), program_output(jq));
}

/* A number, or a value's name. */
pid_t story_process(const char *text)
{
    bool is_group = *text == '-';
    const char *value = value_of(text + is_group, strlen(text + is_group));
    int pid = atoi(value ? value : text + is_group);
    STORY_REQUIRE(pid > 1, "'%s' is no process", text);
    return is_group ? -pid : pid;
}

static const char *found(const char *how, char *rest)
{
    const char *output = story_output();
    pid_t pid = now.program ? now.program->pid : 0;
    if (is(how, "json"))
        return json(rest);
    if (is(how, "number")) {
        story_unescape(rest);
        STORY_SOON(number_behind(rest) != NULL, "no number");
        return program_text("%d", atoi(number_behind(rest)));
    }
    if (is(how, "line"))
        return program_text("%.*s", (int)strcspn(output, "\n"), output);
    if (is(how, "pid"))
        return program_text("%d", (int)pid);
    if (is(how, "child"))
        return program_text("%d", (int)program_child(*rest == '\0' ? pid : story_process(rest)));
    if (is(how, "output"))
        return program_text("%s", output);
    if (is(how, "text"))
        return rest;
    if (is(how, "file"))
        return scene_file(story_unescape(rest));
    STORY_REQUIRE(is(how, "directory"), "there is no value '%s'", how);
    const char *directory = temp_dir_path(temp_dir_make());
    real_note_descriptors();
    return directory;
}

/* Looks at what it has written, or soon writes. */
static bool take_text_step(const char *verb, char *text)
{
    bool counts = is(verb, "times") || is(verb, "count");
    unsigned number = counts ? (unsigned)story_number(story_take_word(&text)) : 0;
    char *expected = is(verb, "json") ? story_split_off(text, " == ") : NULL;
    if (expected == NULL)
        story_unescape(text);
    if (is(verb, "shows"))
        STORY_SOON(shows(text), "not shown");
    else if (is(verb, "times"))
        STORY_SOON(count_shown(text) >= number, "not shown so often");
    else if (is(verb, "count"))
        STORY_REQUIRE(count_shown(text) == number, "%u times", count_shown(text));
    else if (is(verb, "out"))
        STORY_REQUIRE(strstr(story_output(), text) != NULL, "not in its output");
    else if (is(verb, "err"))
        STORY_REQUIRE(strstr(story_errors(), text) != NULL, "not in its errors");
    else if (is(verb, "out="))
        STORY_REQUIRE(is(story_output(), text), "another output");
    else if (is(verb, "err="))
        STORY_REQUIRE(is(story_errors(), text), "other errors");
    else if (is(verb, "not"))
        STORY_REQUIRE(!shows(text), "it is written");
    else if (expected != NULL)
        STORY_REQUIRE(is(json(text), story_unescape(expected)), "it is '%s'", json(text));
    else
        return false;
    return true;
}

/* An orphan, which is a child of this process since `subreaper`. */
static bool is_reaped(pid_t pid)
{
    int status = 0;
    return waitpid(pid, &status, WNOHANG) > 0 && (pid < 0 || status == 0);
}

static bool take_process_step(const char *verb, char *rest)
{
    if (is(verb, "ends")) {
        ends(rest);
    } else if (is(verb, "let")) {
        const char *name = story_take_word(&rest), *how = story_take_word(&rest);
        story_set_value(name, found(how, rest));
    } else if (is(verb, "terminates")) {
        kill(now.program->pid, SIGTERM);
        ends(program_text("128+SIGTERM"));
    } else if (is(verb, "signal")) {
        kill(now.program->pid, story_number(rest));
    } else if (is(verb, "kill")) {
        int number = story_number(story_take_word(&rest));
        STORY_REQUIRE(kill(story_process(rest), number) == 0, "there is no such process");
    } else if (is(verb, "stopped")) {
        STORY_SOON(process_state(now.program->pid) == 'T', "it is not");
    } else if (is(verb, "running")) {
        STORY_SOON(process_state(story_process(rest)) != 'T', "it is not");
    } else if (is(verb, "foreground")) {
        STORY_SOON(tcgetpgrp(now.program->output) == story_process(rest), "it is not");
    } else if (is(verb, "type")) {
        program_type(now.program, story_unescape(rest));
    } else if (is(verb, "hang-up")) {
        program_hang_up(now.program);
    } else if (is(verb, "gone")) {
        STORY_REQUIRE(program_is_gone(story_process(rest)), "it is there");
    } else if (is(verb, "soon-gone")) {
        STORY_SOON(program_is_gone(story_process(rest)), "it is there");
    } else if (is(verb, "ended")) {
        STORY_SOON(process_has_ended(story_process(rest)), "it is there");
    } else if (is(verb, "reap")) {
        STORY_SOON(is_reaped(is(rest, "any") ? -1 : story_process(rest)), "it lives on, or has failed");
    } else if (is(verb, "subreaper")) {
        prctl(PR_SET_CHILD_SUBREAPER, 1);
    } else if (is(verb, "lives")) {
        STORY_REQUIRE(!process_has_ended(story_process(rest)), "it has ended");
    } else {
        return false;
    }
    return true;
}

static void took(char *rest)
{
    bool least = is(story_take_word(&rest), "least");
    uint64_t took_ms = (test_now_ns() - now.clock_ns) / 1000000, bound_ms = (uint64_t)story_number(rest);
    STORY_REQUIRE(least ? took_ms >= bound_ms : took_ms <= bound_ms, "%llu ms", (unsigned long long)took_ms);
}

static bool take_other_step(const char *verb, char *rest)
{
    if (is(verb, "clock")) {
        now.clock_ns = test_now_ns();
    } else if (is(verb, "took")) {
        took(rest);
    } else if (is(verb, "pause")) {
        int us = story_number(story_take_word(&rest));
        struct timespec time = test_timespec((uint64_t)us * (uint64_t)story_number(rest) * 1000);
        nanosleep(&time, NULL);
    } else if (is(verb, "only")) {
        now.over = run_beside(rest)->status != 0;
    } else if (is(verb, "delegate")) {
        now.over = setxattr(rest, "trusted.delegate", "1", 1, 0) != 0;
        if (now.over)
            rmdir(rest);
    } else {
        return false;
    }
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
    word[length] = '\0';
    start(kind, line);
    size_t i = 0;
    while (i < now.actors && !is(now.actor[i].name, word))
        i++;
    STORY_REQUIRE(i < ACTORS, "too many programs");
    now.actor[i] = (struct actor){word, now.program};
    now.actors += i == now.actors;
}

static void take_step(char *text)
{
    char *word = story_take_word(&text);
    for (size_t i = 0; i < now.actors; i++)
        if (strcmp(now.actor[i].name, word) == 0) {
            now.program = now.actor[i].program;
            word = story_take_word(&text);
            break;
        }
    if (is_start(word)) {
        start_actor(word, text);
        return;
    }
    STORY_REQUIRE(take_process_step(word, text) || take_other_step(word, text) || scene_take_step(word, text) ||
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
        story_set_value(story_take_word(&names), is(cell, "-") ? "" : with_values(cell));
    }
}

static void take_steps(const struct line *step, size_t steps);

/* Takes the steps up to its `again`, several times, but no more if the line behind that fails. Returns their number. */
static size_t repeat(const struct line *step, size_t steps, int times)
{
    size_t inside = 0, values = now.values;
    for (int depth = 1; inside < steps; inside++) {
        depth += begins(step[inside].text, "repeat ") - begins(step[inside].text, "again");
        if (depth == 0)
            break;
    }
    for (int i = 1; i <= times; i++) {
        now.values = values;
        story_set_value("i", program_text("%d", i));
        take_steps(step, inside);
        const char *line = inside < steps ? step[inside].text + strlen("again") : "";
        if (*line != '\0' && run_beside(with_values(line))->status != 0)
            break;
    }
    return inside;
}

static void take_steps(const struct line *step, size_t steps)
{
    for (size_t i = 0; i < steps && !now.over; i++) {
        char *text = with_values(step[i].text);
        now.line = step[i].number;
        now.step = program_text("%s", text);
        if (*text == '?') {
            const char *name = story_take_word(&text) + 1, *value = value_of(name, strlen(name));
            if (value == NULL || *value == '\0')
                continue;
        }
        if (*text == '\0')
            continue;
        if (begins(text, "repeat "))
            i += repeat(step + i + 1, steps - i - 1, story_number(text + strlen("repeat ")));
        else if (!begins(text, "again"))
            take_step(text);
    }
}

void story_tell(const char *steps)
{
    struct line step[STEPS_MOST];
    size_t told = 0;
    for (char *text = program_text("%s", steps); text != NULL;) {
        STORY_REQUIRE(told < STEPS_MOST, "too many steps at once");
        step[told++] = (struct line){strsep(&text, "\n"), now.line};
    }
    take_steps(step, told);
}

static void tell(int i)
{
    const struct story *story = &stories[i];
    do {
        story_begin();
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
    char *nodes = story_split_off(heading, " [");
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
    const char *only = getenv("TEST_ONLY");
    bool needs_control = false;
    path = fixture_text("%s/%s.txt", STORY_DIRECTORY, name);
    read_lines();
    find_stories();
    for (size_t i = 0; i < lines_count; i++)
        needs_control = needs_control || begins(lines[i].text, "kill-node ") || begins(lines[i].text, "stop-node ");
    for (size_t i = 0; i < count; i++) {
        struct test_case *of = stories[i].of;
        const char *heading = stories[i].test.name;
        if (only && !*only && (i == 0 || heading != stories[i - 1].test.name))
            printf("test %s\n", heading);
        if (stories[i].follows || (only && strcmp(only, heading) != 0))
            continue;
        if (!of->tcase) {
            of->tcase = of->create(suite, of->name);
            tcase_add_checked_fixture(of->tcase, of->setup, of->teardown);
        }
        tcase_add_loop_test(of->tcase, &stories[i].test, (int)i, (int)i + 1);
    }
    return real_run(suite, needs_control);
}
