/* Access to real servers by each way to call: passwords, users, databases, Unix sockets, IPv6, host names; and servers that
 * must not vote. */
#define _GNU_SOURCE
#include "real/published_rights.h"
#include "real/real.h"

#include "support/bytes.h"
#include "support/server_program.h"
#include "support/sockets.h"

#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { NODES = 5, QUORUM = 3 };

static const char key[] = real_key("access");
static redlock_result result;

static void lock_and_release(struct face *face, size_t nodes)
{
    redlock_lock *lock;

    real_status(face_acquire(face, key, NULL, &lock, &result), REDLOCK_OK, &result);
    ck_assert_uint_eq(result.nodes, nodes);
    real_status(face_extend(face, lock, 0, &result), REDLOCK_OK, &result);
    real_status(face_release(face, &lock, &result), REDLOCK_OK, &result);
    ck_assert(real_nothing_left(face));
}

static void use(int i, const char *nodes, const redlock_options *options, size_t count)
{
    struct face *face = face_open_ready(face_of(i), nodes, options);

    lock_and_release(face, count);
    real_status(face_close(&face, &result), REDLOCK_OK, &result);
}

/* The operations must fail at once, although they may wait forever, and the result must give the reason. */
static void refuse(struct face *face, const char *why)
{
    redlock_lock *lock;
    bool said = false;

    real_status(face_ready(face, REDLOCK_FOREVER, &result), REDLOCK_MISCONFIGURED, &result);
    real_status(face_acquire(face, key, REDLOCK_WAIT_MS(REDLOCK_FOREVER), &lock, &result), REDLOCK_MISCONFIGURED,
                &result);
    ck_assert_ptr_null(lock);
    for (size_t i = 0; i < result.nodes; i++)
        said = said || strstr(result.node[i].text, why) != NULL;
    ck_assert_msg(said, "'%s' is not said: %s", why, redlock_result_text(&result));
}

static struct cluster *protected_cluster(void)
{
    struct cluster_node_options nodes[NODES] = {0};

    for (size_t i = 0; i < NODES; i++)
        nodes[i].password = "secret";
    return real_cluster(NODES, &(struct cluster_options){.nodes = nodes});
}

/* The node list: for each node its format, then a colon and its port. */
static const char *list_of(struct cluster *cluster, const char *const *formats)
{
    static char list[4096];
    size_t used = 0;

    for (size_t i = 0; i < cluster_size(cluster); i++) {
        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i > 0 ? "," : "", formats[i]);
        used += (size_t)snprintf(list + used, sizeof(list) - used, ":%u", cluster_port(cluster, i));
    }
    return list;
}

/* --- Passwords --- */

START_TEST(a_wrong_password_on_a_minority_does_no_harm_on_a_majority_it_ends_at_once)
{
    size_t wrong = (size_t)_i;
    const char *formats[NODES];
    redlock_lock *lock;

    for (size_t i = 0; i < NODES; i++)
        formats[i] = i < wrong ? "redis://:mistaken@127.0.0.1" : "redis://:secret@127.0.0.1";
    struct face *face = face_open(face_of(_i), list_of(protected_cluster(), formats), NULL);
    if (wrong < QUORUM) {
        real_status(face_acquire(face, key, NULL, &lock, &result), REDLOCK_OK, &result);
        real_status(face_release(face, &lock, &result), REDLOCK_OK, &result);
        ck_assert(real_nothing_left(face));
    } else {
        refuse(face, server_program_wrong_password());
        ck_assert_ptr_null(strstr(redlock_result_text(&result), "mistaken"));
    }
    face_close(&face, NULL);
}
END_TEST

START_TEST(no_password_where_one_is_needed_ends_at_once)
{
    struct cluster *cluster = protected_cluster();
    struct face *face = face_open(face_of(_i), cluster_nodes_string(cluster), NULL);

    refuse(face, "NOAUTH");
    face_close(&face, NULL);
}
END_TEST

START_TEST(a_password_in_the_options_is_for_all_nodes)
{
    redlock_options options = face_options();

    options.password = "secret";
    use(_i, cluster_nodes_string(protected_cluster()), &options, NODES);
}
END_TEST

static atomic_uint asked;

/* Simulates rotation: first no credentials, then outdated ones, then valid ones. */
static int credentials(const char *node, char *user, char *password, size_t size, void *arg)
{
    static const char *const passwords[] = {"stale", "secret"};
    unsigned turn = atomic_fetch_add(&asked, 1) / NODES;

    (void)node;
    (void)user;
    (void)arg;
    if (turn == 0)
        return 1;
    snprintf(password, size, "%s", passwords[turn > 1]);
    return 0;
}

START_TEST(credentials_are_asked_at_each_connect)
{
    redlock_options options = face_options();

    atomic_store(&asked, 0);
    options.credentials = credentials;
    use(_i, cluster_nodes_string(protected_cluster()), &options, NODES);
    ck_assert_uint_ge(atomic_load(&asked), 3 * NODES);
}
END_TEST

/* --- Users --- */

static struct cluster *acl_cluster(void)
{
    static char lines[8192];
    struct cluster_node_options nodes[NODES] = {0};

    snprintf(lines, sizeof(lines), "user default off\nuser %s\n", published_rights());
    for (size_t i = 0; i < NODES; i++)
        nodes[i].acl = lines;
    return real_cluster(NODES, &(struct cluster_options){.nodes = nodes});
}

/* rights_test.c tests the rights in detail. */
START_TEST(a_name_the_user_may_not_touch_ends_at_once)
{
    redlock_options options = face_options();
    redlock_lock *lock;

    options.user = PUBLISHED_USER;
    options.password = PUBLISHED_PASSWORD;
    struct face *face = face_open_ready(face_of(_i), cluster_nodes_string(acl_cluster()), &options);
    real_status(face_acquire(face, "elsewhere", REDLOCK_WAIT_MS(REDLOCK_FOREVER), &lock, &result),
                REDLOCK_MISCONFIGURED, &result);
    ck_assert_uint_ge(result.refused, QUORUM);
    ck_assert_ptr_nonnull(strstr(redlock_result_text(&result), "NOPERM"));
    real_status(face_acquire(face, PUBLISHED_PREFIX "here", NULL, &lock, &result), REDLOCK_OK, &result);
    real_status(face_release(face, &lock, &result), REDLOCK_OK, &result);
    ck_assert(real_nothing_left(face));
    face_close(&face, NULL);
}
END_TEST

/* --- Transports --- */

START_TEST(unix_sockets)
{
    struct cluster *cluster = real_cluster(QUORUM, &(struct cluster_options){.unix_sockets = true});
    char list[1024];

    use(_i, cluster_nodes_string(cluster), NULL, QUORUM);
    snprintf(list, sizeof(list), "%s,%s,%s", cluster_socket_path(cluster, 0), cluster_socket_path(cluster, 1),
             cluster_socket_path(cluster, 2));
    use(_i, list, NULL, QUORUM);
}
END_TEST

START_TEST(ipv6)
{
    if (!socket_ipv6_available())
        return;
    use(_i, cluster_nodes_string(real_cluster(QUORUM, &(struct cluster_options){.ipv6 = true})), NULL, QUORUM);
}
END_TEST

START_TEST(names)
{
    static const char *const formats[] = {"localhost", "redis://localhost", "127.0.0.1"};

    use(_i, list_of(real_cluster(QUORUM, NULL), formats), NULL, QUORUM);
}
END_TEST

static bool localhost_has_ipv6(void)
{
    const struct addrinfo hints = {.ai_family = AF_INET6, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;

    if (!socket_ipv6_available() || getaddrinfo("localhost", NULL, &hints, &found) != 0)
        return false;
    freeaddrinfo(found);
    return true;
}

/* The name resolves to two addresses. The servers listen on the address that the test before did not use. */
START_TEST(names_with_two_addresses)
{
    static const char *const formats[] = {"localhost", "localhost", "localhost"};

    if (!localhost_has_ipv6())
        return;
    use(_i, list_of(real_cluster(QUORUM, &(struct cluster_options){.ipv6 = true}), formats), NULL, QUORUM);
}
END_TEST

/* --- Databases --- */

START_TEST(a_database_of_its_own)
{
    struct cluster *cluster = real_cluster(1, NULL);
    char nodes[128], keyspace[512];
    redlock_lock *lock;

    snprintf(nodes, sizeof(nodes), "redis://%s/3", cluster_address(cluster, 0));
    struct face *face = face_open_ready(face_of(_i), nodes, NULL);
    real_status(face_acquire(face, key, NULL, &lock, &result), REDLOCK_OK, &result);
    ck_assert_int_eq(cluster_integer(cluster, 0, "EXISTS", key, NULL), 0);
    cluster_command(cluster, 0, keyspace, sizeof(keyspace), "INFO", "keyspace", NULL);
    ck_assert_ptr_nonnull(strstr(keyspace, "db3:keys="));
    real_status(face_release(face, &lock, &result), REDLOCK_OK, &result);
    face_close(&face, NULL);
}
END_TEST

START_TEST(a_database_that_is_not_there_ends_at_once)
{
    struct cluster *cluster = real_cluster(1, NULL);
    redlock_options options = face_options();

    options.database = 999;
    struct face *face = face_open(face_of(_i), cluster_nodes_string(cluster), &options);
    refuse(face, "out of range");
    face_close(&face, NULL);
}
END_TEST

/* --- No vote --- */

START_TEST(one_server_under_two_names_has_one_vote)
{
    struct cluster *cluster = real_cluster(2, NULL);
    char nodes[256];

    snprintf(nodes, sizeof(nodes), "127.0.0.1:%u,localhost:%u", cluster_port(cluster, 0), cluster_port(cluster, 0));
    struct face *face = face_open(face_of(_i), nodes, NULL);
    refuse(face, "the same server");
    face_close(&face, NULL);
}
END_TEST

START_TEST(replicas_have_no_vote)
{
    struct cluster *cluster = real_cluster(3, NULL);
    char port[8], reply[64];

    snprintf(port, sizeof(port), "%u", cluster_port(cluster, 0));
    for (size_t i = 1; i < 3; i++) {
        ck_assert(cluster_command(cluster, i, reply, sizeof(reply), "REPLICAOF", "127.0.0.1", port, NULL));
        ck_assert_str_eq(reply, "OK");
    }
    struct face *face = face_open(face_of(_i), cluster_nodes_string(cluster), NULL);
    refuse(face, "replica");
    face_close(&face, NULL);
}
END_TEST

/* --- Sizes --- */

static const size_t sizes[] = {1, 2, 3, 4, 7};

/* The largest number of nodes that a majority can do without, and one more. */
START_TEST(every_size_has_its_quorum)
{
    size_t nodes = sizes[_i], quorum = nodes / 2 + 1;
    struct cluster *cluster = real_cluster(nodes, NULL);
    struct face *face = face_open_ready(face_of(_i), cluster_nodes_string(cluster), NULL);
    redlock_lock *lock;

    lock_and_release(face, nodes);
    ck_assert_uint_eq(result.quorum, quorum);
    for (size_t i = 0; i < nodes - quorum; i++)
        cluster_kill(cluster, i);
    lock_and_release(face, nodes);
    cluster_kill(cluster, nodes - quorum);
    real_status(face_acquire(face, key, NULL, &lock, &result), REDLOCK_NO_QUORUM, &result);
    ck_assert(real_nothing_left(face));
    face_close(&face, NULL);
}
END_TEST

START_TEST(as_many_nodes_as_there_can_be)
{
    struct cluster *cluster = real_cluster(REDLOCK_NODES_MAX, NULL);

    use(_i, cluster_nodes_string(cluster), NULL, REDLOCK_NODES_MAX);
}
END_TEST

static Suite *access_suite(void)
{
    Suite *suite = suite_create("real_access");
    TCase *tcase = real_bare_case(suite, "access");

    tcase_add_loop_test(tcase, a_wrong_password_on_a_minority_does_no_harm_on_a_majority_it_ends_at_once, 1,
                        QUORUM + 1);
    real_add_test(tcase, no_password_where_one_is_needed_ends_at_once);
    real_add_test(tcase, a_password_in_the_options_is_for_all_nodes);
    real_add_test(tcase, credentials_are_asked_at_each_connect);
    if (server_program_has(SERVER_ACL))
        real_add_test(tcase, a_name_the_user_may_not_touch_ends_at_once);
    real_add_test(tcase, unix_sockets);
    real_add_test(tcase, ipv6);
    real_add_test(tcase, names);
    real_add_test(tcase, names_with_two_addresses);
    real_add_test(tcase, a_database_of_its_own);
    real_add_test(tcase, a_database_that_is_not_there_ends_at_once);
    real_add_test(tcase, one_server_under_two_names_has_one_vote);
    real_add_test(tcase, replicas_have_no_vote);
    tcase_add_loop_test(tcase, every_size_has_its_quorum, 0, sizeof(sizes) / sizeof(sizes[0]));
    real_add_test(tcase, as_many_nodes_as_there_can_be);
    return suite;
}

int main(void)
{
    return real_run(access_suite(), false);
}
