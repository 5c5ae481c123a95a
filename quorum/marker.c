#include "quorum/marker.h"

#include <assert.h>
#include <string.h>

/* A marker that was written this long before the client saw another one is an older copy. */
#define OLDER_US 1000000u

/* ----------------------------------------------------------------------------------------------------------- parsing */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_hexadecimal(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool is_alphanumeric(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_visible(char c)
{
    return c > ' ' && c < 127;
}

struct words {
    const char *at;
    const char *end;
    bool valid; /* so far */
};

/* Copies the next word of these characters, which ends at one space or at the end of the text. */
static void take_word(struct words *words, bool (*belongs)(char), char *to, size_t size)
{
    size_t used = 0;
    while (words->at < words->end && *words->at != ' ' && used + 1 < size && belongs(*words->at))
        to[used++] = *words->at++;
    to[used] = '\0';
    words->valid = words->valid && used > 0 && (words->at == words->end || *words->at == ' ');
    words->at += words->at < words->end;
}

/* Numbers that no client writes, and no reply can carry, make the text invalid. */
static uint64_t take_number(struct words *words, uint64_t most)
{
    char digits[20];
    uint64_t number = 0;
    take_word(words, is_digit, digits, sizeof digits);
    for (const char *digit = digits; *digit; digit++)
        number = number * 10 + (uint64_t)(*digit - '0');
    words->valid = words->valid && number <= most;
    return number;
}

bool quorum_marker_parse(struct quorum_marker *marker, const char *text, size_t size)
{
    struct words words = {text, text + size, true};
    const uint64_t any = UINT64_C(9999999999999999999), milliseconds = UINT64_C(9000000000000);
    words.valid = take_number(&words, 2) == 2;
    take_word(&words, is_alphanumeric, marker->facts.run_id, sizeof marker->facts.run_id);
    take_word(&words, is_hexadecimal, marker->facts.history, sizeof marker->facts.history);
    marker->facts.evicts = words.at < words.end && *words.at == 'e';
    words.at += marker->facts.evicts;
    marker->facts.evicted = take_number(&words, any);
    uint64_t changes = take_number(&words, any);
    marker->facts.swaps = changes % QUORUM_MARKER_TERM;
    marker->facts.term = changes / QUORUM_MARKER_TERM;
    marker->since = take_number(&words, milliseconds);
    marker->written = take_number(&words, any);
    marker->max_ttl = take_number(&words, UINT32_MAX);
    marker->nodes = take_number(&words, UINT32_MAX);
    take_word(&words, is_alphanumeric, marker->why, sizeof marker->why);
    take_word(&words, is_hexadecimal, marker->nonce, sizeof marker->nonce);
    take_word(&words, is_visible, marker->deployment, sizeof marker->deployment);
    return words.valid && words.at == words.end && words.at[-1] != ' '; /* of no text the words are not valid */
}

/* ----------------------------------------------------------------------------------------------------------- judging */

static size_t length_of(const char *text)
{
    size_t length = 0;
    while (text[length])
        length++;
    return length;
}

static bool is_same(const char *one, const char *other)
{
    size_t length = length_of(one);
    return length == length_of(other) && memcmp(one, other, length) == 0;
}

/* Why the server may have lost locks since the marker was written; NULL: it has not. */
static const char *loss(const struct quorum_marker_view *view, const struct quorum_marker *found)
{
    const struct quorum_marker_facts *now = view->facts, *then = &found->facts;
    if (view->jumped)
        return "jumped";
    if (!is_same(now->run_id, then->run_id) || found->since > view->time / 1000)
        return "restarted";
    if (!is_same(now->history, "0") && !is_same(now->history, then->history)) /* a server that cleared it shows 0 */
        return "copied";
    if (now->term > then->term)
        return "promoted";
    if (now->evicted != then->evicted)
        return "evicted";
    if (now->swaps != then->swaps || (!is_same(found->nonce, view->seen_nonce) && found->written < view->seen &&
                                      view->seen - found->written > OLDER_US))
        return "replaced"; /* with older data than this client has seen here */
    return NULL;
}

static void copy(char *to, size_t size, const char *from)
{
    size_t length = length_of(from);
    assert(length < size);
    memcpy(to, from, length);
    to[length] = '\0';
}

static void start_anew(struct quorum_marker *marker, const char *why)
{
    marker->since = QUORUM_MARKER_NOW;
    copy(marker->why, sizeof marker->why, why);
}

enum quorum_marker_verdict quorum_marker_judge(const struct quorum_marker_view *view, const char *found, size_t size,
                                               struct quorum_marker *marker)
{
    if (size == 0) {
        *marker = (struct quorum_marker){.facts = *view->facts, .max_ttl = view->max_ttl, .nodes = view->nodes};
        copy(marker->deployment, sizeof marker->deployment, view->deployment);
        start_anew(marker, view->jumped ? "jumped" : "new");
        return QUORUM_MARKER_WRITE;
    }
    if (!quorum_marker_parse(marker, found, size))
        return QUORUM_MARKER_TAKEN;
    if (!is_same(marker->deployment, view->deployment) || marker->nodes != view->nodes)
        return QUORUM_MARKER_OTHER;
    const char *lost = loss(view, marker);
    char history[sizeof marker->facts.history];
    bool cleared = is_same(view->facts->history, "0") && is_same(view->facts->run_id, marker->facts.run_id);
    copy(history, sizeof history, cleared ? marker->facts.history : view->facts->history);
    bool right = !lost && view->facts->evicts == marker->facts.evicts && marker->max_ttl >= view->max_ttl;
    /* A client that has not heard of the last failover yet knows an earlier term. */
    uint64_t term = marker->facts.term > view->facts->term ? marker->facts.term : view->facts->term;
    marker->facts = *view->facts;
    marker->facts.term = term;
    copy(marker->facts.history, sizeof marker->facts.history, history);
    marker->max_ttl = marker->max_ttl > view->max_ttl ? marker->max_ttl : view->max_ttl;
    if (lost)
        start_anew(marker, lost);
    return right ? QUORUM_MARKER_KEEP : QUORUM_MARKER_WRITE;
}
