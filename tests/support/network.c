#include "network.h"

#include "clock.h"
#include "fixture.h"
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct process owners[NETWORK_NODES];
static char hosts[NETWORK_NODES][16], ours[NETWORK_NODES][16];
static int spaces[] = {-1, -1}; /* that of the clients, and the one from before */
static bool made;

/* Runs a shell script in which $net is the node's number, $host its address, and `in_node` runs a command in its
 * namespace. Returns false if a command fails. */
static bool run(size_t node, const char *script)
{
    char *text = fixture_text("exec >/dev/null 2>&1; set -e; net=%zu pid=%ld host=%s\n"
                              "in_node() { nsenter --target $pid --net \"$@\"; }\n%s",
                              node, (long)owners[node].pid, hosts[node], script);
    bool done = system(text) == 0;
    free(text);
    return done;
}

static bool is_apart(void *arg)
{
    char path[64], theirs[64] = "", own[64] = "";
    snprintf(path, sizeof path, "/proc/%ld/ns/net", (long)*(pid_t *)arg);
    if (readlink(path, theirs, sizeof theirs - 1) < 0 || readlink("/proc/self/ns/net", own, sizeof own - 1) < 0)
        return false;
    return strcmp(theirs, own) != 0;
}

static bool make_node(size_t node)
{
    char words[][16] = {"unshare", "--net", "sleep", "infinity"};
    char *const argv[] = {words[0], words[1], words[2], words[3], NULL};
    struct process *owner = &owners[node];
    snprintf(hosts[node], sizeof hosts[node], "10.77.%zu.2", node);
    snprintf(ours[node], sizeof ours[node], "10.77.%zu.1", node);
    process_start(owner, argv, NULL);
    return wait_until(is_apart, &owner->pid, 5000) &&
           run(node, "ip link add node$net type veth peer name eth0 netns $pid\n"
                     "ip addr add 10.77.$net.1/24 dev node$net\n"
                     "ip link set node$net up\n"
                     "in_node ip link set lo up\n"
                     "in_node ip addr add $host/24 dev eth0\n"
                     "in_node ip link set eth0 up\n"
                     "in_node iptables -N cut\n"
                     "in_node iptables -A INPUT -i eth0 -j cut\n"
                     "in_node iptables -A OUTPUT -o eth0 -j cut\n");
}

static void enter(int space)
{
    if (setns(space, CLONE_NEWNET) != 0)
        fixture_fail("cannot enter a network namespace: %s", strerror(errno));
}

static void end(void *unused)
{
    (void)unused;
    fixture_unregister(spaces);
    enter(spaces[1]);
    close(spaces[0]);
    close(spaces[1]);
    for (size_t i = 0; i < NETWORK_NODES; i++)
        if (owners[i].pid)
            process_kill(&owners[i]);
    made = false;
}

bool network_make(size_t nodes, const char **why)
{
    *why = "it needs root";
    if (geteuid() != 0 || nodes > NETWORK_NODES)
        return false;
    *why = "the system gives no network namespace";
    spaces[1] = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    if (spaces[1] < 0 || unshare(CLONE_NEWNET) != 0)
        return false;
    spaces[0] = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    fixture_register(spaces, end);
    *why = "it needs ip(8), nsenter(1) and iptables(8)";
    if (!run(0, "ip link set lo up"))
        return false;
    for (size_t i = 0; i < nodes; i++)
        if (!make_node(i))
            return false;
    made = true;
    return true;
}

bool network_is_made(void)
{
    return made;
}

const char *network_host(size_t node)
{
    return made ? hosts[node] : "127.0.0.1";
}

pid_t network_owner(size_t node)
{
    return made ? owners[node].pid : 0;
}

const char *network_clients(size_t node)
{
    return made ? ours[node] : "127.0.0.1";
}

void network_enter(size_t node)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/ns/net", (long)owners[node % NETWORK_NODES].pid);
    int space = node == NETWORK_CLIENTS ? spaces[0] : open(path, O_RDONLY | O_CLOEXEC);
    enter(space);
    if (node != NETWORK_CLIENTS)
        close(space);
}

void network_cut(size_t node, unsigned ways)
{
    run(node, "in_node iptables -F cut");
    if (ways & NETWORK_TO_NODE)
        run(node, "in_node iptables -A cut -d $host -j DROP");
    if (ways & NETWORK_FROM_NODE)
        run(node, "in_node iptables -A cut -s $host -j DROP");
}

void network_cut_port(size_t node, uint16_t port)
{
    char *script =
        fixture_text("for end in --sport --dport; do in_node iptables -A cut -p tcp $end %u -j DROP; done", port);
    run(node, script);
    free(script);
}
