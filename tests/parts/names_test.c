/* Which names of resources a lock may have, and which lists of names are the same lock. */
#include "src/lock/names.h"
#include "support/test.h"

static char long_name[REDLOCK_RESOURCE_MAX + 2];
static redlock_result result;

static void setup(void)
{
    memset(long_name, 'x', sizeof long_name - 1);
}

TEST_CASE(names, setup, NULL);

static const struct {
    const char *prefix, *marker_key, *resource;
    size_t size;
    const char *refusal; /* NULL: the name is allowed */
} keys[] = {
    {"", "marker", "marker", 0, "the nodes' marker"},
    {"a:", "a:marker", "marker", 0, "the nodes' marker"},
    {"a:", "a:marker", "markers", 6, "the nodes' marker"},
    {"a:", "b:marker", "marker", 0, NULL},
    {"a:", "a:marker", "market", 0, NULL},
    {"a:", "a:marker", "marke", 0, NULL},
    {"a:", "a:marker", "markers", 0, NULL},
    {"a:", "a:marker", "a:marker", 0, NULL},
    {"", "marker", long_name, REDLOCK_RESOURCE_MAX, NULL},
    {"", "marker", long_name, REDLOCK_RESOURCE_MAX + 1, "longer than 512 bytes"},
    {"", "marker", long_name, 0, "longer than 512 bytes"},
    {"", "marker", "\0", 1, NULL},
    {"", "marker", "", 0, "is empty"},
    {"", "marker", NULL, 0, "is NULL"},
    {"", "marker", ":redlock:queue", 0, "ends in ':redlock:queue'"},
    {"a:redlock:", "marker", "alive", 0, "ends in ':redlock:alive'"},
    {"a", "marker", ":redlock:free", 0, "ends in ':redlock:free'"},
    {"", "marker", "a:redlock:fence", 0, "ends in ':redlock:fence'"},
    {"", "marker", "a:redlock:fence:", 0, NULL},
    {"", "marker", "redlock:queue", 0, NULL},
    {"", "marker", "a:redlock:slot:0", 0, "ends in ':redlock:slot:NUMBER'"},
    {"", "marker", "a:redlock:slot:99", 0, "ends in ':redlock:slot:NUMBER'"},
    {"a:redlock:slot:", "marker", "1", 0, "ends in ':redlock:slot:NUMBER'"},
    {"", "marker", "a:redlock:slot:", 0, NULL},
    {"", "marker", "a:redlock:slot:/", 0, NULL},
    {"", "marker", "a:redlock:slot::", 0, NULL},
    {"", "marker", "a:redlock:slot1", 0, NULL},
    {"", "marker", "12345", 0, NULL},
};

TEST_ROWS(names, name_is_refused_if_its_key_is_the_librarys, ROWS(keys))
{
    const redlock_options client = {.prefix = keys[_i].prefix, .marker_key = keys[_i].marker_key};
    size_t size = keys[_i].size;
    result.text[0] = '\0';
    int status = rl_lock_name_check(keys[_i].resource, &size, &client, &result);
    ck_assert_int_eq(status, keys[_i].refusal ? REDLOCK_INVALID : REDLOCK_OK);
    if (keys[_i].refusal)
        ck_assert_msg(strstr(result.text, keys[_i].refusal), "%s", result.text);
    else
        ck_assert_uint_eq(size, keys[_i].size ? keys[_i].size : strlen(keys[_i].resource));
}

/* No name in `sorted`: the list is refused. */
static const struct {
    const char *resource;
    redlock_name also[4];
    unsigned also_count;
    const char *sorted[5];
} lists[] = {
    {"a", {{NULL, 0}}, 0, {"a"}},
    {"b", {{"a", 0}}, 1, {"a", "b"}},
    {"a", {{"a", 0}}, 1, {"a"}},
    {"b", {{"ab", 0}, {"a", 0}, {"b", 0}}, 3, {"a", "ab", "b"}},
    {"a", {{"b", 0}, {"b", 0}, {"a", 0}, {"c", 0}}, 4, {"a", "b", "c"}},
    {"b", {{"ab", 2}, {"ab", 1}}, 2, {"a", "ab", "b"}},
    {"b", {{"ac", 1}, {"ab", 2}}, 2, {"a", "ab", "b"}},
    {"\xff", {{"\x7f", 0}}, 1, {"\x7f", "\xff"}},
    {"a", {{"a", 0}, {"marker", 0}, {"b", 0}}, 3, {NULL}},
    {"marker", {{"a", 0}}, 1, {NULL}},
    {"a", {{"a", 0}}, REDLOCK_RESOURCES_MAX, {NULL}},
};

TEST_ROWS(names, lists_of_the_same_names_are_the_same_lock, ROWS(lists))
{
    const redlock_options client = {.prefix = "", .marker_key = "marker"};
    const redlock_acquire_options options = {.also = lists[_i].also, .also_count = lists[_i].also_count};
    struct rl_names names;
    int status = rl_names_read(&names, lists[_i].resource, &options, &client, &result);
    ck_assert_int_eq(status, lists[_i].sorted[0] ? REDLOCK_OK : REDLOCK_INVALID);
    unsigned count = 0;
    for (; count < ROWS(lists[_i].sorted) && lists[_i].sorted[count]; count++) {
        ck_assert_uint_gt(names.count, count);
        ck_assert_uint_eq(names.name[count].size, strlen(lists[_i].sorted[count]));
        ck_assert_mem_eq(names.name[count].bytes, lists[_i].sorted[count], names.name[count].size);
    }
    ck_assert(!count || names.count == count);
}

TEST_PROGRAM("names")
