/* redlock run, what processes.txt cannot say: moments that only the test can choose. */
#include "story.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Limits the link of these two processes to few messages, as if each sent many, by changing the holder's socket from
 * outside. */
static void narrow_link(pid_t holder)
{
    int process = (int)syscall(SYS_pidfd_open, holder, 0);
    int type = 0;
    int least = 1;
    ck_assert_int_ge(process, 0);
    for (int number = 3; number < 32; number++) {
        int copy = (int)syscall(SYS_pidfd_getfd, process, number, 0);
        socklen_t size = sizeof type;
        if (copy >= 0 && getsockopt(copy, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET)
            ck_assert_int_eq(setsockopt(copy, SOL_SOCKET, SO_SNDBUF, &least, sizeof least), 0);
        if (copy >= 0)
            close(copy);
    }
    close(process);
}

/* As after a long Ctrl-Z: meanwhile more ends of validity pass than the link holds messages, which is eight. */
TEST(shared_nodes, front_that_was_stopped_for_long_knows_the_end_of_validity)
{
    story_tell(
        "p> run --ttl 3s --grace 0 --timeout 1s test:x -- sh -c 'trap \"exit 5\" USR1; echo in; while :; do sleep 0.1; done'\n"
        "shows in\\n\n"
        "let holder child");
    narrow_link(story_process("holder"));
    story_tell("signal SIGSTOP\n"
               "renewals 10 test:x\n"
               "signal SIGCONT\n"
               "signal SIGUSR1\n"
               "ends 5");
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
