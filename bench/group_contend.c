/* 32 processes, one lock, held for 1 ms, with default options. A lone client runs in turn with them. */
#include "apis.h"
#include "contest.h"
#include "groups.h"
#include "report.h"

enum { NODES = 5, ROUNDS = 5, QUICK_ROUNDS = 2, PROCESSES = 32, HOLD_US = 1000 };

enum { LONE, CROWD, CONTESTS };

static const char *target_name(const char *what, const struct contest *contest)
{
    static char name[64];
    snprintf(name, sizeof name, "contend-32/%s/%s", what, contest->api);
    return name;
}

static void judge(const struct api *api, const struct contest *contest, const struct contest *lone)
{
    double failed = contest_sum(contest, CONTEST_OVERLAPS) + contest_sum(contest, CONTEST_FAILURES);
    struct estimate to_lone = contest_ratio(contest, lone);
    report_figure(api->label, "rate of 32 to a lone client's", to_lone, "");
    target_at_most(target_name("overlaps-and-failures", contest), estimate_exact(failed), 0);
    target_at_least(target_name("rate-to-lone-client", contest), to_lone, api->limits.rate_to_lone);
    target_at_most(target_name("wait-p99-ms", contest), contest_estimate(contest, CONTEST_RUNNING_P99), 50);
    target_at_most(target_name("client-cpu-ms", contest), contest_estimate(contest, CONTEST_CPU), 0.25);
    target_at_least(target_name("hand-off-percent", contest), contest_estimate(contest, CONTEST_HAND_OFFS), 99);
    target_at_least(target_name("jain-index", contest), contest_estimate(contest, CONTEST_JAIN), 0.99);
}

void group_contend(struct stage *stage)
{
    static struct contest contests[APIS][CONTESTS];
    unsigned rounds = stage->quick ? QUICK_ROUNDS : ROUNDS;
    stage_open(stage, NODES);
    for (unsigned round = 0; round < rounds; round++)
        for (unsigned api = 0; api < APIS; api++)
            for (unsigned i = 0; i < CONTESTS; i++) {
                struct contest *contest = &contests[api][i];
                if (round == 0)
                    *contest = (struct contest){
                        .api = apis[api].name, .processes = i == LONE ? 1 : PROCESSES, .hold_us = HOLD_US};
                contest_play(contest, stage->nodes, stage->quick ? 2 : 4);
            }
    for (unsigned api = 0; api < APIS; api++) {
        struct contest *of = contests[api];
        for (unsigned i = 0; i < CONTESTS; i++)
            contest_report(&of[i]);
        judge(&apis[api], &of[CROWD], &of[LONE]);
    }
}
