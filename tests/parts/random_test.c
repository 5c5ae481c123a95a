/* Random bytes from a system that returns fewer than requested: a signal may shorten or interrupt a request for more
 * than 256 bytes. */
#include "src/core/random.h"
#include "support/suite.h"

#include <errno.h>
#include <string.h>
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

static bool draw(const long told[4])
{
    struct rl_random random = {.left = 0};
    unsigned char bytes[40] = {0};
    memcpy(answers, told, sizeof answers);
    asked = 0;
    bool drawn = rl_random_bytes(&random, bytes, sizeof bytes);
    for (size_t i = 0; drawn && i < sizeof bytes; i++)
        ck_assert_uint_eq(bytes[i], 'r');
    ck_assert(!drawn || random.left == sizeof random.block - sizeof bytes);
    return drawn;
}

START_TEST(by_pieces)
{
    ck_assert(draw((const long[]){0, 0, 0, 0}));
    ck_assert_uint_eq(asked, 1);
    ck_assert(draw((const long[]){256, 100, 0, 0}));
    ck_assert_uint_eq(asked, 3);
    ck_assert(draw((const long[]){-EINTR, 256, -EINTR, 0}));
    ck_assert_uint_eq(asked, 4);
}
END_TEST

START_TEST(not_at_all)
{
    ck_assert(!draw((const long[]){-EAGAIN, 0, 0, 0})); /* early in the boot */
    ck_assert(!draw((const long[]){256, -ENOSYS, 0, 0}));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("random bits");
    TCase *tcase = tcase_create("random");
    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, by_pieces);
    tcase_add_test(tcase, not_at_all);
    return run_suite(suite);
}
