#include "fake/calls.h"

struct call_arguments call;

void call_begin(void)
{
    memset(&call, 0, sizeof call);
    call.resource = "stock";
    call.limits = (redlock_call_options)REDLOCK_CALL_OPTIONS_INIT;
    call.acquire = (redlock_acquire_options)REDLOCK_ACQUIRE_OPTIONS_INIT;
}

#define COMPLETED (call.no_callback ? NULL : scene_completed)
#define ACQUIRED  (call.no_callback ? NULL : scene_acquired)
#define QUERIED   (call.no_callback ? NULL : scene_queried)

static void scan_found(const redlock_found *found, void *arg)
{
    (void)arg;
    ck_abort_msg("found %s", found->resource.bytes);
}

#define CALL(name, blocking, asynchronous)                                                                             \
    static int call_##name(enum way way)                                                                               \
    {                                                                                                                  \
        return way == BLOCKING ? (blocking) : (asynchronous);                                                          \
    }

CALL(acquire, redlock_acquire(scene.client, call.resource, &call.acquire, &call.got, &call.answer.result),
     redlock_acquire_async(scene.client, call.resource, &call.acquire, ACQUIRED, &call.answer))
CALL(adopt, redlock_adopt(scene.client, call.resource, &call.acquire, SCENE_OTHER, &call.got, &call.answer.result),
     redlock_adopt_async(scene.client, call.resource, &call.acquire, SCENE_OTHER, ACQUIRED, &call.answer))
CALL(release, redlock_release(&call.lock, &call.limits, &call.answer.result),
     redlock_release_async(&call.lock, &call.limits, COMPLETED, &call.answer))
CALL(release_token,
     redlock_release_token(scene.client, call.resource, 0, SCENE_OTHER, &call.limits, &call.answer.result),
     redlock_release_token_async(scene.client, call.resource, 0, SCENE_OTHER, &call.limits, COMPLETED, &call.answer))
CALL(extend, redlock_extend(call.lock, 0, &call.limits, &call.answer.result),
     redlock_extend_async(call.lock, 0, &call.limits, COMPLETED, &call.answer))
CALL(downgrade, redlock_downgrade(call.lock, &call.limits, &call.answer.result),
     redlock_downgrade_async(call.lock, &call.limits, COMPLETED, &call.answer))
CALL(query, redlock_query(scene.client, call.resource, 0, &call.limits, NULL, &call.answer.result),
     redlock_query_async(scene.client, call.resource, 0, &call.limits, QUERIED, &call.answer))
CALL(trust, redlock_trust(scene.client, &call.limits, &call.answer.result),
     redlock_trust_async(scene.client, &call.limits, COMPLETED, &call.answer))
CALL(inspect, redlock_inspect(scene.client, call.resource, 0, &call.limits, &call.answer.result),
     redlock_inspect_async(scene.client, call.resource, 0, &call.limits, COMPLETED, &call.answer))
CALL(scan, redlock_scan(scene.client, call.node, NULL, scan_found, NULL, &call.limits, &call.answer.result),
     redlock_scan_async(scene.client, call.node, NULL, scan_found, NULL, &call.limits, COMPLETED, &call.answer))
CALL(close, redlock_close(&scene.client, &call.limits, &call.answer.result),
     redlock_close_async(&scene.client, &call.limits, COMPLETED, &call.answer))
CALL(ready, redlock_ready(scene.client, call.acquire.wait_ms, &call.answer.result),
     redlock_ready_async(scene.client, call.acquire.wait_ms, COMPLETED, &call.answer))

static const struct {
    const char *name;
    int (*start)(enum way way);
} calls[CALLS] = {
    [CALL_ACQUIRE] = {"acquire", call_acquire}, [CALL_ADOPT] = {"adopt", call_adopt},
    [CALL_RELEASE] = {"release", call_release}, [CALL_RELEASE_TOKEN] = {"release_token", call_release_token},
    [CALL_EXTEND] = {"extend", call_extend},    [CALL_DOWNGRADE] = {"downgrade", call_downgrade},
    [CALL_QUERY] = {"query", call_query},       [CALL_TRUST] = {"trust", call_trust},
    [CALL_INSPECT] = {"inspect", call_inspect}, [CALL_SCAN] = {"scan", call_scan},
    [CALL_CLOSE] = {"close", call_close},       [CALL_READY] = {"ready", call_ready},
};

const char *call_name(unsigned number)
{
    return calls[number].name;
}

int call_start(unsigned number, enum way way)
{
    return calls[number].start(way);
}

int call_run(unsigned number, enum way way)
{
    memset(&call.answer, 0, sizeof call.answer);
    int status = call_start(number, way);
    return way == BLOCKING ? status : scene_wait(scene_started(&call.answer, status));
}

unsigned calls_not_refused(enum way way, unsigned except, const char *words)
{
    unsigned wrong = 0;
    for (unsigned i = 0; i < CALLS; i++) {
        call.answer.result.text[0] = '\0';
        if (!(except & CALL_BIT(i)) &&
            (call_start(i, way) != REDLOCK_INVALID || (way == BLOCKING && !strstr(call.answer.result.text, words))))
            wrong |= CALL_BIT(i);
    }
    return wrong;
}
