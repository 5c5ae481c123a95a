/* redlock acquire, extend and release, what token.txt cannot say. */
#include "story.h"

#include <signal.h>

enum { NODES = 5 };

/* The signal may arrive before or after the last moment at which the lock is taken back; the round's number makes no
 * difference. */
TEST(shared_nodes, lock_whose_acquire_ends_by_a_signal_is_not_held)
{
    enum { ROUNDS = 20 };
    const char *key = real_key("handed-out");
    for (int i = 0; i < ROUNDS; i++) {
        struct program *shell = program_waited(
            program_shell("exec 3< <(exec $R acquire %s -n); read -r T <&3; kill $!; wait $!; echo \"$T $?\"", key));
        const char *output = program_output(shell);
        bool ended = strcmp(output + strcspn(output, " "), program_text(" %d\n", 128 + SIGTERM)) == 0;
        ck_assert_msg(ended || strcmp(output + strcspn(output, " "), " 0\n") == 0, "round %d: %s", i, output);
        ck_assert_msg(scene_held_on(key) == (ended ? 0 : NODES), "round %d: %s", i, output);
        scene_delete(key);
    }
}

/* Whichever descriptor exceeds the limit, the message names the cause and the remedy. */
TEST(shared_nodes, limit_of_open_files_is_named)
{
    unsigned named = 0;
    for (int limit = 8; limit <= 28; limit++) {
        struct program *program = program_waited(program_shell("ulimit -n %d; exec $R run test:limit -- true", limit));
        const char *errors = program_errors(program), *cause = strstr(errors, "cannot create a descriptor");
        ck_assert_msg(cause == NULL || strstr(cause, "Too many open files; raise the limit of open files (ulimit -n)"),
                      "%d: %s", limit, errors);
        ck_assert(cause == NULL || program_wait(program) == SYSTEM);
        named += strstr(errors, "descriptor") != NULL;
    }
    ck_assert_uint_gt(named, 0);
}

STORY_PROGRAM("token")
