// A lock in C++17 with the wrapper: cpp [NODES]. Without NODES the program uses REDLOCK_NODES.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <redlock/redlock.hpp>

using namespace std::chrono_literals;

namespace
{

void work_under(redlock::lock lock)
{
    std::printf("step 1, with %lld ms left\n", static_cast<long long>(lock.validity().count()));
    lock.extend(20s);

    // Check right before a step that must not happen twice: is there enough time left to finish it?
    if (lock.validity() > 1s)
        std::printf("step 2, with %lld ms left\n", static_cast<long long>(lock.validity().count()));
} // releases the lock here, also after an exception

void try_once(const redlock::client &client)
{
    redlock::result result;
    if (const auto lock = client.acquire("examples/cpp", {}, result))
        std::printf("free, and mine now\n");
    else if (result.status() == redlock::status::held)
        std::printf("not mine: %s\n", result.text().c_str()); // no exception: a held lock is a normal case
    else
        throw redlock::error("acquire", result);
}

void run(const char *nodes)
{
    const redlock::client client(nodes);
    work_under(client.acquire("examples/cpp", 5s));

    // The interface of std::timed_mutex.
    redlock::mutex mutex(client, "examples/cpp");
    const std::unique_lock guard(mutex, 5s);
    std::printf("as a mutex: %s\n", guard ? "locked" : "not locked");
    try_once(client);
}

} // namespace

int main(int argc, char **argv)
{
    if (argc > 1 && argv[1][0] == '-') {
        std::puts("usage: cpp [NODES]\n\nNODES   the masters, host:port,host:port,... (default: REDLOCK_NODES)");
        return std::strcmp(argv[1], "--help") == 0 ? EXIT_SUCCESS : 2;
    }
    const char *nodes = argc > 1 ? argv[1] : std::getenv("REDLOCK_NODES");
    try {
        run(nodes ? nodes : "");
        return EXIT_SUCCESS;
    } catch (const redlock::error &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return EXIT_FAILURE;
    }
}
