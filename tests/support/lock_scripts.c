#include "lock_scripts.h"

#include "fixture.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static bool holds_at(const struct fake_script_call *call, size_t key_index, size_t token_index)
{
    assert(call->key_count > key_index && call->argument_count > token_index);
    const struct fake_key *key = fake_node_find(call->node, call->database, &call->keys[key_index]);
    return key != NULL && key->value_length == call->arguments[token_index].length &&
           memcmp(key->value, call->arguments[token_index].data, key->value_length) == 0;
}

/* Arguments: the token, then the ttl. */
static bool lengthen(const struct fake_script_call *call, size_t key_index, size_t token_index)
{
    assert(call->argument_count > token_index + 1);
    int64_t ttl_ms = strtoll(call->arguments[token_index + 1].data, NULL, 10);
    bool ours = holds_at(call, key_index, token_index);
    int64_t left_ms = fake_node_pttl(call->node, call->database, &call->keys[key_index]);
    if (ours && left_ms >= 0 && left_ms < ttl_ms)
        fake_node_set(call->node, call->database, &call->keys[key_index], call->arguments[token_index].data,
                      call->arguments[token_index].length, ttl_ms);
    return ours;
}

void fake_script_compare_and_delete(const struct fake_script_call *call)
{
    resp_write_integer(call->reply,
                       holds_at(call, 0, 0) && fake_node_delete(call->node, call->database, &call->keys[0]));
}

static void extend(const struct fake_script_call *call)
{
    resp_write_integer(call->reply, lengthen(call, 0, 0));
}

static void renew(const struct fake_script_call *call)
{
    char answers[64];
    assert(call->key_count <= sizeof answers);
    for (size_t i = 0; i < call->key_count; i++)
        answers[i] = lengthen(call, i, 2 * i) ? '1' : '0';
    resp_write_bulk(call->reply, answers, call->key_count);
}

static void heal(const struct fake_script_call *call)
{
    for (size_t i = 0; i < call->key_count; i++)
        if (fake_node_find(call->node, call->database, &call->keys[i]) == NULL)
            fake_node_set(call->node, call->database, &call->keys[i], call->arguments[2 * i].data,
                          call->arguments[2 * i].length, strtoll(call->arguments[2 * i + 1].data, NULL, 10));
    renew(call);
}

static void query(const struct fake_script_call *call)
{
    const struct fake_key *key = fake_node_find(call->node, call->database, &call->keys[0]);
    assert(call->key_count == 1);
    resp_write_array(call->reply, 4);
    if (!key)
        resp_write_nil(call->reply);
    else
        resp_write_bulk(call->reply, key->value, key->value_length);
    resp_write_integer(call->reply, fake_node_pttl(call->node, call->database, &call->keys[0]));
    resp_write_integer(call->reply, 0); /* the model has no queue */
    resp_write_array(call->reply, 0);   /* and no semaphores */
}

/* The model has no queue, so each waiter is the first one. It has no fencing records. */
static void wait_for_lock(const struct fake_script_call *call)
{
    assert(call->key_count == 1 && call->argument_count == 13);
    const struct fake_key *key = fake_node_find(call->node, call->database, &call->keys[0]);
    bool take = key == NULL && resp_argument_is(&call->arguments[3], "take");
    int64_t ttl_ms = strtoll(call->arguments[5].data, NULL, 10);
    int64_t remaining = !key ? 0 : fake_node_pttl(call->node, call->database, &call->keys[0]) + 1;
    if (take)
        fake_node_set(call->node, call->database, &call->keys[0], call->arguments[4].data, call->arguments[4].length,
                      ttl_ms);
    bytes_print(call->reply, "*5\r\n:%d\r\n:%lld\r\n:0\r\n:0\r\n:0\r\n", take, (long long)(take ? ttl_ms : remaining));
}

/* Scripts that an inspection executes only to test the rights. */
static void do_nothing(const struct fake_script_call *call)
{
    resp_write_integer(call->reply, 1);
}

/* Each script is identified by the beginning of its first comment. */
static const struct {
    const char *beginning;
    fake_script_handler *model;
} models[] = {
    {"-- Compare and delete", fake_script_compare_and_delete},
    {"-- Extends a lock", extend},
    {"-- Extends several", renew},
    {"-- Sets locks that", heal},
    {"-- Reads who holds", query},
    {"-- Enqueues a waiter", wait_for_lock},
    {"return 1", do_nothing},
    {"local taken = ", do_nothing},
};

void lock_scripts_run(const struct fake_script_call *call)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        if (strncmp(call->script, models[i].beginning, strlen(models[i].beginning)) == 0) {
            models[i].model(call);
            return;
        }
    }
    fixture_fail("there is no model of this script; add one to tests/support/lock_scripts.c:\n%s", call->script);
}
