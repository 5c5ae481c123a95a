/* What the client reads from Sentinels and cluster servers, as redlock_node_status_get() shows it. */
#include "scene.h"

#include <string.h>

enum { WITNESSES = 3 };

#define THIRD "c $2@1 &2master - 0 0 3 connected 2640-16383\n"

/* The text for one of the witnesses: "$1" becomes the address of node 1, "^1" its port with a colon, and "&1" the flag of a
 * server that tells of itself. */
static const char *text_for(unsigned witness, const char *format)
{
    static char text[1024];
    size_t used = 0;
    for (const char *c = format; *c; c++) {
        const char *piece = NULL;
        if (strchr("$^&", *c) && c[1] >= '0' && c[1] < '0' + SCENE_NODES) {
            const char *address = fake_server_address(scene.node[c[1] - '0']);
            piece = *c == '$'                     ? address
                    : *c == '^'                   ? strchr(address, ':')
                    : c[1] == '0' + (char)witness ? "myself,"
                                                  : "";
            c++;
        }
        used += (size_t)snprintf(text + used, sizeof text - used, "%.*s", piece ? 100 : 1, piece ? piece : c);
    }
    return text;
}

static bool is_shown(const char *expected)
{
    redlock_node_status status;
    ck_assert_status(redlock_node_status_get(scene.client, 0, &status), REDLOCK_OK);
    return strcmp(status.witnesses, text_for(WITNESSES, expected)) == 0;
}

static void attach(const char *list)
{
    redlock_result result;
    int status = redlock_attach(scene.loop, text_for(WITNESSES, list), &scene.options, &scene.client, &result);
    ck_assert_msg(status == REDLOCK_OK, "%s", redlock_result_text(&result));
}

static void setup(void)
{
    scene_begin(SCENE_NODES);
    scene.options.guard = 1;
    scene.options.max_ttl_ms = scene.options.ttl_ms;
    scene.options.prefix = "{redlock}:"; /* slot 2639 */
    scene.options.marker_key = "{redlock}:marker";
}

SCENE_CASE(witnesses, setup);

/* --- Clusters --- */

/* The first server lists all; the second and the third become witnesses too. */
#define BY_ALL(said) "$0: " said "; $1: " said ", does not count; $2: " said
#define OF_SECOND    BY_ALL("$1, epoch 7")

#define MORE         "d $3@1 master - 0 0 9 connected 7\n"
#define FOUR         MORE MORE MORE MORE

static const struct {
    const char *second, *third, *shown;
} clusters[] = {
    {"b $1@1 &1master - 0 0 7 connected 2639\n", THIRD, OF_SECOND},
    {"b $1 &1master - 0 0 7 connected 2639-2639", "", "$0: its cluster has 2 masters with slots; 3 to 16 are needed"},
    {"b $1 master,&1fail? - 0 0 7 connected 2638-2639\n\n", THIRD, OF_SECOND},
    {"b 10.0.0.9^1@1,127.0.0.1 &1master - 0 0 7 connected [2000->-a] 2639\n", THIRD, OF_SECOND},
    {"b 10.0.0.9^1@1,127.0.0.1,shard-id=b &1master - 0 0 7 connected 9 2639\n", THIRD, OF_SECOND},
    {"b $1@1, &1master - 0 0 7 connected 2639\n", THIRD, OF_SECOND},
    {"b $1@1,shard-id=b &1master - 0 0 7 connected 2639\n", THIRD, OF_SECOND},
    {"b $1@1 &1master - 0 0 7 connected 2639\nb2 $3@1 slave b 0 0 7 connected\n", THIRD, OF_SECOND},
    {"b $1@1 &1master - 0 0 7 connected 2639\nb2 $3@1 master - 0 0 9 connected [2639-<-b]\n", THIRD, OF_SECOND},
    {"b $1@1 &1master - 0 0 7 connected 2641\n", "c $2@1 &2master - 0 0 3 connected 2642",
     "$0: knows no master of the slot; $1: knows no master of the slot; $2: knows no master of the slot"},
    {"b :0@0 master,noaddr - 0 0 7 connected 2639\n", THIRD,
     "$0: names no usable address; $2: names no usable address"},
    {"b $1 &1master - 0 0 7 connected 2639\n" FOUR FOUR FOUR FOUR, MORE,
     "$0: its cluster has 19 masters with slots; 3 to 16 are needed"},
    {"b :0@0 masterly - 0 0 7 connected 2639\n", THIRD, "$0: its cluster has 2 masters with slots; 3 to 16 are needed"},
};

TEST_ROWS(witnesses, masters_of_a_cluster_are_read, sizeof clusters / sizeof clusters[0])
{
    for (unsigned i = 0; i < WITNESSES; i++) {
        char lines[1024], reply[1200];
        snprintf(lines, sizeof lines, "a $0@1,,x=y &0master - 0 0 1 connected 0-2638\n%s%s", clusters[_i].second,
                 clusters[_i].third);
        const char *text = text_for(i, lines);
        snprintf(reply, sizeof reply, "$%zu\r\n%s\r\n", strlen(text), text);
        scene_add_rule(i, i + 1, &(struct fake_rule){.command = "CLUSTER", .reply = reply});
    }
    attach("cluster://$0/");
    scene_until(is_shown(clusters[_i].shown));
}

/* --- Sentinels --- */

#define MASTER      "*4\r\n$12\r\nconfig-epoch\r\n$1\r\n7\r\n$19\r\nnum-other-sentinels\r\n$1\r\n2\r\n"
#define UNKNOWN     "knows no such master"
#define UNUSABLE    "names no usable address"
#define AT(port)    "*2\r\n$9\r\n127.0.0.1\r\n$" port "\r\n"
#define NO_SENTINEL "-ERR unknown command 'SENTINEL', with args beginning with: 'MASTER'\r\n"

static const struct {
    const char *master, *address, *says;
} sentinels[] = {
    {MASTER, AT("1\r\n1"), "127.0.0.1:1, epoch 7"},
    {MASTER, AT("5\r\n65535"), "127.0.0.1:65535, epoch 7"},
    {MASTER, AT("5\r\n65536"), UNUSABLE},
    {MASTER, AT("1\r\n0"), UNUSABLE},
    {MASTER, "*2\r\n$0\r\n\r\n$1\r\n1\r\n", UNUSABLE},
    {MASTER, "*2\r\n$3\r\na\tb\r\n$1\r\n1\r\n", UNUSABLE},
    {MASTER, "*2\r\n:1\r\n:2\r\n", UNUSABLE},
    {MASTER, "*-1\r\n", UNUSABLE},
    {"*3\r\n$12\r\nconfig-epoch\r\n$1\r\n7\r\n$19\r\nnum-other-sentinels\r\n", AT("1\r\n1"), "127.0.0.1:1, epoch 7"},
    {"*2\r\n$12\r\nconfig_epoch\r\n$1\r\n7\r\n", AT("1\r\n1"), UNKNOWN},
    {"*-1\r\n", AT("1\r\n1"), UNKNOWN},
    {NO_SENTINEL, "*-1\r\n", "it is no Sentinel"},
};

TEST_ROWS(witnesses, masters_of_sentinels_are_read, sizeof sentinels / sizeof sentinels[0])
{
    char shown[512];
    for (unsigned i = 0; i < WITNESSES; i++) {
        char id[16];
        snprintf(id, sizeof id, "$1\r\n%u\r\n", i);
        fake_server_set_password(scene.node[i], NULL, "w");
        scene_add_rule(i, i + 1, &(struct fake_rule){.command = "SENTINEL", .argument = "MYID", .reply = id});
        scene_add_rule(i, i + 1,
                       &(struct fake_rule){.command = "SENTINEL", .argument = "MASTER", .reply = sentinels[_i].master});
        scene_add_rule(i, i + 1, &(struct fake_rule){.command = "SENTINEL", .reply = sentinels[_i].address});
    }
    attach("sentinel://:w@$0,$1,$2/m");
    snprintf(shown, sizeof shown, "$0: %s; $1: %s; $2: %s", sentinels[_i].says, sentinels[_i].says, sentinels[_i].says);
    scene_until(is_shown(shown));
    for (unsigned i = 0; i < WITNESSES; i++)
        ck_assert_uint_ge(fake_server_count(scene.node[i], "AUTH"), 1);
}

TEST_PROGRAM("witnesses")
