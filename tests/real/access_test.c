/* Access to real servers by each way to call: passwords, databases, Unix sockets, IPv6, host names.
 * rights_test.c has the users, command/doctor.txt the servers that must not vote. */
#include "real/held.h"

#include "support/fixture.h"
#include "support/sockets.h"

#include <netdb.h>
#include <sys/socket.h>

enum { NODES = 5 };

#define RIGHT "redis://:secret@127.0.0.1"
#define WRONG "redis://:mistaken@127.0.0.1"

static const char key[] = real_key("access");

static const struct access {
    const char *name;
    size_t nodes;
    const char *why;            /* the reason for which it is refused; NULL: a lock is acquired */
    const char *address[NODES]; /* to which the port is added; NULL: the cluster's own address */
    const char *password;       /* of the options */
    uint32_t database;
    bool protected; /* the servers have the password "secret" */
    bool unix_sockets, ipv6;
} rows[] = {
    {"a minority with a wrong password", 5, .address = {WRONG, WRONG, RIGHT, RIGHT, RIGHT}, .protected = true},
    {"a majority with a wrong password", 5, "invalid ", {WRONG, WRONG, WRONG, RIGHT, RIGHT}, .protected = true},
    {"a password in the options", 3, .password = "secret", .protected = true},
    {"another database", 1, .database = 3},
    {"a database that is not there", 1, "out of range", .database = 999},
    {"Unix sockets", 3, .unix_sockets = true},
    {"IPv6", 3, .ipv6 = true},
    {"names", 3, .address = {"localhost", "redis://localhost", "127.0.0.1"}},
    /* The servers listen on the address that the row before did not use. */
    {"names with two addresses", 3, .address = {"localhost", "localhost", "localhost"}, .ipv6 = true},
    {"as many nodes as there can be", REDLOCK_NODES_MAX, .why = NULL},
};

static void start_servers(const struct access *row)
{
    struct cluster_node_options nodes[REDLOCK_NODES_MAX] = {0};
    for (size_t i = 0; i < row->nodes; i++)
        nodes[i].password = row->protected ? "secret" : NULL;
    real_cluster(row->nodes,
                 &(struct cluster_options){.nodes = nodes, .unix_sockets = row->unix_sockets, .ipv6 = row->ipv6});
}

static struct face *open_face(int i, const struct access *row)
{
    redlock_options options = face_options();
    struct bytes list = {0};
    options.password = row->password;
    options.database = row->database;
    for (size_t node = 0; row->address[0] && node < row->nodes; node++)
        bytes_print(&list, "%s:%u,", row->address[node], cluster_port(cluster, node));
    if (!row->address[0])
        bytes_print(&list, "%s,", cluster_nodes_string(cluster));
    list.data[list.length - 1] = '\0'; /* the last comma */
    struct face *face = face_open(face_of(i), list.data, &options);
    bytes_free(&list);
    return face;
}

static void lock_and_release(const struct access *row, struct face *face)
{
    if (!row->protected || !row->address[0])
        ck_assert(face_wait_all_ready(face));
    redlock_lock *lock = held_acquire(face, key, NULL);
    ck_assert_uint_eq(result.nodes, row->nodes);
    ck_assert_uint_eq(result.quorum, row->nodes / 2 + 1);
    if (row->database)
        ck_assert_int_eq(cluster_integer(cluster, 0, "EXISTS", key, NULL), 0); /* not in the test's own database */
    real_status(face_extend(face, lock, 0, &result), REDLOCK_OK, &result);
    held_release(face, &lock);
    ck_assert(real_nothing_left(face));
}

/* The operations must fail at once, although they may wait forever, and the result must give the reason. */
static void be_refused(const struct access *row, struct face *face)
{
    bool said = false;
    real_status(face_ready(face, REDLOCK_FOREVER, &result), REDLOCK_MISCONFIGURED, &result);
    held_refuse(face, key, REDLOCK_WAIT_MS(REDLOCK_FOREVER), REDLOCK_MISCONFIGURED);
    for (size_t i = 0; i < result.nodes; i++)
        said = said || strstr(result.node[i].text, row->why) != NULL;
    ck_assert_msg(said, "'%s' is not said: %s", row->why, redlock_result_text(&result));
    ck_assert_ptr_null(strstr(redlock_result_text(&result), "mistaken"));
}

static bool is_possible(const struct access *row)
{
    const struct addrinfo hints = {.ai_family = AF_INET6, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    if (!row->ipv6)
        return true;
    bool possible =
        socket_ipv6_available() && (row->address[0] == NULL || getaddrinfo(row->address[0], NULL, &hints, &found) == 0);
    if (found)
        freeaddrinfo(found);
    return possible;
}

REAL_CASE(access, real_bare_case, NULL);

TEST_ROWS(access, client_with_access_acquires_and_client_without_it_gets_the_reason, ROWS(rows))
{
    const struct access *row = &rows[_i];
    printf("%s\n", row->name);
    if (!is_possible(row))
        return;
    start_servers(row);
    struct face *face = open_face(_i, row);
    if (!row->why)
        lock_and_release(row, face);
    else
        be_refused(row, face);
}

REAL_PROGRAM("real_access")
