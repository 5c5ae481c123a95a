#include "src/core/result.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct word {
    int value;
    const char *name;
    const char *text;
};

static const struct word statuses[] = {
    {REDLOCK_OK, "REDLOCK_OK", "done"},
    {REDLOCK_HELD, "REDLOCK_HELD", "held by another"},
    {REDLOCK_NO_QUORUM, "REDLOCK_NO_QUORUM", "no majority of the nodes can be reached"},
    {REDLOCK_MISCONFIGURED, "REDLOCK_MISCONFIGURED", "so many nodes refuse for good that there is no majority"},
    {REDLOCK_TOO_SLOW, "REDLOCK_TOO_SLOW", "granted too slowly: not enough validity was left"},
    {REDLOCK_TIMED_OUT, "REDLOCK_TIMED_OUT", "the time to wait has passed"},
    {REDLOCK_CANCELLED, "REDLOCK_CANCELLED", "cancelled"},
    {REDLOCK_LOST, "REDLOCK_LOST", "the lock is no longer held"},
    {REDLOCK_INVALID, "REDLOCK_INVALID",
     "invalid call: check the arguments; call an asynchronous client, and its locks, only from the thread that attached "
     "it, and no client in a forked child or after its close"},
    {REDLOCK_NO_MEMORY, "REDLOCK_NO_MEMORY", "no memory"},
    {REDLOCK_SYSTEM, "REDLOCK_SYSTEM", "the system refused a thread, a descriptor or random bytes"},
    {REDLOCK_CLOCK, "REDLOCK_CLOCK", "no fencing token: this machine's clock and the nodes' are more than a day apart"},
};

static const struct word outcomes[] = {
    {REDLOCK_NODE_PENDING, "pending", ""},     {REDLOCK_NODE_GRANTED, "granted", ""},
    {REDLOCK_NODE_HELD, "held", ""},           {REDLOCK_NODE_ABSENT, "absent", ""},
    {REDLOCK_NODE_REFUSED, "refused", ""},     {REDLOCK_NODE_UNREACHABLE, "unreachable", ""},
    {REDLOCK_NODE_TIMED_OUT, "timed out", ""}, {REDLOCK_NODE_UNATTESTED, "unattested", ""},
};

static const struct word *find(const struct word *words, size_t count, int value)
{
    static const struct word unknown = {0, "unknown", "unknown"};
    for (size_t i = 0; i < count; i++)
        if (words[i].value == value)
            return &words[i];
    return &unknown;
}

const char *redlock_status_name(int status)
{
    return find(statuses, sizeof statuses / sizeof *statuses, status)->name;
}

const char *redlock_status_text(int status)
{
    return find(statuses, sizeof statuses / sizeof *statuses, status)->text;
}

const char *redlock_outcome_name(int outcome)
{
    return find(outcomes, sizeof outcomes / sizeof *outcomes, outcome)->name;
}

#define TEXT(number)                      #number
#define VERSION_TEXT(major, minor, patch) TEXT(major) "." TEXT(minor) "." TEXT(patch)

const char *redlock_version(void)
{
    return VERSION_TEXT(REDLOCK_VERSION_MAJOR, REDLOCK_VERSION_MINOR, REDLOCK_VERSION_PATCH);
}

void rl_result_clear(redlock_result *result, unsigned nodes)
{
    memset(result, 0, offsetof(redlock_result, node));
    memset(result->node, 0, nodes * sizeof *result->node);
    result->text[0] = '\0';
    result->nodes = nodes;
    result->quorum = nodes ? quorum_majority(nodes) : 0;
}

int rl_result_fail(redlock_result *result, int status, const char *format, ...)
{
    if (!result)
        return status;
    rl_result_clear(result, 0);
    result->status = result->cause = status;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(result->text, sizeof result->text, format, arguments);
    va_end(arguments);
    return status;
}

int rl_result_status(enum quorum_verdict verdict)
{
    switch (verdict) {
    case QUORUM_WON:
        return REDLOCK_OK;
    case QUORUM_LOST_HELD:
        return REDLOCK_HELD;
    case QUORUM_UNDECIDED:
    case QUORUM_LOST_NO_QUORUM:
        return REDLOCK_NO_QUORUM;
    case QUORUM_LOST_MISCONFIGURED:
        return REDLOCK_MISCONFIGURED;
    case QUORUM_LOST_TOO_SLOW:
        return REDLOCK_TOO_SLOW;
    case QUORUM_LOST_CLOCK:
        return REDLOCK_CLOCK;
    case QUORUM_LOST_GONE:
        return REDLOCK_LOST;
    case QUORUM_LOST_CANCELLED:
        return REDLOCK_CANCELLED;
    }
    return REDLOCK_NO_QUORUM;
}

void rl_result_count(redlock_result *result, const struct quorum_tally *tally)
{
    result->granted = quorum_tally_count(tally, QUORUM_GRANTED);
    result->held = quorum_tally_count(tally, QUORUM_HELD);
    result->absent = quorum_tally_count(tally, QUORUM_ABSENT);
    result->refused = quorum_tally_count(tally, QUORUM_REFUSED);
    result->unreachable = quorum_tally_count(tally, QUORUM_UNREACHABLE);
    result->timed_out = quorum_tally_count(tally, QUORUM_TIMED_OUT);
    result->unattested = quorum_tally_count(tally, QUORUM_UNATTESTED);
}

int rl_result_outcome(enum quorum_vote vote)
{
    switch (vote) {
    case QUORUM_GRANTED:
        return REDLOCK_NODE_GRANTED;
    case QUORUM_HELD:
        return REDLOCK_NODE_HELD;
    case QUORUM_ABSENT:
        return REDLOCK_NODE_ABSENT;
    case QUORUM_REFUSED:
        return REDLOCK_NODE_REFUSED;
    case QUORUM_UNREACHABLE:
        return REDLOCK_NODE_UNREACHABLE;
    case QUORUM_TIMED_OUT:
        return REDLOCK_NODE_TIMED_OUT;
    case QUORUM_UNATTESTED:
        return REDLOCK_NODE_UNATTESTED;
    case QUORUM_PENDING:
    case QUORUM_VOTES:
        break;
    }
    return REDLOCK_NODE_PENDING;
}

const char *rl_result_loss(enum quorum_loss loss)
{
    static const struct word losses[] = {
        {QUORUM_LOSS_EXPIRED, "expired", ""},
        {QUORUM_LOSS_GONE, "gone on a majority of the nodes", ""},
        {QUORUM_LOSS_CLOCK, "this machine's clock stood still", ""},
        {QUORUM_LOSS_CLOSED, "the client was closed", ""},
    };
    return find(losses, sizeof losses / sizeof *losses, (int)loss)->name;
}

/* A text in the result's buffer. It is truncated at the buffer's end. */
struct text {
    char *at;
    size_t size;
    size_t used;
};

static void __attribute__((format(printf, 2, 3))) add(struct text *text, const char *format, ...)
{
    if (text->used + 1 >= text->size)
        return;
    va_list arguments;
    va_start(arguments, format);
    int wrote = vsnprintf(text->at + text->used, text->size - text->used, format, arguments);
    va_end(arguments);
    if (wrote > 0)
        text->used += (size_t)wrote < text->size - text->used ? (size_t)wrote : text->size - text->used - 1;
}

static unsigned count(const redlock_result *result, int outcome)
{
    unsigned found = 0;
    for (unsigned i = 0; i < result->nodes; i++)
        found += result->node[i].outcome == outcome;
    return found;
}

/* "2 granted, 3 unreachable (10.0.0.1:6379 connection refused; ...)" */
static void add_class(struct text *text, const redlock_result *result, int outcome, const char **separator)
{
    unsigned found = count(result, outcome);
    if (!found)
        return;
    add(text, "%s%u %s", *separator, found, redlock_outcome_name(outcome));
    *separator = ", ";
    if (outcome == REDLOCK_NODE_GRANTED || outcome == REDLOCK_NODE_PENDING)
        return;
    const char *inner = " (";
    for (unsigned i = 0; i < result->nodes; i++) {
        const redlock_node_result *node = &result->node[i];
        if (node->outcome != outcome)
            continue;
        /* A close reports no names, because they end with the client; the nodes' texts begin with them. */
        const char *name = node->name ? node->name : "";
        add(text, "%s%s%s%s", inner, name, name[0] && node->text[0] ? " " : "", node->text);
        inner = "; ";
    }
    add(text, ")");
}

/* If all nodes are pending, the operation ended before its first round: listing them says nothing. */
static bool was_any_asked(const redlock_result *result)
{
    return result->attempts > 0 || count(result, REDLOCK_NODE_PENDING) < result->nodes;
}

const char *redlock_result_text(redlock_result *result)
{
    static const int order[] = {REDLOCK_NODE_GRANTED,    REDLOCK_NODE_HELD,        REDLOCK_NODE_ABSENT,
                                REDLOCK_NODE_REFUSED,    REDLOCK_NODE_UNREACHABLE, REDLOCK_NODE_TIMED_OUT,
                                REDLOCK_NODE_UNATTESTED, REDLOCK_NODE_PENDING};
    if (!result)
        return "";
    if (result->text[0])
        return result->text;
    struct text text = {result->text, sizeof result->text, 0};
    if (result->pending_undos) /* a close */
        add(&text, "closed, with %u undo%s not confirmed (the keys expire)", result->pending_undos,
            result->pending_undos == 1 ? "" : "s");
    else
        add(&text, "%s", redlock_status_text(result->status));
    if (result->cause != result->status)
        add(&text, "; the last attempt: %s", redlock_status_text(result->cause));
    const char *separator = ": ";
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        if (order[i] != REDLOCK_NODE_PENDING || was_any_asked(result))
            add_class(&text, result, order[i], &separator);
    return result->text;
}
