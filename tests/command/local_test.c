/* redlock local, what local.txt cannot say. */
#include "story.h"

#include "support/bytes.h"
#include "support/clock.h"
#include "support/raw_client.h"
#include "support/resp.h"

static pid_t children[8]; /* all processes that redlock has started */

/* What the Sentinel on this port replies has the words. */
static bool says(uint16_t port, const char *subcommand, const char *words)
{
    const struct raw_client_place place = {.host = "127.0.0.1", .port = port};
    const struct resp_argument argv[] = {resp_argument_of("SENTINEL"), resp_argument_of(subcommand),
                                         resp_argument_of("m1")};
    struct bytes reply = {0};
    bool replied = raw_client_ask(&place, test_deadline_ns(PROGRAM_SOON_MS), 3, argv, &reply);
    bytes_append(&reply, "", 1);
    bool found = replied && strstr(reply.data, words);
    bytes_free(&reply);
    return found;
}

/* Of its processes the first is the master. */
TEST(no_nodes, its_sentinels_fail_over_a_master_that_is_killed_at_once)
{
    struct program *program = program_start(
        "local -n 1 --sentinel -- sh -c 'IFS=:,/; set -- $REDLOCK_NODES; echo a=$5. b=$7. c=$9.; sleep 600'");
    const int port[] = {program_number(program, "a="), program_number(program, "b="), program_number(program, "c=")};
    ck_assert_uint_eq(program_children(program_pid(program), children, ROWS(children)), 6);
    for (size_t i = 0; i < ROWS(port); i++) {
        ck_assert(says((uint16_t)port[i], "MASTER", "num-slaves\r\n$1\r\n1\r"));
        ck_assert(says((uint16_t)port[i], "MASTER", "num-other-sentinels\r\n$1\r\n2\r"));
    }
    kill(children[0], SIGKILL);
    real_until(NULL, says((uint16_t)port[0], "MASTER", "config-epoch\r\n$1\r\n1\r"));
    program_terminates(program);
    for (size_t i = 0; children[i] != 0; i++)
        ck_assert_msg(program_soon_gone(children[i]), "process %d lives on", (int)children[i]);
}

/* CMD's process and the server's process exist, before or after exec. */
static bool has_two_children(void *program)
{
    return program_children(program_pid(program), children, 2) == 2;
}

TEST(no_nodes, signal_at_the_start_of_the_command_is_not_lost)
{
    for (int i = 0; i < 5; i++) {
        struct program *program = program_start("local -n 1 -- sleep 60");
        ck_assert(wait_until(has_two_children, program, PROGRAM_SOON_MS));
        program_terminates(program);
    }
}

STORY_PROGRAM("local")
