/*
 * Nodes behind Sentinel. Each has two servers and three sentinels. In a failover, elected or by hand, a replica that
 * missed the last writes is promoted, and the other sentinels hear of it, sooner or later, perhaps of the next one before.
 * The old master may live on, cut off with some of the sentinels and one client.
 */
#include <assert.h>
#include <stdio.h>

#include "world.h"

static uint64_t *stream(void)
{
    return &sim_world->fault_streams[SIM_FAULT_ELECT];
}

static unsigned index_of(const struct sim_group *group)
{
    return (unsigned)(group - sim_world->groups);
}

unsigned sim_servers(void)
{
    return sim_world->config.groups ? 2 * sim_world->config.nodes : sim_world->config.nodes;
}

unsigned sim_hosts(void)
{
    return sim_servers() + (sim_world->config.groups ? SIM_SENTINELS * sim_world->config.nodes : 0);
}

/* The servers of node n are the hosts n and nodes + n; the sentinels follow. */
static struct sim_node *server_of(const struct sim_group *group, unsigned server)
{
    return &sim_world->nodes[index_of(group) + server * sim_world->config.nodes];
}

static unsigned sentinel_host(const struct sim_group *group, unsigned sentinel)
{
    return sim_servers() + SIM_SENTINELS * index_of(group) + sentinel;
}

size_t sim_group_list(unsigned node, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "sentinel://");
    for (unsigned i = 0; i < SIM_SENTINELS; i++)
        used += (size_t)snprintf(text + used, size - used, "%s10.0.0.%u", i ? "," : "",
                                 sentinel_host(&sim_world->groups[node], i) + 1);
    return used + (size_t)snprintf(text + used, size - used, "/m%u", node + 1);
}

/* ---------------------------------------------------------------------------------------------------------- replies */

bool sim_sentinel_execute(const struct sim_node *host, size_t count, const struct resp_argument *words,
                          struct bytes *reply)
{
    if (host->index < sim_servers())
        return false;
    unsigned at = host->index - sim_servers();
    const struct sim_group *group = &sim_world->groups[at / SIM_SENTINELS];
    const struct sim_sentinel *sentinel = &group->sentinel[at % SIM_SENTINELS];
    char address[16], text[24];
    int length = snprintf(address, sizeof address, "10.0.0.%u", server_of(group, sentinel->named)->index + 1);
    assert(sim_text_is(words[0], "SENTINEL") && count > 1);
    if (sim_text_is(words[1], "MYID")) {
        int size = snprintf(text, sizeof text, "sentinel-%u-%u", at / SIM_SENTINELS, at % SIM_SENTINELS + 1);
        bytes_print(reply, "$%d\r\n%s\r\n", size, text);
    } else if (sim_text_is(words[1], "MASTER")) {
        int digits = snprintf(text, sizeof text, "%u", sentinel->config);
        bytes_print(reply, "*4\r\n$12\r\nconfig-epoch\r\n$%d\r\n%s\r\n", digits, text);
        bytes_print(reply, "$19\r\nnum-other-sentinels\r\n$1\r\n%d\r\n", SIM_SENTINELS - 1);
    } else {
        assert(sim_text_is(words[1], "GET-MASTER-ADDR-BY-NAME"));
        bytes_print(reply, "*2\r\n$%d\r\n%s\r\n$4\r\n6379\r\n", length, address);
    }
    return true;
}

/* -------------------------------------------------------------------------------------------------------- a failover */

static uint64_t word(uint64_t epoch, unsigned server, unsigned sentinel)
{
    return (epoch * 2 + server) * SIM_SENTINELS + sentinel;
}

static void hear(void *subject, uint64_t datum)
{
    struct sim_group *group = subject;
    struct sim_sentinel *sentinel = &group->sentinel[datum % SIM_SENTINELS];
    unsigned epoch = (unsigned)(datum / SIM_SENTINELS / 2);
    if (sim_world->calm || epoch <= sentinel->config)
        return;
    sentinel->config = epoch;
    sentinel->named = datum / SIM_SENTINELS % 2;
}

/* The next failover may begin, though not all sentinels have heard of this one. */
static void rest(void *subject, uint64_t epoch)
{
    struct sim_group *group = subject;
    if (epoch == group->epoch)
        group->busy = false;
}

/* The old master, if it lives, synchronizes with the new one. */
static void demote(void *subject, uint64_t epoch)
{
    struct sim_group *group = subject;
    struct sim_node *old = server_of(group, !group->master), *master = server_of(group, group->master);
    if (epoch != group->config || old->server.replica)
        return;
    SIM_TRACE(sim_node_name(old), "becomes a replica");
    sim_keyspace_copy(&old->server.keys, &master->server.keys, true);
    old->server.replica = true;
}

static void end(void *subject, uint64_t epoch)
{
    struct sim_group *group = subject;
    struct sim_node *old = server_of(group, !group->master);
    if (epoch != group->epoch)
        return;
    if (!old->up)
        sim_node_restart(old);
    if (sim_world->calm || random_chance(stream(), 600))
        demote(group, group->config);
    group->busy = false;
}

static void promote(void *subject, uint64_t epoch)
{
    struct sim_group *group = subject;
    struct sim_node *old = server_of(group, group->master), *replica = server_of(group, !group->master);
    bool gives_up = random_chance(stream(), 200);
    quorum_time most = 0, latest = sim_world->config.brisk ? 100 * QUORUM_MILLISECOND : 3 * QUORUM_SECOND;
    if (sim_world->calm || epoch != group->epoch)
        return;
    if (gives_up || !replica->up) {
        SIM_TRACE(sim_node_name(old), "stays the master: the failover is given up");
        end(group, epoch);
        return;
    }
    SIM_TRACE(sim_node_name(replica), "is promoted in epoch %u", (unsigned)epoch);
    if (replica->server.replica) {
        sim_keyspace_copy(&replica->server.keys, &old->snapshot, true);
        sim_node_promote(replica);
    }
    /* Otherwise the old master is back, and has followed no other: Sentinel does not look. */
    sim_keyspace_copy(&replica->server.keys, &replica->server.keys, true);
    sim_node_forgets(replica);
    replica->promoted = sim_world->now;
    group->master = !group->master;
    group->config = (unsigned)epoch;
    hear(group, word(epoch, group->master, group->leader));
    for (unsigned i = 0; i < SIM_SENTINELS; i++) {
        quorum_time heard =
            group->cut & 1u << i ? group->cut_until : sim_world->now + random_log(stream(), QUORUM_MILLISECOND, latest);
        most = heard > most ? heard : most;
        sim_at(heard, hear, group, word(epoch, group->master, i));
    }
    quorum_time demoted = sim_world->now + random_log(stream(), 10 * QUORUM_MILLISECOND, 20 * QUORUM_SECOND);
    if (group->cut && demoted < group->cut_until)
        demoted = group->cut_until; /* it is cut off with these sentinels */
    sim_at(demoted, demote, group, epoch);
    if (random_chance(stream(), 400))
        sim_at(sim_world->now + random_log(stream(), 100 * QUORUM_MILLISECOND, 5 * QUORUM_SECOND), rest, group, epoch);
    sim_at(most + 2 * QUORUM_SECOND, end, group, epoch);
}

/* One client stays with the old master and these sentinels, and reaches neither the new one nor the other sentinels. The
 * other clients may lose the old master. */
static void cut_off(struct sim_group *group, unsigned process)
{
    bool others = random_chance(stream(), 700);
    unsigned old = server_of(group, group->master)->index, new = server_of(group, !group->master)->index;
    SIM_TRACE("network", "cuts off client %u and the master of node %u, with sentinels %x, for %.0f ms", process + 1,
              index_of(group) + 1, group->cut, (double)(group->cut_until - sim_world->now) / 1e6);
    sim_path_block(process, new, true, true, group->cut_until);
    for (unsigned i = 0; i < SIM_SENTINELS; i++)
        for (unsigned p = 0; p < sim_world->config.processes; p++)
            if ((p == process) != !!(group->cut & 1u << i))
                sim_path_block(p, sentinel_host(group, i), true, true, group->cut_until);
    for (unsigned p = 0; others && p < sim_world->config.processes; p++)
        if (p != process)
            sim_path_block(p, old, true, true, group->cut_until);
}

bool sim_group_elect(struct sim_occasion *at)
{
    struct sim_group *group = &sim_world->groups[random_below(at->random, sim_world->config.nodes)];
    struct sim_node *master = server_of(group, group->master);
    if (group->busy || !master->up)
        return false;
    group->leader = random_below(at->random, SIM_SENTINELS);
    if (group->sentinel[group->leader].config != group->config)
        return false; /* it knows another master */
    group->busy = true;
    /* The others, or one of them: then the leader and the third one are a majority that names the new master. */
    unsigned one = (group->leader + 1 + random_below(at->random, SIM_SENTINELS - 1)) % SIM_SENTINELS;
    bool brisk = sim_world->config.brisk;
    group->cut = random_chance(at->random, brisk ? 900 : 400) ? 1u << one
                 : random_chance(at->random, 400)             ? (1u << SIM_SENTINELS) - 1
                                                              : 0;
    group->cut &= ~(1u << group->leader);
    group->cut_until =
        sim_world->now +
        random_log(stream(), QUORUM_SECOND, sim_world->config.max_ttl_ms * QUORUM_MILLISECOND + 12 * QUORUM_SECOND);
    uint64_t epoch = ++group->epoch;
    SIM_TRACE(sim_node_name(master), "is to be failed over by sentinel %u in epoch %u", group->leader + 1,
              (unsigned)epoch);
    if (group->cut)
        cut_off(group, random_below(at->random, sim_world->config.processes));
    else if (random_chance(at->random, 500))
        sim_node_die(master);
    if (brisk && master->up && random_chance(at->random, 700))
        sim_keyspace_copy(&master->snapshot, &master->server.keys, false); /* the replica has missed little */
    quorum_duration soon = brisk ? 20 * QUORUM_MILLISECOND : 60 * QUORUM_MILLISECOND;
    sim_at(sim_world->now + random_log(stream(), soon, brisk ? 5 * soon : 400 * QUORUM_MILLISECOND), promote, group,
           epoch);
    return true;
}

void sim_groups_start(void)
{
    for (unsigned i = 0; sim_world->config.groups && i < sim_world->config.nodes; i++)
        server_of(&sim_world->groups[i], 1)->server.replica = true;
}

void sim_groups_rest(void)
{
    for (unsigned n = 0; sim_world->config.groups && n < sim_world->config.nodes; n++) {
        struct sim_group *group = &sim_world->groups[n];
        for (unsigned i = 0; i < SIM_SENTINELS; i++) {
            group->sentinel[i].config = group->config;
            group->sentinel[i].named = group->master;
        }
        struct sim_node *master = server_of(group, group->master);
        if (!master->up)
            sim_node_restart(master);
        end(group, group->epoch);
    }
}
