#include "machine.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

static double seconds(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static double used_by(int who)
{
    struct rusage usage;
    getrusage(who, &usage);
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct machine_use machine_use_now(void)
{
    /* user, nice, system, idle, iowait, irq, softirq, steal. Steal is the time that other virtual machines took from
     * our processors. */
    double ticks[8] = {0}, all = 0;
    long per_second = sysconf(_SC_CLK_TCK);
    FILE *file = fopen("/proc/stat", "r");
    if (file) {
        if (fscanf(file, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &ticks[0], &ticks[1], &ticks[2], &ticks[3], &ticks[4],
                   &ticks[5], &ticks[6], &ticks[7]) != 8)
            ticks[0] = 0;
        fclose(file);
    }
    for (unsigned i = 0; i < 8; i++)
        all += ticks[i];
    return (struct machine_use){
        .all = all / (double)per_second,
        .busy = (all - ticks[3] - ticks[4]) / (double)per_second,
        .ours = used_by(RUSAGE_SELF) + used_by(RUSAGE_CHILDREN),
    };
}

double machine_others_percent(const struct machine_use *since)
{
    struct machine_use now = machine_use_now();
    double all = now.all - since->all, others = now.busy - since->busy - (now.ours - since->ours);
    return all > 0 && others > 0 ? 100 * others / all : 0;
}
