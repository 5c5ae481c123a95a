/* Compares the fake node with a real server: both get the same random commands, and every reply must be the same. */
#define _GNU_SOURCE
#include "support/cluster.h"
#include "support/fake_server.h"
#include "support/file.h"
#include "support/fixture.h"
#include "support/lock_scripts.h"
#include "support/raw_client.h"
#include "support/server_suite.h"

#include <check.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 3000, SEEDS = 3, SCRIPTS = 3, ROUND_MS = 100000, WORDS = 6 };

static struct raw_client *fake;
static struct raw_client *real;
static struct bytes scripts[SCRIPTS];
static char digests[SCRIPTS][41];
static unsigned random_state;

static unsigned draw(unsigned below)
{
    return (unsigned)rand_r(&random_state) % below;
}

static void load_scripts(void)
{
    static const char *const names[SCRIPTS] = {"release", "extend", "query"};
    for (int i = 0; i < SCRIPTS; i++) {
        char *path = fixture_text("%s/%s.lua", LOCK_SCRIPTS_DIRECTORY, names[i]);
        ck_assert_msg(file_read(path, &scripts[i]), "cannot read %s", path);
        free(path);
        raw_client_say(real, "SCRIPT", "LOAD", scripts[i].data, NULL);
        snprintf(digests[i], sizeof digests[i], "%.40s", raw_client_reply(real));
        raw_client_say(fake, "SCRIPT", "LOAD", scripts[i].data, NULL);
        ck_assert_str_eq(raw_client_reply(fake), digests[i]);
    }
}

static void setup(void)
{
    fixtures_begin();
    struct fake_server *server = fake_server_start(FAKE_IPV4);
    struct cluster *cluster = cluster_create(1, NULL);
    fake_server_set_script_handler(server, lock_scripts_run, NULL);
    fake = raw_client_connect(false, fake_server_port(server));
    real = raw_client_connect(false, cluster_port(cluster, 0));
    load_scripts();
}

static void teardown(void)
{
    for (int i = 0; i < SCRIPTS; i++)
        bytes_free(&scripts[i]);
    fixtures_end();
}

/* A small letter is drawn: a key, a token, a ttl, an offset, a database, a script by text or by digest. */
static const char *const commands[] = {"SET k t NX PX l",
                                       "SET k t NX PX l",
                                       "set k t px l",
                                       "SET k t",
                                       "SET k t PX 1x",
                                       "SET k t NX XX",
                                       "SET k",
                                       "GET k",
                                       "DEL k k",
                                       "GETRANGE k o o",
                                       "SELECT b",
                                       "SELECT 99",
                                       "SCRIPT LOAD s",
                                       "SCRIPT FLUSH",
                                       "EVAL s 1 k t l",
                                       "EVALSHA d 7 k",
                                       "EVALSHA d 1 k t l",
                                       "EVALSHA d 1 k t l",
                                       "EVALSHA d 1 k t l",
                                       "NONSENSE"};

static const char *draw_word(const char *word)
{
    static const char *const keys[] = {"key", "another", "third"}, *const tokens[] = {"token", "other", ""};
    static const char *const ttls[] = {"100000", "200000", "300000"}, *const offsets[] = {"0", "2", "511"};
    if (!islower((unsigned char)word[0]) || word[1] != '\0')
        return word;
    switch (word[0]) {
    case 'k':
        return keys[draw(3)];
    case 't':
        return tokens[draw(3)];
    case 'l':
        return ttls[draw(3)];
    case 'o':
        return offsets[draw(3)];
    case 'b':
        return draw(2) ? "1" : "0";
    case 's':
        return scripts[draw(SCRIPTS)].data;
    default:
        return digests[draw(SCRIPTS)];
    }
}

static void say_to_both(const char *command)
{
    const char *word[WORDS + 1] = {NULL};
    char *copy = fixture_text("%s", command), *rest = copy, *next;
    for (size_t i = 0; (next = strsep(&rest, " ")); i++)
        word[i] = draw_word(next);
    raw_client_say(real, word[0], word[1], word[2], word[3], word[4], word[5], NULL);
    raw_client_say(fake, word[0], word[1], word[2], word[3], word[4], word[5], NULL);
    free(copy);
}

/* All times to live are multiples of ROUND_MS, and no test runs for that long, so rounding restores the original value.
 * Only the code of an error is compared, because servers word the rest differently. */
static void append_comparable(struct bytes *out, const char *reply)
{
    char *end;
    if (reply[0] == '-') {
        bytes_append(out, reply, strcspn(reply, " "));
        reply = "";
    }
    while (*reply != '\0') {
        if (!isdigit((unsigned char)*reply)) {
            bytes_append(out, reply++, 1);
            continue;
        }
        long long number = strtoll(reply, &end, 10);
        if (number > ROUND_MS / 2)
            number = (number + ROUND_MS / 2) / ROUND_MS * ROUND_MS;
        bytes_print(out, "%lld", number);
        reply = end;
    }
    bytes_append(out, "", 1);
}

START_TEST(the_model_answers_as_redis_does)
{
    random_state = (unsigned)_i + 1;
    for (int step = 0; step < STEPS; step++) {
        struct bytes expected = {0}, answer = {0};
        const char *command = commands[draw(sizeof commands / sizeof *commands)];
        say_to_both(command);
        append_comparable(&expected, raw_client_reply(real));
        append_comparable(&answer, raw_client_reply(fake));
        ck_assert_msg(strcmp(expected.data, answer.data) == 0,
                      "seed %d, step %d, %s: redis-server says %s, the model %s", _i + 1, step, command, expected.data,
                      answer.data);
        bytes_free(&expected);
        bytes_free(&answer);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fake node");
    TCase *tcase = tcase_create("against redis-server");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 30);
    tcase_add_loop_test(tcase, the_model_answers_as_redis_does, 0, SEEDS);
    suite_add_tcase(suite, tcase);
    return run_server_suite(suite);
}
