#define _POSIX_C_SOURCE 200809L

#include "flash_sale/shop.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

_Static_assert(sizeof(struct news) <= _POSIX_PIPE_BUF, "a write of more than PIPE_BUF can be torn by another's");

/* As wide as any number, so that a new number overwrites the old one completely. */
#define STOCK_FORMAT "%11d\n"
enum { STOCK_SIZE = 12 };

static void fail(const char *what)
{
    perror(what);
    exit(EXIT_FAILURE);
}

int stock_create(int items)
{
    FILE *file = tmpfile();
    if (!file)
        fail("the stock's file");
    int stock = dup(fileno(file));
    if (stock < 0)
        fail("the stock's file");
    fclose(file);
    stock_write(stock, items);
    return stock;
}

int stock_read(int stock)
{
    char text[STOCK_SIZE + 1] = {0};
    if (pread(stock, text, STOCK_SIZE, 0) != STOCK_SIZE)
        fail("reading the stock");
    return (int)strtol(text, NULL, 10);
}

void stock_write(int stock, int items)
{
    char text[STOCK_SIZE + 1];
    snprintf(text, sizeof(text), STOCK_FORMAT, items);
    if (pwrite(stock, text, STOCK_SIZE, 0) != STOCK_SIZE)
        fail("writing the stock");
}

void desk_report(int desk, const struct news *news)
{
    if (write(desk, news, sizeof(*news)) != (ssize_t)sizeof(*news))
        fail("telling the desk");
}

int desk_listen(int desk, struct news *news)
{
    ssize_t size;
    do
        size = read(desk, news, sizeof(*news));
    while (size < 0 && errno == EINTR);
    if (size != 0 && size != (ssize_t)sizeof(*news))
        fail("listening at the desk");
    return size != 0;
}
