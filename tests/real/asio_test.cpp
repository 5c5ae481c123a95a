// The completion tokens of the C++ wrapper, on Asio or (REDLOCK_BOOST_ASIO) Boost.Asio, and real servers.
#ifdef REDLOCK_BOOST_ASIO
#include <utility> // for Boost 1.74

#include <boost/asio.hpp>
#else
#include <asio.hpp>
#endif
#include <cstdlib>
#include <functional>
#include <future>
#include <thread>
#include <vector>

#include "real/wrapper.hpp"

using redlock::net_error;

#ifdef REDLOCK_BOOST_ASIO
namespace asio = redlock::net;
using thrown_error = boost::system::system_error;
#else
using thrown_error = std::system_error;
#endif

namespace
{
const char *const key = real_key("asio");

redlock::async_client open_client(asio::io_context &context)
{
    return redlock::async_client(context.get_executor(), cluster_nodes_string(cluster), patient());
}

status status_of(const net_error &failure)
{
    const auto found = static_cast<status>(failure.value());
    ck_assert(found == status::ok ? !failure : failure == found);
    return found;
}

void stop_majority()
{
    for (unsigned i = 0; i < 3; i++)
        cluster_stop(cluster, i);
}

// Asio's code is compiled again for each type of handler, which takes most of a second. So most handlers have these types.
using on_done = std::function<void(net_error)>;
using on_lock = std::function<void(net_error, redlock::lock)>;

void acquire(redlock::async_client &client, const std::string &resource, const redlock::acquire_options &options,
             on_lock handler)
{
    client.async_acquire(resource, options, std::move(handler));
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
    client.async_acquire(key, 20s, [&](net_error failure, redlock::lock lock) {
        ck_assert(status_of(failure) == status::ok);
        ck_assert(std::this_thread::get_id() == here);
        ck_assert(lock.validity() > 0ms);
        called++;
        client.async_release(std::move(lock), [&](net_error released) {
            ck_assert(status_of(released) == status::ok);
            called++;
        });
    });
    ck_assert_uint_eq(called, 0);
    context.run();
    ck_assert_uint_eq(called, 2);
    ck_assert(!client.held_by_me(key));
}

TEST(asio, failures_are_error_codes)
{
    asio::io_context context;
    redlock::async_client client = open_client(context);
    std::vector<status> seen;
    redlock::result details;
    redlock::acquire_options detailed;
    const on_done note = [&](net_error failure) {
        ck_assert_str_eq(failure.category().name(), "redlock");
        seen.push_back(status_of(failure));
    };
    const on_lock note_lock = [&](net_error failure, redlock::lock lock) {
        ck_assert(!lock);
        note(failure);
    };
    client.async_acquire("", {}, note_lock);
    client.async_acquire(key, -1ms, note_lock);
    client.async_release(redlock::lock(), note);
    client.async_release(client.acquire(key), -1ms, note);
    client.async_extend(redlock::lock(), 1s, note);
    client.async_extend(redlock::lock(), -1s, note);
    client.async_downgrade(redlock::lock(), note);
    client.async_query("", [&](net_error failure, redlock::state state) {
        ck_assert(!state.locked);
        note(failure);
    });
    client.async_close(-1ms, note);
    context.run();
    ck_assert(seen == std::vector<status>(9, status::invalid));
    real_command(cluster_size(cluster), "SET", key, "other", nullptr);
    detailed.details = &details;
    acquire(client, key, detailed, [&](net_error failure, redlock::lock lock) {
        ck_assert(!lock && failure == status::held && failure != status::lost);
        ck_assert(failure.message() == redlock_status_text(REDLOCK_HELD));
        ck_assert(failure.default_error_condition().value() == EBUSY);
    });
    context.restart();
    context.run();
    real_command(cluster_size(cluster), "DEL", key, nullptr);
    ck_assert(details.status() == status::held && details.nodes == cluster_size(cluster));
}

TEST(asio, futures_and_many_threads)
{
    constexpr int threads = 4, each = 5;
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
    redlock::acquire_options options = 20s;
    redlock::lock held;
    unsigned events = 0;
    const on_done ended_lost = [](net_error failure) { ck_assert(status_of(failure) == status::lost); };
    options.ttl = 300ms;
    options.renewal = false;
    options.on_event = [&](redlock::event event, redlock::loss loss, std::chrono::milliseconds) {
        ck_assert(event == redlock::event::lost && loss == redlock::loss::expired);
        events++;
        asio::post(context, [&] { client.async_release(std::move(held), ended_lost); });
    };
    acquire(client, key, options, [&](net_error failure, redlock::lock lock) {
        ck_assert(status_of(failure) == status::ok);
        held = std::move(lock);
    });
    context.run();
    ck_assert_uint_eq(events, 1);
}

// A lock that goes out of scope blocks no thread of the context, here while a majority of the nodes is stopped.
TEST(asio, a_destructor_does_not_wait)
{
    asio::io_context context;
    redlock::async_client client = open_client(context);
    redlock::acquire_options options = 20s;
    options.on_event = [](redlock::event, redlock::loss, std::chrono::milliseconds) {};
    bool is_dropped = false;
    acquire(client, key, options, [&](net_error failure, redlock::lock lock) {
        ck_assert(status_of(failure) == status::ok);
        stop_majority();
        const auto start = std::chrono::steady_clock::now();
        lock = redlock::lock();
        ck_assert(std::chrono::steady_clock::now() - start < patient().silence_limit);
        cluster_resume_all(cluster);
        is_dropped = true;
    });
    context.run();
    ck_assert(is_dropped && !client.held_by_me(key));
}

// The handler closes the client; the acquire that waits is cancelled, and its handler runs.
TEST(asio, a_close_cancels_what_waits)
{
    asio::io_context context;
    redlock::async_client client = open_client(context);
    status seen = status::ok;
    acquire(client, key, 20s, [&](net_error failure, redlock::lock lock) {
        ck_assert(status_of(failure) == status::ok);
        acquire(client, key, redlock::forever,
                [&](net_error cancelled, redlock::lock) { seen = status_of(cancelled); });
        client.close();
        ck_assert(lock.loss_reason() == redlock::loss::closed);
    });
    context.run();
    ck_assert(seen == status::cancelled);
}

// The handler of a close is the last, and runs although the client and its locks are gone.
TEST(asio, an_asynchronous_close_cancels_what_waits)
{
    asio::io_context context;
    std::vector<status> seen;
    unsigned events = 0;
    const on_done note = [&](net_error failure) { seen.push_back(status_of(failure)); };
    {
        redlock::async_client client = open_client(context);
        redlock::acquire_options options = 20s;
        options.on_event = [&](redlock::event, redlock::loss why, std::chrono::milliseconds) {
            ck_assert(why == redlock::loss::closed);
            events++;
        };
        redlock::lock kept, dropped;
        acquire(client, "asio/kept", options, [&](net_error, redlock::lock lock) { kept = std::move(lock); });
        acquire(client, key, options, [&](net_error, redlock::lock lock) {
            dropped = std::move(lock);
            context.stop();
        });
        while (!kept || !dropped) {
            context.run();
            context.restart();
        }
        acquire(client, key, redlock::forever, [&](net_error failure, redlock::lock) { note(failure); });
        client.async_close(note);
        ck_assert(!client && !client.held_by_me(key) && dropped.loss_reason() == redlock::loss::closed);
        client.async_close(note); // there is nothing to close
        dropped = redlock::lock();
        context.run();
        ck_assert(kept.loss_reason() == redlock::loss::closed);
    }
    ck_assert(seen == std::vector<status>({status::invalid, status::cancelled, status::ok}));
    ck_assert(events > 0 && real_nothing_left(nullptr));
}

#if REDLOCK_ASIO_VERSION >= 101900

// As awaitable operators and cancel_after do. A majority of the nodes is stopped.
TEST(asio, a_cancellation_slot_ends_every_operation)
{
    asio::io_context context;
    redlock::async_client client = open_client(context);
    asio::cancellation_signal signals[5];
    redlock::lock held = client.acquire(key, 20s);
    redlock::lock released = client.acquire("asio/released", 20s);
    unsigned seen = 0;
    const auto slot = [&](unsigned of, auto handler) {
        return asio::bind_cancellation_slot(signals[of].slot(), std::move(handler));
    };
    const on_done note = [&](net_error failure) {
        ck_assert(status_of(failure) == status::cancelled);
        seen++;
    };
    const auto end = [&](unsigned of, unsigned expected) {
        ck_assert_uint_eq(seen, expected - 1);
        asio::post(context, [&signals, of] { signals[of].emit(asio::cancellation_type::all); });
        context.restart();
        context.run();
        ck_assert_uint_eq(seen, expected);
        signals[of].emit(asio::cancellation_type::all); // the slot has been cleared
    };
    stop_majority();
    client.async_acquire(key, redlock::forever,
                         slot(0, on_lock([&](net_error failure, redlock::lock) { note(failure); })));
    end(0, 1);
    client.async_extend(held, 0ms, slot(1, note));
    end(1, 2);
    client.async_query(key, slot(2, [&](net_error failure, redlock::state) { note(failure); }));
    end(2, 3);
    client.async_release(std::move(released), slot(3, note));
    end(3, 4);
    cluster_resume_all(cluster);
    ck_assert(client.acquire("asio/released", 20s).validity() > 0ms); // the release has gone on
    stop_majority();
    client.async_close(slot(4, note));
    end(4, 5);
    cluster_resume_all(cluster);
}

#endif

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
    redlock::lock lock = client.acquire(key, 20s);
    ck_assert(!lock.release(result, -1ms) && result.status() == status::invalid && lock);
    source.request_stop();
    ck_assert(!client.query(key, result, source.get_token()) && result.status() == status::cancelled);
    ck_assert(!lock.extend(0ms, result, source.get_token()) && result.status() == status::cancelled);
    ck_assert(!lock.release(result, source.get_token()) && result.status() == status::cancelled && !lock);
    ck_assert(client.acquire(key, 20s).validity() > 0ms); // the release has gone on
}

// An acquire and an adopt, too; of an asynchronous one the token lives on.
TEST(asio, a_stop_token_ends_an_acquire)
{
    asio::io_context context;
    redlock::async_client client = open_client(context);
    redlock::cancellation cancellation(client);
    redlock::acquire_options both = 20s;
    redlock::result result;
    std::stop_source source;
    status seen = status::ok;
    both.stop = source.get_token();
    ck_assert(client.acquire(key, std::chrono::steady_clock::now() + 1h).validity() > 0ms);
    redlock::lock first = client.acquire(key, both);
    const redlock::client other(cluster_nodes_string(cluster), patient());
    const redlock::lock adopted = other.adopt(key, std::string(first.token()), both);
    both.cancellation = &cancellation;
    ck_assert(!client.acquire(key, both, result) && result.status() == status::invalid);
    acquire(client, key, source.get_token(), [&](net_error failure, redlock::lock) { seen = status_of(failure); });
    std::thread stopper([&] { source.request_stop(); });
    context.run();
    stopper.join();
    ck_assert(seen == status::cancelled);
    ck_assert(!client.acquire("asio/other", source.get_token(), result) && result.status() == status::cancelled);
    ck_assert(!client.adopt(key, "x", source.get_token(), result) && result.status() == status::cancelled);
}

#endif

#if defined(ASIO_HAS_CO_AWAIT) || defined(BOOST_ASIO_HAS_CO_AWAIT)

static asio::awaitable<void> use(redlock::async_client &client, unsigned &steps)
{
    redlock::lock lock = co_await client.async_acquire(key, 20s, asio::use_awaitable);
    steps++;
    try {
        co_await client.async_acquire("", {}, asio::use_awaitable);
    } catch (const thrown_error &error) {
        ck_assert(error.code() == status::invalid);
        steps++;
    }
    co_await client.async_extend(lock, patient().ttl + 10s, asio::use_awaitable);
    ck_assert(lock.validity() > patient().ttl);
    const redlock::state state = co_await client.async_query(key, 20s, asio::use_awaitable);
    ck_assert(state.locked && state.held_by_me && state.remaining() > patient().ttl);
    co_await client.async_downgrade(lock, asio::use_awaitable);
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
