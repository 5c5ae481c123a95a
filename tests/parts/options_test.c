/* Options: defaults, both sides of every bound, smaller structs of older headers, and error texts that name the
 * field. */
#include "src/client/options.h"
#include "support/allocator.h"
#include "support/fixture.h"
#include "support/test.h"

static redlock_options given, completed;
static redlock_result result;

static void setup(void)
{
    fixtures_begin();
    given = (redlock_options)REDLOCK_OPTIONS_INIT;
    memset(&completed, 0xEE, sizeof completed);
    memset(&result, 0xEE, sizeof result);
}

static int read_given(void)
{
    return rl_options_read(&given, &completed, &result);
}

static void assert_refused(const char *words)
{
    ck_assert_int_eq(read_given(), REDLOCK_INVALID);
    ck_assert_int_eq(result.status, REDLOCK_INVALID);
    ck_assert_msg(strstr(result.text, words), "'%s' lacks '%s'", result.text, words);
    ck_assert_int_eq(rl_options_read(&given, &completed, NULL), REDLOCK_INVALID);
}

TEST_CASE(client, setup, fixtures_end);

/* The nodes cannot be reached: here a client has a password only in its addresses. */
static const char *const lists_with_a_password[] = {
    "redis://lock:" TEST_SECRET "@127.0.0.1:1",
    "sentinel://lock:" TEST_SECRET "@127.0.0.1:1,127.0.0.1:2,127.0.0.1:3/m",
};

TEST_ROWS(client, freed_memory_has_no_password, ROWS(lists_with_a_password))
{
    redlock_client *made;
    struct test_allocator *allocator = test_allocator_new();
    given.allocator = (redlock_allocator){test_allocate, test_reallocate, test_release, allocator};
    ck_assert_int_eq(redlock_connect(lists_with_a_password[_i], &given, &made, &result), REDLOCK_OK);
    redlock_close(&made, NULL, &result);
    ck_assert_uint_eq(test_allocator_live(allocator), 0);
}

#ifndef REDLOCK_WITH_TLS
TEST(client, library_without_tls_refuses_a_list_that_requires_it)
{
    redlock_client *made;
    ck_assert_int_eq(redlock_connect("127.0.0.1:1,rediss://127.0.0.1:2", NULL, &made, &result), REDLOCK_INVALID);
    ck_assert_ptr_null(made);
    ck_assert_ptr_nonnull(strstr(result.text, "built without TLS"));
}
#endif

#define FIELD(name) #name, offsetof(redlock_options, name)

static const struct {
    const char *name;
    size_t field;
    uint32_t least, most;
} bounds[] = {
    {FIELD(guard), 0, 1},
    {FIELD(node_timeout_ms), 1, 3600000},
    {FIELD(connect_timeout_ms), 1, 3600000},
    {FIELD(silence_limit_ms), 10, 3600000},
    {FIELD(backoff_max_ms), 1, 3600000},
    {FIELD(drift_ppm), 0, 500000},
    {FIELD(pending_max), 16, 1000000},
    {FIELD(undos_max), 16, 1000000},
    {FIELD(operations_max), 1, 10000000},
    {FIELD(leave_locks), 0, 1},
    {FIELD(tls_no_verify), 0, 1},
    {FIELD(database), 0, 1000000},
    {FIELD(log_level), REDLOCK_LOG_ERROR, REDLOCK_LOG_DEBUG},
    {FIELD(renewal_percent), 10, 80},
    {FIELD(max_ttl_ms), 10000, 86400000}, /* 10000 is the ttl */
};

static void set_field(size_t field, uint32_t value)
{
    memcpy((char *)&given + field, &value, sizeof value);
}

TEST_ROWS(client, each_number_has_its_bounds, ROWS(bounds))
{
    const uint32_t wrong[] = {bounds[_i].most + 1, UINT32_MAX, bounds[_i].least - 1}; /* 0 - 1: UINT32_MAX again */
    set_field(bounds[_i].field, bounds[_i].least);
    ck_assert_int_eq(read_given(), REDLOCK_OK);
    set_field(bounds[_i].field, bounds[_i].most);
    ck_assert_int_eq(read_given(), REDLOCK_OK);
    for (int i = 0; i < ROWS(wrong); i++) {
        set_field(bounds[_i].field, wrong[i]);
        assert_refused(bounds[_i].name);
    }
}

static const struct {
    uint32_t guard, ttl_ms, minimum_validity_ms, drift_ppm;
    const char *words; /* NULL: accepted */
} ttls[] = {
    {1, 30001, 1, 10000, "ttl_ms is 30001, above the deployment's max_ttl_ms of 30000"},
    {0, 30001, 1, 10000, NULL},
    {0, 0, 1, 10000, "ttl_ms is 0; it must be from 1"},
    {0, 86400000, 1, 10000, NULL},
    {0, 3, 1, 10000, "it must be at least 4"}, /* drift: 2.03 ms, so 0.97 ms of the required 1 ms are left */
    {0, 4, 1, 10000, NULL},
    {0, 507, 500, 10000, "it must be at least 508"}, /* x - x/100 - 2 >= 500 from x = 507.07 on */
    {0, 508, 500, 10000, NULL},
    {0, 508, 500, 500000, "it must be at least 1004"},
    {0, 508, 0, 500000, "minimum_validity_ms is 0"},
    {0, 508, UINT32_MAX, 500000, "ttl_ms is 508"},
};

TEST_ROWS(client, a_ttl_must_outlast_its_drift, ROWS(ttls))
{
    given.guard = ttls[_i].guard;
    given.ttl_ms = ttls[_i].ttl_ms;
    given.minimum_validity_ms = ttls[_i].minimum_validity_ms;
    given.drift_ppm = ttls[_i].drift_ppm;
    if (ttls[_i].words)
        assert_refused(ttls[_i].words);
    else
        ck_assert_int_eq(read_given(), REDLOCK_OK);
}

TEST(client, allocator_is_complete_or_absent)
{
    const redlock_allocator whole = {test_allocate, test_reallocate, test_release, NULL};
    for (unsigned set = 0; set < 8; set++) {
        given.allocator = (redlock_allocator){set & 1 ? whole.allocate : NULL, set & 2 ? whole.reallocate : NULL,
                                              set & 4 ? whole.release : NULL, NULL};
        if (set == 0 || set == 7)
            ck_assert_int_eq(read_given(), REDLOCK_OK);
        else
            assert_refused("the allocator needs all of");
    }
}

#define TEXT(name) offsetof(redlock_options, name)

/* A text that becomes part of the marker or of a name on the nodes must not be empty either. */
static const struct {
    size_t field, most;           /* 0: any number */
    const char *too_long, *wrong; /* wrong NULL: it may contain anything */
    bool may_be_empty;
} texts[] = {
    {TEXT(prefix), 128, "prefix is longer than 128 bytes", NULL, true},
    {TEXT(password), 511, "password is longer than 511 bytes", NULL, true},
    {TEXT(user), 511, "user is longer than 511 bytes", NULL, true},
    {TEXT(client_name), 128, "client_name is longer than 128 bytes",
     "client_name contains a space or a control character", true},
    {TEXT(deployment), 64, "deployment must be 1 to 64", "deployment must be 1 to 64", false},
    {TEXT(marker_key), 128, "marker_key must be 1 to 128", "marker_key must be 1 to 128", false},
    {TEXT(channel_prefix), 128, "channel_prefix must be 1 to 128", "channel_prefix must be 1 to 128", false},
    {TEXT(label), 63, "label has 64 bytes; it must be 1 to 63", "it must be 1 to 63", true},
    {TEXT(tls_ca_file), 0, NULL, NULL, true},
    {TEXT(tls_ca_directory), 0, NULL, NULL, true},
    {TEXT(tls_key_file), 0, NULL, NULL, true},
    {TEXT(tls_certificate_file), 0, NULL, NULL, true},
    {TEXT(tls_server_name), 0, NULL, NULL, true},
};

static const char **text_of(redlock_options *options, int which)
{
    return (const char **)(void *)((char *)options + texts[which].field);
}

TEST_ROWS(client, each_text_has_its_bounds, ROWS(texts))
{
    static const char *const wrong[] = {"two words", " ", "tab\there", "new\nline", "del\177", "\xc3\xa4", "", NULL};
    char text[1024];
    memset(text, 'x', sizeof text);
    text[texts[_i].most] = '\0';
    given.password = "secret";
    given.prefix = given.client_name = NULL; /* the same as "" */
    given.tls_certificate_file = given.tls_key_file = "file";
    *text_of(&given, _i) = text;
    ck_assert_int_eq(read_given(), REDLOCK_OK);
    ck_assert(completed.prefix && completed.client_name);
    if (!texts[_i].most)
        return;
    text[texts[_i].most] = 'x';
    text[texts[_i].most + 1] = '\0';
    assert_refused(texts[_i].too_long);
    ck_assert_ptr_null(strstr(result.text, "xxx"));
    for (int i = 0; i < ROWS(wrong) - 2 * texts[_i].may_be_empty && texts[_i].wrong; i++) {
        *text_of(&given, _i) = wrong[i];
        assert_refused(texts[_i].wrong);
    }
}

static void assert_defaults(redlock_options *options)
{
    redlock_options defaults = REDLOCK_OPTIONS_INIT;
    ck_assert_uint_eq(options->struct_size, defaults.struct_size);
    ck_assert_uint_eq(options->ttl_ms, defaults.ttl_ms);
    ck_assert_uint_eq(options->minimum_validity_ms, defaults.minimum_validity_ms);
    for (int i = 0; i < ROWS(bounds); i++)
        ck_assert_mem_eq((char *)options + bounds[i].field, (char *)&defaults + bounds[i].field, sizeof(uint32_t));
    for (int i = 0; i < ROWS(texts); i++)
        ck_assert_pstr_eq(*text_of(options, i), *text_of(&defaults, i));
    ck_assert(!options->allocator.allocate);
}

TEST(client, texts_are_copied)
{
    char values[ROWS(texts)][2];
    redlock_options copy;
    for (int i = 0; i < ROWS(texts); i++)
        *text_of(&given, i) = memcpy(values[i], (char[]){(char)('a' + i), '\0'}, 2);
    given.allocator = (redlock_allocator){test_allocate, test_reallocate, test_release, test_allocator_new()};
    copy = given;
    ck_assert(rl_options_copy_strings(&copy));
    for (int i = 0; i < ROWS(texts); i++) {
        ck_assert_str_eq(*text_of(&copy, i), values[i]);
        ck_assert_ptr_ne(*text_of(&copy, i), values[i]);
    }
    rl_options_free_strings(&copy);
}

/* Options that are valid or wrong together. words NULL: accepted. */
static const struct {
    const char *words;
    redlock_options options;
} combinations[] = {
    {"user is set without a password", {.user = "lock"}},
    {"tls_certificate_file and tls_key_file", {.tls_certificate_file = "client.crt"}},
    {"tls_certificate_file and tls_key_file", {.tls_key_file = "client.key"}},
    {NULL, {.tls_certificate_file = "client.crt", .tls_key_file = "client.key"}},
    {"marker_key ends in ':redlock:fence'", {.marker_key = "stock:redlock:fence"}},
    {"marker_key ends in ':redlock:slot:NUMBER'", {.marker_key = "stock:redlock:slot:7"}},
    {"fence_ttl_ms is 999", {.fence_ttl_ms = 999}},
};

/* 0 is no renewal, and a fencing token that is kept forever. */
TEST_ROWS(client, options_are_checked_together, ROWS(combinations))
{
    const redlock_options *set = &combinations[_i].options;
    given.user = set->user;
    given.tls_certificate_file = set->tls_certificate_file;
    given.tls_key_file = set->tls_key_file;
    given.marker_key = set->marker_key ? set->marker_key : given.marker_key;
    given.renewal_percent = set->renewal_percent;
    given.fence_ttl_ms = set->fence_ttl_ms;
    if (combinations[_i].words)
        assert_refused(combinations[_i].words);
    else
        ck_assert_int_eq(read_given(), REDLOCK_OK);
}

/* --- Structs of another size --- */

TEST(client, impossible_struct_size_is_refused)
{
    given.struct_size = 0;
    assert_refused("struct_size is 0");
    given.struct_size = sizeof given; /* by hand: the other fields may be 0 instead of their defaults */
    assert_refused("the options are not initialised");
    given.struct_size = REDLOCK_STRUCT_SIZE(char[sizeof(size_t) - 1]);
    assert_refused("REDLOCK_OPTIONS_INIT");
    given.struct_size = REDLOCK_STRUCT_SIZE(char[sizeof given + 1]);
    assert_refused("no newer than the library");
    given.struct_size = REDLOCK_STRUCT_SIZE(size_t); /* a header with no other field */
    ck_assert_int_eq(read_given(), REDLOCK_OK);
    ck_assert_uint_eq(completed.ttl_ms, 10000);
}

/* The functions do what the macros do, in a struct of any size. */
TEST(client, an_init_function_sets_the_defaults_and_no_more_bytes)
{
    const redlock_acquire_options acquire_defaults = REDLOCK_ACQUIRE_OPTIONS_INIT;
    const redlock_call_options call_defaults = REDLOCK_CALL_OPTIONS_INIT;
    redlock_acquire_options acquire;
    redlock_call_options call;
    char larger[2 * sizeof given];
    redlock_options_init((redlock_options *)(void *)larger, sizeof larger); /* of a newer header */
    memcpy(&given, larger, sizeof given);
    assert_refused("no newer than the library");
    given.struct_size = REDLOCK_STRUCT_SIZE(redlock_options);
    assert_defaults(&given);
    ck_assert_int_eq(larger[sizeof larger - 1], 0);
    redlock_acquire_options_init(&acquire, sizeof acquire);
    redlock_call_options_init(&call, sizeof call);
    ck_assert_mem_eq(&acquire, &acquire_defaults, sizeof acquire);
    ck_assert_mem_eq(&call, &call_defaults, sizeof call);
    memset(&given, 0x55, sizeof given);
    redlock_options_init(&given, offsetof(redlock_options, drift_ppm)); /* of an older one */
    ck_assert_uint_eq(given.drift_ppm, 0x55555555);
    ck_assert_int_eq(read_given(), REDLOCK_OK);
    assert_defaults(&completed);
    redlock_options_init(NULL, sizeof given);
    ck_assert_int_eq(rl_options_read(NULL, &completed, &result), REDLOCK_OK);
    assert_defaults(&completed);
}

/* --- Acquire options --- */

static redlock_acquire_options asked, answered;

static void setup_acquire(void)
{
    setup();
    asked = (redlock_acquire_options)REDLOCK_ACQUIRE_OPTIONS_INIT;
    given.ttl_ms = 700;
    given.minimum_validity_ms = 70;
}

static int read_asked(void)
{
    return rl_options_read_acquire(&asked, &given, &answered, &result);
}

TEST_CASE(acquire, setup_acquire, fixtures_end);

TEST(acquire, an_acquire_takes_the_clients_settings)
{
    ck_assert_int_eq(rl_options_read_acquire(NULL, &given, &answered, &result), REDLOCK_OK);
    ck_assert_uint_eq(answered.ttl_ms, 700);
    ck_assert_uint_eq(answered.minimum_validity_ms, 70);
    ck_assert_int_eq(answered.wait_ms, 0);
    asked.ttl_ms = 90;
    asked.minimum_validity_ms = 9;
    asked.wait_ms = REDLOCK_FOREVER;
    ck_assert_int_eq(read_asked(), REDLOCK_OK);
    ck_assert_uint_eq(answered.ttl_ms, 90);
    ck_assert_uint_eq(answered.minimum_validity_ms, 9);
    ck_assert_int_eq(answered.wait_ms, REDLOCK_FOREVER);
    ck_assert_int_eq(rl_options_read_acquire(REDLOCK_WAIT_MS(5000), &given, &answered, &result), REDLOCK_OK);
    ck_assert_int_eq(answered.wait_ms, 5000);
    ck_assert_uint_eq(answered.ttl_ms, 700);
}

static const struct {
    const char *text;
    redlock_acquire_options options;
} contradictions[] = {
    {"keep_waiting is 7; it must be from 0 to 1", {.keep_waiting = 7}},
    {"all_answers is 2; it must be from 0 to 1", {.all_answers = 2}},
    {"no_renewal is 4294967295; it must be from 0 to 1", {.no_renewal = UINT32_MAX}},
    {"shared is 2; it must be from 0 to 1", {.shared = 2}},
    {"fence is 2; it must be from 0 to 1", {.fence = 2}},
    {"permits is 33; it must be from 0 to 32", {.permits = REDLOCK_PERMITS_MAX + 1}},
    {"permits_wanted is 4; it must be at most permits, which is 3", {.permits = 3, .permits_wanted = 4}},
    {"permits cannot be combined", {.permits = 1, .shared = 1}},
    {"permits cannot be combined", {.permits = 1, .fence = 1}},
    {"permits cannot be combined", {.permits = 1, .also_count = 1}},
    {"any is 2; it must be from 0 to 1", {.any = 2}},
    {"cap_ms is 699, shorter than the ttl of 700 ms", {.cap_ms = 699}},
    {"cap_ms is 1999, shorter than the ttl of 2000 ms", {.cap_ms = 1999, .ttl_ms = 2000}},
    {"at_least_ms is 30001; it must be from 0 to 30000, the deployment's max_ttl_ms", {.at_least_ms = 30001}},
    {"ttl_ms is 30001, above the deployment's max_ttl_ms of 30000", {.ttl_ms = 30001}},
    {"ttl_ms is 60", {.ttl_ms = 60}}, /* less than the client's minimum validity */
    {"wait_ms is -2; it must be 0, more, or REDLOCK_FOREVER", {.wait_ms = -2}},
    {"no newer than the library", {.struct_size = REDLOCK_STRUCT_SIZE(redlock_acquire_options) + 8}},
    {"REDLOCK_ACQUIRE_OPTIONS_INIT", {.struct_size = sizeof(redlock_acquire_options)}},
};

TEST_ROWS(acquire, an_acquire_does_not_contradict_itself, ROWS(contradictions))
{
    asked = contradictions[_i].options;
    asked.struct_size = asked.struct_size ? asked.struct_size : REDLOCK_STRUCT_SIZE(redlock_acquire_options);
    ck_assert_int_eq(read_asked(), REDLOCK_INVALID);
    ck_assert_ptr_nonnull(strstr(result.text, contradictions[_i].text));
}

TEST_PROGRAM("options")
