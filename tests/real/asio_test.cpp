// The completion tokens of the C++ wrapper, on Asio and real servers.
#include <algorithm>
#include <asio.hpp>
#include <cstdlib>
#include <future>
#include <thread>
#include <vector>

#include "real/wrapper.hpp"

namespace
{
const char *const key = real_key("asio");

redlock::async_client open_client(asio::io_context &context)
{
    return redlock::async_client(context.get_executor(), cluster_nodes_string(cluster), patient());
}

status status_of(const std::exception_ptr &failure)
{
    try {
        if (failure)
            std::rethrow_exception(failure);
    } catch (const redlock::error &error) {
        return error.status();
    }
    return status::ok;
}

} // namespace

REAL_CASE(asio, real_shared_case, nullptr);

// The context runs until the handlers have run, and then has no work left.
TEST(asio, handlers_run_on_the_context)
{
    asio::io_context context;
    redlock::async_client client = open_client(context);
    const std::thread::id here = std::this_thread::get_id();
    unsigned called = 0;
    client.async_acquire(key, 5s, [&](std::exception_ptr failure, redlock::lock lock) {
        ck_assert(status_of(failure) == status::ok);
        ck_assert(std::this_thread::get_id() == here);
        ck_assert(lock.validity() > 0ms);
        called++;
        client.async_release(std::move(lock), [&](std::exception_ptr released) {
            ck_assert(status_of(released) == status::ok);
            called++;
        });
    });
    ck_assert_uint_eq(called, 0);
    context.run();
    ck_assert_uint_eq(called, 2);
    ck_assert(!client.held_by_me(key));
}

TEST(asio, failures_are_errors)
{
    asio::io_context context;
    redlock::async_client client = open_client(context);
    std::vector<status> seen;
    const auto note = [&](std::exception_ptr failure, redlock::lock lock) {
        ck_assert(!lock);
        seen.push_back(status_of(failure));
    };
    client.async_acquire("", {}, note);
    client.async_acquire(key, -1ms, note);
    client.async_release(redlock::lock(), [&](std::exception_ptr failure) { seen.push_back(status_of(failure)); });
    real_command(cluster_size(cluster), "SET", key, "other", nullptr);
    client.async_acquire(key, {}, note);
    context.run();
    real_command(cluster_size(cluster), "DEL", key, nullptr);
    ck_assert_uint_eq(seen.size(), 4);
    std::sort(seen.begin(), seen.end());
    ck_assert(seen == (std::vector<status>{status::invalid, status::invalid, status::invalid, status::held}));
}

TEST(asio, futures_and_many_threads)
{
    constexpr int threads = 4, each = 25;
    asio::io_context context;
    auto guard = asio::make_work_guard(context);
    redlock::async_client client = open_client(context);
    std::vector<std::thread> runners, users;
    for (int i = 0; i < threads; i++)
        runners.emplace_back([&] { context.run(); });
    for (int i = 0; i < threads; i++)
        users.emplace_back([&client, i] {
            for (int j = 0; j < each; j++) {
                const std::string name = std::string(key) + std::to_string(i);
                redlock::lock lock = client.async_acquire(name, 20s, asio::use_future).get();
                ck_assert(lock.validity() > 0ms);
                client.async_release(std::move(lock), asio::use_future).get();
            }
        });
    for (std::thread &user : users)
        user.join();
    guard.reset();
    for (std::thread &runner : runners)
        runner.join();
}

// A held lock with events keeps the context at work; its release ends it.
TEST(asio, events_run_on_the_context)
{
    asio::io_context context;
    redlock::async_client client = open_client(context);
    redlock::acquire_options options = 5s;
    redlock::lock held;
    unsigned events = 0;
    options.ttl = 300ms;
    options.renewal = false;
    options.on_event = [&](redlock::event event, redlock::loss loss, std::chrono::milliseconds) {
        ck_assert(event == redlock::event::lost && loss == redlock::loss::expired);
        events++;
        asio::post(context, [&] {
            client.async_release(std::move(held),
                                 [](std::exception_ptr failure) { ck_assert(status_of(failure) == status::lost); });
        });
    };
    client.async_acquire(key, options, [&](std::exception_ptr failure, redlock::lock lock) {
        ck_assert(status_of(failure) == status::ok);
        held = std::move(lock);
    });
    context.run();
    ck_assert_uint_eq(events, 1);
}

// A lock that goes out of scope blocks no thread of the context, here while a majority of the nodes is stopped.
TEST(asio, a_destructor_does_not_wait)
{
    for (const bool has_events : {false, true}) {
        asio::io_context context;
        redlock::async_client client = open_client(context);
        redlock::acquire_options options = 5s;
        if (has_events)
            options.on_event = [](redlock::event, redlock::loss, std::chrono::milliseconds) {};
        const std::string name = std::string(key) + (has_events ? "/events" : "");
        bool is_dropped = false;
        client.async_acquire(name, options, [&](std::exception_ptr failure, redlock::lock lock) {
            ck_assert(status_of(failure) == status::ok);
            for (unsigned i = 0; i < 3; i++)
                cluster_stop(cluster, i);
            const auto start = std::chrono::steady_clock::now();
            {
                const redlock::lock dropped = std::move(lock);
            }
            ck_assert(std::chrono::steady_clock::now() - start < patient().silence_limit / 2);
            cluster_resume_all(cluster);
            is_dropped = true;
        });
        context.run();
        ck_assert(is_dropped);
        ck_assert(!client.held_by_me(name));
    }
}

// The handler closes the client; the acquire that waits is cancelled, and its handler runs.
TEST(asio, a_close_cancels_what_waits)
{
    asio::io_context context;
    redlock::async_client client = open_client(context);
    status seen = status::ok;
    client.async_acquire(key, 5s, [&](std::exception_ptr failure, redlock::lock lock) {
        ck_assert(status_of(failure) == status::ok);
        client.async_acquire(key, redlock::forever,
                             [&](std::exception_ptr cancelled, redlock::lock) { seen = status_of(cancelled); });
        client.close();
        ck_assert(lock.loss_reason() == redlock::loss::closed);
    });
    context.run();
    ck_assert(seen == status::cancelled);
}

// As awaitable operators and cancel_after do.
TEST(asio, a_cancellation_slot_ends_an_acquire)
{
    asio::io_context context;
    redlock::async_client client = open_client(context);
    asio::cancellation_signal signal;
    asio::steady_timer timer(context, 200ms);
    status seen = status::ok;
    const auto start = std::chrono::steady_clock::now();
    redlock::lock first = client.acquire(key, 5s);
    client.async_acquire(
        key, redlock::forever,
        asio::bind_cancellation_slot(signal.slot(), [&](std::exception_ptr failure, redlock::lock lock) {
            ck_assert(!lock);
            seen = status_of(failure);
        }));
    timer.async_wait([&](asio::error_code) { signal.emit(asio::cancellation_type::all); });
    context.run();
    ck_assert(seen == status::cancelled);
    ck_assert(std::chrono::steady_clock::now() - start >= 200ms);
    signal.emit(asio::cancellation_type::all); // the slot has been cleared
    first.release();
    ck_assert(client.acquire(key).validity() > 0ms);
}

#ifdef __cpp_lib_jthread

// Deadlines and stop tokens of the blocking functions.
TEST(asio, a_call_ends_at_its_deadline_or_by_its_stop_token)
{
    asio::io_context context;
    redlock::async_client client = open_client(context);
    redlock::cancellation cancellation(client);
    redlock::call_options both;
    redlock::result result;
    std::stop_source source;
    both.stop = source.get_token();
    both.cancellation = &cancellation;
    ck_assert(client.query(key, result, source.get_token()).has_value());
    ck_assert(!client.query(key, result, both) && result.status() == status::invalid);
    ck_assert(!client.query(key, result, -1ms) && result.status() == status::invalid);
    ck_assert(!client.query(key, result, std::chrono::steady_clock::now()) && result.status() == status::timed_out);
    ck_assert(client.query(key, result, std::chrono::system_clock::now() + 1h).has_value());
    redlock::lock lock = client.acquire(key, 5s);
    ck_assert(!lock.release(result, -1ms) && result.status() == status::invalid && lock);
    source.request_stop();
    ck_assert(!client.query(key, result, source.get_token()) && result.status() == status::cancelled);
    ck_assert(!lock.extend(0ms, result, source.get_token()) && result.status() == status::cancelled);
    ck_assert(!lock.release(result, source.get_token()) && result.status() == status::cancelled && !lock);
    ck_assert(client.acquire(key, 5s).validity() > 0ms); // the release has gone on
}

#endif

#ifdef ASIO_HAS_CO_AWAIT

static asio::awaitable<void> use(redlock::async_client &client, unsigned &steps)
{
    redlock::lock lock = co_await client.async_acquire(key, 5s, asio::use_awaitable);
    steps++;
    try {
        co_await client.async_acquire("", {}, asio::use_awaitable);
    } catch (const redlock::error &error) {
        ck_assert(error.status() == status::invalid);
        steps++;
    }
    co_await client.async_release(std::move(lock), asio::use_awaitable);
    steps++;
}

TEST(asio, coroutines_await_a_lock)
{
    asio::io_context context;
    redlock::async_client client = open_client(context);
    unsigned steps = 0;
    asio::co_spawn(context, use(client, steps), asio::detached);
    context.run();
    ck_assert_uint_eq(steps, 3);
}

#endif

REAL_PROGRAM("asio")
