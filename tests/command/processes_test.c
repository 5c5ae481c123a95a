/* redlock run, what processes.txt cannot say: moments that only the test can choose. */
#include "story.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>

enum { MAJORITY = 3 };

TEST(shared_nodes, the_lock_is_kept_until_what_its_command_leaves_behind_has_ended)
{
    story_tell(
        "p> run --grace 400ms test:x -- sh -c '(trap \"\" TERM; while :; do sleep 0.1; done) & echo group=$$; exit 0'\n"
        "let group number group=");
    pid_t group = story_process("group");
    while (!program_is_gone(-group)) {
        bool held = scene_copies("test:x") >= MAJORITY;
        ck_assert_msg(held || program_is_gone(-group), "processes work on without the lock");
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL); /* short beside the processes' last moments */
    }
    story_tell("ends 0");
}

struct forking {
    pid_t parent, child;
};

/* ptrace(2) stops both processes at the fork. */
static bool has_forked(void *arg)
{
    struct forking *forking = arg;
    unsigned long child;
    int status;
    if (waitpid(forking->parent, &status, __WALL | WNOHANG) != forking->parent)
        return false;
    ck_assert_int_eq(status >> 8, SIGTRAP | PTRACE_EVENT_FORK << 8);
    ck_assert_int_eq(ptrace(PTRACE_GETEVENTMSG, forking->parent, NULL, &child), 0);
    forking->child = (pid_t)child;
    return true;
}

/* The holder is killed right after its fork, and CMD is faster. Processes that CMD has started before are ended all
 * the same. */
TEST(shared_nodes, holder_killed_right_after_its_fork_is_noticed)
{
    story_tell("hold test:x\n"
               "p> run -v test:x -- sh -c 'sleep 30 & echo left=$!; wait'\n"
               "shows first attempt\n"
               "let holder child");
    struct forking forking = {.parent = story_process("holder")};
    ck_assert_int_eq(ptrace(PTRACE_SEIZE, forking.parent, NULL, PTRACE_O_TRACEFORK), 0);
    story_tell("delete test:x");
    ck_assert(wait_until(has_forked, &forking, PROGRAM_SOON_MS));
    ck_assert_int_eq(waitpid(forking.child, NULL, __WALL), forking.child);
    ck_assert_int_eq(ptrace(PTRACE_DETACH, forking.child, NULL, NULL), 0); /* the child goes on */
    story_tell("let left number left=\n"
               "kill SIGKILL holder");
    ck_assert_int_eq(waitpid(forking.parent, NULL, __WALL), forking.parent);
    story_tell("ends LOST\n"
               "soon-gone left\n"
               "delete test:x");
}

STORY_PROGRAM("processes")
