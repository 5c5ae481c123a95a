#include "network.h"

#include "support/clock.h"
#include "support/fixture.h"
#include "support/process.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct process owners[NETWORK_NODES];
static char hosts[NETWORK_NODES][16];
static bool made;

/* Runs a command without a shell, so that nothing depends on quoting. */
static bool run(const char *format, ...) __attribute__((format(printf, 1, 2)));

static bool run(const char *format, ...)
{
    char command[256];
    char *words[32] = {NULL};
    size_t count = 0;
    struct process process;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    for (char *word = strtok(command, " "); word && count < 31; word = strtok(NULL, " "))
        words[count++] = word;
    if (!process_start(&process, &(struct process_options){.argv = words}))
        return false;
    /* The fixture does not return the exit status. The callers check the effect instead. */
    return process_wait(&process, test_deadline_ns(10000));
}

static bool is_apart(void *arg)
{
    char path[64], theirs[64] = "", ours[64] = "";
    snprintf(path, sizeof path, "/proc/%ld/ns/net", (long)*(pid_t *)arg);
    if (readlink(path, theirs, sizeof theirs - 1) < 0 || readlink("/proc/self/ns/net", ours, sizeof ours - 1) < 0)
        return false;
    return strcmp(theirs, ours) != 0;
}

static bool make_node(size_t node)
{
    char words[][16] = {"unshare", "--net", "sleep", "infinity"};
    char *const argv[] = {words[0], words[1], words[2], words[3], NULL};
    struct process *owner = &owners[node];
    unsigned net = (unsigned)node + 1;
    if (!process_start(owner, &(struct process_options){.argv = argv}) || !wait_until(is_apart, &owner->pid, 5000))
        return false;
    long pid = owner->pid;
    snprintf(hosts[node], sizeof hosts[node], "10.77.%u.2", net);
    return run("ip link add node%u type veth peer name eth0 netns %ld", net, pid) &&
           run("ip addr add 10.77.%u.1/24 dev node%u", net, net) && run("ip link set node%u up", net) &&
           run("nsenter --target %ld --net ip link set lo up", pid) &&
           run("nsenter --target %ld --net ip addr add %s/24 dev eth0", pid, hosts[node]) &&
           run("nsenter --target %ld --net ip link set eth0 up", pid) &&
           run("nsenter --target %ld --net iptables -N cut", pid) &&
           run("nsenter --target %ld --net iptables -A INPUT -j cut", pid) &&
           run("nsenter --target %ld --net iptables -A OUTPUT -j cut", pid);
}

/* A packet that comes back shows that the whole path works. */
static bool answers(size_t node)
{
    char path[64], line[256];
    bool chain = false;
    snprintf(path, sizeof path, "nsenter --target %ld --net iptables -S", (long)owners[node].pid);
    FILE *rules = popen(path, "r");
    while (rules && fgets(line, sizeof line, rules))
        chain = chain || strncmp(line, "-A OUTPUT -j cut", 16) == 0;
    return rules && pclose(rules) == 0 && chain;
}

bool network_make(size_t nodes, const char **why)
{
    *why = "it needs root";
    if (geteuid() != 0 || nodes > NETWORK_NODES)
        return false;
    *why = "the system gives no network namespace";
    if (unshare(CLONE_NEWNET) != 0)
        return false;
    *why = "it needs ip(8), nsenter(1) and iptables(8)";
    if (!run("ip link set lo up"))
        return false;
    for (size_t i = 0; i < nodes; i++)
        if (!make_node(i) || !answers(i))
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

void network_cut(size_t node, unsigned ways)
{
    long pid = owners[node].pid;
    if (!made)
        return;
    run("nsenter --target %ld --net iptables -F cut", pid);
    if (ways & NETWORK_TO_NODE)
        run("nsenter --target %ld --net iptables -A cut -d %s -j DROP", pid, hosts[node]);
    if (ways & NETWORK_FROM_NODE)
        run("nsenter --target %ld --net iptables -A cut -s %s -j DROP", pid, hosts[node]);
}
