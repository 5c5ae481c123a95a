/* A node with a host name whose resolution is slow: the number of lookups, and the handling of a late answer. */
#define _GNU_SOURCE
#include "fake/scene.h"

#include <dlfcn.h>
#include <netdb.h>

#include "src/client/client.h"

static const char slow_name[] = "slow.test";

enum { ATTEMPTS = 5, TIMEOUT_MS = 20 };

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    unsigned asked;
    unsigned answered; /* number of lookups that may return, or have returned */
    int error;
} names = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

typedef int getaddrinfo_function(const char *, const char *, const struct addrinfo *, struct addrinfo **);

static int wait_for_answer(void)
{
    pthread_mutex_lock(&names.mutex);
    unsigned number = ++names.asked;
    while (names.answered < number)
        pthread_cond_wait(&names.changed, &names.mutex);
    int error = names.error;
    pthread_mutex_unlock(&names.mutex);
    return error;
}

/* Replaces the C library's function, for hiredis, too. */
int getaddrinfo(const char *restrict name, const char *restrict service, const struct addrinfo *restrict hints,
                struct addrinfo **restrict found)
{
    getaddrinfo_function *real = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (strcmp(name, slow_name) != 0 || (hints && hints->ai_flags & AI_NUMERICHOST))
        return real(name, service, hints, found);
    int error = wait_for_answer();
    error = error ? error : real("127.0.0.2", service, hints, found); /* no server is there */
    return error ? error : real("127.0.0.1", service, hints, &(*found)->ai_next);
}

static void answer_names(unsigned count, int error)
{
    pthread_mutex_lock(&names.mutex);
    names.answered = count;
    names.error = error;
    pthread_cond_broadcast(&names.changed);
    pthread_mutex_unlock(&names.mutex);
}

static unsigned asked_names(void)
{
    pthread_mutex_lock(&names.mutex);
    unsigned asked = names.asked;
    pthread_mutex_unlock(&names.mutex);
    return asked;
}

static void one_node(void)
{
    redlock_result result;
    char list[64];
    names.asked = names.answered = 0;
    scene_begin(1);
    scene.options.connect_timeout_ms = TIMEOUT_MS;
    snprintf(list, sizeof list, "redis://%s:%u", slow_name, fake_server_port(scene.node[0]));
    ck_assert_int_eq(redlock_attach(scene.loop, list, &scene.options, &scene.client, &result), REDLOCK_OK);
}

/* The last resolver thread references the client's wakeup until it ends, which may be after the end of the client. */
static void end(void)
{
    answer_names(UINT32_MAX, 0);
    scene_end();
}

static struct rl_attempts *attempts(void)
{
    return &scene.client->nodes->node[0].attempts;
}

/* Makes the rest of the test independent of the machine's speed. */
static void fail_often_then_wait_for_long(void)
{
    scene_until(attempts()->failures >= ATTEMPTS);
    ck_assert_has(attempts()->error, "not resolved within 20 ms");
    attempts()->timeout = SCENE_SOON_MS * QUORUM_MILLISECOND;
    scene_until(asked_names() > 0); /* the resolver's thread may be late */
}

TEST_CASE(a_slow_name_server, one_node, end);

/* While it is being resolved, it is not asked for again. Each connection resolves it. */
TEST(a_slow_name_server, late_reply_of_the_name_server_is_used)
{
    fail_often_then_wait_for_long();
    ck_assert_uint_eq(asked_names(), 1);
    answer_names(1, 0);
    scene_wait_for_ready();
    ck_assert_uint_eq(asked_names(), 1);
    answer_names(UINT32_MAX, 0);
    fake_server_drop(scene.node[0], FAKE_CLOSE);
    scene_until(asked_names() >= 2);
    scene_wait_for_ready();
}

TEST(a_slow_name_server, name_is_resolved_again_after_a_late_failure)
{
    fail_often_then_wait_for_long();
    answer_names(1, EAI_NONAME);
    scene_until(asked_names() >= 2);
    ck_assert_has(attempts()->error, "cannot resolve the name: ");
}

TEST_PROGRAM("names")
