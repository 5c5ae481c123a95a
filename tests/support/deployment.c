#define _GNU_SOURCE
#include "deployment.h"

#include "clock.h"
#include "fixture.h"
#include "server_program.h"

#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

enum { OWN_NODES = 5, MOST_NODES = 32, MOST_WORDS = 16, ANSWER_MS = 5000, START_MS = 30000 };

enum condition { UP, STOPPED, KILLED };

struct foreign_node {
    char host[128];
    int port;
};

struct deployment {
    struct cluster *cluster; /* NULL: foreign nodes */
    char *nodes;
    size_t size;
    struct foreign_node foreign[MOST_NODES];
    enum condition condition[MOST_NODES];
    struct bytes key_names;
};

/* Keys that the library keeps on a node permanently; they do not count as keys left by a lock. */
const char *const deployment_marks[] = {"redlock:*", "{redlock}*", "*:redlock:fence", NULL};

static const char *foreign_list(void)
{
    const char *list = getenv("REDLOCK_TEST_NODES");

    return list != NULL && *list != '\0' ? list : NULL;
}

static const char *control_command(void)
{
    const char *command = getenv("REDLOCK_NODE_CONTROL");

    return command != NULL && *command != '\0' ? command : NULL;
}

bool deployment_available(void)
{
    bool available = deployment_is_foreign() || server_program_available();

    if (!available)
        fprintf(stderr, "skipped: %s; or set REDLOCK_TEST_NODES\n", server_program_missing());
    return available;
}

bool deployment_is_foreign(void)
{
    return foreign_list() != NULL;
}

bool deployment_has_control(void)
{
    return !deployment_is_foreign() || control_command() != NULL;
}

/* --- Setup --- */

static void add_foreign(struct deployment *deployment, const char *address)
{
    struct foreign_node *node = &deployment->foreign[deployment->size];

    if (deployment->size == MOST_NODES || sscanf(address, "%127[^:]:%d", node->host, &node->port) != 2)
        fixture_fail("REDLOCK_TEST_NODES: '%s' is not one of at most %d host:port", address, MOST_NODES);
    deployment->size++;
}

static void read_foreign(struct deployment *deployment)
{
    char *list = fixture_text("%s", foreign_list());
    char *rest = list;
    char *address;

    while ((address = strsep(&rest, ",")) != NULL)
        add_foreign(deployment, address);
    free(list);
}

static void destroy_object(void *deployment)
{
    deployment_destroy(deployment);
}

struct deployment *deployment_create(void)
{
    struct deployment *deployment = fixture_allocate(sizeof(*deployment));

    if (deployment_is_foreign()) {
        read_foreign(deployment);
    } else {
        deployment->cluster = cluster_create(OWN_NODES, NULL);
        deployment->size = OWN_NODES;
    }
    deployment->nodes =
        fixture_text("%s", deployment->cluster ? cluster_nodes_string(deployment->cluster) : foreign_list());
    fixture_register(deployment, destroy_object);
    return deployment;
}

void deployment_destroy(struct deployment *deployment)
{
    if (deployment == NULL)
        return;
    fixture_unregister(deployment);
    if (deployment->cluster == NULL)
        deployment_repair(deployment);
    cluster_destroy(deployment->cluster);
    bytes_free(&deployment->key_names);
    free(deployment->nodes);
    free(deployment);
}

size_t deployment_size(const struct deployment *deployment)
{
    return deployment->size;
}

const char *deployment_nodes(const struct deployment *deployment)
{
    return deployment->nodes;
}

/* --- Requests --- */

static void print_reply(const redisReply *reply, struct bytes *text)
{
    if (reply->type == REDIS_REPLY_INTEGER)
        bytes_print(text, "%lld", reply->integer);
    else if (reply->type == REDIS_REPLY_NIL)
        bytes_print(text, "(nil)");
    else if (reply->type == REDIS_REPLY_ARRAY)
        for (size_t i = 0; i < reply->elements; i++) {
            bytes_print(text, i > 0 ? "\n" : "%s", "");
            print_reply(reply->element[i], text);
        }
    else
        bytes_print(text, "%s%s", reply->type == REDIS_REPLY_ERROR ? "-" : "", reply->str);
}

static bool ask_foreign(const struct foreign_node *node, struct bytes *text, int argc, const char **argv)
{
    struct timeval limit = {.tv_sec = ANSWER_MS / 1000};
    redisContext *context = redisConnectWithTimeout(node->host, node->port, limit);
    redisReply *reply = NULL;

    if (context != NULL && context->err == 0 && redisSetTimeout(context, limit) == REDIS_OK)
        reply = redisCommandArgv(context, argc, argv, NULL);
    if (reply != NULL)
        print_reply(reply, text);
    else
        bytes_print(text, "%s", context != NULL ? context->errstr : "no memory");
    if (reply != NULL)
        freeReplyObject(reply);
    if (context != NULL)
        redisFree(context);
    return reply != NULL;
}

static bool ask_own(struct cluster *cluster, size_t node, struct bytes *text, int argc, const char **argv)
{
    struct resp_argument arguments[MOST_WORDS];

    for (int i = 0; i < argc; i++)
        arguments[i] = (struct resp_argument){.data = argv[i], .length = strlen(argv[i])};
    return cluster_command_argv(cluster, node, text, (size_t)argc, arguments);
}

static bool ask(struct deployment *deployment, size_t node, struct bytes *text, va_list words)
{
    const char *argv[MOST_WORDS];
    int argc = 0;
    bool answered;

    while (argc < MOST_WORDS && (argv[argc] = va_arg(words, const char *)) != NULL)
        argc++;
    if (deployment->cluster != NULL)
        answered = ask_own(deployment->cluster, node, text, argc, argv);
    else
        answered = ask_foreign(&deployment->foreign[node], text, argc, argv);
    bytes_append(text, "", 1);
    return answered;
}

bool deployment_command(struct deployment *deployment, size_t node, char *reply, size_t size, ...)
{
    struct bytes text = {0};
    va_list words;

    va_start(words, size);
    bool answered = ask(deployment, node, &text, words);
    va_end(words);
    if (reply != NULL)
        snprintf(reply, size, "%s", text.data);
    bytes_free(&text);
    return answered;
}

long long deployment_integer(struct deployment *deployment, size_t node, ...)
{
    struct bytes text = {0};
    va_list words;
    char *end;

    va_start(words, node);
    bool answered = ask(deployment, node, &text, words);
    va_end(words);
    long long number = strtoll(text.data, &end, 10);
    if (!answered || end == text.data || *end != '\0')
        fixture_fail("node %zu did not answer with an integer but \"%s\"", node, text.data);
    bytes_free(&text);
    return number;
}

/* --- Keys --- */

static size_t list_foreign(struct deployment *deployment, size_t node, struct bytes *names)
{
    char reply[8192];
    size_t count = 0;
    char *rest = reply;
    char *name;

    if (!deployment_command(deployment, node, reply, sizeof(reply), "KEYS", DEPLOYMENT_PREFIX "*", NULL))
        fixture_fail("KEYS on node %zu: %s", node, reply);
    while ((name = strsep(&rest, "\n")) != NULL) {
        if (*name == '\0')
            continue;
        count++;
        bytes_print(names, " %zu:%s", node, name);
    }
    return count;
}

static size_t list_all_foreign(struct deployment *deployment)
{
    size_t count = 0;

    deployment->key_names.length = 0;
    for (size_t i = 0; i < deployment->size; i++)
        if (deployment->condition[i] == UP)
            count += list_foreign(deployment, i, &deployment->key_names);
    bytes_append(&deployment->key_names, "", 1);
    return count;
}

size_t deployment_keys_left(struct deployment *deployment)
{
    if (deployment->cluster != NULL)
        return cluster_keys_left(deployment->cluster, NULL, deployment_marks);
    return list_all_foreign(deployment);
}

const char *deployment_key_names(struct deployment *deployment)
{
    if (deployment->cluster != NULL)
        return cluster_key_names(deployment->cluster, NULL, deployment_marks);
    list_all_foreign(deployment);
    return deployment->key_names.data;
}

void deployment_remove_keys(struct deployment *deployment)
{
    if (deployment->cluster != NULL) {
        cluster_flush_all(deployment->cluster);
        return;
    }
    for (size_t i = 0; i < deployment->size; i++)
        deployment_command(deployment, i, NULL, 0, "EVAL",
                           "for _, key in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('DEL', key) end", "0",
                           DEPLOYMENT_PREFIX "*", NULL);
}

/* --- Faults --- */

static void control(const char *action, size_t node)
{
    char *command = fixture_text("%s %s %zu >/dev/null", control_command(), action, node + 1);

    if (system(command) != 0)
        fixture_fail("REDLOCK_NODE_CONTROL failed: %s", command);
    free(command);
}

static bool foreign_answers(void *arg)
{
    struct bytes text = {0};
    const char *ping[] = {"PING"};
    bool answers = ask_foreign(arg, &text, 1, ping) && strncmp(text.data, "PONG", 4) == 0;

    bytes_free(&text);
    return answers;
}

void deployment_kill(struct deployment *deployment, size_t node)
{
    deployment->condition[node] = KILLED;
    if (deployment->cluster != NULL)
        cluster_kill(deployment->cluster, node);
    else
        control("kill", node);
}

void deployment_start(struct deployment *deployment, size_t node)
{
    deployment->condition[node] = UP;
    if (deployment->cluster != NULL) {
        cluster_start(deployment->cluster, node);
        return;
    }
    control("start", node);
    if (!wait_until(foreign_answers, &deployment->foreign[node], START_MS))
        fixture_fail("node %zu was started but does not answer", node);
}

void deployment_stop(struct deployment *deployment, size_t node)
{
    deployment->condition[node] = STOPPED;
    if (deployment->cluster != NULL)
        cluster_stop(deployment->cluster, node);
    else
        control("pause", node);
}

void deployment_resume(struct deployment *deployment, size_t node)
{
    deployment->condition[node] = UP;
    if (deployment->cluster != NULL)
        cluster_resume(deployment->cluster, node);
    else
        control("unpause", node);
}

void deployment_repair(struct deployment *deployment)
{
    for (size_t i = 0; i < deployment->size; i++) {
        bool may_be_stopped = deployment->cluster != NULL && deployment->condition[i] == UP; /* by a forked child */
        if (deployment->condition[i] == STOPPED || may_be_stopped)
            deployment_resume(deployment, i);
        if (deployment->condition[i] == KILLED)
            deployment_start(deployment, i);
    }
}
