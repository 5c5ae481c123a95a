/* Options: defaults, both sides of every bound, smaller structs of older headers, and error texts that name the
 * field. */
#include "src/client/options.h"
#include "src/link/address.h"
#include "support/suite.h"

#include <stdio.h>
#include <string.h>

#include "support/allocator.h"
#include "support/fixture.h"

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

START_TEST(without_options_the_defaults_hold)
{
    ck_assert_int_eq(rl_options_read(NULL, &completed, &result), REDLOCK_OK);
    ck_assert_uint_eq(completed.ttl_ms, 10000);
    ck_assert_uint_eq(completed.minimum_validity_ms, 1);
    ck_assert_uint_eq(completed.node_timeout_ms, 50);
    ck_assert_uint_eq(completed.connect_timeout_ms, 1000);
    ck_assert_uint_eq(completed.silence_limit_ms, 2000);
    ck_assert_uint_eq(completed.backoff_max_ms, 2000);
    ck_assert_uint_eq(completed.drift_ppm, 10000);
    ck_assert_uint_eq(completed.pending_max, 65536);
    ck_assert_uint_eq(completed.undos_max, 8192);
    ck_assert_uint_eq(completed.operations_max, 65536);
    ck_assert_uint_eq(completed.log_level, REDLOCK_LOG_INFO);
    ck_assert_str_eq(completed.prefix, "");
    ck_assert_str_eq(completed.client_name, "redlock");
    ck_assert_ptr_null(completed.password);
    ck_assert(!completed.allocator.allocate);
}
END_TEST

START_TEST(null_texts_are_empty_texts)
{
    given.prefix = given.client_name = NULL;
    ck_assert_int_eq(read_given(), REDLOCK_OK);
    ck_assert_str_eq(completed.prefix, "");
    ck_assert_str_eq(completed.client_name, "");
}
END_TEST

struct bound {
    const char *name;
    size_t field;
    uint32_t least, most;
};

#define BOUND(field, least, most)                                                                                      \
    {                                                                                                                  \
#field, offsetof(redlock_options, field), least, most                                                          \
    }
static const struct bound bounds[] = {
    BOUND(guard, 0, 1),
    BOUND(node_timeout_ms, 1, 3600000),
    BOUND(connect_timeout_ms, 1, 3600000),
    BOUND(silence_limit_ms, 10, 3600000),
    BOUND(backoff_max_ms, 1, 3600000),
    BOUND(drift_ppm, 0, 500000),
    BOUND(pending_max, 16, 1000000),
    BOUND(undos_max, 16, 1000000),
    BOUND(operations_max, 1, 10000000),
    BOUND(leave_locks, 0, 1),
    BOUND(tls_no_verify, 0, 1),
    BOUND(database, 0, 1000000),
    BOUND(log_level, REDLOCK_LOG_ERROR, REDLOCK_LOG_DEBUG),
};
enum { BOUNDS = sizeof bounds / sizeof *bounds };

static void set_field(size_t field, uint32_t value)
{
    memcpy((char *)&given + field, &value, sizeof value);
}

START_TEST(each_number_has_its_bounds)
{
    const struct bound *bound = &bounds[_i];
    set_field(bound->field, bound->least);
    ck_assert_int_eq(read_given(), REDLOCK_OK);
    set_field(bound->field, bound->most);
    ck_assert_int_eq(read_given(), REDLOCK_OK);
    if (bound->least > 0) {
        set_field(bound->field, bound->least - 1);
        assert_refused(bound->name);
    }
    set_field(bound->field, bound->most + 1);
    assert_refused(bound->name);
    set_field(bound->field, UINT32_MAX);
    assert_refused(bound->name);
}
END_TEST

START_TEST(renewal_begins_within_the_ttl_or_never)
{
    static const uint32_t good[] = {0, 10, 33, 80}, wrong[] = {1, 9, 81, 100, UINT32_MAX};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        given.renewal_percent = good[i];
        ck_assert_int_eq(read_given(), REDLOCK_OK);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        given.renewal_percent = wrong[i];
        assert_refused("renewal_percent is");
        assert_refused("from 10 to 80");
    }
}
END_TEST

START_TEST(max_ttl_has_its_bounds)
{
    static const uint32_t wrong[] = {0, 86400001, UINT32_MAX};
    given.max_ttl_ms = 86400000;
    ck_assert_int_eq(read_given(), REDLOCK_OK);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        given.max_ttl_ms = wrong[i];
        assert_refused("max_ttl_ms is");
    }
}
END_TEST

START_TEST(with_the_guard_on_no_ttl_exceeds_max_ttl)
{
    given.ttl_ms = given.max_ttl_ms + 1;
    assert_refused("ttl_ms is 30001, above the deployment's max_ttl_ms of 30000");
    given.guard = 0;
    ck_assert_int_eq(read_given(), REDLOCK_OK);
}
END_TEST

START_TEST(a_ttl_must_outlast_its_drift)
{
    given.guard = 0;
    given.ttl_ms = 0;
    assert_refused("ttl_ms is 0; it must be from 1");
    given.ttl_ms = 86400001;
    assert_refused("ttl_ms is 86400001");
    given.ttl_ms = 86400000;
    ck_assert_int_eq(read_given(), REDLOCK_OK);
    given.ttl_ms = 3; /* drift: 2.03 ms, so 0.97 ms of the required 1 ms are left */
    assert_refused("it must be at least 4");
    given.ttl_ms = 4;
    ck_assert_int_eq(read_given(), REDLOCK_OK);
    given.minimum_validity_ms = 500;
    assert_refused("a minimum_validity_ms of 500");
    given.ttl_ms = 507; /* x - x/100 - 2 >= 500 from x = 507.07 on */
    assert_refused("it must be at least 508");
    given.ttl_ms = 508;
    ck_assert_int_eq(read_given(), REDLOCK_OK);
    given.drift_ppm = 500000;
    assert_refused("it must be at least 1004");
    given.minimum_validity_ms = 0;
    assert_refused("minimum_validity_ms is 0");
    given.minimum_validity_ms = UINT32_MAX;
    assert_refused("ttl_ms is 508");
}
END_TEST

START_TEST(an_allocator_is_whole_or_absent)
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
END_TEST

static const char *long_text(size_t size)
{
    static char text[1024];
    memset(text, 'x', size);
    text[size] = '\0';
    return text;
}

START_TEST(words_that_redis_would_not_take)
{
    static const char *const names[] = {"two words", "tab\there", "new\nline", "del\177", "\xc3\xa4"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        given.client_name = names[i];
        assert_refused("client_name contains a space or a control character");
    }
    given.client_name = long_text(128);
    ck_assert_int_eq(read_given(), REDLOCK_OK);
    given.client_name = long_text(129);
    assert_refused("client_name is longer than 128 bytes");
    given.client_name = "redlock";
    given.prefix = long_text(128);
    ck_assert_int_eq(read_given(), REDLOCK_OK);
    given.prefix = long_text(129);
    assert_refused("prefix is longer than 128 bytes");
}
END_TEST

/* Texts that become part of the marker or of a name on the nodes. */
static const struct {
    const char *name;
    size_t field, most;
} words[] = {
    {"deployment must be 1 to 64", offsetof(redlock_options, deployment), 64},
    {"marker_key must be 1 to 128", offsetof(redlock_options, marker_key), 128},
    {"channel_prefix must be 1 to 128", offsetof(redlock_options, channel_prefix), 128},
};
enum { WORDS = sizeof words / sizeof *words };

static void set_word(int which, const char *word)
{
    memcpy((char *)&given + words[which].field, &word, sizeof word);
}

START_TEST(words_that_the_nodes_would_take_apart)
{
    static const char *const wrong[] = {NULL, "", "two words", " ", "tab\there", "new\nline", "del\177", "\xc3\xa4"};
    set_word(_i, long_text(words[_i].most));
    ck_assert_int_eq(read_given(), REDLOCK_OK);
    set_word(_i, long_text(words[_i].most + 1));
    assert_refused(words[_i].name);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        set_word(_i, wrong[i]);
        assert_refused(words[_i].name);
    }
}
END_TEST

START_TEST(credentials_that_could_not_be_sent_whole)
{
    given.password = long_text(RL_SECRET_SIZE - 1);
    given.user = "lock";
    ck_assert_int_eq(read_given(), REDLOCK_OK);
    given.password = long_text(RL_SECRET_SIZE);
    assert_refused("password is longer than 511 bytes");
    ck_assert_ptr_null(strstr(result.text, "xxx"));
    given.password = "secret";
    given.user = long_text(RL_SECRET_SIZE);
    assert_refused("user is longer than 511 bytes");
    given.user = "lock";
    given.password = NULL;
    assert_refused("user is set without a password");
}
END_TEST

START_TEST(certificate_and_key_need_each_other)
{
    given.tls_certificate_file = "client.crt";
    assert_refused("tls_certificate_file and tls_key_file");
    given.tls_key_file = "client.key";
    ck_assert_int_eq(read_given(), REDLOCK_OK);
    given.tls_certificate_file = NULL;
    assert_refused("tls_certificate_file and tls_key_file");
}
END_TEST

/* --- Structs of another size --- */

START_TEST(a_smaller_struct_is_completed_with_defaults)
{
    given.ttl_ms = 500;
    given.node_timeout_ms = 70;
    given.drift_ppm = UINT32_MAX; /* beyond the size of this older header's struct: ignored */
    given.struct_size = offsetof(redlock_options, drift_ppm);
    ck_assert_int_eq(read_given(), REDLOCK_OK);
    ck_assert_uint_eq(completed.ttl_ms, 500);
    ck_assert_uint_eq(completed.node_timeout_ms, 70);
    ck_assert_uint_eq(completed.drift_ppm, 10000);
    ck_assert_str_eq(completed.client_name, "redlock");
    ck_assert_uint_eq(completed.struct_size, sizeof completed);
}
END_TEST

START_TEST(a_size_that_cannot_be_is_refused)
{
    given.struct_size = 0;
    assert_refused("struct_size is 0");
    given.struct_size = sizeof(size_t) - 1;
    assert_refused("REDLOCK_OPTIONS_INIT");
    given.struct_size = sizeof given + 1;
    assert_refused("no newer than the library");
    given.struct_size = sizeof(size_t); /* a header with no other field */
    ck_assert_int_eq(read_given(), REDLOCK_OK);
    ck_assert_uint_eq(completed.ttl_ms, 10000);
}
END_TEST

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

START_TEST(an_acquire_takes_the_clients_settings)
{
    ck_assert_int_eq(rl_options_read_acquire(NULL, &given, &answered, &result), REDLOCK_OK);
    ck_assert_uint_eq(answered.ttl_ms, 700);
    ck_assert_uint_eq(answered.minimum_validity_ms, 70);
    ck_assert_int_eq(answered.wait_ms, 0);
    ck_assert_uint_eq(answered.resource_size, 0);
    ck_assert_ptr_null(answered.cancellation);
    asked.ttl_ms = 90;
    asked.minimum_validity_ms = 9;
    asked.wait_ms = REDLOCK_FOREVER;
    ck_assert_int_eq(read_asked(), REDLOCK_OK);
    ck_assert_uint_eq(answered.ttl_ms, 90);
    ck_assert_uint_eq(answered.minimum_validity_ms, 9);
    ck_assert_int_eq(answered.wait_ms, REDLOCK_FOREVER);
}
END_TEST

START_TEST(what_an_acquire_cannot_have_is_named)
{
    asked.ttl_ms = 60; /* less than the client's minimum validity */
    ck_assert_int_eq(read_asked(), REDLOCK_INVALID);
    ck_assert_ptr_nonnull(strstr(result.text, "ttl_ms is 60"));
    asked.ttl_ms = 0;
    asked.wait_ms = -2;
    ck_assert_int_eq(read_asked(), REDLOCK_INVALID);
    ck_assert_ptr_nonnull(strstr(result.text, "wait_ms is -2; it must be 0, more, or REDLOCK_FOREVER"));
    asked.wait_ms = INT64_MIN;
    ck_assert_int_eq(read_asked(), REDLOCK_INVALID);
    asked.wait_ms = INT64_MAX;
    ck_assert_int_eq(read_asked(), REDLOCK_OK);
    asked.struct_size = sizeof asked + 8;
    ck_assert_int_eq(read_asked(), REDLOCK_INVALID);
    ck_assert_ptr_nonnull(strstr(result.text, "REDLOCK_ACQUIRE_OPTIONS_INIT"));
    asked.struct_size = offsetof(redlock_acquire_options, ttl_ms);
    asked.ttl_ms = UINT32_MAX;
    ck_assert_int_eq(read_asked(), REDLOCK_OK);
    ck_assert_uint_eq(answered.ttl_ms, 700);
}
END_TEST

static const struct {
    const char *text;
    redlock_acquire_options options;
} contradictions[] = {
    {"fair is 2; it must be 0 or 1", {.fair = 2}},
    {"keep_waiting is 7; it must be 0 or 1", {.keep_waiting = 7}},
    {"no_renewal is 4294967295; it must be 0 or 1", {.no_renewal = UINT32_MAX}},
    {"cap_ms is 699, shorter than the ttl of 700 ms", {.cap_ms = 699}},
    {"cap_ms is 1999, shorter than the ttl of 2000 ms", {.cap_ms = 1999, .ttl_ms = 2000}},
    {"ttl_ms is 30001, above the deployment's max_ttl_ms of 30000", {.ttl_ms = 30001}},
};
enum { CONTRADICTIONS = sizeof contradictions / sizeof *contradictions };

START_TEST(an_acquire_does_not_contradict_itself)
{
    asked = contradictions[_i].options;
    asked.struct_size = sizeof asked;
    ck_assert_int_eq(read_asked(), REDLOCK_INVALID);
    ck_assert_ptr_nonnull(strstr(result.text, contradictions[_i].text));
}
END_TEST

START_TEST(the_macro_for_waiting_is_complete)
{
    const redlock_acquire_options *wait = REDLOCK_WAIT_MS(5000);
    ck_assert_int_eq(rl_options_read_acquire(wait, &given, &answered, &result), REDLOCK_OK);
    ck_assert_int_eq(answered.wait_ms, 5000);
    ck_assert_uint_eq(answered.ttl_ms, 700);
}
END_TEST

/* --- Texts are copied --- */

static void set_all_texts(void)
{
    given.prefix = "p:";
    given.user = "lock";
    given.password = "secret";
    given.tls_ca_file = given.tls_ca_directory = given.tls_certificate_file = given.tls_key_file = "file";
    given.tls_server_name = "name";
}

static void assert_copied(const char *copy, const char *text)
{
    ck_assert_str_eq(copy, text);
    ck_assert_ptr_ne(copy, text);
}

START_TEST(all_texts_are_copied_or_none)
{
    set_all_texts();
    for (size_t k = 1;; k++) {
        struct test_allocator *allocator = test_allocator_new();
        given.allocator = (redlock_allocator){test_allocate, test_reallocate, test_release, allocator};
        redlock_options copy = given;
        test_allocator_fail_at(allocator, k);
        bool copied = rl_options_copy_strings(&copy);
        bool failed = test_allocator_failures(allocator) > 0;
        ck_assert_int_eq(copied, !failed);
        if (copied) {
            assert_copied(copy.prefix, "p:");
            assert_copied(copy.client_name, given.client_name);
            assert_copied(copy.user, "lock");
            assert_copied(copy.password, "secret");
            assert_copied(copy.tls_ca_file, "file");
            assert_copied(copy.tls_ca_directory, "file");
            assert_copied(copy.tls_certificate_file, "file");
            assert_copied(copy.tls_key_file, "file");
            assert_copied(copy.tls_server_name, "name");
            rl_options_free_strings(&copy);
            ck_assert_ptr_null(copy.password);
        } else {
            ck_assert_ptr_eq(copy.password, given.password);
        }
        ck_assert_uint_eq(test_allocator_live(allocator), 0);
        test_allocator_free(allocator);
        if (!failed)
            break;
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("options");
    TCase *client = tcase_create("client"), *acquire = tcase_create("acquire");
    suite_add_tcase(suite, client);
    tcase_add_checked_fixture(client, setup, fixtures_end);
    tcase_add_test(client, without_options_the_defaults_hold);
    tcase_add_test(client, null_texts_are_empty_texts);
    tcase_add_loop_test(client, each_number_has_its_bounds, 0, BOUNDS);
    tcase_add_test(client, renewal_begins_within_the_ttl_or_never);
    tcase_add_test(client, max_ttl_has_its_bounds);
    tcase_add_test(client, with_the_guard_on_no_ttl_exceeds_max_ttl);
    tcase_add_test(client, a_ttl_must_outlast_its_drift);
    tcase_add_test(client, an_allocator_is_whole_or_absent);
    tcase_add_test(client, words_that_redis_would_not_take);
    tcase_add_loop_test(client, words_that_the_nodes_would_take_apart, 0, WORDS);
    tcase_add_test(client, credentials_that_could_not_be_sent_whole);
    tcase_add_test(client, certificate_and_key_need_each_other);
    tcase_add_test(client, a_smaller_struct_is_completed_with_defaults);
    tcase_add_test(client, a_size_that_cannot_be_is_refused);
    tcase_add_test(client, all_texts_are_copied_or_none);
    suite_add_tcase(suite, acquire);
    tcase_add_checked_fixture(acquire, setup_acquire, fixtures_end);
    tcase_add_test(acquire, an_acquire_takes_the_clients_settings);
    tcase_add_test(acquire, what_an_acquire_cannot_have_is_named);
    tcase_add_loop_test(acquire, an_acquire_does_not_contradict_itself, 0, CONTRADICTIONS);
    tcase_add_test(acquire, the_macro_for_waiting_is_complete);
    return run_suite(suite);
}
