#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memmem, memrchr */
#endif
#include "src/link/address.h"

#include <assert.h>
#include <ctype.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "quorum/witness.h"
#include "src/core/core.h"
#include "src/core/escape.h"

#define LIST_MAX        65536
#define NODE_MAX        2048
#define PORT            6379
#define SENTINEL_PORT   26379
#define SENTINELS_LEAST 3 /* fewer elect no leader after a failure */
#define LISTED_MOST     9
#define NO_NAME         "no name of a master; write sentinel://host:26379,host,host/NAME"
#define ONE_DATABASE    "cannot be chosen: a cluster has database 0 alone"

struct parser {
    unsigned node;   /* its position in the list, from 1 */
    const char *end; /* of the list */
    char *error;
    size_t error_size;
};

static bool __attribute__((format(printf, 2, 3))) wrong(struct parser *parser, const char *format, ...)
{
    int used = snprintf(parser->error, parser->error_size, "node %u of the list: ", parser->node);
    if (used < 0 || (size_t)used >= parser->error_size)
        return false;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(parser->error + used, parser->error_size - (size_t)used, format, arguments);
    va_end(arguments);
    return false;
}

/*
 * Reports an error and quotes the wrong part. An unencoded ',' or '?' in a password splits it, so that a part of the
 * password appears as a host or a number. So a part is not quoted if an '@' follows anywhere in the list.
 */
static bool wrong_part(struct parser *parser, const char *what, struct rl_text part, const char *why)
{
    if (memchr(part.bytes, '@', (size_t)(parser->end - part.bytes)))
        return wrong(parser, "%s'...' %s", what, why);
    return wrong(parser, "%s'%.*s' %s", what, (int)part.size, part.bytes, why);
}

static struct rl_text trimmed(struct rl_text span)
{
    while (span.size && strchr(" \t\r\n", span.bytes[0]) && span.bytes[0])
        span.bytes++, span.size--;
    while (span.size && strchr(" \t\r\n", span.bytes[span.size - 1]) && span.bytes[span.size - 1])
        span.size--;
    return span;
}

static bool cut_at(struct rl_text *rest, const char *at, struct rl_text *before)
{
    if (!at)
        return false;
    before->bytes = rest->bytes;
    before->size = (size_t)(at - rest->bytes);
    rest->size -= before->size + 1;
    rest->bytes = at + 1;
    return true;
}

/* Splits `rest` at the first (cut_last: the last) `mark`. false: it has none, and is unchanged. */
static bool cut(struct rl_text *rest, char mark, struct rl_text *before)
{
    return cut_at(rest, memchr(rest->bytes, mark, rest->size), before);
}

static bool cut_last(struct rl_text *rest, char mark, struct rl_text *before)
{
    return cut_at(rest, memrchr(rest->bytes, mark, rest->size), before);
}

static bool number(struct rl_text span, uint64_t least, uint64_t most, uint64_t *value)
{
    if (span.size == 0 || span.size > 10)
        return false;
    *value = 0;
    for (size_t i = 0; i < span.size; i++) {
        if (span.bytes[i] < '0' || span.bytes[i] > '9')
            return false;
        *value = *value * 10 + (uint64_t)(span.bytes[i] - '0');
    }
    return *value >= least && *value <= most;
}

/* Percent-decodes into a C string. The error never quotes the input, which may be a password. */
static bool decoded(struct parser *parser, struct rl_text span, char *out, size_t size, const char *what)
{
    size_t used = 0;
    for (size_t i = 0; i < span.size; i++) {
        int byte = (unsigned char)span.bytes[i];
        if (byte == '%') {
            int high = i + 2 < span.size ? rl_hex_digit(span.bytes[i + 1]) : -1;
            int low = high < 0 ? -1 : rl_hex_digit(span.bytes[i + 2]);
            if (low < 0)
                return wrong(parser, "a %% in the %s is not followed by two hexadecimal digits; write %%25 for a %%",
                             what);
            byte = high * 16 + low;
            i += 2;
        }
        if (byte == 0)
            return wrong(parser, "the %s contains a NUL byte", what);
        if (used + 1 >= size)
            return wrong(parser, "the %s is longer than %zu bytes", what, size - 1);
        out[used++] = (char)byte;
    }
    out[used] = '\0';
    return true;
}

static bool plain_host(struct rl_text host)
{
    for (size_t i = 0; i < host.size; i++) {
        unsigned char c = (unsigned char)host.bytes[i];
        if (c <= ' ' || c == 127 || strchr("/@?#[]\"'\\;|&!$*()<>{}`^+=~", c))
            return false;
    }
    return host.size > 0;
}

static bool set_host(struct parser *parser, struct rl_address *address, struct rl_text host)
{
    if (!plain_host(host))
        return wrong_part(parser, "", host, "is not a host name or address");
    if (host.size >= sizeof address->host)
        return wrong(parser, "the host name is longer than %zu bytes", sizeof address->host - 1);
    memcpy(address->host, host.bytes, host.size);
    return true;
}

static bool set_port(struct parser *parser, struct rl_address *address, struct rl_text port)
{
    uint64_t value;
    if (!number(port, 1, 65535, &value))
        return wrong_part(parser, "port ", port, "is not a number from 1 to 65535");
    address->port = (uint16_t)value;
    return true;
}

/* What separates the items of other lists. */
static bool has_foreign_separator(struct rl_text text)
{
    for (size_t i = 0; i < text.size; i++)
        if (memchr("; \t|", text.bytes[i], sizeof "; \t|" - 1))
            return true;
    return false;
}

/* host, host:port, [v6], [v6]:port */
static bool host_and_port(struct parser *parser, struct rl_address *address, struct rl_text rest, uint16_t port)
{
    struct rl_text host;
    address->port = port;
    if (memchr(rest.bytes, '@', rest.size)) /* not quoted: it may be a password */
        return wrong(parser, "a user and password need the form redis://user:password@host:port");
    if (has_foreign_separator(rest))
        return wrong(parser, "separate nodes by commas, not by ';', '|' or spaces");
    if (rest.size && rest.bytes[0] == '[') {
        rest.bytes++, rest.size--;
        if (!cut(&rest, ']', &host))
            return wrong(parser, "'[' without ']' around an IPv6 address");
        if (rest.size && rest.bytes[0] != ':')
            return wrong_part(parser, "", rest, "after ']' is not a :port");
        if (!set_host(parser, address, host))
            return false;
        return rest.size == 0 || set_port(parser, address, (struct rl_text){rest.bytes + 1, rest.size - 1});
    }
    if (!cut(&rest, ':', &host))
        return set_host(parser, address, rest);
    if (memchr(rest.bytes, ':', rest.size))
        return wrong(parser, "more than one ':'; write an IPv6 address in brackets, [::1]:6379");
    return set_host(parser, address, host) && set_port(parser, address, rest);
}

static bool set_path(struct parser *parser, struct rl_address *address, struct rl_text path)
{
    if (path.size < 2 || path.bytes[0] != '/')
        return wrong(parser, "a unix socket's path must be absolute: unix:///run/redis.sock");
    return decoded(parser, path, address->path, sizeof address->path, "path");
}

static bool set_database(struct parser *parser, struct rl_address *address, struct rl_text database)
{
    uint64_t value;
    if (!number(database, 0, 1000000, &value))
        return wrong_part(parser, "database ", database, "is not a number");
    address->database = (int64_t)value;
    return true;
}

static bool parameter(struct parser *parser, struct rl_address *address, struct rl_text name, struct rl_text value)
{
    uint64_t amount;
    bool connect = rl_text_is(name, "connect_timeout_ms");
    if (rl_text_is(name, "database"))
        return set_database(parser, address, value);
    if (!connect && !rl_text_is(name, "timeout_ms"))
        return wrong_part(parser, "parameter ", name, "is unknown; known are timeout_ms, connect_timeout_ms, database");
    if (!number(value, 1, 3600000, &amount))
        return wrong_part(parser, connect ? "connect_timeout_ms " : "timeout_ms ", value,
                          "is not a number from 1 to 3600000");
    *(connect ? &address->connect_timeout_ms : &address->timeout_ms) = (uint32_t)amount;
    return true;
}

static bool parameters(struct parser *parser, struct rl_address *address, struct rl_text rest)
{
    struct rl_text pair, name;
    bool more = true;
    while (more) {
        more = cut(&rest, '&', &pair);
        if (!more)
            pair = rest;
        if (!cut(&pair, '=', &name))
            return wrong(parser, "what follows '?' is not name=value&name=value; a '?' in a password is written %%3F");
        if (!parameter(parser, address, name, pair))
            return false;
    }
    return true;
}

/* user:password@ or :password@. A user@ alone is refused, because some clients read it as a password. */
static bool credentials(struct parser *parser, struct rl_address *address, struct rl_text info)
{
    struct rl_text user = {info.bytes, 0};
    if (!cut(&info, ':', &user))
        return wrong(parser, "a user without a password; write user:password@, or :password@ for the default user");
    if (info.size == 0)
        return wrong(parser, "an empty password; leave out everything up to the '@' if there is none");
    address->has_password = true;
    return decoded(parser, user, address->user, sizeof address->user, "user") &&
           decoded(parser, info, address->password, sizeof address->password, "password");
}

/* The part of a redis:// or rediss:// URI behind the scheme. */
static bool tcp_uri(struct parser *parser, struct rl_address *address, struct rl_text rest)
{
    struct rl_text authority;
    if (!cut(&rest, '/', &authority)) {
        authority = rest;
        rest.size = 0;
    }
    if (!host_and_port(parser, address, authority, PORT))
        return false;
    return rest.size == 0 || set_database(parser, address, rest);
}

static void set_name(struct rl_address *address);

/* The same one twice would have two votes. */
static bool add_witness(struct parser *parser, struct rl_address *address, struct rl_text text)
{
    struct rl_address witness = {.port = 0};
    size_t used = strlen(address->witnesses), size;
    const char *kind = address->cluster ? "server" : "Sentinel";
    if (!host_and_port(parser, &witness, trimmed(text), address->cluster ? PORT : SENTINEL_PORT))
        return false;
    set_name(&witness);
    size = strlen(witness.name);
    for (const char *at = address->witnesses; *at; at = strchr(at, ' ') + 1)
        if (strncasecmp(at, witness.name, size) == 0 && at[size] == ' ')
            return wrong_part(parser, "", trimmed(text),
                              address->cluster ? "is listed twice as a server" : "is listed twice as a Sentinel");
    if (address->witness_count == LISTED_MOST)
        return wrong(parser, "more than %d %ss; %s", LISTED_MOST, kind,
                     address->cluster ? "some of a cluster's suffice, and a '/' ends them"
                                      : "list those that watch this master");
    if (used + size + 2 > sizeof address->witnesses)
        return wrong(parser, "the names of its %ss are too long; use addresses", kind);
    snprintf(address->witnesses + used, sizeof address->witnesses - used, "%s ", witness.name);
    address->witness_count++;
    return true;
}

static bool add_witnesses(struct parser *parser, struct rl_address *address, struct rl_text list)
{
    struct rl_text witness;
    for (bool more = true; more;) {
        more = cut(&list, ',', &witness);
        if (!add_witness(parser, address, more ? witness : list))
            return false;
    }
    return true;
}

/* Behind the credentials: servers of the cluster, and perhaps a '/'. */
static bool cluster_uri(struct parser *parser, struct rl_address *address, struct rl_text rest)
{
    struct rl_text servers = rest;
    address->cluster = true;
    if (cut(&rest, '/', &servers) && rest.size)
        return wrong_part(parser, "database ", rest, ONE_DATABASE);
    if (address->database >= 0)
        return wrong(parser, "a database " ONE_DATABASE);
    return add_witnesses(parser, address, servers);
}

static bool set_master(struct parser *parser, struct rl_address *address, struct rl_text name)
{
    for (size_t i = 0; i < name.size; i++)
        if (!isalnum((unsigned char)name.bytes[i]) && !strchr(".-_", name.bytes[i]))
            return wrong(parser, "the master's name has a character that Sentinels do not allow; known are letters, "
                                 "digits and . - _ (in a password, a '/' is written %%2F)");
    if (name.size == 0)
        return wrong(parser, NO_NAME);
    if (name.size >= sizeof address->master)
        return wrong(parser, "the master's name is longer than %zu bytes", sizeof address->master - 1);
    memcpy(address->master, name.bytes, name.size);
    return true;
}

/* Behind the credentials: the Sentinels, the master's name, and perhaps a database. */
static bool sentinel_uri(struct parser *parser, struct rl_address *address, struct rl_text rest)
{
    struct rl_text sentinels, name = {rest.bytes, 0};
    /* Without a name the next '/' is of another node's scheme. */
    if (!cut(&rest, '/', &sentinels) || (sentinels.size && sentinels.bytes[sentinels.size - 1] == ':'))
        return wrong(parser, NO_NAME);
    if (!add_witnesses(parser, address, sentinels))
        return false;
    if (address->witness_count < SENTINELS_LEAST)
        return wrong(parser, "it lists %u of the Sentinels; list all that watch the master, at least %d",
                     address->witness_count, SENTINELS_LEAST);
    bool numbered = cut(&rest, '/', &name);
    if (numbered && !set_database(parser, address, rest))
        return false;
    return set_master(parser, address, numbered ? name : rest);
}

enum kind { NO_SCHEME, TCP, SOCKET, SENTINEL, CLUSTER };

/* Takes the scheme from the start. */
static enum kind take_scheme(struct rl_text *rest, bool *tls)
{
    static const struct {
        const char *text;
        enum kind kind;
        bool tls;
    } schemes[] = {{"redis://", TCP, false},         {"rediss://", TCP, true},         {"unix://", SOCKET, false},
                   {"sentinel://", SENTINEL, false}, {"sentinels://", SENTINEL, true}, {"cluster://", CLUSTER, false},
                   {"clusters://", CLUSTER, true}};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        size_t size = strlen(schemes[i].text);
        if (rest->size < size || strncasecmp(rest->bytes, schemes[i].text, size) != 0)
            continue;
        *rest = (struct rl_text){rest->bytes + size, rest->size - size};
        *tls = schemes[i].tls;
        return schemes[i].kind;
    }
    return NO_SCHEME;
}

static bool uri(struct parser *parser, struct rl_address *address, struct rl_text rest, enum kind kind)
{
    struct rl_text query = {rest.bytes, 0}, info, target;
    if (cut(&rest, '?', &target)) {
        query = rest;
        rest = target;
        if (!parameters(parser, address, query))
            return false;
    }
    /* The last '@', so that an '@' in a password need not be encoded; a host has none. */
    if (cut_last(&rest, '@', &info) && !credentials(parser, address, info))
        return false;
    if (kind == SENTINEL) {
        address->has_password = false; /* the credentials are the Sentinels' */
        return sentinel_uri(parser, address, rest);
    }
    if (kind == CLUSTER)
        return cluster_uri(parser, address, rest);
    return kind == SOCKET ? set_path(parser, address, rest) : tcp_uri(parser, address, rest);
}

static bool one(struct parser *parser, struct rl_address *address, struct rl_text text)
{
    struct rl_text rest = text;
    if (text.size == 0)
        return wrong(parser, "it is empty; separate nodes by single commas");
    if (text.size > NODE_MAX)
        return wrong(parser, "it is longer than %d bytes", NODE_MAX);
    enum kind kind = take_scheme(&rest, &address->tls);
    if (kind != NO_SCHEME)
        return uri(parser, address, rest, kind);
    if (rest.bytes[0] == '/')
        return set_path(parser, address, rest);
    const char *scheme = memmem(rest.bytes, rest.size, "://", 3);
    if (scheme)
        return wrong_part(parser, "scheme ", (struct rl_text){rest.bytes, (size_t)(scheme - rest.bytes)},
                          "is unknown; known are redis, rediss, unix, sentinel, sentinels, cluster, clusters");
    return host_and_port(parser, address, rest, PORT);
}

static void set_name(struct rl_address *address)
{
    if (address->witness_count)
        snprintf(address->name, sizeof address->name, "%s%s%s %.*s%s", address->master, address->master[0] ? " (" : "",
                 address->cluster ? "cluster" : "sentinel", (int)strcspn(address->witnesses, " "), address->witnesses,
                 address->master[0] ? ")" : "");
    else if (address->path[0])
        snprintf(address->name, sizeof address->name, "%s", address->path);
    else if (strchr(address->host, ':'))
        snprintf(address->name, sizeof address->name, "[%s]:%u", address->host, (unsigned)address->port);
    else
        snprintf(address->name, sizeof address->name, "%s:%u", address->host, (unsigned)address->port);
}

/* A Sentinel knows one master of a name, a cluster one of a slot. */
static bool share_witness(const struct rl_address *a, const struct rl_address *b)
{
    for (const char *at = a->witnesses; *at; at = strchr(at, ' ') + 1)
        for (const char *other = b->witnesses; *other; other = strchr(other, ' ') + 1)
            if (strcspn(at, " ") == strcspn(other, " ") && strncasecmp(at, other, strcspn(at, " ")) == 0)
                return true;
    return false;
}

/* Host names are compared without regard to case, paths with it. */
static bool is_same(const struct rl_address *a, const struct rl_address *b)
{
    if (a->witness_count || b->witness_count)
        return a->cluster == b->cluster && strcmp(a->master, b->master) == 0 && share_witness(a, b);
    return a->path[0] ? strcmp(a->path, b->path) == 0 : !b->path[0] && strcasecmp(a->name, b->name) == 0;
}

/* rest: the list behind this node. */
static bool is_new_node(struct parser *parser, const struct rl_address *addresses, unsigned index, struct rl_text rest)
{
    /* A node that looks like a path may be the end of a password that an unencoded ',' split. */
    bool may_be_secret = memchr(rest.bytes, '@', rest.size) || strchr(addresses[index].name, '@');
    const char *name = may_be_secret ? "..." : addresses[index].name;
    for (unsigned earlier = 0; earlier < index; earlier++)
        if (is_same(&addresses[earlier], &addresses[index]))
            return wrong(parser, "'%s' is node %u already; the nodes must be different servers", name, earlier + 1);
    return true;
}

/* The witnesses of a node are separated by commas, too. With Sentinels the node ends behind their '/'; servers of a
 * cluster end behind a '/' or a '?', and before the next node that has a scheme, or is a path. */
static bool cut_node(struct rl_text *rest, struct rl_text *text)
{
    bool tls, ends = false;
    struct rl_text node = trimmed(*rest), credentials;
    enum kind kind = take_scheme(&node, &tls);
    if (kind != SENTINEL && kind != CLUSTER)
        return cut(rest, ',', text);
    const char *at = node.bytes, *end = at + node.size, *next = memmem(at, node.size, "://", 3);
    struct rl_text own = {at, next ? (size_t)(next - at) : node.size};
    const char *comma = next && kind == CLUSTER ? memrchr(at, ',', own.size) : NULL; /* in front of the next scheme */
    own.size = comma ? (size_t)(comma - at) : own.size;
    /* A password may have a '/'; the '@' of another node follows its scheme. */
    if (cut_last(&own, '@', &credentials))
        at = own.bytes;
    for (; at < (comma ? comma : end); at++) {
        if (*at == ',' && (ends || (kind == CLUSTER && at + 1 < end && at[1] == '/')))
            break;
        ends = ends || *at == '/' || (*at == '?' && kind == CLUSTER);
    }
    if (at == end)
        return false;
    *text = (struct rl_text){rest->bytes, (size_t)(at - rest->bytes)};
    *rest = (struct rl_text){at + 1, (size_t)(end - at - 1)};
    return true;
}

size_t rl_address_size(const struct rl_address *address)
{
    bool whole = address->has_password || address->witness_count > 0;
    return whole ? sizeof *address : offsetof(struct rl_address, user);
}

void rl_address_wipe(struct rl_address *address)
{
    size_t from = offsetof(struct rl_address, user);
    rl_wipe((char *)address + from, rl_address_size(address) - from);
}

void rl_address_witness(const struct rl_address *node, unsigned index, struct rl_address *witness)
{
    const char *at = node->witnesses;
    memset(witness, 0, sizeof *witness);
    for (unsigned i = 0; i < index; i++)
        at = strchr(at, ' ') + 1;
    struct parser parser = {0, at, witness->name, sizeof witness->name};
    bool parsed = host_and_port(&parser, witness, (struct rl_text){at, strcspn(at, " ")}, SENTINEL_PORT);
    assert(index < node->witness_count && parsed);
    (void)parsed;
    set_name(witness);
    witness->tls = node->tls;
    if (node->cluster)
        return;
    witness->has_password = node->password[0];
    memcpy(witness->user, node->user, sizeof witness->user);
    memcpy(witness->password, node->password, sizeof witness->password);
}

void rl_address_set(struct rl_address *address, const char *host, size_t size, uint16_t port)
{
    assert(size < sizeof address->host);
    memset(address, 0, sizeof *address);
    memcpy(address->host, host, size);
    address->port = port;
    set_name(address);
}

void rl_address_tag(struct rl_address *address, const char *tag, size_t size)
{
    snprintf(address->master, sizeof address->master, "{%.*s}",
             (int)(size < RL_MASTER_SIZE - 3 ? size : RL_MASTER_SIZE - 3), tag);
    set_name(address);
}

unsigned rl_address_list(const char *list, struct rl_address addresses[REDLOCK_NODES_MAX], char *error,
                         size_t error_size)
{
    struct rl_text rest = {list, list ? strnlen(list, LIST_MAX + 1) : 0}, text;
    struct parser parser = {0, list ? list + rest.size : NULL, error, error_size};
    if (trimmed(rest).size == 0 || rest.size > LIST_MAX) {
        snprintf(error, error_size,
                 rest.size > LIST_MAX ? "the node list is too long"
                                      : "the node list is empty; write host:port,host:port,...");
        return 0;
    }
    unsigned count = 0;
    for (bool more = true; more; count++) {
        more = cut_node(&rest, &text);
        if (!more) {
            text = rest;
            rest.size = 0;
        }
        parser.node = count + 1;
        if (count == REDLOCK_NODES_MAX) {
            snprintf(error, error_size, "more than %d nodes; list fewer", REDLOCK_NODES_MAX);
            return 0;
        }
        memset(&addresses[count], 0, sizeof addresses[count]);
        addresses[count].database = -1;
        if (!one(&parser, &addresses[count], trimmed(text)))
            return 0;
        set_name(&addresses[count]);
        if (!is_new_node(&parser, addresses, count, rest))
            return 0;
    }
    return count;
}
