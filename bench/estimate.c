#include "estimate.h"

#include <math.h>
#include <stdlib.h>

static int ascending(const void *left, const void *right)
{
    const double *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

/* Number of lowest values, and of highest values, outside the interval: the largest number of heads that `count`
 * fair coins show or stay below with a probability of at most 2.5 %. Fewer than six values have no such interval;
 * their range is used instead. */
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
