#include "proxy.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

void proxy_start(struct proxy *proxy, const struct servers *servers, const unsigned *round_trips, unsigned count)
{
    char path[PATH_MAX], routes[SERVERS_MAX][32], line[256];
    const char *arguments[SERVERS_MAX + 2] = {path};
    process_sibling("bench-delay-proxy", path, sizeof path);
    for (unsigned i = 0; i < count; i++) {
        snprintf(routes[i], sizeof routes[i], "%d:%u", servers->ports[i], round_trips[i]);
        arguments[i + 1] = routes[i];
    }
    process_start(&proxy->process, arguments, PROCESS_PIPED);
    process_read_line(&proxy->process, line, sizeof line);
    char *rest = line;
    for (unsigned i = 0; i < count; i++)
        proxy->ports[i] = (int)strtol(rest, &rest, 10);
}

void proxy_end(struct proxy *proxy)
{
    process_kill(&proxy->process);
}

const char *proxy_list(const struct proxy *proxy, unsigned first, unsigned count, char *list)
{
    return ports_list(&proxy->ports[first], count, list);
}
