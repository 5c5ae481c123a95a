/* redlock run, what processes.txt cannot say: a moment that only the test can choose. */
#include "story.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

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
