/* Random bytes from a system that returns fewer than requested: a signal may shorten or interrupt a request for more
 * than 256 bytes. */
#include "src/core/core.h"
#include "support/test.h"

#include <errno.h>
#include <sys/random.h>

/* The system's results, in order: a number of bytes, a negative errno, or 0 for all requested bytes. */
static long answers[4];
static unsigned asked;

ssize_t getrandom(void *buffer, size_t size, unsigned flags)
{
    long answer = asked < 4 ? answers[asked] : 0;
    ck_assert_uint_eq(flags, GRND_NONBLOCK);
    asked++;
    if (answer < 0) {
        errno = (int)-answer;
        return -1;
    }
    size_t given = answer == 0 || (size_t)answer > size ? size : (size_t)answer;
    memset(buffer, 'r', given);
    return (ssize_t)given;
}

/* What the system returns, and after how many calls there are all bytes; 0: it refuses. */
static const struct {
    long returned[4];
    unsigned calls;
} rows[] = {
    {{0}, 1},
    {{256, 100, 0}, 3},
    {{-EINTR, 256, -EINTR, 0}, 4},
    {{-EAGAIN}, 0}, /* early in the boot */
    {{256, -ENOSYS}, 0},
};

TEST_CASE(random_bits, NULL, NULL);

TEST_ROWS(random_bits, random_bytes_come_by_pieces_or_not_at_all, ROWS(rows))
{
    struct rl_random random = {.left = 0};
    unsigned char bytes[40] = {0};
    memcpy(answers, rows[_i].returned, sizeof answers);
    asked = 0;
    ck_assert_int_eq(rl_random_bytes(&random, bytes, sizeof bytes), rows[_i].calls > 0);
    if (!rows[_i].calls) {
        redlock_client *client;
        redlock_result result;
        asked = 0;
        ck_assert_int_eq(redlock_connect("127.0.0.1", NULL, &client, &result), REDLOCK_SYSTEM);
        ck_assert_str_eq(result.text, "the system has no random bytes yet");
        return;
    }
    ck_assert_uint_eq(asked, rows[_i].calls);
    for (size_t i = 0; i < sizeof bytes; i++)
        ck_assert_uint_eq(bytes[i], 'r');
    ck_assert_uint_eq(random.left, sizeof random.block - sizeof bytes);
}

TEST_PROGRAM("random bits")
