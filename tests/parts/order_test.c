/* The order of steps between the loop's thread and the others: posted calls, completions, wake-ups and the close. The
 * sources themselves run here, on strands of one thread that are switched before each access to what threads share, in
 * all orders with few preemptions (M. Musuvathi, S. Qadeer, "Iterative Context Bounding for Systematic Testing of
 * Multithreaded Programs", 2007). Memory accesses are sequentially consistent, as those of the sources. */
#include <ev.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <ucontext.h>
#include <unistd.h>

#include "src/client/client.h"
#include "src/client/functions.h"
#include "src/client/lock_events.h"
#include "src/client/loop_thread.h"
#include "src/client/options.h"
#include "src/client/posted.h"
#include "src/core/core.h"
#include "src/core/result.h"
#include "support/test.h"

/* --- All orders --- */

enum { LOOP, CALLER, OTHER, STRANDS, CHOICES = 400, STACK = 64 * 1024, FOREVER = CHOICES };

static struct strand {
    void (*run)(void);
    const int *at; /* it waits while this has the value; NULL: it can run */
    int value, ended;
    unsigned steps; /* that are left until it is held up for good */
    char stack[STACK];
} strand[STRANDS];

static ucontext_t context[STRANDS + 1]; /* the last one is that of the explorer */
static unsigned strands, current, depth, preemptions, most_preemptions, orders;
static unsigned choice[CHOICES], choices; /* the strands that are still to be tried; the lowest one is being tried */
static const char *broken;

static unsigned choose_strand(void)
{
    unsigned able = 0;
    for (unsigned i = 0; i < strands; i++) {
        const struct strand *each = &strand[i];
        able |= !each->ended && each->steps && !(each->at && *each->at == each->value) ? 1u << i : 0;
    }
    if (!able || broken)
        return STRANDS;
    bool may_stay = able & 1u << current;
    if (may_stay && preemptions == most_preemptions)
        able = 1u << current;
    assert(depth < CHOICES);
    if (depth == choices)
        choice[choices++] = able;
    unsigned chosen = (unsigned)__builtin_ctz(choice[depth++]);
    preemptions += may_stay && chosen != current;
    strand[chosen].steps--;
    return chosen;
}

static void go_on(void)
{
    unsigned before = current;
    current = choose_strand();
    if (current != before)
        swapcontext(&context[before], &context[current]);
}

static void run_strand(void)
{
    strand[current].run();
    strand[current].ended = true;
    go_on();
}

static void add_strand(void (*run)(void), unsigned steps)
{
    struct strand *added = &strand[strands];
    ucontext_t *own = &context[strands++];
    added->run = run;
    added->at = NULL;
    added->ended = false;
    added->steps = steps;
    getcontext(own);
    own->uc_stack.ss_sp = added->stack;
    own->uc_stack.ss_size = sizeof added->stack;
    own->uc_link = NULL;
    makecontext(own, run_strand, 0);
}

static void explore(unsigned most)
{
    choices = orders = 0;
    most_preemptions = most;
}

static void run_strands(void)
{
    current = STRANDS;
    go_on();
    ck_assert_msg(!broken, "%s", broken);
    orders++;
}

static bool is_another_order_left(void)
{
    while (choices && !(choice[choices - 1] &= choice[choices - 1] - 1))
        choices--;
    ck_assert(choices || orders > 10);
    return choices;
}

/* --- The system that the sources use --- */

enum { DESCRIPTORS = 4, GONE = -1, MEMORY = 64 * 1024 };

static _Alignas(max_align_t) unsigned char memory[MEMORY]; /* of one order */
static size_t allocated;
static int signals[DESCRIPTORS], descriptors, mutex_held, broadcasts, is_freed;
static redlock_client the_client;
static struct rl_loop_thread *loop_thread;
static struct rl_call *close_call;

/* Before each access to what threads share. */
static void step(void)
{
    if (is_freed && current == CALLER)
        broken = "a thread uses the client after its end";
    go_on();
}

static void wait_while(const int *at, int value)
{
    struct strand *self = &strand[current];
    self->at = at;
    self->value = value;
    step();
    self->at = NULL;
}

static void *allocate(size_t size, void *user)
{
    (void)user;
    size_t at = allocated;
    allocated += (size + 15) / 16 * 16;
    assert(allocated <= MEMORY);
    return memory + at;
}

static void release(void *old, void *user)
{
    (void)old;
    (void)user;
}

static ssize_t set_signals(int descriptor, int value)
{
    step();
    if (signals[descriptor] == GONE)
        broken = "a wake-up is used after its end";
    signals[descriptor] = value;
    return sizeof(uint64_t);
}

static void lock_mutex(void)
{
    wait_while(&mutex_held, true);
    mutex_held = true;
}

static void unlock_mutex(void)
{
    step();
    mutex_held = false;
}

static void wait_for_broadcast(void)
{
    unlock_mutex();
    wait_while(&broadcasts, broadcasts);
    lock_mutex();
}

static void broadcast(void)
{
    step();
    broadcasts++;
}

static void free_client(void)
{
    step();
    is_freed = true;
}

static int end_at_once(struct rl_call *call)
{
    static const redlock_result done = {.status = REDLOCK_OK};
    call->finish(call, &(struct rl_returned){.lock = NULL}, &done);
    return REDLOCK_OK;
}

static void turn(void);

#undef atomic_load
#undef atomic_store
#undef atomic_exchange
#undef atomic_fetch_add
#undef atomic_fetch_sub
#undef atomic_compare_exchange_weak
#undef atomic_compare_exchange_strong
#undef pthread_cleanup_push
#undef pthread_cleanup_pop
#define ORDER                       memory_order_seq_cst
#define atomic_load(at)             (step(), atomic_load_explicit(at, ORDER))
#define atomic_store(at, value)     (step(), atomic_store_explicit(at, value, ORDER))
#define atomic_exchange(at, value)  (step(), atomic_exchange_explicit(at, value, ORDER))
#define atomic_fetch_add(at, value) (step(), atomic_fetch_add_explicit(at, value, ORDER))
#define atomic_fetch_sub(at, value) (step(), atomic_fetch_sub_explicit(at, value, ORDER))
#define atomic_compare_exchange_strong(at, was, value)                                                                 \
    (step(), atomic_compare_exchange_strong_explicit(at, was, value, ORDER, ORDER))
#define atomic_compare_exchange_weak   atomic_compare_exchange_strong
#define pthread_mutex_lock(mutex)      lock_mutex()
#define pthread_mutex_unlock(mutex)    unlock_mutex()
#define pthread_cond_wait(cond, mutex) wait_for_broadcast()
#define pthread_cond_broadcast(cond)   broadcast()
#define pthread_join(thread, value)    wait_while(&strand[LOOP].ended, false)
#define pthread_self()                 ((pthread_t)(current + 1))
#define pthread_cleanup_push(run, arg)                                                                                 \
    {                                                                                                                  \
        void (*const cleanup)(void *) = (run);                                                                         \
        void *const cleaned = (arg);
#define pthread_cleanup_pop(execute)                                                                                   \
    cleanup(cleaned);                                                                                                  \
    }
#define eventfd(initial, flags)                  (signals[descriptors] = 0, descriptors++)
#define write(descriptor, bytes, size)           ((void)(bytes), set_signals(descriptor, 1))
#define read(descriptor, bytes, size)            ((void)(bytes), set_signals(descriptor, 0))
#define close(descriptor)                        set_signals(descriptor, GONE)
#define malloc(size)                             allocate(size, NULL)
#define free(memory)                             release(memory, NULL)
#define ev_run(loop, flags)                      turn()
#define ev_break(loop, how)                      (void)0
#define ev_userdata(loop)                        ((void)(loop), loop_thread)
#define rl_thread_id()                           ((uint64_t)current + 1)
#define rl_client_close(arguments, closed, arg)  (close_call = (arg))
#define rl_client_free(client)                   free_client()
#define rl_client_complain(client, text)         ((void)(client), (void)(text))
#define rl_operation_start(type, arguments, ...) end_at_once(call)

#include "src/client/call.c"
#include "src/client/completions.c"
#include "src/client/loop_thread.c"
#include "src/client/posted.c"
#include "src/core/wakeup.c"

/* --- A client without nodes --- */

enum { OPERATIONS = 3 };

/* As client.c and libev run it: before they poll, and after. */
static void turn(void)
{
    rl_calls_run(&loop_thread->calls);
    rl_completions_post(&loop_thread->completions);
    bool sleeps = rl_calls_fall_asleep(&loop_thread->calls, the_client.core.wakeup);
    if (close_call) {
        the_client.core.closing = true;
        loop_thread_on_closed(&the_client, &(redlock_result){.status = REDLOCK_OK}, close_call);
        return;
    }
    loop_thread_falls_asleep(NULL);
    if (sleeps)
        wait_while(&signals[the_client.core.wakeup->descriptor], 0);
    loop_thread_wakes_up(NULL);
    rl_wakeup_drain(the_client.core.wakeup);
}

static void run_loop(void)
{
    loop_thread_run(loop_thread);
}

static void begin_client(void)
{
    static struct rl_nodes no_nodes;
    static unsigned char here = 1;
    strands = depth = preemptions = 0;
    broken = NULL;
    allocated = 0;
    descriptors = broadcasts = mutex_held = is_freed = false;
    close_call = NULL;
    memset(&the_client, 0, sizeof the_client);
    the_client.core.allocator = (redlock_allocator){.allocate = allocate, .release = release};
    the_client.core.options.operations_max = OPERATIONS;
    the_client.core.owner = &here;
    the_client.core.wakeup = rl_wakeup_create();
    the_client.nodes = &no_nodes;
    the_client.loop_thread = loop_thread = rl_allocate(&the_client.core.allocator, sizeof *loop_thread);
    loop_thread->allocator = the_client.core.allocator;
    rl_completions_open(&loop_thread->completions, &loop_thread->close.completion);
    loop_thread->client = &the_client;
    loop_thread->completions.owner = the_client.core.owner;
    add_strand(run_loop, FOREVER);
}

TEST_CASE(order, NULL, NULL);

/* --- Calls wake the loop --- */

static struct rl_call call[3];
static unsigned ran[3];

static void note_call(struct rl_call *run)
{
    ran[run - call]++;
}

static void post(unsigned number)
{
    call[number] = (struct rl_call){.run = note_call, .arguments = {.client = &the_client}};
    ran[number] = 0;
    rl_loop_thread_post_now(&the_client, &call[number]);
}

static void post_calls(void)
{
    if (current == OTHER) {
        post(2);
        return;
    }
    post(0);
    post(1);
}

/* One thread calls twice. Another calls, and is held up for good after some of its steps. */
TEST_ROWS(order, no_call_is_left_while_the_loop_sleeps, 9)
{
    explore(_i ? 1 : 3);
    do {
        begin_client();
        add_strand(post_calls, FOREVER);
        add_strand(post_calls, (unsigned)_i);
        run_strands();
        ck_assert(ran[0] == 1 && ran[1] == 1);
        ck_assert(ran[2] == 1 || !strand[OTHER].ended);
    } while (is_another_order_left());
}

/* --- Completions wake the dispatching thread, also beside a close --- */

static const struct {
    bool late;          /* the descriptor, behind the first operation */
    bool closes, stays; /* in its callback, until the close has begun */
} rows[] = {{.late = false}, {.late = true}, {.closes = true}, {.closes = true, .stays = true}}, *row;

static unsigned started, called, ended[OPERATIONS];
enum { OPEN, CLOSING, CLOSED };

static int in_callback, state;

static void start(void);

static void on_result(redlock_client *client, const redlock_result *result, void *arg)
{
    (void)client;
    (void)result;
    ended[(uintptr_t)arg]++;
    called++;
    step();
    in_callback = true;
    if (row->stays && current == CALLER)
        wait_while(&state, OPEN);
    start();
}

static void start(void)
{
    static const struct rl_operation_type type = {.size = sizeof(struct rl_operation)};
    struct rl_arguments arguments = {.client = &the_client};
    struct rl_callback callback = {.kind = RL_RESULT_CALLBACK, .result = on_result, .arg = (void *)(uintptr_t)started};
    if (started < OPERATIONS && rl_posted_start(&type, &arguments, callback) == REDLOCK_OK)
        ended[started++] = 0;
}

static void dispatch(void)
{
    if (row->late)
        start();
    int descriptor = redlock_descriptor(&the_client);
    start();
    do {
        wait_while(&signals[descriptor], 0);
        redlock_dispatch(&the_client);
    } while (called < started && !row->closes);
}

static void note_closed(struct rl_call *of, const struct rl_returned *returned, const redlock_result *result)
{
    (void)of;
    (void)returned;
    (void)result;
    step();
    state = CLOSED;
}

/* As redlock_close() does it, while the other thread is in a callback. */
static void close_client(void)
{
    wait_while(&in_callback, false);
    call[0] = (struct rl_call){
        .run = rl_loop_thread_start_close, .finish = note_closed, .arguments = {.client = &the_client}};
    rl_loop_thread_begin_close(&the_client, RL_CLOSING);
    state = CLOSING;
    rl_loop_thread_post_now(&the_client, &call[0]);
    wait_while(&state, CLOSING);
    rl_loop_thread_end(&the_client);
}

/* Each callback starts one more operation, also the last ones, which the closing thread calls. */
TEST_ROWS(order, each_operation_has_its_callback, ROWS(rows))
{
    row = &rows[_i];
    explore(row->closes ? 1 : 2);
    do {
        started = called = 0;
        in_callback = state = OPEN;
        begin_client();
        add_strand(dispatch, FOREVER);
        if (row->closes)
            add_strand(close_client, FOREVER);
        run_strands();
        ck_assert_uint_eq(started, OPERATIONS);
        for (unsigned i = 0; i < OPERATIONS; i++)
            ck_assert_msg(ended[i] == 1, "operation %u: %u callbacks", i, ended[i]);
        for (unsigned i = row->closes ? LOOP : CALLER; i < strands; i++)
            ck_assert_msg(strand[i].ended, "thread %u waits", i);
    } while (is_another_order_left());
}

TEST_PROGRAM("order")
