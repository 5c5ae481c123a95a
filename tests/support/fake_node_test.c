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

enum { STEPS = 3000, SEEDS = 3, SCRIPTS = 3, ROUND_MS = 100000 };

static const char *const script_names[SCRIPTS] = {"release", "extend", "query"};

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
    for (int i = 0; i < SCRIPTS; i++) {
        char *path = fixture_text("%s/%s.lua", LOCK_SCRIPTS_DIRECTORY, script_names[i]);
        ck_assert_msg(file_read(path, &scripts[i]), "cannot read %s", path);
        free(path);
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

static void compare(unsigned seed, int step, const char *command)
{
    struct bytes expected = {0};
    struct bytes answer = {0};

    append_comparable(&expected, raw_client_reply(real));
    append_comparable(&answer, raw_client_reply(fake));
    ck_assert_msg(strcmp(expected.data, answer.data) == 0, "seed %u, step %d, %s: redis-server says %s, the model %s",
                  seed, step, command, expected.data, answer.data);
    bytes_free(&expected);
    bytes_free(&answer);
}

/* Sends the command to both. The arguments are evaluated twice, so they must not draw random numbers. */
#define SAY(...) (raw_client_say(real, __VA_ARGS__, NULL), raw_client_say(fake, __VA_ARGS__, NULL))

static const char *const keys[] = {"key", "another", "third"};
static const char *const tokens[] = {"token", "other", ""};
static const char *const ttls[] = {"100000", "200000", "300000"};

static const char *const bounds[] = {"0", "2", "511"};

static const char *say_key_command(const char *key, const char *token, const char *ttl)
{
    const char *other = keys[draw(3)], *first, *last;

    switch (draw(13)) {
    case 0:
    case 1:
        SAY("SET", key, token, "NX", "PX", ttl);
        return "SET NX PX";
    case 2:
        SAY("set", key, token, "EX", "400");
        return "SET EX";
    case 3:
        SAY("SET", key, token, "xx", "px", ttl);
        return "SET XX PX";
    case 4:
        SAY("SET", key, token);
        return "SET";
    case 5:
        SAY("GET", key);
        return "GET";
    case 6:
        SAY("DEL", key, other);
        return "DEL";
    case 7:
        SAY("EXISTS", key, other);
        return "EXISTS";
    case 8:
        SAY("PTTL", key);
        return "PTTL";
    case 9:
        SAY("PEXPIRE", key, ttl);
        return "PEXPIRE";
    case 10:
        first = bounds[draw(3)];
        last = bounds[draw(3)];
        SAY("GETRANGE", key, first, last);
        return "GETRANGE";
    case 11:
        SAY("DBSIZE");
        return "DBSIZE";
    default:
        SAY("KEYS", "thi?[d]");
        return "KEYS";
    }
}

static const char *say_script_command(const char *key, const char *token, const char *ttl)
{
    unsigned script = draw(SCRIPTS);

    switch (draw(16)) {
    case 0:
        SAY("SCRIPT", "FLUSH");
        return "SCRIPT FLUSH";
    case 1:
        SAY("SCRIPT", "EXISTS", digests[script], digests[0]);
        return "SCRIPT EXISTS";
    case 2:
        SAY("SCRIPT", "LOAD", scripts[script].data);
        return "SCRIPT LOAD";
    case 3:
        SAY("EVALSHA", digests[script], "7", key);
        return "EVALSHA with too few keys";
    case 4:
    case 5:
        SAY("EVAL", scripts[script].data, "1", key, token, ttl);
        return script_names[script];
    default:
        SAY("EVALSHA", digests[script], "1", key, token, ttl);
        return script_names[script];
    }
}

static const char *say_odd_command(const char *key, const char *token)
{
    const char *database = draw(2) == 0 ? "0" : "1";

    switch (draw(10)) {
    case 0:
        SAY("SET", key);
        return "SET of nothing";
    case 1:
        SAY("SET", key, token, "PX", "0");
        return "SET PX 0";
    case 2:
        SAY("SET", key, token, "PX", "1x");
        return "SET PX 1x";
    case 3:
        SAY("SET", key, token, "NX", "XX");
        return "SET NX XX";
    case 4:
        SAY("PEXPIRE", key, "soon");
        return "PEXPIRE soon";
    case 5:
        SAY("SELECT", "99");
        return "SELECT 99";
    case 6:
        SAY("SELECT", database);
        return "SELECT";
    case 7:
        SAY("FLUSHALL");
        return "FLUSHALL";
    case 8:
        SAY("CLIENT", "GETNAME");
        return "CLIENT GETNAME";
    default:
        if (!server_program_has(SERVER_ACL)) { /* the fake node has ACL users, this server has none */
            SAY("PING");
            return "PING";
        }
        SAY("AUTH", "nobody", "nothing");
        return "AUTH";
    }
}

START_TEST(the_model_answers_as_redis_does)
{
    unsigned seed = (unsigned)_i + 1;

    random_state = seed;
    for (int i = 0; i < SCRIPTS; i++) {
        SAY("SCRIPT", "LOAD", scripts[i].data);
        snprintf(digests[i], sizeof(digests[i]), "%.40s", raw_client_reply(real));
        ck_assert_str_eq(raw_client_reply(fake), digests[i]);
    }
    for (int step = 0; step < STEPS; step++) {
        const char *key = keys[draw(3)];
        const char *token = tokens[draw(3)];
        const char *ttl = ttls[draw(3)];
        unsigned kind = draw(10);
        compare(seed, step,
                kind == 0  ? say_odd_command(key, token)
                : kind < 5 ? say_script_command(key, token, ttl)
                           : say_key_command(key, token, ttl));
    }
}
END_TEST

static Suite *fake_node_suite(void)
{
    Suite *suite = suite_create("fake node");
    TCase *tcase = tcase_create("against redis-server");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 30);
    tcase_add_loop_test(tcase, the_model_answers_as_redis_does, 0, SEEDS);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_server_suite(fake_node_suite());
}
