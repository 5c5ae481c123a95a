/*
 * Serves a client's metrics to Prometheus: monitoring PORT (0: any free port, which it prints). The nodes come from
 * REDLOCK_NODES. The address is 127.0.0.1: let the service's own HTTP server serve redlock_metrics() instead, if it has
 * one. rules.yml and dashboard.json in this directory use the metrics.
 *
 * Each scrape acquires and releases a lock, so that the metrics show whether locks can be acquired, and how fast. It
 * tries once: an acquire that waits ends with REDLOCK_TIMED_OUT, which may also mean contention, so no alert uses it.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <redlock/redlock.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static void probe(redlock_client *client)
{
    redlock_lock *lock;
    if (redlock_acquire(client, "examples/monitoring", NULL, &lock, NULL) == REDLOCK_OK)
        redlock_release(&lock, NULL, NULL);
}

/* The text grows with the number of nodes, and between two calls by some digits. Freed by the caller. */
static char *metrics(redlock_client *client)
{
    size_t needed = 0;
    char *text = NULL;
    while (redlock_metrics(client, text, needed, &needed) != REDLOCK_OK) {
        char *larger = realloc(text, needed + 256);
        if (!larger)
            break;
        text = larger;
        needed += 256;
    }
    return text;
}

/* Reads to the end of the request: a connection that is closed with unread data loses the reply. Its text does not
 * matter. */
static int read_request(int connection)
{
    char request[4096] = "";
    size_t used = 0;
    while (!strstr(request, "\r\n\r\n")) {
        ssize_t count = recv(connection, request + used, sizeof request - 1 - used, 0);
        if (count <= 0)
            return 0;
        used += (size_t)count;
        request[used] = '\0';
    }
    return 1;
}

static void serve(redlock_client *client, int connection)
{
    static const struct timeval patience = {.tv_sec = 1};
    setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (!read_request(connection))
        return;
    probe(client);
    char *text = metrics(client);
    if (text)
        dprintf(connection, "HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n\r\n%s", text);
    free(text);
}

static int listen_on(const char *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    socklen_t size = sizeof address;
    int socket_on = 1;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &socket_on, sizeof socket_on);
    if (bind(listener, (struct sockaddr *)&address, size) != 0 || listen(listener, 16) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &size) != 0) {
        perror(port);
        return -1;
    }
    printf("http://127.0.0.1:%d/metrics\n", ntohs(address.sin_port));
    fflush(stdout);
    return listener;
}

int main(int count, char **arguments)
{
    redlock_client *client;
    redlock_result result;
    if (count != 2 || arguments[1][0] == '-') {
        int help = count == 2 && strcmp(arguments[1], "--help") == 0;
        fprintf(help ? stdout : stderr, "usage: monitoring PORT\n\nServes the metrics of a client of REDLOCK_NODES.\n");
        return help ? EXIT_SUCCESS : 2;
    }
    signal(SIGPIPE, SIG_IGN);
    if (redlock_connect(getenv("REDLOCK_NODES"), NULL, &client, &result) != REDLOCK_OK) {
        fprintf(stderr, "connect: %s\n", redlock_result_text(&result));
        return EXIT_FAILURE;
    }
    int listener = listen_on(arguments[1]);
    for (int connection; listener >= 0 && (connection = accept(listener, NULL, NULL)) >= 0; close(connection))
        serve(client, connection);
    redlock_close(&client, NULL, NULL);
    return EXIT_FAILURE;
}
