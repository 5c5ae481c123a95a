#include "src/core/escape.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "src/core/core.h"
#include "src/core/result.h"

#define EMPTY_TOKEN "(empty)"

void rl_write(struct rl_writer *writer, const char *format, ...)
{
    size_t left = writer->used < writer->size ? writer->size - writer->used : 0;
    va_list arguments;
    va_start(arguments, format);
    int wrote = vsnprintf(left ? writer->at + writer->used : NULL, left, format, arguments);
    va_end(arguments);
    if (wrote > 0)
        writer->used += (size_t)wrote;
}

int rl_hex_digit(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'a' && digit <= 'f')
        return digit - 'a' + 10;
    return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

/* The byte that the \xNN at the start of the text encodes; -1 if there is no such sequence. */
static int escaped_byte(const char *text, size_t size)
{
    if (size < 4 || text[0] != '\\' || text[1] != 'x' || rl_hex_digit(text[2]) < 0 || rl_hex_digit(text[3]) < 0)
        return -1;
    return rl_hex_digit(text[2]) * 16 + rl_hex_digit(text[3]);
}

/* The size of the UTF-8 character (RFC 3629) at the start; 0 if the bytes are not valid UTF-8. */
static size_t character_size(const unsigned char *bytes, size_t size)
{
    unsigned char first = bytes[0];
    size_t length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    if (length > size)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((bytes[i] & 0xc0) != 0x80)
            return 0;
    if ((first == 0xe0 && bytes[1] < 0xa0) || (first == 0xed && bytes[1] > 0x9f) ||
        (first == 0xf0 && bytes[1] < 0x90) || (first == 0xf4 && bytes[1] > 0x8f))
        return 0;
    return length;
}

/* Control characters of ASCII and of Latin-1 (U+0080 to U+009F): terminals execute both. */
static bool is_control(const unsigned char *bytes, size_t length)
{
    return (length == 1 && (bytes[0] < 0x20 || bytes[0] == 0x7f)) ||
           (length == 2 && bytes[0] == 0xc2 && bytes[1] < 0xa0);
}

void rl_text_tame(char *text, size_t size)
{
    for (size_t at = 0; at < size;) {
        size_t length = character_size((const unsigned char *)text + at, size - at);
        if (length == 0 || is_control((const unsigned char *)text + at, length)) {
            length = length ? length : 1;
            memset(text + at, '?', length);
        }
        at += length;
    }
}

/* The number of bytes at the start to copy unchanged; 0 if the first must be escaped. */
static size_t plain_size(const char *bytes, size_t size, bool is_token)
{
    size_t length = character_size((const unsigned char *)bytes, size);
    if (length > 0 && is_control((const unsigned char *)bytes, length))
        return 0;
    return escaped_byte(bytes, size) >= 0 || (is_token && bytes[0] == ' ') ? 0 : length;
}

/* Writes the sequences that fit completely. Returns the size of the complete text, with its NUL. */
static size_t escape(const char *bytes, size_t size, char *text, size_t text_size, bool is_token)
{
    size_t needed = 0, written = 0;
    for (size_t at = 0; at < size;) {
        size_t plain = is_token && at == 0 && bytes[0] == '(' ? 0 : plain_size(bytes + at, size - at, is_token);
        size_t taken = plain ? plain : 4;
        bool fits = needed == written && written + taken < text_size;
        if (fits && plain)
            memcpy(text + written, bytes + at, plain);
        else if (fits)
            snprintf(text + written, 5, "\\x%02x", (unsigned char)bytes[at]);
        written += fits ? taken : 0;
        needed += taken;
        at += plain ? plain : 1;
    }
    if (text_size > 0)
        text[written] = '\0';
    return needed + 1;
}

size_t redlock_escape(const char *bytes, size_t size, char *text, size_t text_size)
{
    if (!bytes)
        bytes = "";
    return escape(bytes, size ? size : strlen(bytes), text, text_size, false);
}

size_t redlock_unescape(const char *text, char *bytes, size_t size)
{
    size_t count = 0, left = text ? strlen(text) : 0;
    while (left > 0) {
        int escaped = escaped_byte(text, left);
        size_t taken = escaped >= 0 ? 4 : 1;
        char byte = escaped >= 0 ? (char)(unsigned char)escaped : *text;
        if (count < size)
            bytes[count] = byte;
        count++;
        text += taken;
        left -= taken;
    }
    return count;
}

void rl_token_show(const char *bytes, size_t size, char text[REDLOCK_TOKEN_TEXT_SIZE])
{
    if (size == 0)
        snprintf(text, REDLOCK_TOKEN_TEXT_SIZE, EMPTY_TOKEN);
    else if (size > REDLOCK_TOKEN_MAX)
        snprintf(text, REDLOCK_TOKEN_TEXT_SIZE, "(%zu bytes)", size);
    else
        escape(bytes, size, text, REDLOCK_TOKEN_TEXT_SIZE, true);
}

/* ----------------------------------------------------------------------------------------------------------- holders */

static bool is_label_character(char c)
{
    return c > ' ' && c <= '~' && c != '\\';
}

bool rl_label_is_valid(const char *label, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!is_label_character(label[i]))
            return false;
    return size > 0 && size < REDLOCK_LABEL_SIZE;
}

/* A host's name may have any bytes. If it is too long its end goes, not the pid. */
void rl_label_default(char label[REDLOCK_LABEL_SIZE])
{
    char host[REDLOCK_LABEL_SIZE - 12] = "";
    if (gethostname(host, sizeof host) != 0 || !host[0])
        strcpy(host, "unknown");
    host[sizeof host - 1] = '\0';
    snprintf(label, REDLOCK_LABEL_SIZE, "%s:%d", host, (int)getpid());
    for (char *c = label; *c; c++)
        if (!is_label_character(*c))
            *c = '?';
}

/* 40 digits, "/", the seconds since 1970, "/", the label. Other programs write what they want. */
static void read_label(const char *token, size_t size, redlock_holder *holder)
{
    size_t at = RL_RANDOM_TOKEN_SIZE - 1;
    int64_t since_s = 0;
    for (size_t i = 0; i < at; i++)
        if (i >= size || !((token[i] >= '0' && token[i] <= '9') || (token[i] >= 'a' && token[i] <= 'f')))
            return;
    if (at == size || token[at++] != '/')
        return;
    for (; at < size && at < RL_RANDOM_TOKEN_SIZE + 11 && token[at] >= '0' && token[at] <= '9'; at++)
        since_s = 10 * since_s + (token[at] - '0');
    if (at == RL_RANDOM_TOKEN_SIZE || at == size || token[at++] != '/' || !rl_label_is_valid(token + at, size - at))
        return;
    holder->since_s = since_s;
    memcpy(holder->label, token + at, size - at);
    holder->label[size - at] = '\0';
}

void rl_holder_show(const char *token, size_t size, redlock_holder *holder)
{
    holder->since_s = 0;
    holder->label[0] = '\0';
    rl_token_show(token, size, holder->token);
    read_label(token, size, holder);
}

void redlock_holder_read(const char *token, redlock_holder *holder)
{
    if (!holder)
        return;
    holder->since_s = 0;
    holder->label[0] = '\0';
    snprintf(holder->token, sizeof holder->token, "%s", token ? token : "");
    read_label(holder->token, strlen(holder->token), holder); /* a token with a label is its own text */
}

int rl_token_read(const char *text, char bytes[REDLOCK_TOKEN_MAX], size_t *size, redlock_result *result)
{
    *size = 0;
    if (!text || !*text)
        return rl_result_fail(result, REDLOCK_INVALID,
                              "the token is %s; pass the token of the acquire, or one from redlock_query()",
                              text ? "empty" : "NULL");
    if (strcmp(text, EMPTY_TOKEN) == 0)
        return REDLOCK_OK;
    if (text[0] == '(')
        return rl_result_fail(
            result, REDLOCK_INVALID,
            "the token is a remark of redlock_query(), '%.40s'; release a shared lock by its readers' "
            "handles, or delete the key on each node",
            text);
    *size = redlock_unescape(text, bytes, REDLOCK_TOKEN_MAX);
    if (*size > REDLOCK_TOKEN_MAX)
        return rl_result_fail(result, REDLOCK_INVALID,
                              "the token is longer than %d bytes; delete such a key by DEL on each node",
                              REDLOCK_TOKEN_MAX);
    return REDLOCK_OK;
}
