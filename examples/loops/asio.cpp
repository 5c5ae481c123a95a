/* A lock in a program on Asio: asio [NODES]. Without NODES the program uses REDLOCK_NODES. */
#include <asio.hpp>
#include <redlock/redlock.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>

using namespace std::chrono_literals;

static void work(const redlock::lock &lock)
{
    std::printf("working on %s, with %lld ms left\n", std::string(lock.resource()).c_str(),
                static_cast<long long>(lock.validity().count()));
}

#ifdef ASIO_HAS_CO_AWAIT /* C++20 */

static asio::awaitable<void> run(redlock::async_client &client, const redlock::acquire_options &options)
{
    redlock::lock lock = co_await client.async_acquire("examples/asio", options, asio::use_awaitable);
    work(lock);
    co_await client.async_release(std::move(lock), asio::use_awaitable);
    std::printf("released\n");
}

static void start(asio::io_context &context, redlock::async_client &client, const redlock::acquire_options &options)
{
    asio::co_spawn(context, run(client, options), [](std::exception_ptr failure) {
        if (failure)
            std::rethrow_exception(failure); /* from context.run() */
    });
}

#else

static void fail_on(std::error_code failure)
{
    if (failure)
        throw std::system_error(failure); /* from context.run() */
}

static void start(asio::io_context &, redlock::async_client &client, const redlock::acquire_options &options)
{
    client.async_acquire("examples/asio", options, [&client](std::error_code failure, redlock::lock lock) {
        fail_on(failure);
        work(lock);
        client.async_release(std::move(lock), [](std::error_code released) {
            fail_on(released);
            std::printf("released\n");
        });
    });
}

#endif

int main(int argc, char **argv)
{
    if (argc > 1 && argv[1][0] == '-') {
        std::puts("usage: loop_asio [NODES]\n\nNODES   the masters, host:port,host:port,... (default: REDLOCK_NODES)");
        return std::strcmp(argv[1], "--help") == 0 ? EXIT_SUCCESS : 2;
    }
    const char *nodes = argc > 1 ? argv[1] : std::getenv("REDLOCK_NODES");
    redlock::acquire_options options(5s);
    redlock::result details; /* what an error code cannot say */
    options.details = &details;
    try {
        asio::io_context context;
        redlock::async_client client(context.get_executor(), nodes ? nodes : "");
        start(context, client, options);
        try {
            context.run();
        } catch (const std::system_error &) {
            if (details.status() == redlock::status::ok)
                throw;
            std::fprintf(stderr, "acquire: %s\n", details.text().c_str());
            return EXIT_FAILURE;
        }
        return EXIT_SUCCESS;
    } catch (const std::system_error &error) { /* also a redlock::error: no client */
        std::fprintf(stderr, "%s\n", error.what());
        return EXIT_FAILURE;
    }
}
