// The includes of a user's program with the wrapper, which header.sh compiles. It instantiates every template of the
// wrapper.
#include <redlock/redlock.hpp>

// A second include has no effect.
#include <redlock/redlock.hpp>

int main()
{
    using namespace std::chrono_literals;
    redlock::client client;
    redlock::mutex mutex(client, "resource");
    redlock::result result;
    const std::error_code code = redlock::status::invalid;
    const bool locked = mutex.try_lock_for(1.5s) || mutex.try_lock_until(std::chrono::system_clock::now());
    return !locked && !client.acquire("resource", 1h, result) && result.error_code() == code ? 0 : 1;
}
