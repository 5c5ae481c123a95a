// The same user's program in C++ with the wrapper.
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <redlock/redlock.hpp>

int main()
{
    using namespace std::chrono_literals;
    const char *nodes = std::getenv("REDLOCK_NODES");
    try {
        redlock::options options;
        options.node_timeout = 20s; // on a busy machine
        redlock::client client(nodes ? nodes : "", options);
        redlock::mutex mutex(client, "outside");
        const std::unique_lock guard(mutex, 20s);
        redlock::result result;
        const std::optional<redlock::lock> lock = client.acquire("outside/too", {}, result);
        std::printf("%s: C++: %s\n", redlock_version(), result.text().c_str());
        return guard && lock ? EXIT_SUCCESS : EXIT_FAILURE;
    } catch (const redlock::error &error) {
        std::puts(error.what());
        return EXIT_FAILURE;
    }
}
