// The C++ wrapper on real servers: only its additions to the C functions, which have separate tests.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <poll.h>
#include <thread>
#include <type_traits>

#include "real/wrapper.hpp"

extern "C" {
#include "support/file.h"
}

namespace
{
const std::string_view key = real_key("wrapper");
const char *const key_text = real_key("wrapper");

static_assert(std::is_nothrow_move_constructible_v<redlock::lock> && std::is_nothrow_move_assignable_v<redlock::lock>);
static_assert(!std::is_copy_constructible_v<redlock::lock> && !std::is_copy_assignable_v<redlock::lock>);
static_assert(std::is_nothrow_move_constructible_v<redlock::client> && !std::is_copy_constructible_v<redlock::client>);
static_assert(std::is_nothrow_move_constructible_v<redlock::cancellation>);
static_assert(std::is_nothrow_destructible_v<redlock::lock> && std::is_copy_constructible_v<redlock::error>);
static_assert(std::is_trivially_copyable_v<redlock::result>);

bool all_usable(const redlock::client &client)
{
    const auto nodes = client.nodes();
    return std::all_of(nodes.begin(), nodes.end(), [](const auto &node) { return node.usable != 0; });
}

// Waits until every node is usable, so that each lock is on all nodes.
redlock::client open()
{
    redlock::client client(cluster_nodes_string(cluster), patient());
    real_until(nullptr, all_usable(client));
    return client;
}

bool is_on_every_node(const redlock::lock &lock)
{
    return real_shows_everywhere(key_text, std::string(lock.token()).c_str());
}

// What a call with a result returns if it fails.
template <class Value> void refused(const Value &value, const redlock::result &result, status expected)
{
    ck_assert(!value);
    ck_assert_msg(result.status() == expected, "%s", result.text().c_str());
}

template <class Body> redlock::error fails(Body body)
{
    try {
        body();
    } catch (const redlock::error &error) {
        return error;
    }
    ck_abort_msg("nothing was thrown");
    std::abort();
}

} // namespace

REAL_CASE(words, real_shared_case, nullptr);
REAL_CASE(lock, real_shared_case, nullptr);
REAL_CASE(end, real_shared_case, nullptr);
REAL_CASE(client, real_shared_case, nullptr);
REAL_CASE(credentials, real_bare_case, nullptr);
REAL_CASE(mutex, real_shared_case, nullptr);

// --- Texts and numbers

TEST(words, the_options_are_the_librarys_own)
{
    const redlock_options defaults = REDLOCK_OPTIONS_INIT;
    const redlock::options options;
    redlock::detail::connection connection;
    const redlock_options native = connection.native(options);
    ck_assert_uint_eq(native.struct_size, defaults.struct_size);
    for (const auto number :
         {&redlock_options::ttl_ms, &redlock_options::minimum_validity_ms, &redlock_options::node_timeout_ms,
          &redlock_options::connect_timeout_ms, &redlock_options::silence_limit_ms, &redlock_options::backoff_max_ms,
          &redlock_options::drift_ppm, &redlock_options::pending_max, &redlock_options::undos_max,
          &redlock_options::operations_max, &redlock_options::leave_locks, &redlock_options::database,
          &redlock_options::log_level, &redlock_options::tls_no_verify, &redlock_options::renewal_percent,
          &redlock_options::guard, &redlock_options::max_ttl_ms, &redlock_options::fence_ttl_ms})
        ck_assert_uint_eq(native.*number, defaults.*number);
    for (const auto text : {&redlock_options::prefix, &redlock_options::client_name, &redlock_options::deployment,
                            &redlock_options::marker_key, &redlock_options::channel_prefix})
        ck_assert_str_eq(native.*text, defaults.*text);
    for (const auto text : {&redlock_options::user, &redlock_options::password, &redlock_options::tls_ca_file,
                            &redlock_options::tls_ca_directory, &redlock_options::tls_certificate_file,
                            &redlock_options::tls_key_file, &redlock_options::tls_server_name})
        ck_assert_ptr_null(native.*text);
    ck_assert(!native.credentials && !native.log && !native.allocator.allocate);
}

TEST(words, a_status_is_an_error_code)
{
    const std::error_code held = status::held;
    ck_assert(held && held == status::held && held != status::lost && !make_error_code(status::ok));
    ck_assert_str_eq(held.category().name(), "redlock");
    ck_assert(held.message() == redlock_status_text(REDLOCK_HELD));
    ck_assert(held == std::errc::device_or_resource_busy && held != std::errc::timed_out);
    ck_assert(make_error_code(status::cancelled) == std::errc::operation_canceled);
}

TEST(words, durations_are_rounded_up_and_bounded)
{
    using redlock::detail::ceiling;
    ck_assert(ceiling(1us) == 1ms && ceiling(1000us) == 1ms && ceiling(-1us) == 0ms);
    ck_assert(ceiling(std::chrono::duration<double>(0.0015)) == 2ms);
    ck_assert(ceiling(std::chrono::hours::max()) == redlock::forever);
    ck_assert(ceiling(std::chrono::hours::min()) == std::chrono::milliseconds::min());
    ck_assert(redlock::acquire_options(2s).wait == 2s &&
              redlock::acquire_options(redlock::forever).wait == redlock::forever);
}

TEST(words, bad_arguments_are_named)
{
    const redlock::client client = open();
    redlock::result result;
    const auto names = [&](const char *word, const auto &value) {
        refused(value, result, status::invalid);
        ck_assert_msg(result.text().find(word) != std::string::npos, "%s", result.text().c_str());
    };
    redlock::acquire_options negative, long_one;
    redlock::options nameless = patient();
    negative.ttl = -5s;
    long_one.ttl = std::chrono::hours(24 * 60);
    nameless.prefix = std::string("p\0q", 3);
    names("wait: -1 ms is negative", client.acquire(key, -1ms, result));
    names("ttl: -5000 ms is negative", client.acquire(key, negative, result));
    names("ttl: 5184000000 ms is more than", client.acquire(key, long_one, result));
    names("resource", client.acquire("", {}, result));
    names("the node list is empty", redlock::client::connect("", {}, result));
    names("nodes: there is a NUL byte", redlock::client::connect(std::string_view("a\0b", 3), {}, result));
    names("prefix: there is a NUL byte", redlock::client::connect("localhost", nameless, result));
    ck_assert(fails([] { redlock::client twice("a,a"); }).status() == status::invalid);
}

// --- A lock

// The resource may hold any byte.
TEST(lock, a_lock_ends_with_its_scope)
{
    const redlock::client client = open();
    const std::string_view odd(real_key("a\0b"), std::strlen(real_key("a")) + 2);
    {
        const redlock::lock lock = client.acquire(odd, 20s);
        ck_assert(lock && lock.validity() > 50s && lock.resource() == odd && lock.hold_count() == 1);
        ck_assert(client.held_by_me(odd) && !client.held_by_me(real_key("a")));
        const redlock::state state = client.query(odd);
        ck_assert(state.locked && state.held_by_me && state.remaining() > 50s &&
                  state.holder().token() == lock.token());
        ck_assert(!client.query(real_key("a")).locked);
        std::string found;
        client.scan(0, real_key("a*"), [&](const redlock_found &one) { found = one.holder.token; });
        ck_assert(found == lock.token() && redlock::holder(found).since() > std::chrono::system_clock::now() - 10min);
    }
    ck_assert(!client.held_by_me(odd) && real_nothing_left(nullptr));
}

TEST(lock, a_moved_lock_is_held_once)
{
    const redlock::client client = open();
    redlock::lock first = client.acquire(real_key("first"));
    redlock::lock moved = std::move(first);
    ck_assert(moved && !first); // NOLINT: a moved-from lock is an empty one
    ck_assert(first.validity() == 0ms && first.token().empty() && first.resource().empty() && !first.hold_count());
    ck_assert(moved.validity() > 50s);
    moved = client.acquire(key);
    ck_assert(!client.held_by_me(real_key("first")) && client.held_by_me(key));
    redlock::lock &itself = moved;
    moved = std::move(itself);
    ck_assert(client.held_by_me(key));
    moved.release();
    ck_assert(!moved && real_nothing_left(nullptr));
}

// The other client, which owns the nodes' names in a result, ends while the exception passes through its scope.
TEST(lock, lock_of_another_client_is_refused_in_words)
{
    const std::string nodes = std::string(cluster_nodes_string(cluster)) + ",";
    const redlock::client client = open();
    const redlock::lock lock = client.acquire(key);
    real_until(nullptr, is_on_every_node(lock));
    redlock::result result;
    const redlock::error error = fails([&] {
        const redlock::client other = open();
        refused(other.acquire(key, {}, result), result, status::held);
        ck_assert(result.error_code() == status::held && result.held >= 3);
        static_cast<void>(other.acquire(key));
    });
    ck_assert(error.status() == status::held && error.code() == status::held && error.result().held >= 3);
    ck_assert(error.what() == "acquire: " + error.result().text());
    for (std::uint32_t i = 0; i < error.result().nodes; i++)
        ck_assert(nodes.find(std::string(error.result().node[i].name) + ",") != std::string::npos);
}

TEST(lock, a_wait_can_be_cancelled)
{
    const redlock::client client = open(), other = open();
    const redlock::lock lock = client.acquire(key);
    redlock::cancellation cancellation(other), empty;
    redlock::acquire_options options(redlock::forever);
    options.cancellation = &cancellation;
    std::thread canceller([&] {
        real_until(nullptr, other.statistics().operations_pending > 0);
        cancellation.cancel();
    });
    ck_assert(fails([&] { static_cast<void>(other.acquire(key, options)); }).code() == status::cancelled);
    canceller.join();
    cancellation.reset();
    options.wait = 20ms;
    ck_assert(fails([&] { static_cast<void>(other.acquire(key, options)); }).status() == status::timed_out);
    const redlock::cancellation moved = std::move(cancellation);
    empty.cancel();
    empty.reset();
    ck_assert(moved.native_handle() && !cancellation.native_handle()); // NOLINT
}

TEST(lock, a_lock_on_several_has_one_fencing_token)
{
    const redlock::client client = open();
    redlock::acquire_options options(20s);
    ck_assert_uint_eq(client.acquire(key, options).fence(), 0);
    options.fence = true;
    options.also = {std::string(key) + "-2", std::string(key) + "-1", std::string(key)};
    redlock::result result;
    redlock::lock lock = *client.acquire(key, options, result);
    const std::uint64_t before = lock.fence();
    ck_assert(before > 0 && result.fence == before);
    ck_assert(lock.resources().size() == 3 && lock.resources()[1] == std::string(key) + "-1");
    ck_assert(client.held_by_me(options.also[0]));
    lock.release();
    ck_assert(lock.fence() == 0 && lock.resources().empty());
    ck_assert(client.acquire(options.also[1], options).fence() > before);
}

// Another client goes on with it by its token.
TEST(lock, a_lock_is_extended_downgraded_and_released)
{
    const redlock::client client = open(), other = open();
    redlock::acquire_options options(20s);
    redlock::result result;
    options.ttl = 10s;
    options.all_answers = true;
    redlock::lock lock = client.acquire(key, options);
    ck_assert(lock.validity() <= 10s);
    lock.extend(60s);
    ck_assert(lock.extend(0ms, result) && result.validity() > 50s && result.elapsed() > 0us);
    refused(lock.extend(-1s, result), result, status::invalid);
    redlock::lock theirs = other.adopt(key, std::string(lock.token()));
    ck_assert(theirs.token() == lock.token() && theirs.validity() > 0s);
    theirs.release();
    refused(other.adopt(key, std::string(lock.token()), {}, result), result, status::lost);
    refused(other.release_token(key, std::string(lock.token()), result), result, status::lost);
    lock = client.acquire(real_key("another"), options);
    other.release_token(real_key("another"), std::string(lock.token()));
    ck_assert(real_nothing_left(nullptr));
    options.ttl = 0s; // the client's: it outlives the reader's wait
    lock = client.acquire(key, options);
    lock.downgrade();
    ck_assert(lock.downgrade(result));
    options.shared = true;
    ck_assert(other.acquire(key, options).validity() > 0ms);
    ck_assert(fails([&] { other.release_token(key, "(shared)"); }).status() == status::invalid);
}

// The options arrive. tests/real/semaphore_test.c and shared_test.c have all cases.
TEST(lock, the_kinds_of_locks_are_the_librarys)
{
    const redlock::client client = open(), other = open();
    redlock::acquire_options permit(20s), owned(20s);
    redlock::result result;
    permit.permits = 3;
    permit.permits_wanted = 2;
    const redlock::lock permits = client.acquire(key, permit);
    permit.wait = 0ms;
    refused(other.acquire(key, permit, result), result, status::held);
    owned.owner = &result;
    redlock::lock lock = client.acquire(real_key("owned"), owned);
    const redlock::lock again = client.acquire(real_key("owned"), owned);
    ck_assert(lock.hold_count() == 2 && again.token() == lock.token());
    lock.release();
    ck_assert(again.hold_count() == 1 && client.held_by_me(real_key("owned")));
    refused(client.acquire(real_key("owned"), {}, result), result, status::held);
}

// --- Its end

TEST(end, a_loss_is_reported_in_every_way)
{
    const redlock::client client = open();
    std::atomic<int> ending{0}, lost{0};
    std::atomic<redlock::loss> reason{redlock::loss::none};
    redlock::acquire_options options;
    options.notify_before = 59s;
    options.on_event = [&](redlock::event event, redlock::loss loss, std::chrono::milliseconds validity) {
        if (event == redlock::event::ending)
            ending += validity <= 59s ? 1 : 100;
        if (event != redlock::event::lost)
            return;
        reason = loss;
        lost++;
        throw std::runtime_error("what a callback throws is dropped");
    };
    redlock::lock lock = client.acquire(key, options);
    struct pollfd descriptor = {lock.lost_descriptor(), POLLIN, 0};
    redlock::result result;
    real_until(nullptr, ending.load() == 1);
    ck_assert(lock.loss_reason() == redlock::loss::none && !lock.wait_lost(0ms));
    real_command(cluster_size(cluster), "DEL", key_text, nullptr);
    refused(lock.extend(1s, result), result, status::lost);
    ck_assert(lock.wait_lost(20s) == redlock::loss::gone);
    ck_assert_int_eq(poll(&descriptor, 1, 20000), 1);
    real_until(nullptr, lost.load() > 0);
    ck_assert(ending == 1 && lost == 1 && reason == redlock::loss::gone);
    ck_assert(lock && lock.validity() == 0ms && lock.loss_reason() == redlock::loss::gone);
    ck_assert(lock.wait_lost(redlock::forever, result) == redlock::loss::gone && result.status() == status::lost);
    ck_assert(fails([&] { lock.release(); }).status() == status::lost);
    ck_assert(!lock);
}

TEST(end, failing_renewal_says_why)
{
    redlock::options renewing = patient();
    renewing.renewal_percent = 10;
    renewing.node_timeout = 500ms;
    const redlock::client client(cluster_nodes_string(cluster), renewing);
    std::atomic<unsigned> failing{0}, reasons{0};
    redlock::acquire_options options(20s);
    options.ttl = 10s;
    options.on_renewal_failing = [&](const redlock::result &renewal) {
        for (std::uint32_t i = 0; i < renewal.nodes; i++)
            reasons += renewal.node[i].text[0] != '\0';
        failing++;
        throw std::runtime_error("what a callback throws is dropped");
    };
    if (!real_can_fail_nodes())
        return;
    const redlock::lock lock = client.acquire(key, options);
    ck_assert(lock.renewal_result().status() == status::ok && lock.valid_until() > 0ns);
    for (std::size_t i = 0; i < 3; i++)
        cluster_stop(cluster, i);
    real_until(nullptr, failing.load() > 0);
    ck_assert(reasons >= 2 && lock.renewal_result().status() != status::ok);
    cluster_resume_all(cluster);
}

TEST(end, an_empty_lock_and_an_empty_client_answer)
{
    redlock::lock lock;
    redlock::client client;
    redlock::mutex mutex(client, key);
    redlock::result result;
    ck_assert(!lock && lock.validity() == 0ms && lock.loss_reason() == redlock::loss::none);
    refused(lock.extend(1s, result), result, status::invalid);
    refused(lock.downgrade(result), result, status::invalid);
    refused(lock.release(result), result, status::invalid);
    refused(lock.wait_lost(1s, result), result, status::invalid);
    ck_assert(!client && client.nodes().empty() && client.metrics().empty() && !client.held_by_me(key));
    ck_assert_uint_eq(client.statistics().attempts, 0);
    refused(client.acquire(key, 1s, result), result, status::invalid);
    refused(client.ready(1s, result), result, status::invalid);
    refused(client.query(key, result), result, status::invalid);
    refused(client.trust(result), result, status::invalid);
    refused(client.close(result), result, status::invalid);
    const std::function<void()> calls[] = {[&] { lock.lost_descriptor(); }, [&] { lock.wait_lost(1s); },
                                           [&] { redlock::cancellation cancellation(client); }, [&] { mutex.lock(); }};
    for (const auto &call : calls)
        ck_assert(fails(call).status() == status::invalid);
}

TEST(end, a_lock_may_outlive_its_client)
{
    redlock::client client = open(), moved = std::move(client);
    std::atomic<int> closed{0};
    redlock::acquire_options options(20s);
    options.on_event = [&](redlock::event, redlock::loss loss, std::chrono::milliseconds) {
        closed += loss == redlock::loss::closed ? 1 : 100;
    };
    redlock::lock lock = moved.acquire(key, options);
    ck_assert(!client && moved.held_by_me(key)); // NOLINT: a moved-from client is an empty one
    moved.close();
    ck_assert(!moved && !lock && lock.validity() == 0ms && lock.loss_reason() == redlock::loss::closed);
    ck_assert_int_eq(closed, 1);
    ck_assert(real_nothing_left(nullptr));
    ck_assert(lock.wait_lost() == redlock::loss::closed);
    redlock::result result;
    refused(lock.release(result), result, status::invalid);
    moved = open();
    lock = moved.acquire(key, 20s);
    moved = redlock::client(); // closes the former
    ck_assert(lock.loss_reason() == redlock::loss::closed);
}

// The callback frees its lock, and with it what it is made of, on the client's own thread. There the client cannot be
// closed: another thread does it.
TEST_ROWS(end, a_callback_that_drops_its_lock_does_no_harm, 2)
{
    const bool drops_client = _i == 1;
    const std::size_t descriptors = file_open_descriptors();
    std::optional<redlock::client> client = open();
    std::mutex handing_over;
    std::optional<redlock::lock> lock;
    std::atomic<bool> dropped{false};
    redlock::acquire_options options(20s);
    options.ttl = 300ms;
    options.renewal = false;
    options.on_event = [&](redlock::event, redlock::loss, std::chrono::milliseconds) {
        const std::lock_guard guard(handing_over);
        lock.reset();
        if (drops_client)
            client.reset();
        dropped = true;
    };
    {
        const std::lock_guard guard(handing_over); // the callback waits until the lock is here
        lock = client->acquire(key, options);
    }
    real_until(nullptr, dropped.load());
    if (!drops_client)
        client.reset();
    real_until(nullptr, file_open_descriptors() == descriptors);
    ck_assert(real_nothing_left(nullptr));
}

// --- A client

TEST(client, a_client_reports_nodes_statistics_and_metrics)
{
    const redlock::client client = open();
    client.acquire(key, 20s).release();
    client.inspect(key);
    const auto nodes = client.nodes();
    ck_assert_uint_eq(nodes.size(), cluster_size(cluster));
    ck_assert_str_eq(nodes[0].role, "master");
    ck_assert_str_eq(nodes[0].lacking, "");
    ck_assert(client.statistics().released == 1 && client.statistics().locks_held == 0);
    const std::string metrics = client.metrics();
    ck_assert(metrics.size() > 1000 && metrics.back() == '\n' && metrics.find('\0') == std::string::npos);
    ck_assert(redlock::escape({"a\0\\x41", 6}) == "a\\x00\\x5cx41" && redlock::escape({}).empty());
    ck_assert(redlock::unescape("a\\x00\\x5cx41") == std::string("a\0\\x41", 6));
}

TEST(client, an_unreachable_quorum_is_no_quorum)
{
    const redlock::client client("127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"); // no server uses these ports
    redlock::result result;
    refused(client.ready(0ms, result), result, status::no_quorum);
    ck_assert(fails([&] { static_cast<void>(client.query(key)); }).status() == status::no_quorum);
    redlock::mutex mutex(client, key);
    ck_assert(fails([&] { mutex.try_lock(); }).status() == status::no_quorum);
    ck_assert(fails([&] { mutex.try_lock_for(30ms); }).status() == status::timed_out);
}

TEST(credentials, credentials_are_asked_and_logs_are_written)
{
    struct cluster_node_options node = {};
    node.password = "secret";
    real_cluster_of(1, node);
    std::atomic<int> asked{0}, lines{0};
    redlock::options options = patient();
    options.guard = true;
    options.ttl = 20s;
    options.max_ttl = 30s;
    options.backoff_max = 10ms;
    options.credentials = [&](std::string_view) -> std::optional<redlock::credentials> {
        if (asked++ == 0)
            return std::nullopt;
        if (asked == 2)
            throw std::runtime_error("none now, too");
        return redlock::credentials{"", "secret"};
    };
    options.log_level = redlock::log_level::debug;
    options.log = [&](redlock::log_level, std::string_view line) {
        lines += line.find("secret") == std::string_view::npos ? 1 : 1000000;
        throw std::runtime_error("what a callback throws is dropped");
    };
    const redlock::client client(cluster_nodes_string(cluster), options);
    real_until(nullptr, client.trust(*std::make_unique<redlock::result>()));
    const redlock::lock lock = client.acquire(key, 20s);
    ck_assert(asked >= 3 && lines > 0 && lines < 1000000);
}

// --- As a mutex

TEST(mutex, a_mutex_excludes_and_is_not_reentrant)
{
    const redlock::client client = open();
    redlock::mutex mutex(client, key), other(client, key);
    {
        const std::lock_guard guard(mutex);
        ck_assert(mutex.held() && mutex.held()->validity() > 50s && mutex.resource() == key);
        ck_assert(!other.try_lock() && !other.held());
        const auto start = std::chrono::steady_clock::now();
        ck_assert(!other.try_lock_for(30ms) && std::chrono::steady_clock::now() - start >= 30ms);
        ck_assert(!other.try_lock_until(std::chrono::system_clock::now() - 1h));
        ck_assert(!std::unique_lock(other, std::chrono::steady_clock::now() + 5ms));
        ck_assert(!mutex.try_lock());
        try {
            mutex.lock();
            ck_abort_msg("locked twice");
        } catch (const std::system_error &error) {
            ck_assert(error.code() == std::errc::resource_deadlock_would_occur);
        }
        std::thread([&] { mutex.unlock(); }).join(); // a thread that does not hold it
        ck_assert(client.held_by_me(key));
    }
    ck_assert(!mutex.held() && real_nothing_left(nullptr));
    other.unlock(); // unlocking a mutex that is not held has no effect
}

TEST(mutex, threads_share_a_mutex)
{
    const redlock::client client = open();
    redlock::mutex mutex(client, key);
    int counted = 0; // not atomic: the mutex synchronizes the threads
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++)
        threads.emplace_back([&] {
            for (int i = 0; i < 10; i++) {
                const std::unique_lock guard(mutex, 20s);
                ck_assert(guard.owns_lock());
                counted++;
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    ck_assert_int_eq(counted, 40);
}

TEST(mutex, a_lost_mutex_goes_to_another_thread)
{
    const redlock::client client = open();
    redlock::acquire_options options;
    options.ttl = 300ms;
    options.renewal = false;
    redlock::mutex mutex(client, key, options);
    mutex.lock();
    ck_assert(mutex.held()->wait_lost(20s) == redlock::loss::expired);
    std::thread([&] {
        const std::unique_lock guard(mutex, 20s);
        ck_assert(guard.owns_lock());
    }).join();
    ck_assert(mutex.held() && mutex.held()->validity() == 0ms);
    mutex.unlock();
    mutex.lock();
    mutex.unlock();
}

REAL_PROGRAM("wrapper")
