/*
 * Tests that the simulator's node is a true model. The same random commands and scripts of the library, valid and
 * invalid ones, go to the model and to a real server whose wall clock is held at the model's time. Every reply, every
 * published message and, at the end, every key must be equal, to the millisecond.
 */
#include "simulation/random.h"
#include "src/node/reply.h"
#include "src/node/script.h"
#include "support/cluster.h"
#include "support/fixture.h"
#include "support/node_model.h"
#include "support/raw_client.h"
#include "support/server_program.h"
#include "support/test.h"

#include <ctype.h>

enum { SEEDS = 4, STEPS = 3000, WORDS = 64, PUBLISHED = 64 };

static struct cluster *cluster;
static struct raw_client *real;
static struct raw_client *listener; /* receives the messages that the real server publishes */
static struct sim_server model;
static struct sim_session session;
static struct bytes published[PUBLISHED]; /* the messages that the listener must receive, in RESP */
static size_t published_count;
static int64_t now_us;
static struct sim_random random_stream;
static unsigned seed;
static int step;

static size_t draw(size_t below)
{
    return (size_t)sim_random_below(&random_stream, below);
}

static bool once_in(size_t times)
{
    return draw(times) == 0;
}

#define ONE_OF(list) ((list)[draw(sizeof(list) / sizeof(list)[0])])

/* ------------------------------------------------------------------------------------------------ a command's words */

static struct resp_argument words[WORDS];
static char *texts[WORDS];
static size_t count;

static void add_bytes(const char *bytes, size_t size)
{
    ck_assert_uint_lt(count, WORDS);
    free(texts[count]);
    texts[count] = fixture_allocate(size + 1);
    memcpy(texts[count], bytes, size);
    words[count] = (struct resp_argument){texts[count], size};
    count++;
}

static void add(const char *word)
{
    add_bytes(word, strlen(word));
}

static void add_print(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void add_print(const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    add(text);
}

static const char *command_text(void)
{
    static char text[1024];
    size_t used = 0;
    for (size_t i = 0; i < count && used < sizeof text; i++) {
        struct resp_argument word = i < 2 ? sim_script_name(words[i]) : words[i];
        used += (size_t)snprintf(text + used, sizeof text - used, "'%.*s' ", (int)word.length, word.data);
    }
    return text;
}

/* ------------------------------------------------------------------------------------------------------- both reply */

/* File scope, because a failing test does not return to the code that would free them. */
static struct bytes answer, a, b;

/* The end of one line of a reply, after its CRLF. */
static const char *line_end(const char *line, const char *end)
{
    const char *found = memmem(line, (size_t)(end - line), "\r\n", 2);
    ck_assert_msg(found, "seed %u, step %d, %s: a line without an end: %.*s", seed, step, command_text(),
                  (int)(end - line), line);
    return found + 2;
}

/* Reduces an error to its first word, or to that of the error inside a script's error: before Redis 7 the server
 * puts its own word first. */
static void add_error(struct bytes *out, const char *line, size_t size)
{
    char copy[512], text[256];
    ck_assert_uint_lt(size, sizeof copy);
    memcpy(copy, line, size);
    redisReply error = {.type = REDIS_REPLY_ERROR, .str = copy + 1, .len = size - 3};
    rl_reply_text(&error, text, sizeof text);
    size_t word = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    bytes_print(out, "-%.*s\r\n", word > 1 ? (int)word : 3, word > 1 ? text : "ERR");
}

/* Reduces an error to its kind, and copies the rest of the reply unchanged. */
static void make_canonical(struct bytes *out, const char *reply, size_t size)
{
    const char *at = reply, *end = reply + size;
    out->length = 0;
    while (at < end) {
        const char *next = line_end(at, end);
        if (*at == '-')
            add_error(out, at, (size_t)(next - at));
        else
            bytes_append(out, at, (size_t)(next - at));
        long long bulk = *at == '$' ? strtoll(at + 1, NULL, 10) : -1;
        if (bulk >= 0) {
            bytes_append(out, next, (size_t)bulk + 2);
            next += bulk + 2;
        }
        at = next;
    }
    bytes_append(out, "", 1);
}

static void require_same(const char *what, const char *expected, size_t expected_size, const char *got, size_t got_size)
{
    make_canonical(&a, expected, expected_size);
    make_canonical(&b, got, got_size);
    ck_assert_msg(a.length == b.length && memcmp(a.data, b.data, a.length) == 0,
                  "seed %u, step %d, %s%s\nredis-server says\n%s\nand the model\n%s", seed, step, command_text(), what,
                  expected, got);
}

static long long publish(struct sim_server *server, struct resp_argument channel, struct resp_argument text)
{
    (void)server;
    ck_assert_uint_lt(published_count, PUBLISHED);
    struct bytes *message = &published[published_count++];
    message->length = 0;
    bytes_print(message, "*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$%zu\r\n", channel.length);
    bytes_append(message, channel.data, channel.length);
    bytes_print(message, "\r\n$%zu\r\n", text.length);
    bytes_append(message, text.data, text.length);
    bytes_append(message, "\r\n", 2);
    return 1;
}

static bool kill_session(struct sim_server *server, int64_t id)
{
    (void)server;
    (void)id;
    return false;
}

static const struct sim_server_hooks hooks = {.publish = publish, .kill = kill_session};

static void require_same_publications(void)
{
    for (size_t i = 0; i < published_count; i++) {
        size_t size;
        const char *message = raw_client_reply_bytes(listener, &size);
        bytes_append(&published[i], "", 1);
        require_same(": what is published", message, size, published[i].data, published[i].length - 1);
    }
    published_count = 0;
    ck_assert_uint_eq(raw_client_unread(listener), 0);
}

/* Executes the command in `words` on both. Returns true if the reply was no error. */
static bool execute(void)
{
    struct bytes command = {0};
    size_t size;
    resp_write_command(&command, count, words);
    ck_assert(raw_client_send(real, command.data, command.length));
    bytes_free(&command);

    answer.length = 0;
    sim_server_execute(&model, &session, count, words, now_us, &answer);
    size_t answer_size = answer.length;
    bytes_append(&answer, "", 1);
    const char *expected = raw_client_reply_bytes(real, &size);
    require_same("", expected, size, answer.data, answer_size);
    bool succeeded = expected[0] != '-';
    require_same_publications();
    return succeeded;
}

/* ---------------------------------------------------------------------------------------------------- random values */

static const char *const locks[] = {"lock", "other", "a third"};
static const char *const suffixes[] = {":redlock:queue",  ":redlock:alive",  ":redlock:free",  ":redlock:fence",
                                       ":redlock:slot:0", ":redlock:slot:1", ":redlock:slot:2"};
static const char marker[] = "redlock:marker";
static const char *const tokens[] = {"token-1", "token-2", "0000000000000000000000000000000000000001"};
static const char *const waiters[] = {"w1", "w2", "w3", "w4 1", "w5 r", "w6 r"};
static const char *const lives[] = {"1", "2", "150", "1000", "3000", "5000", "10000", "30000", "86400000"};
static const char *const bounds[] = {"(1", "2", "(1.5", "(1700000000000", "("};
/* IDs of no connection, because the test needs its own. */
static const char *const no_connections[] = {"0", "-1", "soon", "", "1000000"};
static const char *const integers[] = {"0", "1", "2", "-1", "-2", "5", "100", "1000000"};
static const char *const scores[] = {"1",  "2",   "3",   "1.5", "-2.25", "1700000000000", "1700000000000001",
                                     "+4", "1e3", "inf", "-inf"};
/* Redis 8 accepts neither blanks before a float nor a hexadecimal float. Redis 8 and Valkey print floats beyond 2^53
 * with all digits. The model follows Redis 7.0 where all of them agree. */
#define ODD_FLOATS "|soon|+3|007|-|1.5|1e3|inf|(1|(|-5"
#define ODD_VALUES                                                                                                     \
    ODD_FLOATS "|_12|0x10|99999999999999999999|as_long_as_a_hash's_fields_may_be_if_they_are_to_stay_in_order"

static void add_key(void)
{
    if (once_in(30))
        add(marker);
    else
        add_print("%s%s", ONE_OF(locks), draw(3) ? "" : ONE_OF(suffixes));
}

/* One of the alternatives of "A|B|C", each of which may be empty. */
static struct resp_argument choose(struct resp_argument text, char separator)
{
    size_t alternatives = 1;
    for (size_t i = 0; i < text.length; i++)
        alternatives += text.data[i] == separator;
    for (size_t skipped = draw(alternatives); skipped > 0; skipped--) {
        size_t size = (size_t)((const char *)memchr(text.data, separator, text.length) - text.data) + 1;
        text.data += size;
        text.length -= size;
    }
    const char *end = memchr(text.data, separator, text.length);
    text.length = end ? (size_t)(end - text.data) : text.length;
    return text;
}

static void add_with_spaces(struct resp_argument word)
{
    add_bytes(word.data, word.length);
    for (char *at = texts[count - 1]; (at = memchr(at, '_', word.length - (size_t)(at - texts[count - 1])));)
        *at = ' ';
}

static void add_alternative(const char *alternatives)
{
    add_with_spaces(choose(resp_argument_of(alternatives), '|'));
}

static void add_value(void)
{
    static const char binary[] = "a\0b\r\nc";
    size_t kind = draw(12);
    if (kind < 5)
        add(ONE_OF(tokens));
    else if (kind < 9)
        add(ONE_OF(integers));
    else if (kind < 11)
        add_alternative(ODD_VALUES);
    else
        add_bytes(binary, sizeof binary - 1);
}

static void add_number_or_not(const char *number)
{
    if (once_in(12))
        add_alternative(ODD_VALUES);
    else
        add(number);
}

static void add_float_or_not(const char *number)
{
    if (once_in(12))
        add_alternative(ODD_FLOATS);
    else
        add(number);
}

/* A member of a hash or of a sorted set. */
static void add_member(void)
{
    static const char *const members[] = {" seen", " writer", "token-1", "token-2", "", "m"};
    add(once_in(3) ? ONE_OF(members) : ONE_OF(waiters));
}

static void add_keys(void)
{
    size_t keys = draw(4) ? 1 : 1 + draw(3);
    add_print("%zu", keys);
    for (size_t i = 0; i < keys; i++)
        add(ONE_OF(locks));
}

/* Microseconds of a wall clock, which may be days off, or no number. */
static void add_fence(void)
{
    static const int64_t offsets[] = {0, 1, -1, -1000000, 86400000000, 86399000000, 90000000000};
    if (draw(3))
        add_print("%lld", (long long)(now_us + ONE_OF(offsets)));
    else
        add("0");
}

/* What a waiter is to get if another client hands the lock over. */
static void add_offer(void)
{
    if (once_in(2))
        add_print("%040zx %s 7 %s", draw(3), ONE_OF(lives), once_in(2) ? marker : "");
    else
        add("");
}

#define LIST(list) list, sizeof(list) / sizeof *(list)

/* Letters of patterns that stand for a word of a list. */
static const struct {
    char letter;
    void (*add)(const char *word);
    const char *const *words;
    size_t count;
} lists[] = {
    {'w', add, LIST(waiters)},
    {'L', add, LIST(locks)},
    {'T', add, LIST(tokens)},
    {'M', add, LIST(lives)},
    {'x', add, LIST(no_connections)},
    {'t', add_number_or_not, LIST(lives)},
    {'i', add_number_or_not, LIST(integers)},
    {'f', add_float_or_not, LIST(scores)},
    {'b', add, LIST(bounds)},
};

static void add_class(char letter)
{
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (lists[i].letter == letter) {
            lists[i].add(lists[i].words[draw(lists[i].count)]);
            return;
        }
    switch (letter) {
    case 'k':
        add_key();
        return;
    case 'h': /* most likely a hash */
        add_print("%s%s", ONE_OF(locks), once_in(15) ? "" : ":redlock:alive");
        return;
    case 'z': /* most likely a sorted set */
        add_print("%s%s", ONE_OF(locks), once_in(4) ? "" : ":redlock:queue");
        return;
    case 'v':
        add_value();
        return;
    case 'm':
        add_member();
        return;
    case 'K':
        add_keys();
        return;
    case 'F':
        add_fence();
        return;
    case 'O':
        add_offer();
        return;
    case 'S': /* when the waiter began */
        add_print("%lld", (long long)(now_us - (int64_t)draw(4) * 1000));
        return;
    default:
        ck_assert_int_eq(letter, 'C'); /* when the guard began */
        add_print("%lld", (long long)(now_us - 3000000 + (int64_t)draw(6) * 1000000));
    }
}

/* Adds the words of a pattern. A letter stands for a random word of its kind, see add_class(). An underscore in a word
 * is a space. */
static void add_pattern(struct resp_argument pattern)
{
    while (pattern.length > 0) {
        const char *space = memchr(pattern.data, ' ', pattern.length);
        size_t size = space ? (size_t)(space - pattern.data) : pattern.length;
        struct resp_argument word = choose((struct resp_argument){pattern.data, size}, '|');
        if (word.length == 1 && isalpha((unsigned char)word.data[0]))
            add_class(word.data[0]);
        else
            add_with_spaces(word);
        size += space != NULL;
        pattern.data += size;
        pattern.length -= size;
    }
}

/* --------------------------------------------------------------------------------------------------------- commands */

/* Separated by semicolons. */
static const char patterns[] =
    "GET|get k;GETRANGE k 0|1|5 0|2|511;PTTL k;DEL|EXISTS|NONESUCH k;MGET|DEL|EXISTS k k k;PEXPIRE k t|i;"
    "SET k v;SET k v NX;SET k v PX t|i;SET k v px t;SET k v NX PX t;SET k v NX GET PX t|i;SET k v GET;SET k v NX XX;"
    "HGET h m;HMGET h m;HMGET h m m m;HSET h m v;HSET h m v m v;HSET h m v m;HDEL h m m;ZADD z f m;ZREM z m m;ZSCORE z m;"
    "ZRANGE z i i;ZRANGE z i i WITHSCORES;ZRANGEBYSCORE z -inf b|soon;ZRANGEBYSCORE z -inf b LIMIT 0 i;"
    "CLIENT ID;CLIENT SETNAME m;SCRIPT NONESUCH;PUBLISH w v;TIME;SELECT 0";

/* Sometimes removes or adds a word. */
static void spoil_count(void)
{
    if (once_in(40) && count > 1)
        count--;
    else if (once_in(40) && !sim_text_is(words[0], "ZRANGE") && !sim_text_is(words[0], "ZRANGEBYSCORE"))
        add_value();
}

static void say_command(void)
{
    add_pattern(choose(resp_argument_of(patterns), ';'));
    spoil_count();
}

/* ---------------------------------------------------------------------------------------------------------- scripts */

#define RECORD "86400000|86400000|0"
#define MODE   "exclusive|exclusive|shared"
#define GRANT  "T M F " RECORD " " MODE
#define TASK   " S take|take|enqueue T M F " RECORD " "

/* The words after a script's name. */
static const char *const script_words[RL_SCRIPTS][6] = {
    [RL_SCRIPT_RELEASE] = {"1 L T", "1 L T w|", "1 L T w| undo", "1 L T w undo| stays"},
    [RL_SCRIPT_RELEASES] = {"1 L T", "2 lock other T T", "3 lock other a_third T T T", "2 L L T T"},
    [RL_SCRIPT_QUERY] = {"1 L"},
    [RL_SCRIPT_LIST] = {"3 L lock:redlock:queue lock:redlock:alive", "6 lock lock:redlock:queue lock:redlock:alive "
                                                                     "other other:redlock:queue other:redlock:alive"},
    [RL_SCRIPT_EXTEND] = {"1 lock T M", "1 L T M", "2 lock other T M T M", "3 lock other a_third T M T M T M"},
    [RL_SCRIPT_HEAL] = {"1 lock T M", "2 lock other T M T M", "3 lock other a_third T M T M T M"},
    [RL_SCRIPT_GUARD] = {"1 redlock:marker |*|* aa_0_e0_0|aa_0_0_1 |1|0 30000|60000 5|5|3 new|trusted "
                         "0000000000000000|0000000000000001 here|here|elsewhere"},
    [RL_SCRIPT_WAIT] = {"K w0|w1|w2|w3|w4" TASK "exclusive 0 -1 1|0 O", "K w0|w1|w2|w3|w4" TASK "exclusive 0 -1 1|0 O",
                        "K w0_r|w1_r|w2_r|w3_r|w4_r" TASK "shared 0 -1 1|0 O",
                        "K w0_r|w1_r|w2_r|w3_r|w4_r" TASK "shared 3 2|1|0|-1 1|0 O",
                        "K w0|w1|w2|w3|w4" TASK "exclusive 3 2|1|0|-1 1|0 O",
                        "K w0|w1|w2|w3|w4" TASK "exclusive 1|2 0|-1 1|0 O"},
    [RL_SCRIPT_GRANT] = {"K " GRANT " 0 0 0|1", "K " GRANT " 0 0 0|1", "K " GRANT " 1 0 0|1",
                         "K " GRANT " 3 0|1|2 0|1"},
    [RL_SCRIPT_KEEP] = {"1 L keep|heal 1 " GRANT, "2 L L keep|heal 2 " GRANT, "2 L L keep|heal 1 " GRANT " 1 " GRANT,
                        "3 L L L keep|heal 1 " GRANT " 2 " GRANT,
                        "5 L L L L L keep|heal 2 " GRANT " 1 " GRANT " 2 " GRANT,
                        "3 L L L keep|heal 1 " GRANT " 1 " GRANT " 1 " GRANT},
    [RL_SCRIPT_DOWNGRADE] = {"K T M w|", "1 L T M w|", "2 L L T M |"},
    [RL_SCRIPT_FREE] = {"1 L T F " RECORD " " MODE " w|| 0|400", "1 L T F " RECORD " " MODE " w|| 0|400",
                        "1 lock:redlock:slot:1 T F " RECORD " " MODE " w|| 0",
                        "1 other:redlock:slot:1 T F " RECORD " " MODE " w|| 300"},
};

#define WAITERS_KEYS                                                                                                   \
    {                                                                                                                  \
        ":redlock:free", ":redlock:queue", ":redlock:alive"                                                            \
    }
#define ALL_KEYS                                                                                                       \
    {                                                                                                                  \
        ":redlock:free", ":redlock:queue", ":redlock:alive", ":redlock:fence"                                          \
    }

/* The keys that a script names behind each lock's own; and which argument is the number of a semaphore's slots. */
static const struct {
    const char *suffix[4];
    size_t slots;
} helpers[RL_SCRIPTS] = {
    [RL_SCRIPT_RELEASE] = {WAITERS_KEYS, 0},
    [RL_SCRIPT_RELEASES] = {{":redlock:free"}, 0},
    [RL_SCRIPT_QUERY] = {{":redlock:queue", ":redlock:alive"}, 0},
    [RL_SCRIPT_WAIT] = {ALL_KEYS, 8},
    [RL_SCRIPT_GRANT] = {ALL_KEYS, 5},
    [RL_SCRIPT_KEEP] = {{":redlock:fence"}, 0},
    [RL_SCRIPT_DOWNGRADE] = {ALL_KEYS, 0},
    [RL_SCRIPT_FREE] = {ALL_KEYS, 0},
};

/* Puts them behind the locks of the command. */
static void name_all_keys(size_t script)
{
    char *tail[WORDS];
    size_t lock_count = (size_t)atoi(words[2].data), tails = count - 3 - lock_count, slots = 0;
    for (size_t i = 0; i < tails; i++)
        tail[i] = fixture_text("%s", texts[3 + lock_count + i]);
    if (helpers[script].slots)
        slots = (size_t)atoi(tail[helpers[script].slots]);
    else if (script == RL_SCRIPT_QUERY)
        slots = 32;
    count = 3 + lock_count;
    for (size_t i = 0; i < 4 && helpers[script].suffix[i]; i++)
        for (size_t k = 0; k < lock_count; k++)
            add_print("%.*s%s", (int)strcspn(texts[3 + k], ":"), texts[3 + k], helpers[script].suffix[i]);
    for (size_t i = 0; i < slots; i++)
        add_print("%s:redlock:slot:%zu", texts[3], i);
    if (script == RL_SCRIPT_RELEASE && draw(4))
        add(marker);
    size_t keys = count - 3;
    for (size_t i = 0; i < tails; i++) {
        add(tail[i]);
        free(tail[i]);
    }
    free(texts[2]);
    texts[2] = fixture_text("%zu", keys);
    words[2] = resp_argument_of(texts[2]);
}

/* Makes one argument invalid, or removes one. Uses no large numbers, because a script would count up to them. */
static void spoil_script(void)
{
    static const char *const spoilt[] = {"",    "0",   "soon",    "007", "-1", "1.5",
                                         "1e1", " 12", "token-1", "100", "w1", "shared"};
    size_t at = 2 + draw(count - 2);
    if (draw(20))
        return;
    if (draw(3)) {
        const char *word = ONE_OF(spoilt);
        words[at] = resp_argument_of(word);
        return;
    }
    count--;
    memmove(&words[at], &words[at + 1], (count - at) * sizeof *words);
}

static size_t say_script(void)
{
    size_t script = draw(3) ? draw(RL_SCRIPTS) : RL_SCRIPT_WAIT; /* it has the most cases */
    bool whole = draw(4) == 0;
    add(whole ? "EVAL" : "EVALSHA");
    add(whole ? rl_scripts[script].text : rl_scripts[script].sha1);
    size_t variants = 0;
    while (variants < 6 && script_words[script][variants])
        variants++;
    add_pattern(resp_argument_of(script_words[script][draw(variants)]));
    if (script != RL_SCRIPT_GUARD && (script != RL_SCRIPT_RELEASE || draw(8))) /* the user may use only the lock */
        name_all_keys(script);
    spoil_script();
    return script;
}

static void say_load(void)
{
    add("SCRIPT");
    add("LOAD");
    add(rl_scripts[draw(RL_SCRIPTS)].text);
}

/* A marker as another incarnation or another deployment would have written it, or none. */
static void say_marker(void)
{
    static const char *const others[] = {"1 x", "2 abc 1 1 1 new here", "", "1 abc 1 1 1 new here"};
    add("SET");
    add(marker);
    if (once_in(3))
        add(ONE_OF(others));
    else
        add_print("1 %s %lld 30000 5 %s here", once_in(2) ? model.run_id : "abc",
                  (long long)(once_in(3) ? 0 : now_us / 1000 + (int64_t)draw(3000) - 2000),
                  once_in(2) ? "new" : "restarted");
}

/* ---------------------------------------------------------------------------------------- time, and the final state */

static const char *run(const char *first, ...) __attribute__((sentinel));

/* The model's reply, which is that of the server too. */
static const char *run(const char *first, ...)
{
    va_list arguments;
    count = 0;
    va_start(arguments, first);
    for (const char *word = first; word; word = va_arg(arguments, const char *))
        add(word);
    va_end(arguments);
    execute();
    return answer.data;
}

static struct {
    char name[128], member[128];
} seen[512];
static size_t seen_count;

static void note_key(const struct sim_key *key, void *arg)
{
    (void)arg;
    ck_assert_uint_lt(seen_count, sizeof seen / sizeof *seen);
    snprintf(seen[seen_count].name, sizeof seen->name, "%.*s", (int)key->name.length, key->name.data);
    snprintf(seen[seen_count++].member, sizeof seen->member, "%.*s", (int)key->value.length, key->value.data);
}

/* Expired keys disappear when both have received a command for them. Then both have the same number of keys, and
 * these are the keys that the model has. Compares the key's end to the millisecond, and its contents, those of a hash one
 * field after the other, because a server returns them in no particular order. Errors must be equal too: they show the
 * type. */
static void compare_all(void)
{
    seen_count = 0;
    sim_keyspace_each(&model.keys, note_key, NULL);
    for (size_t i = 0; i < seen_count; i++) {
        run("PTTL", seen[i].name, NULL);
        run("GET", seen[i].name, NULL);
        run("HLEN", seen[i].name, NULL);
        run("HGET", seen[i].name, seen[i].member, NULL);
        run("ZRANGE", seen[i].name, "0", "-1", "WITHSCORES", NULL);
    }
    run("DBSIZE", NULL);
}

static void set_time(int64_t microseconds)
{
    now_us = microseconds;
    cluster_hold_clock(cluster, 0, now_us);
}

/* Advances the time by steps that matter to the scripts. Sometimes the time jumps back. */
static void move_time(void)
{
    static const int64_t ms[] = {1,    1,    2,    49,   150,  199,  200,   201,   999,
                                 1000, 1001, 2800, 3000, 3001, 5000, 10000, 12000, 30000};
    if (once_in(60)) {
        compare_all(); /* otherwise an expired key would come back if no command has accessed it yet */
        set_time(now_us - (int64_t)draw(5000000));
    } else if (once_in(400)) {
        set_time(now_us + INT64_C(90000000000));
    } else {
        set_time(now_us + ONE_OF(ms) * 1000 + (once_in(3) ? (int64_t)draw(1000) : 0));
    }
}

/* --------------------------------------------------------------------------------------------------------- the test */

static void learn_id(const char *section, const char *field, char id[41])
{
    raw_client_say(real, "INFO", section, NULL);
    const char *line = strstr(raw_client_reply(real), field);
    ck_assert_ptr_nonnull(line);
    snprintf(id, 41, "%.40s", line + strlen(field));
}

static void learn_ids(void)
{
    learn_id("server", "run_id:", model.run_id);
    learn_id("replication", "master_replid:", model.replid);
    raw_client_say(real, "CLIENT", "ID", NULL);
    session.id = strtoll(raw_client_reply(real), NULL, 10);
}

static void setup(void)
{
    static const char *const arguments[] = {"--enable-debug-command", "yes", NULL};
    const struct cluster_node_options node = {.own_clock = true, .arguments = arguments};
    char reply[64];
    fixtures_begin();
    cluster = cluster_create(1, &(struct cluster_options){.nodes = &node});
    /* With a stopped clock, Redis 8.0.2 deletes expired keys in the background that a command would still find. */
    ck_assert(cluster_command(cluster, 0, reply, sizeof reply, "DEBUG", "SET-ACTIVE-EXPIRE", "0", NULL));
    ck_assert_str_eq(reply, "OK");
    real = raw_client_connect(cluster_port(cluster, 0));
    listener = raw_client_connect(cluster_port(cluster, 0));
    raw_client_say(listener, "PSUBSCRIBE", "*", NULL);
    raw_client_reply(listener);
    model = (struct sim_server){.hooks = &hooks};
    session = (struct sim_session){.id = 0};
    learn_ids();
}

static void teardown(void)
{
    sim_keyspace_clear(&model.keys);
    sim_scripts_close();
    bytes_free(&answer);
    bytes_free(&a);
    bytes_free(&b);
    for (size_t i = 0; i < PUBLISHED; i++)
        bytes_free(&published[i]);
    for (size_t i = 0; i < WORDS; i++) {
        free(texts[i]);
        texts[i] = NULL;
    }
    published_count = 0;
    fixtures_end();
}

static void take_step(unsigned *done)
{
    size_t kind = draw(100);
    count = 0;
    if (kind < 60) {
        size_t script = say_script();
        done[script] += execute();
        return;
    }
    if (kind < 62)
        say_load();
    else if (kind < 63)
        say_marker();
    else
        say_command();
    execute();
}

TEST_CASE_WITHIN(model, setup, teardown, 30);

TEST_ROWS(model, the_model_answers_as_redis_does, SEEDS)
{
    unsigned done[RL_SCRIPTS] = {0};
    seed = (unsigned)_i + 1;
    random_stream = sim_random_stream(seed, 0);
    set_time(INT64_C(1700000000000000));
    for (step = 0; step < STEPS; step++) {
        take_step(done);
        if (once_in(4))
            move_time();
    }
    compare_all();
    for (int i = 0; i < RL_SCRIPTS; i++)
        ck_assert_msg(done[i] > STEPS / 100, "%s ran %u times without an error", rl_scripts[i].name, done[i]);
}

static const struct {
    const char *offer, *undo;
    bool ends;
} offers[] = {{"aa 30000 7 ", "", true}, {"aa 30000 7 ", "undo", true}, {"ab 30000 7 ", "", false}, {"", "", true}};

/* The client holds the lock without a key on this node, where its waiter stays for another acquire. */
TEST_ROWS(model, release_ends_the_offer_of_its_token, ROWS(offers))
{
    const char *text = rl_scripts[RL_SCRIPT_RELEASE].text;
    set_time(INT64_C(1700000000000000));
    run("SET", "lock", "token-1", NULL);
    run("EVAL", rl_scripts[RL_SCRIPT_WAIT].text, "5", "lock", "lock:redlock:free", "lock:redlock:queue",
        "lock:redlock:alive", "lock:redlock:fence", "w1", "1", "enqueue", "ac", "30000", "0", "0", "exclusive", "0",
        "-1", "1", offers[_i].offer, NULL);
    ck_assert_str_eq(run("EVAL", text, "4", "lock", "lock:redlock:free", "lock:redlock:queue", "lock:redlock:alive",
                         "aa", "w1", offers[_i].undo, "stays", NULL),
                     ":0\r\n");
    const char *entry = run("HGET", "lock:redlock:alive", "w1", NULL);
    ck_assert_int_eq(strcmp(entry, "$16\r\n1700000003000.5 \r\n") == 0, offers[_i].ends);
    ck_assert_str_eq(run("ZSCORE", "lock:redlock:queue", "w1", NULL), "$1\r\n1\r\n");
}

static long long life(const char *key)
{
    return strtoll(run("PTTL", key, NULL) + 1, NULL, 10);
}

static void enqueue(const char *waiter, const char *ticket)
{
    run("EVAL", rl_scripts[RL_SCRIPT_WAIT].text, "5", "lock", "lock:redlock:free", "lock:redlock:queue",
        "lock:redlock:alive", "lock:redlock:fence", waiter, ticket, "enqueue", "ac", "30000", "0", "0", "exclusive",
        "0", "-1", "1", "", NULL);
}

static void assert_all_live(long long left_ms)
{
    ck_assert_int_eq(life("lock:redlock:queue"), left_ms);
    ck_assert_int_eq(life("lock:redlock:alive"), left_ms);
    ck_assert_int_eq(life("lock:redlock:free"), left_ms);
}

/* A busy queue does not set its keys' expiries for each waiter, but all keys have one, and it never comes near. The
 * queue is a new key if it was empty, also where its last waiter left without a trace. */
TEST(model, keys_of_a_queue_live_on_with_its_waiters)
{
    set_time(INT64_C(1700000000000000));
    run("SET", "lock", "token-1", NULL);
    enqueue("w1", "1");
    assert_all_live(12000);
    set_time(now_us + 499000);
    enqueue("w2", "2");
    assert_all_live(11501);
    set_time(now_us + 1000);
    enqueue("w1", "1");
    assert_all_live(12000);
    run("DEL", "lock:redlock:queue", NULL);
    enqueue("w3", "3");
    assert_all_live(12000);
    set_time(now_us + 100000);
    enqueue("w3", "3");
    assert_all_live(11900);
}

/* The lines of INFO that the library reads. */
TEST(model, the_model_describes_itself_as_redis_does)
{
    static const char *const sections[] = {"server", "cluster", "replication", "memory", "stats", "persistence"};
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        count = 0;
        add("INFO");
        add(sections[i]);
        answer.length = 0;
        sim_server_execute(&model, &session, count, words, now_us, &answer);
        bytes_append(&answer, "", 1);
        raw_client_say(real, "INFO", sections[i], NULL);
        const char *expected = raw_client_reply(real);
        for (char *line = strtok(strchr(answer.data, '\n') + 1, "\r\n"); line; line = strtok(NULL, "\r\n"))
            ck_assert_msg(strncmp(line, "redis_version:", 14) == 0 || strstr(expected, line), "%s: '%s' is not in\n%s",
                          sections[i], line, expected);
    }
}

int main(void)
{
    enum { EXIT_SKIPPED = 77 };
    Suite *suite = registered_suite("model of a node");
    if (server_program_has(SERVER_AS_MODELLED))
        return run_suite(suite);
    fputs("skipped: the model is of Redis 7.0 and later\n", stderr);
    srunner_free(srunner_create(suite));
    return EXIT_SKIPPED;
}
