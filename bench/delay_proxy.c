/* Distant servers, by the tests' proxy: DELAY_PROXY PORT:ROUND_TRIP_US... listens once for each, prints its ports in one
 * line, and delays each direction by half a round trip, until it is killed. Connecting takes no time. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/delay_proxy.h"

enum { ROUTES_MAX = 32 };

int main(int count, char **arguments)
{
    uint16_t ports[ROUTES_MAX];
    uint32_t round_trips[ROUTES_MAX];
    size_t routes = (size_t)count - 1;
    for (size_t i = 0; i < routes; i++)
        if (i == ROUTES_MAX || sscanf(arguments[i + 1], "%hu:%u", &ports[i], &round_trips[i]) != 2) {
            fprintf(stderr, "delay proxy: '%s' is not PORT:ROUND_TRIP_US, or is one too many\n", arguments[i + 1]);
            return 2;
        }
    struct delay_proxy *proxy = delay_proxy_start(NULL, ports, routes);
    for (size_t i = 0; i < routes; i++) {
        delay_proxy_set_delay_us(proxy, i, PROXY_BOTH, round_trips[i] / 2);
        printf("%s%u", i ? " " : "", (unsigned)delay_proxy_port(proxy, i));
    }
    printf("\n");
    fflush(stdout);
    for (;;)
        pause();
}
