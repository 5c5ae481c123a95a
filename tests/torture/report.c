#include "report.h"

#include <stdlib.h>
#include <string.h>

/* Pixels. */
enum { LEFT = 110, WIDTH = 1400, LANE = 26, BAR = 18, GAP = 40, TOP = 70, ROW_SECONDS = 60, ROWS_MAX = 20 };
enum { NODE_LANES = 5, CLIENT_LANE = 5, RESOURCE_LANES = 3, LANES = 9 };

bool report_is_clean(const struct check_summary *summary)
{
    size_t violations = 0;
    for (unsigned i = 0; i < CHECK_PROMISES; i++)
        violations += summary->violations[i];
    return violations == 0 && summary->holds > 0;
}

void report_text(FILE *out, const struct check_summary *summary, uint64_t seed, bool guard, bool namespaces)
{
    double seconds = (double)(summary->end - summary->begin) / 1e9;
    fprintf(out, "torture: %.0f s, seed %llu, guard %s, %s\n", seconds, (unsigned long long)seed, guard ? "on" : "off",
            namespaces ? "a network namespace for each node" : "loopback");
    fprintf(out, "  %zu faults; %zu acquires, %zu locks held by %zu workers (%.0f a second), %zu with tokens\n",
            summary->faults, summary->attempts, summary->holds, summary->clients, (double)summary->holds / seconds,
            summary->fences);
    fprintf(out, "  %zu losses told, half of them within %.1f ms of the end, the latest %.1f ms after it\n",
            summary->losses, (double)summary->median_told_us / 1e3, (double)summary->latest_told_us / 1e3);
    for (unsigned i = 0; i < CHECK_PROMISES; i++) {
        if (summary->violations[i])
            fprintf(out, "  %-13s BROKEN %zu times\n", check_promise_names[i], summary->violations[i]);
        else
            fprintf(out, "  %-13s kept\n", check_promise_names[i]);
    }
}

/* ---------------------------------------------------------------------------------------------------------- picture */

struct picture {
    FILE *out;
    uint64_t begin;
    double row_ns;
    unsigned rows;
};

static unsigned row_of(const struct picture *picture, uint64_t time)
{
    unsigned row = (unsigned)((double)(time - picture->begin) / picture->row_ns);
    return row < picture->rows ? row : picture->rows - 1;
}

static double x_of(const struct picture *picture, unsigned row, uint64_t time)
{
    double in_row = (double)(time - picture->begin) - row * picture->row_ns;
    double x = LEFT + in_row / picture->row_ns * WIDTH;
    return x < LEFT ? LEFT : x > LEFT + WIDTH ? LEFT + WIDTH : x;
}

static unsigned y_of(unsigned row, unsigned lane)
{
    return TOP + row * (LANES * LANE + GAP) + lane * LANE;
}

/* Draws the bar in each row that it reaches. */
static void bar(const struct picture *picture, unsigned lane, uint64_t from, uint64_t to, const char *style,
                const char *title)
{
    for (unsigned row = row_of(picture, from); row <= row_of(picture, to); row++) {
        double left = x_of(picture, row, from), right = x_of(picture, row, to);
        fprintf(picture->out, "<rect x=\"%.1f\" y=\"%u\" width=\"%.1f\" height=\"%d\" %s><title>%s</title></rect>\n",
                left, y_of(row, lane), right - left < 0.6 ? 0.6 : right - left, BAR, style, title);
    }
}

static const char *fault_colour(const char *what)
{
    static const struct {
        const char *what, *colour;
    } colours[] = {{"kill", "#c0392b"},  {"majority", "#7b241c"}, {"stop", "#e67e22"}, {"cut", "#8e44ad"},
                   {"hold", "#bb8fce"},  {"delay", "#f4d03f"},    {"drop", "#5d6d7e"}, {"flush+drop", "#2471a3"},
                   {"flush", "#5dade2"}, {"clock", "#1e8449"}};
    for (size_t i = 0; i < sizeof colours / sizeof *colours; i++)
        if (strcmp(colours[i].what, what) == 0)
            return colours[i].colour;
    return "#999999";
}

static void draw_legend(const struct picture *picture)
{
    static const char *const whats[] = {"kill",  "majority", "stop",       "cut",   "hold",
                                        "delay", "drop",     "flush+drop", "flush", "clock"};
    for (unsigned i = 0; i < sizeof whats / sizeof *whats; i++)
        fprintf(picture->out,
                "<rect x=\"%u\" y=\"36\" width=\"14\" height=\"14\" fill=\"%s\"/><text x=\"%u\" y=\"48\">%s</text>\n",
                LEFT + i * 105, fault_colour(whats[i]), LEFT + i * 105 + 20, whats[i]);
}

static void draw_faults(const struct picture *picture, const struct check *check)
{
    const struct check_fault *faults;
    size_t count = check_faults(check, &faults);
    for (size_t i = 0; i < count; i++) {
        char style[64], title[96];
        unsigned lane = faults[i].target < NODE_LANES ? faults[i].target : CLIENT_LANE;
        snprintf(style, sizeof style, "fill=\"%s\" opacity=\"0.85\"", fault_colour(faults[i].what));
        snprintf(title, sizeof title, "%s %u", faults[i].what, faults[i].target % 100);
        bar(picture, lane, faults[i].begin, faults[i].end > faults[i].begin ? faults[i].end : faults[i].begin, style,
            title);
    }
}

/* Each client process has its own color, so that a change of holders is visible. */
static unsigned hue(const char *who)
{
    return ((unsigned)who[1] - '0') * 45 % 360;
}

static void draw_holds(const struct picture *picture, const struct check *check)
{
    const struct check_hold *holds;
    size_t count = check_holds(check, &holds);
    for (size_t i = 0; i < count; i++) {
        char style[128], title[96];
        unsigned resource = (unsigned)holds[i].resource[1] - '0';
        if (!holds[i].held || resource >= RESOURCE_LANES)
            continue;
        snprintf(style, sizeof style, holds[i].violates ? "fill=\"red\" stroke=\"#600\"" : "fill=\"hsl(%u,55%%,%u%%)\"",
                 hue(holds[i].who),
                 holds[i].who[0] == 'b'   ? 40
                 : holds[i].who[0] == 'c' ? 20
                                          : 62);
        snprintf(title, sizeof title, "%s %s %s", holds[i].who, holds[i].resource, holds[i].lost ? "lost" : "");
        bar(picture, CLIENT_LANE + 1 + resource, holds[i].held, check_hold_end(&holds[i]), style, title);
    }
}

static void draw_lanes(const struct picture *picture, unsigned row)
{
    double step = picture->row_ns / 6;
    for (unsigned lane = 0; lane < LANES; lane++) {
        unsigned y = y_of(row, lane);
        fprintf(picture->out, "<rect x=\"%d\" y=\"%u\" width=\"%d\" height=\"%d\" fill=\"#f4f4f4\"/>", LEFT, y, WIDTH,
                BAR);
        if (lane < NODE_LANES)
            fprintf(picture->out, "<text x=\"8\" y=\"%u\">node %u</text>\n", y + 14, lane + 1);
        else if (lane == CLIENT_LANE)
            fprintf(picture->out, "<text x=\"8\" y=\"%u\">clients</text>\n", y + 14);
        else
            fprintf(picture->out, "<text x=\"8\" y=\"%u\">lock r%u</text>\n", y + 14, lane - CLIENT_LANE - 1);
    }
    for (unsigned i = 0; i <= 6; i++)
        fprintf(picture->out, "<text x=\"%d\" y=\"%u\" fill=\"#666\">%.0f s</text>\n", LEFT + (int)i * WIDTH / 6 - 8,
                y_of(row, LANES) + 8, (row * picture->row_ns + i * step) / 1e9);
}

void report_svg(const char *path, const struct check *check, const struct check_summary *summary)
{
    double length = (double)(summary->end - summary->begin) + 1;
    struct picture picture = {.out = fopen(path, "we"), .begin = summary->begin, .row_ns = ROW_SECONDS * 1e9};
    if (!picture.out)
        return;
    if (length < picture.row_ns)
        picture.row_ns = length;
    if (length > picture.row_ns * ROWS_MAX)
        picture.row_ns = length / ROWS_MAX;
    picture.rows =
        (unsigned)(length / picture.row_ns) + (length > picture.row_ns * (unsigned)(length / picture.row_ns));
    fprintf(
        picture.out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%u\" font-family=\"sans-serif\" font-size=\"12\" stroke=\"none\">"
        "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
        "<text x=\"8\" y=\"22\" font-size=\"16\">Faults, and who held each lock: %s</text>\n",
        LEFT + WIDTH + 40, y_of(picture.rows, 0),
        report_is_clean(summary) ? "all promises kept" : "PROMISES BROKEN (red)");
    draw_legend(&picture);
    for (unsigned row = 0; row < picture.rows; row++)
        draw_lanes(&picture, row);
    draw_faults(&picture, check);
    draw_holds(&picture, check);
    fputs("</svg>\n", picture.out);
    fclose(picture.out);
}
