#include "estimate.h"

#include <math.h>
#include <stdlib.h>

static int ascending(const void *left, const void *right)
{
    const double *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

/* How many of the lowest, and of the highest, values lie outside the interval: the most heads that `count` fair coins
 * stay at or below with a probability of no more than 2.5 %. Fewer than six values have no such interval; theirs is
 * their range. */
static unsigned outside(unsigned count)
{
    double probability = pow(0.5, count), sum = probability;
    unsigned heads = 0;
    while (sum <= 0.025) {
        probability *= (double)(count - heads) / (double)(heads + 1);
        sum += probability;
        heads++;
    }
    return heads > 0 ? heads - 1 : 0;
}

struct estimate estimate_median(double *values, unsigned count)
{
    if (count == 0)
        return estimate_exact((double)NAN);
    qsort(values, count, sizeof *values, ascending);
    double median = (values[(count - 1) / 2] + values[count / 2]) / 2;
    unsigned skipped = outside(count);
    return (struct estimate){median, values[skipped], values[count - 1 - skipped]};
}

struct estimate estimate_exact(double value)
{
    return (struct estimate){value, value, value};
}
