/* Node lists and URIs. Any text is either parsed into valid nodes or rejected with an error that shows no password. */
#include "fuzz.h"

#include "src/link/address.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static struct rl_address again[REDLOCK_NODES_MAX];

/* Text before an '@' may be part of a password. */
static void require_no_secret(const char *list, const char *error)
{
    static const char marker[] = "s3cret";
    const char *at = NULL;
    for (const char *found = strstr(list, marker); found; found = strstr(found + 1, marker))
        at = found;
    if (at && strchr(at, '@'))
        fuzz_require(!strstr(error, marker), "%s", error);
}

static void require_refused_in_words(const char *list, const char *error)
{
    fuzz_require(error[0], "a refusal without a word");
    fuzz_require(strlen(error) < 256, "a long one");
    require_no_secret(list, error);
}

static void require_witnesses(const struct rl_address *address)
{
    struct rl_address witness;
    fuzz_require(!address->host[0] && !address->path[0] && !address->port, "a master with an address");
    fuzz_require(address->cluster ? !address->master[0] && address->database == -1
                                  : address->master[0] && address->witness_count >= 3 && !address->has_password,
                 "%u witnesses, '%s'", address->witness_count, address->master);
    for (unsigned i = 0; i < address->witness_count; i++) {
        rl_address_witness(address, i, &witness);
        fuzz_require(witness.host[0] && witness.port > 0 && !witness.witness_count, "witness %u of '%s'", i,
                     address->witnesses);
        fuzz_require(!address->cluster || !witness.password[0], "the node's password for a witness");
    }
}

static void require_sense(const struct rl_address *address)
{
    if (address->witness_count) {
        require_witnesses(address);
        return;
    }
    fuzz_require(!address->host[0] != !address->path[0], "host '%s', path '%s'", address->host, address->path);
    fuzz_require(address->path[0] || address->port > 0, "no port");
    fuzz_require(!address->path[0] || address->path[0] == '/', "path '%s'", address->path);
    fuzz_require(!address->password[0] || address->has_password, "a password that is not used");
    fuzz_require(address->database >= -1 && address->database <= 1000000, "database");
    fuzz_require(address->timeout_ms <= 3600000 && address->connect_timeout_ms <= 3600000, "timeouts");
    fuzz_require(address->name[0], "no name");
}

/* A node's name identifies it: parsing the name again gives the same address. */
static void require_round_trip(const struct rl_address *address)
{
    char error[256];
    if (address->path[0] || address->witness_count)
        return;
    unsigned count = rl_address_list(address->name, again, error, sizeof error);
    fuzz_require(count == 1, "'%s' is read as %u nodes: %s", address->name, count, error);
    fuzz_require(strcmp(again[0].host, address->host) == 0 && again[0].port == address->port, "'%s'", address->name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char error[256] = "";
    char *list = malloc(size + 1);
    if (!list)
        abort();
    memcpy(list, data, size);
    list[size] = '\0';
    unsigned most = 1; /* as the client makes room for them: one more is noticed by the sanitizer */
    for (const char *at = list; *at && most < REDLOCK_NODES_MAX; at++)
        most += *at == ',';
    struct rl_address *addresses = malloc(most * sizeof *addresses);
    if (!addresses)
        abort();
    unsigned count = rl_address_list(list, addresses, error, sizeof error);
    fuzz_require(count <= most, "%u nodes", count);
    if (count == 0)
        require_refused_in_words(list, error);
    for (unsigned i = 0; i < count; i++) {
        require_sense(&addresses[i]);
        require_round_trip(&addresses[i]);
        for (unsigned j = 0; j < i; j++)
            fuzz_require(strcasecmp(addresses[i].name, addresses[j].name) != 0 || addresses[i].path[0] ||
                             addresses[i].witness_count,
                         "twice '%s'", addresses[i].name);
    }
    free(addresses);
    free(list);
    return 0;
}
