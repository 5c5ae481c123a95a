/* Conversion of resource names and tokens from bytes to text, and back. */
#include "src/core/escape.h"

#include "support/test.h"

static const struct {
    const char *bytes;
    size_t size;
    const char *text;
    const char *token; /* the text as a token; NULL: the same as text */
} shown[] = {
    {"reports/daily", 13, "reports/daily", NULL},
    {"gr\xc3\xb6\xc3\x9f", 6, "gr\xc3\xb6\xc3\x9f", NULL},
    {"a b", 3, "a b", "a\\x20b"},
    {"(shared)", 8, "(shared)", "\\x28shared)"},
    {"a\0b\n\x7f", 5, "a\\x00b\\x0a\\x7f", NULL},
    {"\xc3", 1, "\\xc3", NULL},                                     /* half a UTF-8 sequence */
    {"\xc0\xaf\xed\xa0\x80", 5, "\\xc0\\xaf\\xed\\xa0\\x80", NULL}, /* an overlong encoding, and a surrogate */
    {"\xc2\x9b", 2, "\\xc2\\x9b", NULL},                            /* a control character above ASCII */
    {"C:\\x\\temp", 9, "C:\\x\\temp", NULL},
    {"\\x41", 4, "\\x5cx41", NULL},
    {"\\\x01", 2, "\\\\x01", NULL},
};

TEST_CASE(escape, NULL, NULL);

/* That they are read back is checked for every sequence, below. */
TEST_ROWS(escape, bytes_are_shown_as_text_and_as_token, ROWS(shown))
{
    char text[64], token[REDLOCK_TOKEN_TEXT_SIZE];
    size_t size = strlen(shown[_i].text) + 1;
    ck_assert_uint_eq(redlock_escape(shown[_i].bytes, shown[_i].size, text, sizeof text), size);
    ck_assert_str_eq(text, shown[_i].text);
    rl_token_show(shown[_i].bytes, shown[_i].size, token);
    ck_assert_str_eq(token, shown[_i].token ? shown[_i].token : shown[_i].text);
}

/* All sequences of four bytes from an alphabet of bytes with a meaning in either direction. */
TEST(escape, every_sequence_is_read_back)
{
    static const char alphabet[] = "\\x4aF(\xc3\xa4\x9b\n ";
    enum { LETTERS = sizeof alphabet }; /* the NUL included */
    for (unsigned i = 0; i < LETTERS * LETTERS * LETTERS * LETTERS; i++) {
        char bytes[4], text[17], token[REDLOCK_TOKEN_TEXT_SIZE], back[REDLOCK_TOKEN_MAX];
        size_t size;
        for (unsigned at = 0, rest = i; at < sizeof bytes; at++, rest /= LETTERS)
            bytes[at] = alphabet[rest % LETTERS];
        ck_assert_uint_le(redlock_escape(bytes, sizeof bytes, text, sizeof text), sizeof text);
        ck_assert_uint_eq(redlock_unescape(text, back, sizeof back), sizeof bytes);
        ck_assert_mem_eq(back, bytes, sizeof bytes);
        rl_token_show(bytes, sizeof bytes, token);
        ck_assert_int_eq(rl_token_read(token, back, &size, NULL), REDLOCK_OK);
        ck_assert_uint_eq(size, sizeof bytes);
        ck_assert_mem_eq(back, bytes, sizeof bytes);
        ck_assert_ptr_null(strpbrk(token, " \n"));
    }
}

/* --- Holders --- */

#define DIGITS "0123456789abcdef0123456789abcdef01234567"
#define LABEL  "deploy@web-3:4711"
#define LONG   "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde"

static const struct {
    const char *token;
    const char *label; /* "": none */
    int64_t since_s;
} holders[] = {
    {DIGITS "/1764153727/" LABEL, LABEL, 1764153727},
    {DIGITS "/0/a/b", "a/b", 0},
    {DIGITS "/1/" DIGITS, DIGITS, 1},
    {DIGITS "/99999999999/" LONG, LONG, 99999999999},
    {DIGITS, "", 0},
    {DIGITS "/", "", 0},
    {DIGITS "/17/", "", 0},
    {DIGITS "//x", "", 0},
    {DIGITS "/-1/x", "", 0},
    {DIGITS "/999999999999/x", "", 0},
    {DIGITS "/1/" LONG "f", "", 0},
    {DIGITS "/1/two words", "", 0},
    {DIGITS "/1/\x1b[2J", "", 0},
    {DIGITS "/1/gr\xc3\xb6\xc3\x9f", "", 0},
    {"0123456789ABCDEF0123456789abcdef01234567/1/x", "", 0},
    {"g123456789abcdef0123456789abcdef01234567/1/x", "", 0},
    {"0123456789abcdef/1/x", "", 0},
};

TEST_ROWS(escape, only_our_own_tokens_name_their_holder, ROWS(holders))
{
    redlock_holder named, read;
    memset(&named, 'x', sizeof named);
    memset(&read, 'x', sizeof read);
    rl_holder_show(holders[_i].token, strlen(holders[_i].token), &named);
    ck_assert_str_eq(named.label, holders[_i].label);
    ck_assert_int_eq(named.since_s, holders[_i].since_s);
    redlock_holder_read(named.token, &read);
    ck_assert_str_eq(read.label, named.label);
    ck_assert_str_eq(read.token, named.token);
    ck_assert_int_eq(read.since_s, named.since_s);
    ck_assert_ptr_null(strpbrk(named.token, " \x1b"));
}

TEST(escape, the_default_label_is_valid)
{
    char label[REDLOCK_LABEL_SIZE];
    rl_label_default(label);
    ck_assert(rl_label_is_valid(label, strlen(label)));
    ck_assert_ptr_nonnull(strchr(label, ':'));
}

TEST(escape, no_more_is_written_than_fits)
{
    char text[6] = "?????";
    ck_assert_uint_eq(redlock_escape("a\n\xc3\xa4", 4, text, 5), 8);
    ck_assert_str_eq(text, "a"); /* the escape does not fit: it and the rest are left out */
    ck_assert_uint_eq(redlock_escape("ab", 0, NULL, 0), 3);
    ck_assert_uint_eq(redlock_escape(NULL, 0, text, sizeof text), 1);
    ck_assert_str_eq(text, "");
    ck_assert_uint_eq(redlock_unescape("\\x41\\x42", text, 1), 2);
    ck_assert_int_eq(text[0], 'A');
    ck_assert_uint_eq(redlock_unescape(NULL, text, sizeof text), 0);
}

TEST(escape, malformed_token_is_refused_with_the_reason)
{
    static const char *const words[] = {"is NULL", "is empty", "is a remark", "is longer than 128 bytes"};
    char bytes[REDLOCK_TOKEN_MAX], longer[REDLOCK_TOKEN_MAX + 2] = {0};
    const char *const tokens[] = {NULL, "", "(shared)", memset(longer, 'x', REDLOCK_TOKEN_MAX + 1)};
    for (int i = 0; i < ROWS(words); i++) {
        redlock_result result;
        size_t size;
        ck_assert_int_eq(rl_token_read(tokens[i], bytes, &size, &result), REDLOCK_INVALID);
        ck_assert_msg(strstr(result.text, words[i]), "%s", result.text);
    }
}

TEST(escape, empty_and_longest_tokens_are_read_back)
{
    char text[REDLOCK_TOKEN_TEXT_SIZE], bytes[REDLOCK_TOKEN_MAX], zeros[REDLOCK_TOKEN_MAX + 1] = {0};
    size_t size = 1;
    rl_token_show("", 0, text);
    ck_assert_str_eq(text, "(empty)");
    ck_assert_int_eq(rl_token_read(text, bytes, &size, NULL), REDLOCK_OK);
    ck_assert_uint_eq(size, 0);
    rl_token_show(zeros, REDLOCK_TOKEN_MAX, text);
    ck_assert_uint_eq(strlen(text), REDLOCK_TOKEN_TEXT_SIZE - 1);
    ck_assert_int_eq(rl_token_read(text, bytes, &size, NULL), REDLOCK_OK);
    ck_assert_uint_eq(size, REDLOCK_TOKEN_MAX);
    rl_token_show(zeros, REDLOCK_TOKEN_MAX + 1, text);
    ck_assert_str_eq(text, "(129 bytes)");
}

TEST_PROGRAM("escape")
