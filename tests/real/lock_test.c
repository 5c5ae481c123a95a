/* One lock on real servers, with each way to call: the documented guarantees. */
#include "real/held.h"

#include "support/fixture.h"
#include "support/sockets.h"

#include <netdb.h>

enum { NODES = 5, QUORUM = 3 };

static const char key[] = real_key("lock");

static void refuse(struct face *face)
{
    held_refuse(face, key, NULL, REDLOCK_HELD);
    ck_assert_uint_ge(result.held, QUORUM);
    ck_assert_uint_eq(result.granted, 0);
}

REAL_CASE(lock, real_shared_case, NULL);

TEST_ROWS(lock, a_lock_is_its_token_on_every_node_and_excludes_another, FACES)
{
    struct face *first = real_open(_i), *second = real_open(_i + 1);
    redlock_lock *lock = held_acquire(first, key, NULL);
    redlock_holder holder;
    ck_assert_uint_eq(result.nodes, NODES);
    ck_assert_uint_eq(result.quorum, QUORUM);
    ck_assert_uint_ge(result.granted, QUORUM);
    ck_assert_uint_eq(result.held + result.absent + result.refused + result.unreachable + result.timed_out, 0);
    ck_assert_uint_eq(result.attempts, 1);
    ck_assert_int_gt(result.validity_ms, 0);
    ck_assert_uint_eq(strcspn(redlock_lock_token(lock), "/"), 40);
    held_everywhere(first, key, lock);
    refuse(second);
    redlock_holder_read(redlock_lock_token(lock), &holder);
    if (server_program_has(SERVER_SET_NX_GET)) {
        ck_assert_str_eq(result.holder.token, redlock_lock_token(lock));
        ck_assert_str_eq(result.holder.label, holder.label);
        ck_assert_int_eq(result.holder.since_s, holder.since_s);
        ck_assert_ptr_nonnull(strstr(result.text, holder.label));
    }
    ck_assert(real_shows_everywhere(key, redlock_lock_token(lock)));
    ck_assert_int_eq(redlock_held_by_me(face_client(first), key, 0), 1);
    ck_assert_int_eq(redlock_held_by_me(face_client(second), key, 0), 0);
    real_status(face_release(first, &lock, &result), REDLOCK_OK, &result);
    ck_assert_ptr_null(lock);
    ck_assert_uint_ge(result.granted, QUORUM);
    ck_assert(real_nothing_left(first));
    lock = held_acquire(second, key, NULL);
    held_everywhere(second, key, lock);
    refuse(first);
}

/* --- Where the nodes are --- */

/* fake_handshake has passwords and databases. */
static const struct {
    size_t nodes;
    const char *host; /* in the list of nodes; NULL: the cluster's addresses */
    bool unix_sockets, ipv6;
} places[] = {
    {.nodes = 3, .unix_sockets = true},
    {.nodes = 3, .ipv6 = true},
    {.nodes = 3, .host = "localhost"},
    {.nodes = 3, .host = "localhost", .ipv6 = true}, /* the address that the row before did not use */
    {.nodes = REDLOCK_NODES_MAX},
};

static bool is_possible(int row)
{
    const struct addrinfo hints = {.ai_family = AF_INET6, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    if (!server_program_available()) /* the nodes of REDLOCK_TEST_NODES have addresses of their own */
        return false;
    if (!places[row].ipv6)
        return true;
    bool is_known = getaddrinfo(places[row].host ? places[row].host : "::1", NULL, &hints, &found) == 0;
    if (is_known)
        freeaddrinfo(found);
    return is_known && socket_ipv6_available();
}

REAL_CASE(places, real_bare_case, NULL);

TEST_ROWS(places, nodes_are_reached_by_each_kind_of_address, ROWS(places))
{
    if (!is_possible(_i))
        return;
    struct bytes list = {0};
    real_cluster(places[_i].nodes,
                 &(struct cluster_options){.unix_sockets = places[_i].unix_sockets, .ipv6 = places[_i].ipv6});
    for (size_t node = 0; places[_i].host && node < places[_i].nodes; node++)
        bytes_print(&list, "%s%s:%u", node ? "," : "", places[_i].host, cluster_port(cluster, node));
    struct face *face = face_open_ready(face_of(_i), places[_i].host ? list.data : cluster_nodes_string(cluster), NULL);
    bytes_free(&list);
    redlock_lock *lock = held_acquire(face, key, NULL);
    ck_assert_uint_eq(result.nodes, places[_i].nodes);
    held_release(face, &lock);
    ck_assert(real_nothing_left(face));
}

REAL_PROGRAM("real_lock")
