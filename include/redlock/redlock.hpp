/*
 * redlock.hpp - the blocking API of redlock.h for C++17, and completion tokens for Asio
 *
 *     redlock::client client(nodes);
 *     redlock::lock lock = client.acquire("reports/daily", 5s);     // waits up to 5 s
 *     while (more_to_do() && lock.validity() > 500ms)
 *         do_some();
 *                                                                   // released at the end of the scope
 *     redlock::mutex mutex(client, "reports/daily");                // for code written for a std::timed_mutex
 *     std::unique_lock guard(mutex, 5s);
 *
 * Header only: it adds no symbol to the library, and a program links the same library as a C program. redlock.h
 * documents each function under its C name; the comments here cover only the differences.
 *
 *   errors        each operation has two forms. Without a redlock::result argument it throws redlock::error, which
 *                 contains the result. With one it is noexcept, returns whether it succeeded (acquire and connect: an
 *                 optional), and fills the result.
 *   durations     times are std::chrono durations. A negative or too large one is status::invalid.
 *   ownership     client, lock and cancellation can be moved, not copied. Queries on an empty one (moved from,
 *                 released, closed) return that it holds nothing; operations on it are status::invalid.
 *   lifetime      a lock may outlive its client: closing the client releases the lock, which is then lost
 *                 (loss::closed).
 *   threads       any thread may use a client, and different locks. Only one thread at a time may use one lock, except
 *                 for validity(), valid_until(), wait_lost() and loss_reason(), which may run in parallel with
 *                 everything but its release. Closing or destroying the client counts as the release of all its locks:
 *                 no other thread may use them, or start a call on the client, meanwhile. A wait_lost() that is already
 *                 waiting returns.
 *   callbacks     run on the client's own thread. They must not call functions that send requests to nodes, nor release
 *                 a lock. An exception that leaves a callback is dropped.
 *
 *   asynchronous  redlock::async_client is a client for programs on Asio: include <asio.hpp> or <boost/asio.hpp> before
 *                 this header. After both it uses the former; REDLOCK_BOOST_ASIO, defined before, chooses Boost's. For
 *                 another event loop use descriptor() and dispatch() with the C functions, on native_handle().
 */
#ifndef REDLOCK_REDLOCK_HPP
#define REDLOCK_REDLOCK_HPP

#include <redlock/redlock.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>
#ifdef __cpp_lib_jthread
#include <stop_token>
#endif
#if defined(REDLOCK_BOOST_ASIO) && !defined(BOOST_ASIO_VERSION)
#error "REDLOCK_BOOST_ASIO is defined: include <boost/asio.hpp> before <redlock/redlock.hpp>"
#endif

namespace redlock
{

class client;
class lock;

using std::chrono::milliseconds;

/* No limit, as a time to wait. */
inline constexpr milliseconds forever = milliseconds::max();

/* -------------------------------------------------------------------------------------------------------------
 * status */

/* enum redlock_status. Comparable with std::error_code, and by redlock_status_errno() with std::errc: timed_out,
 * operation_canceled, invalid_argument, device_or_resource_busy (held), ... */
enum class status : int {
    ok = REDLOCK_OK,
    held = REDLOCK_HELD,
    no_quorum = REDLOCK_NO_QUORUM,
    misconfigured = REDLOCK_MISCONFIGURED,
    too_slow = REDLOCK_TOO_SLOW,
    timed_out = REDLOCK_TIMED_OUT,
    cancelled = REDLOCK_CANCELLED,
    lost = REDLOCK_LOST,
    invalid = REDLOCK_INVALID,
    no_memory = REDLOCK_NO_MEMORY,
    system = REDLOCK_SYSTEM,
    clock = REDLOCK_CLOCK
};

} // namespace redlock

template <> struct std::is_error_code_enum<redlock::status> : std::true_type {
};

namespace redlock
{

/* enum redlock_loss */
enum class loss : int {
    none = REDLOCK_NOT_LOST,
    expired = REDLOCK_LOSS_EXPIRED,
    gone = REDLOCK_LOSS_GONE,
    clock = REDLOCK_LOSS_CLOCK,
    closed = REDLOCK_LOSS_CLOSED
};

/* enum redlock_event */
enum class event : int {
    renewal_failing = REDLOCK_EVENT_RENEWAL_FAILING,
    ending = REDLOCK_EVENT_ENDING,
    lost = REDLOCK_EVENT_LOST
};

/* enum redlock_reentry: which acquires re-enter a held lock */
enum class reentry : std::uint32_t {
    by_owner = REDLOCK_REENTRY_DEFAULT,
    by_given_owner = REDLOCK_REENTRY_OWNER, /* a null owner is status::invalid */
    never = REDLOCK_REENTRY_NEVER           /* together with an owner it is status::invalid */
};

/* enum redlock_log_level */
enum class log_level : int {
    error = REDLOCK_LOG_ERROR,
    warning = REDLOCK_LOG_WARNING,
    info = REDLOCK_LOG_INFO,
    debug = REDLOCK_LOG_DEBUG
};

namespace detail
{

class status_category final : public std::error_category
{
  public:
    const char *name() const noexcept override
    {
        return "redlock";
    }
    std::string message(int value) const override
    {
        return redlock_status_text(value);
    }
    std::error_condition default_error_condition(int value) const noexcept override
    {
        return {redlock_status_errno(value), std::generic_category()};
    }
};

} // namespace detail

inline const std::error_category &category() noexcept
{
    static const detail::status_category instance;
    return instance;
}

inline std::error_code make_error_code(status code) noexcept
{
    return {static_cast<int>(code), category()};
}

/* -------------------------------------------------------------------------------------------------------------
 * result */

/* A redlock_holder with accessors in C++ types. */
class holder : public redlock_holder
{
  public:
    holder() noexcept : redlock_holder()
    {
    }
    explicit holder(const redlock_holder &named) noexcept : redlock_holder(named)
    {
    }
    /* Reads the token that state.node[i] or lock.token() has. */
    explicit holder(const std::string &token) noexcept
    {
        redlock_holder_read(token.c_str(), this);
    }
    std::string_view label() const noexcept
    {
        return redlock_holder::label;
    }
    std::string_view token() const noexcept
    {
        return redlock_holder::token;
    }
    /* The epoch: unknown. */
    std::chrono::system_clock::time_point since() const noexcept
    {
        return std::chrono::system_clock::from_time_t(static_cast<std::time_t>(since_s));
    }
};

/* A redlock_result with accessors in C++ types. Plain data: copy it freely. The nodes' names in it live as long as the
 * client; those in an error as long as the error. */
class result : public redlock_result
{
  public:
    result() noexcept : redlock_result()
    {
    }
    redlock::status status() const noexcept
    {
        return static_cast<redlock::status>(redlock_result::status);
    }
    redlock::status cause() const noexcept
    {
        return static_cast<redlock::status>(redlock_result::cause);
    }
    std::error_code error_code() const noexcept
    {
        return make_error_code(status());
    }
    milliseconds validity() const noexcept
    {
        return milliseconds(validity_ms);
    }
    std::chrono::microseconds elapsed() const noexcept
    {
        return std::chrono::microseconds(static_cast<std::int64_t>(elapsed_us));
    }
    /* Of an acquire whose cause() is status::held. */
    redlock::holder holder() const noexcept
    {
        return redlock::holder(redlock_result::holder);
    }
    milliseconds remaining() const noexcept
    {
        return milliseconds(remaining_ms);
    }
    /* One log line: see redlock_result_text(). */
    std::string text() const
    {
        redlock_result copy = *this;
        return redlock_result_text(&copy);
    }
};

/* A failed operation. what(): its name and result().text(). */
class error : public std::system_error
{
  public:
    error(const char *operation, const redlock::result &result)
        : std::system_error(result.error_code()), details_(std::make_shared<const details>(operation, result))
    {
    }
    const char *what() const noexcept override
    {
        return details_->what.c_str();
    }
    /* Lives as long as the error. */
    const redlock::result &result() const noexcept
    {
        return details_->result;
    }
    redlock::status status() const noexcept
    {
        return details_->result.status();
    }

  private:
    /* With the nodes' names, which the client owns: it may be closed before the error is caught. */
    struct details {
        details(const char *operation, const redlock::result &given)
            : what(std::string(operation) + ": " + given.text()), result(given)
        {
            for (std::uint32_t i = 0; i < result.nodes; i++)
                result.node[i].name = names.emplace_back(given.node[i].name ? given.node[i].name : "").c_str();
        }
        details(const details &) = delete;
        details &operator=(const details &) = delete;

        std::string what;
        redlock::result result;
        std::list<std::string> names;
    };
    std::shared_ptr<const details> details_;
};

/* The state of a resource on the nodes: a redlock_state. */
class state : public redlock_state
{
  public:
    state() noexcept : redlock_state()
    {
    }
    redlock::holder holder() const noexcept
    {
        return redlock::holder(redlock_state::holder);
    }
    milliseconds remaining() const noexcept
    {
        return milliseconds(remaining_ms);
    }
};

namespace detail
{

/* An argument that the wrapper rejects before it calls the library. */
class bad_argument : public std::exception
{
  public:
    explicit bad_argument(std::string text) : text_(std::move(text))
    {
    }
    const char *what() const noexcept override
    {
        return text_.c_str();
    }

  private:
    std::string text_;
};

inline bool refuse(result &result, status status, const char *text) noexcept
{
    result = redlock::result();
    result.redlock_result::status = result.redlock_result::cause = static_cast<int>(status);
    std::snprintf(result.redlock_result::text, sizeof result.redlock_result::text, "%s", text);
    return false;
}

/* Runs the body and converts an exception to the result. */
template <class Body> auto guarded(result &result, Body body) noexcept -> decltype(body())
{
    try {
        return body();
    } catch (const bad_argument &bad) {
        refuse(result, status::invalid, bad.what());
    } catch (const std::bad_alloc &) {
        refuse(result, status::no_memory, redlock_status_text(REDLOCK_NO_MEMORY));
    } catch (const std::exception &other) {
        refuse(result, status::system, other.what());
    }
    return {};
}

inline std::uint32_t count(milliseconds time, const char *name)
{
    if (time.count() < 0 || time.count() > std::int64_t{UINT32_MAX})
        throw bad_argument(std::string(name) + ": " + std::to_string(time.count()) + " ms is " +
                           (time.count() < 0 ? "negative" : "more than 4294967295"));
    return static_cast<std::uint32_t>(time.count());
}

/* Converts a time to a wait_ms. */
inline std::int64_t wait(milliseconds time)
{
    if (time.count() < 0)
        throw bad_argument("wait: " + std::to_string(time.count()) + " ms is negative");
    return time == forever ? REDLOCK_FOREVER : time.count();
}

/* Rounds up to milliseconds; saturates. */
template <class Rep, class Period> milliseconds ceiling(std::chrono::duration<Rep, Period> time) noexcept
{
    using seconds = std::chrono::duration<long double>;
    if (seconds(time) >= seconds(forever))
        return forever;
    if (seconds(time) <= seconds(milliseconds::min()))
        return milliseconds::min();
    return std::chrono::ceil<milliseconds>(time);
}

/* The time left; 0 if it is over. */
template <class Clock, class Duration> milliseconds until(std::chrono::time_point<Clock, Duration> deadline) noexcept
{
    const auto left = deadline - Clock::now();
    return left.count() < 0 ? milliseconds(0) : ceiling(left);
}

inline const char *text(const std::string &value, const char *name)
{
    if (std::strlen(value.c_str()) != value.size())
        throw bad_argument(std::string(name) + ": there is a NUL byte in it");
    return value.c_str();
}

inline const char *text_or_null(const std::optional<std::string> &value, const char *name)
{
    return value ? text(*value, name) : nullptr;
}

/* The library rejects NULL; an empty view may have it. */
inline const char *bytes(std::string_view value) noexcept
{
    return value.empty() ? "" : value.data();
}

} // namespace detail

/* Convert bytes to text and back: see redlock_escape(). */
inline std::string escape(std::string_view bytes)
{
    std::string text(redlock_escape(detail::bytes(bytes), bytes.size(), nullptr, 0), '\0');
    redlock_escape(detail::bytes(bytes), bytes.size(), text.data(), text.size());
    text.pop_back(); /* the NUL */
    return text;
}
inline std::string unescape(const std::string &text)
{
    std::string bytes(redlock_unescape(text.c_str(), nullptr, 0), '\0');
    redlock_unescape(text.c_str(), bytes.data(), bytes.size());
    return bytes;
}

/* ------------------------------------------------------------------------------------------------------------
 * options */

struct credentials {
    std::string user; /* "" for none */
    std::string password;
};

/* A client's settings, with the library's defaults: redlock_options, with names without the unit. */
struct options {
    options() : options(redlock_options REDLOCK_OPTIONS_INIT)
    {
    }

    milliseconds ttl;
    milliseconds minimum_validity;
    milliseconds node_timeout;
    milliseconds connect_timeout;
    milliseconds silence_limit;
    milliseconds backoff_max;
    std::uint32_t drift_ppm;
    std::uint32_t pending_max;
    std::uint32_t undos_max;
    std::uint32_t operations_max;
    bool leave_locks;
    std::uint32_t database;
    std::string prefix;
    std::string client_name;
    std::optional<std::string> user;
    std::optional<std::string> password;
    /* Called at each connect, on the client's thread; nullopt: no credentials now. Must not block. */
    std::function<std::optional<redlock::credentials>(std::string_view node)> credentials;
    /* Called on the client's thread, and in other threads during their calls. */
    std::function<void(redlock::log_level level, std::string_view line)> log;
    redlock::log_level log_level;
    bool tls_no_verify;
    std::optional<std::string> tls_ca_file;
    std::optional<std::string> tls_ca_directory;
    std::optional<std::string> tls_certificate_file;
    std::optional<std::string> tls_key_file;
    std::optional<std::string> tls_server_name;
    redlock_allocator allocator;
    std::uint32_t renewal_percent;
    bool guard;
    milliseconds max_ttl;
    std::string deployment;
    std::string marker_key;
    std::string channel_prefix;
    milliseconds fence_ttl;           /* 0: indefinitely */
    std::optional<std::string> label; /* "host:pid"; "": tokens without label and time */

  private:
    explicit options(const redlock_options &defaults)
        : ttl(defaults.ttl_ms), minimum_validity(defaults.minimum_validity_ms), node_timeout(defaults.node_timeout_ms),
          connect_timeout(defaults.connect_timeout_ms), silence_limit(defaults.silence_limit_ms),
          backoff_max(defaults.backoff_max_ms), drift_ppm(defaults.drift_ppm), pending_max(defaults.pending_max),
          undos_max(defaults.undos_max), operations_max(defaults.operations_max),
          leave_locks(defaults.leave_locks != 0), database(defaults.database), prefix(defaults.prefix),
          client_name(defaults.client_name), log_level(static_cast<redlock::log_level>(defaults.log_level)),
          tls_no_verify(defaults.tls_no_verify != 0), allocator(defaults.allocator),
          renewal_percent(defaults.renewal_percent), guard(defaults.guard != 0), max_ttl(defaults.max_ttl_ms),
          deployment(defaults.deployment), marker_key(defaults.marker_key), channel_prefix(defaults.channel_prefix),
          fence_ttl(defaults.fence_ttl_ms)
    {
    }
};

/* Ends operations in progress: see redlock_cancel(). Must outlive the operations that use it. */
class cancellation
{
  public:
    /* An empty one. */
    cancellation() noexcept = default;
    explicit cancellation(const client &client);
    cancellation(cancellation &&other) noexcept : handle_(std::exchange(other.handle_, nullptr))
    {
    }
    cancellation &operator=(cancellation &&other) noexcept
    {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~cancellation()
    {
        if (handle_)
            redlock_cancellation_destroy(&handle_);
    }
    /* Any thread, and signal handlers. */
    void cancel() noexcept
    {
        if (handle_)
            redlock_cancel(handle_);
    }
    /* Affects only operations that are started later. Any thread, and signal handlers. */
    void reset() noexcept
    {
        if (handle_)
            redlock_cancellation_reset(handle_);
    }
    redlock_cancellation *native_handle() const noexcept
    {
        return handle_;
    }

  private:
    redlock_cancellation *handle_ = nullptr;
};

/* How long a call may take, and what ends it early: redlock_call_options. A duration converts to options with this timeout,
 * a time point to one that ends then, and (C++20) a std::stop_token to one that ends the call when a stop is requested:
 * lock.release(100ms), client.query("stock", deadline). acquire_options do the same. */
struct call_options {
    call_options() = default;
    template <class Rep, class Period>
    call_options(std::chrono::duration<Rep, Period> time)
        : timeout(detail::ceiling(time)) // NOLINT: meant to be implicit
    {
    }
    template <class Clock, class Duration>
    call_options(std::chrono::time_point<Clock, Duration> deadline)
        : timeout(detail::until(deadline)) // NOLINT: meant to be implicit
    {
    }
#ifdef __cpp_lib_jthread
    call_options(std::stop_token token) : stop(std::move(token)) // NOLINT: meant to be implicit
    {
    }
    std::stop_token stop; /* together with a cancellation it is status::invalid */
#endif
    milliseconds timeout = forever;
    const redlock::cancellation *cancellation = nullptr;
    result *details =
        nullptr; /* of async_client's functions: filled before the handler runs, and must live until then */
};

namespace detail
{

/* What ends one operation early, for its duration: the caller's cancellation, or one of its own. */
class ending
{
  public:
    template <class Options> ending(redlock_client *client, const Options &options)
    {
        if (options.cancellation)
            handle_ = options.cancellation->native_handle();
#ifdef __cpp_lib_jthread
        if (!options.stop.stop_possible())
            return;
        if (options.cancellation)
            throw bad_argument("stop and cancellation exclude each other; set one of them");
        if (create(client))
            callback_.emplace(options.stop, stopper{own_});
#else
        static_cast<void>(client);
#endif
    }
    ending(const ending &) = delete;
    ending &operator=(const ending &) = delete;
    ~ending()
    {
#ifdef __cpp_lib_jthread
        callback_.reset(); /* waits for one that runs */
#endif
        redlock_cancellation_destroy(&own_);
    }

    /* Its own; null: the caller has set one, or the client is closed. */
    redlock_cancellation *create(redlock_client *client)
    {
        if (!handle_ && client && redlock_cancellation_create(client, &own_) == REDLOCK_NO_MEMORY)
            throw std::bad_alloc();
        if (!handle_)
            handle_ = own_;
        return own_;
    }
    redlock_cancellation *native_handle() const noexcept
    {
        return handle_;
    }

  private:
    redlock_cancellation *handle_ = nullptr;
    redlock_cancellation *own_ = nullptr;
#ifdef __cpp_lib_jthread
    struct stopper {
        redlock_cancellation *cancellation;
        void operator()() const noexcept
        {
            redlock_cancel(cancellation);
        }
    };
    std::optional<std::stop_callback<stopper>> callback_;
#endif
};

/* The library's options for one call, for its duration. */
class native_call_options
{
  public:
    native_call_options(redlock_client *client, const call_options &options)
        : end(std::make_shared<ending>(client, options))
    {
        if (options.timeout.count() < 0)
            throw bad_argument("timeout: " + std::to_string(options.timeout.count()) + " ms is negative");
        native.timeout_ms = options.timeout == forever ? REDLOCK_FOREVER : options.timeout.count();
        native.cancellation = end->native_handle();
    }

    redlock_call_options native = REDLOCK_CALL_OPTIONS_INIT;
    std::shared_ptr<ending> end;
};

} // namespace detail

/* How to acquire. A duration converts to options with this wait, a time point to those that wait until then, and (C++20) a
 * std::stop_token to those that wait until a stop is requested: acquire(resource, 5s). */
struct acquire_options {
    acquire_options() = default;
    template <class Rep, class Period>
    acquire_options(std::chrono::duration<Rep, Period> time)
        : wait(detail::ceiling(time)) // NOLINT: meant to be implicit
    {
    }
    template <class Clock, class Duration>
    acquire_options(std::chrono::time_point<Clock, Duration> deadline)
        : wait(detail::until(deadline)) // NOLINT: meant to be implicit
    {
    }
#ifdef __cpp_lib_jthread
    acquire_options(std::stop_token token) : stop(std::move(token)), wait(forever) // NOLINT: meant to be implicit
    {
    }
    std::stop_token stop; /* ends the acquire; together with a cancellation it is status::invalid */
#endif

    milliseconds wait{0};             /* 0: try once; otherwise the longest wait; forever */
    milliseconds ttl{0};              /* 0: the client's */
    milliseconds minimum_validity{0}; /* 0: the client's */
    const redlock::cancellation *cancellation = nullptr;
    bool renewal = true;
    milliseconds cap{0}; /* renew for at most this long after the acquire; 0: no cap */
    /* No other client gets the lock before this long after the acquire, also if it is released earlier; at most the
     * deployment's max_ttl. 0: none. */
    milliseconds at_least{0};
    milliseconds notify_before{0}; /* event::ending comes this long before the end of validity; 0: never */
    /* The lock's events, on the client's thread, while the lock lives. */
    std::function<void(event event, loss loss, milliseconds validity)> on_event;
    /* At event::renewal_failing: which nodes did not extend the lock, and why. See redlock_renewal_result(). */
    std::function<void(const result &renewal)> on_renewal_failing;
    bool fence = false;            /* with a fencing token: lock.fence() */
    bool shared = false;           /* a reader: excludes writers, not other readers */
    unsigned permits = 0;          /* the resource is a semaphore with this number of permits */
    unsigned permits_wanted = 0;   /* how many of them this acquire takes, all or none; 0: one */
    std::vector<std::string> also; /* further resources: the lock covers all or none */
    bool any = false;              /* they are alternatives: the lock is on the first that is free, see resource() */
    bool keep_waiting = false;
    const void *owner = nullptr; /* which acquires re-enter the lock; null: those of the calling thread */
    redlock::reentry reentry = redlock::reentry::by_owner;
    bool all_answers = false;  /* succeed only after every node has replied or timed out */
    result *details = nullptr; /* of async_acquire(): filled before the handler runs, and must live until then */
};

namespace detail
{

/* The argument of the library's event callback. Lives as long as the lock. */
struct watcher {
    std::function<void(event, loss, milliseconds)> on_event;
    std::function<void(const result &)> on_renewal_failing;
    std::unique_ptr<watcher> next;
    std::shared_ptr<void> use; /* of an asynchronous client's dispatcher */
    std::atomic<std::thread::id> runs_on{std::thread::id()};
    bool dismissed = false; /* by its callback; notify() frees it */

    static void notify(redlock_lock *lock, int event, int loss, std::int64_t validity_ms, void *arg) noexcept
    {
        auto *self = static_cast<watcher *>(arg);
        self->runs_on = std::this_thread::get_id();
        try {
            if (self->on_event)
                self->on_event(static_cast<redlock::event>(event), static_cast<redlock::loss>(loss),
                               milliseconds(validity_ms));
        } catch (...) {
        }
        if (event == REDLOCK_EVENT_RENEWAL_FAILING && self->on_renewal_failing && !self->dismissed)
            self->notify_failing(lock);
        self->runs_on = std::thread::id();
        if (self->dismissed)
            delete self;
    }
    /* A callback may drop its own lock: what it is made of must stay until it has returned. */
    static void dismiss(std::unique_ptr<watcher> unused) noexcept
    {
        if (!unused || unused->runs_on.load() != std::this_thread::get_id())
            return;
        unused->dismissed = true;
        unused.release();
    }
    void notify_failing(redlock_lock *lock) const noexcept
    {
        try {
            result renewal;
            if (redlock_renewal_result(lock, &renewal) == REDLOCK_OK)
                on_renewal_failing(renewal);
        } catch (...) {
        }
    }
};

/* The library's client and the objects that it points to. The client and its locks share it, so locks notice a
 * close. */
class connection
{
  public:
    connection() = default;
    connection(const connection &) = delete;
    connection &operator=(const connection &) = delete;
    ~connection() = default;

    /* Keeps the watcher of a lock that cannot be released here: on the client's own thread, or in a forked child. */
    void keep(std::unique_ptr<watcher> orphan) noexcept
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        orphan->next = std::move(orphans_);
        orphans_ = std::move(orphan);
    }

    redlock_options native(const options &from)
    {
        log_ = from.log;
        credentials_ = from.credentials;
        redlock_options to = REDLOCK_OPTIONS_INIT;
        to.ttl_ms = count(from.ttl, "ttl");
        to.minimum_validity_ms = count(from.minimum_validity, "minimum_validity");
        to.node_timeout_ms = count(from.node_timeout, "node_timeout");
        to.connect_timeout_ms = count(from.connect_timeout, "connect_timeout");
        to.silence_limit_ms = count(from.silence_limit, "silence_limit");
        to.backoff_max_ms = count(from.backoff_max, "backoff_max");
        to.drift_ppm = from.drift_ppm;
        to.pending_max = from.pending_max;
        to.undos_max = from.undos_max;
        to.operations_max = from.operations_max;
        to.leave_locks = from.leave_locks ? 1 : 0;
        to.database = from.database;
        to.prefix = text(from.prefix, "prefix");
        to.client_name = text(from.client_name, "client_name");
        to.user = text_or_null(from.user, "user");
        to.password = text_or_null(from.password, "password");
        if (credentials_)
            to.credentials = write_credentials;
        to.credentials_arg = this;
        if (log_)
            to.log = write_log;
        to.log_arg = this;
        to.log_level = static_cast<std::uint32_t>(from.log_level);
        to.tls_no_verify = from.tls_no_verify ? 1 : 0;
        to.tls_ca_file = text_or_null(from.tls_ca_file, "tls_ca_file");
        to.tls_ca_directory = text_or_null(from.tls_ca_directory, "tls_ca_directory");
        to.tls_certificate_file = text_or_null(from.tls_certificate_file, "tls_certificate_file");
        to.tls_key_file = text_or_null(from.tls_key_file, "tls_key_file");
        to.tls_server_name = text_or_null(from.tls_server_name, "tls_server_name");
        to.allocator = from.allocator;
        to.renewal_percent = from.renewal_percent;
        to.guard = from.guard ? 1 : 0;
        to.max_ttl_ms = count(from.max_ttl, "max_ttl");
        to.deployment = text(from.deployment, "deployment");
        to.marker_key = text(from.marker_key, "marker_key");
        to.channel_prefix = text(from.channel_prefix, "channel_prefix");
        to.fence_ttl_ms = count(from.fence_ttl, "fence_ttl");
        to.label = text_or_null(from.label, "label");
        return to;
    }

    redlock_client *handle = nullptr;    /* null: closed */
    std::atomic<bool> is_closing{false}; /* by async_close(): events may still come */

  private:
    static void write_log(int level, const char *line, void *arg) noexcept
    {
        try {
            static_cast<connection *>(arg)->log_(static_cast<log_level>(level), line);
        } catch (...) {
        }
    }

    static int write_credentials(const char *node, char *user, char *password, size_t size, void *arg) noexcept
    {
        try {
            const auto given = static_cast<connection *>(arg)->credentials_(node);
            if (!given || given->user.size() >= size || given->password.size() >= size)
                return 1;
            std::memcpy(user, given->user.c_str(), given->user.size() + 1);
            std::memcpy(password, given->password.c_str(), given->password.size() + 1);
            return 0;
        } catch (...) {
            return 1;
        }
    }

    std::function<void(log_level, std::string_view)> log_;
    std::function<std::optional<redlock::credentials>(std::string_view)> credentials_;
    std::mutex mutex_;
    std::unique_ptr<watcher> orphans_;
};

/* Closes and frees a connection. A callback that drops its lock and its client runs on the client's own thread, where
 * the client cannot be closed: another thread does it, after the callback. Without one the client stays. */
struct closer {
    void operator()(connection *closed) const noexcept
    {
        if (close(closed))
            return;
        try {
            std::thread(close, closed).detach();
        } catch (...) {
        }
    }
    static bool close(connection *closed) noexcept
    {
        redlock_close(&closed->handle, NULL, nullptr);
        if (closed->handle)
            return false;
        delete closed;
        return true;
    }
};

/* token: null, or the token of the lock to adopt */
std::optional<lock> acquire(const std::shared_ptr<connection> &, std::string_view, const acquire_options &,
                            const char *token, result &);

/* Makes the handle of a lock from the library's. */
struct lock_maker;

} // namespace detail

/* ---------------------------------------------------------------------------------------------------------------
 * lock */

/* One successful acquire: a redlock_lock. The destructor releases it and drops the result; like release() it waits
 * until a majority has replied. That of a lock of async_acquire() starts the release, and does not wait. */
class lock
{
  public:
    /* An empty one. */
    lock() noexcept = default;
    lock(lock &&other) noexcept
        : connection_(std::move(other.connection_)), watcher_(std::move(other.watcher_)),
          handle_(std::exchange(other.handle_, nullptr)), waits_(other.waits_)
    {
    }
    lock &operator=(lock &&other) noexcept
    {
        if (this != &other) {
            drop();
            connection_ = std::move(other.connection_);
            watcher_ = std::move(other.watcher_);
            handle_ = std::exchange(other.handle_, nullptr);
            waits_ = other.waits_;
        }
        return *this;
    }
    ~lock()
    {
        drop();
    }

    /* Not empty: there is a handle to release. To check whether the lock is still held, use validity(). */
    explicit operator bool() const noexcept
    {
        return native_handle() != nullptr;
    }
    /* The validity left, rounded down; 0 if lost or empty. Sends no request. */
    milliseconds validity() const noexcept
    {
        return milliseconds(native_handle() ? redlock_validity_ms(handle_) : 0);
    }
    /* The end of validity, on this machine's CLOCK_BOOTTIME; zero if lost or empty. */
    std::chrono::nanoseconds valid_until() const noexcept
    {
        return std::chrono::nanoseconds(native_handle() ? redlock_valid_until_ns(handle_) : 0);
    }
    /* The result of the last renewal; status::ok unless it failed. */
    result renewal_result() const
    {
        result renewal;
        if (redlock_renewal_result(native_handle(), &renewal) != REDLOCK_OK)
            detail::refuse(renewal, status::invalid, redlock_status_text(REDLOCK_INVALID));
        return renewal;
    }
    loss loss_reason() const noexcept
    {
        if (native_handle())
            return static_cast<loss>(redlock_lock_loss(handle_));
        return handle_ ? loss::closed : loss::none;
    }
    /* Lives as long as the lock; may hold any byte. */
    std::string_view resource() const noexcept
    {
        std::size_t size = 0;
        const char *name = native_handle() ? redlock_lock_resource(handle_, &size) : "";
        return {name, size};
    }
    /* All resources of the lock, in byte order. */
    std::vector<std::string_view> resources() const
    {
        std::vector<std::string_view> names(native_handle() ? redlock_lock_resources(handle_) : 0);
        for (std::size_t i = 0; i < names.size(); i++) {
            std::size_t size = 0;
            const char *name = redlock_lock_resource_at(handle_, static_cast<std::uint32_t>(i), &size);
            names[i] = {name, size};
        }
        return names;
    }
    std::string_view token() const noexcept
    {
        return native_handle() ? redlock_lock_token(handle_) : "";
    }
    /* The fencing token, larger than every earlier one; 0: not requested. */
    std::uint64_t fence() const noexcept
    {
        return native_handle() ? redlock_lock_fence(handle_) : 0;
    }
    /* A pointer of the caller's, null at first: see redlock_lock_set_user_data(). */
    void set_user_data(void *data) noexcept
    {
        redlock_lock_set_user_data(native_handle(), data);
    }
    void *user_data() const noexcept
    {
        return redlock_lock_user_data(native_handle());
    }
    /* The number of handles of this lock: 1, or more by re-entrancy. */
    std::uint32_t hold_count() const noexcept
    {
        return native_handle() ? redlock_hold_count(handle_) : 0;
    }

    /* Extends the lock to at least this long from now; 0: its present ttl. Never shortens it. */
    void extend(milliseconds ttl = milliseconds(0), const call_options &options = {})
    {
        result result;
        if (!extend(ttl, result, options))
            throw error("extend", result);
    }
    bool extend(milliseconds ttl, result &result, const call_options &options = {}) noexcept
    {
        return detail::guarded(result, [&] {
            const detail::native_call_options how(native_handle() ? connection_->handle : nullptr, options);
            return redlock_extend(native_handle(), detail::count(ttl, "ttl"), &how.native, &result) == REDLOCK_OK;
        });
    }

    /* Turns an exclusive lock into a shared one, without a moment at which a writer could get it. From the call on other
     * readers may enter, also if it fails: see redlock_downgrade(). */
    void downgrade(const call_options &options = {})
    {
        result result;
        if (!downgrade(result, options))
            throw error("downgrade", result);
    }
    bool downgrade(result &result, const call_options &options = {}) noexcept
    {
        return detail::guarded(result, [&] {
            const detail::native_call_options how(native_handle() ? connection_->handle : nullptr, options);
            return redlock_downgrade(native_handle(), &how.native, &result) == REDLOCK_OK;
        });
    }

    /* The lock is empty afterwards, also on failure; unless the options are status::invalid. */
    void release(const call_options &options = {})
    {
        result result;
        if (!release(result, options))
            throw error("release", result);
    }
    bool release(result &result, const call_options &options = {}) noexcept
    {
        return detail::guarded(result, [&] {
            redlock_lock *handle = native_handle();
            const detail::native_call_options how(handle ? connection_->handle : nullptr, options);
            const int status = redlock_release(&handle, &how.native, &result);
            drop_handle(handle != nullptr);
            return status == REDLOCK_OK;
        });
    }

    /* The reason of the loss; nullopt: not lost within that time. Throws with status::cancelled if the client is closed
     * meanwhile. */
    std::optional<loss> wait_lost(milliseconds time = forever)
    {
        result result;
        const std::optional<loss> why = wait_lost(time, result);
        if (!why && result.status() != status::timed_out)
            throw error("wait_lost", result);
        return why;
    }
    /* The status is status::lost, timed_out, cancelled, ... */
    std::optional<loss> wait_lost(milliseconds time, result &result) noexcept
    {
        return detail::guarded(result, [&]() -> std::optional<loss> {
            if (handle_ && !native_handle()) {
                detail::refuse(result, status::lost, redlock_status_text(REDLOCK_LOST));
                return loss::closed;
            }
            int why = REDLOCK_NOT_LOST;
            const int status = redlock_wait_lost(handle_, detail::wait(time), &why);
            detail::refuse(result, static_cast<redlock::status>(status), redlock_status_text(status));
            if (status != REDLOCK_LOST)
                return std::nullopt;
            return static_cast<loss>(why);
        });
    }

    /* For poll(2): readable after a loss. The lock owns it: do not read or close it. */
    int lost_descriptor()
    {
        result result;
        int descriptor = -1;
        const int status = redlock_lost_descriptor(native_handle(), &descriptor);
        if (status != REDLOCK_OK) {
            detail::refuse(result, static_cast<redlock::status>(status), redlock_status_text(status));
            throw error("lost_descriptor", result);
        }
        return descriptor;
    }

    redlock_lock *native_handle() const noexcept
    {
        return connection_ && connection_->handle ? handle_ : nullptr;
    }

  private:
    friend struct detail::lock_maker;

    lock(std::shared_ptr<detail::connection> connection, std::unique_ptr<detail::watcher> watcher, redlock_lock *handle,
         bool waits) noexcept
        : connection_(std::move(connection)), watcher_(std::move(watcher)), handle_(handle), waits_(waits)
    {
    }

    void drop() noexcept
    {
        redlock_lock *handle = native_handle();
        if (handle && !waits_ && redlock_release_async(&handle, NULL, end_watcher, watcher_.get()) == REDLOCK_OK)
            watcher_.release(); /* end_watcher() frees it */
        if (handle)
            redlock_release(&handle, NULL, nullptr);
        drop_handle(handle != nullptr || (connection_ && connection_->is_closing));
    }

    static void end_watcher(redlock_client *, const redlock_result *, void *arg) noexcept
    {
        delete static_cast<detail::watcher *>(arg);
    }

    void drop_handle(bool keep_watcher) noexcept
    {
        if (keep_watcher && watcher_)
            connection_->keep(std::move(watcher_));
        handle_ = nullptr;
        detail::watcher::dismiss(std::move(watcher_));
        connection_.reset();
    }

    std::shared_ptr<detail::connection> connection_;
    std::unique_ptr<detail::watcher> watcher_;
    redlock_lock *handle_ = nullptr;
    bool waits_ = true; /* the destructor waits for the release */
};

namespace detail
{

struct lock_maker {
    static lock make(std::shared_ptr<connection> connection, std::unique_ptr<watcher> watcher, redlock_lock *handle,
                     bool waits) noexcept
    {
        return {std::move(connection), std::move(watcher), handle, waits};
    }
    /* The handle, which the caller must release. */
    static redlock_lock *take(lock &from, std::unique_ptr<watcher> &watcher) noexcept
    {
        redlock_lock *handle = from.native_handle();
        watcher = std::move(from.watcher_);
        from.drop_handle(false);
        return handle;
    }
};

/* The library's options for one acquire, and the objects that they point to. */
class native_acquire_options
{
  public:
    native_acquire_options(redlock_client *client, std::string_view resource, const acquire_options &options)
        : end(std::make_shared<ending>(client, options))
    {
        native.wait_ms = wait(options.wait);
        native.ttl_ms = count(options.ttl, "ttl");
        native.minimum_validity_ms = count(options.minimum_validity, "minimum_validity");
        native.resource_size = resource.size();
        native.cancellation = end->native_handle();
        native.no_renewal = options.renewal ? 0 : 1;
        native.cap_ms = count(options.cap, "cap");
        native.at_least_ms = count(options.at_least, "at_least");
        native.notify_before_ms = count(options.notify_before, "notify_before");
        if (options.on_event || options.on_renewal_failing) {
            watch = std::make_unique<watcher>();
            watch->on_event = options.on_event;
            watch->on_renewal_failing = options.on_renewal_failing;
            native.event = watcher::notify;
            native.event_arg = watch.get();
        }
        native.fence = options.fence ? 1 : 0;
        native.shared = options.shared ? 1 : 0;
        native.permits = options.permits;
        native.permits_wanted = options.permits_wanted;
        for (const std::string &name : options.also)
            also_.push_back({name.data(), name.size()});
        native.also = also_.data();
        native.also_count = also_.size();
        native.any = options.any ? 1 : 0;
        native.keep_waiting = options.keep_waiting ? 1 : 0;
        native.owner = options.owner;
        native.reentry = static_cast<std::uint32_t>(options.reentry);
        native.all_answers = options.all_answers ? 1 : 0;
    }

    redlock_acquire_options native = REDLOCK_ACQUIRE_OPTIONS_INIT;
    std::unique_ptr<watcher> watch;
    std::shared_ptr<ending> end;

  private:
    std::vector<redlock_name> also_;
};

inline std::optional<lock> acquire(const std::shared_ptr<connection> &connection, std::string_view resource,
                                   const acquire_options &options, const char *token, result &result)
{
    redlock_client *client = connection ? connection->handle : nullptr;
    native_acquire_options how(client, resource, options);
    redlock_lock *handle = nullptr;
    const int status = token ? redlock_adopt(client, bytes(resource), &how.native, token, &handle, &result)
                             : redlock_acquire(client, bytes(resource), &how.native, &handle, &result);
    if (status != REDLOCK_OK)
        return std::nullopt;
    return lock_maker::make(connection, std::move(how.watch), handle, true);
}

} // namespace detail

/* -------------------------------------------------------------------------------------------------------------
 * client */

/* A set of nodes and the connections to them: a redlock_client with its own loop thread. The destructor closes it,
 * which releases the held locks; to learn whether that was confirmed, call close(). */
class client
{
  public:
    /* An empty one. */
    client() noexcept = default;
    explicit client(std::string_view nodes, const options &options = {})
    {
        result result;
        if (!open(nodes, options, result))
            throw error("connect", result);
    }
    static std::optional<client> connect(std::string_view nodes, const options &options, result &result) noexcept
    {
        client made;
        if (!made.open(nodes, options, result))
            return std::nullopt;
        return made;
    }
    client(client &&other) noexcept = default;
    client &operator=(client &&other) noexcept
    {
        if (this != &other) {
            drop();
            connection_ = std::move(other.connection_);
        }
        return *this;
    }
    ~client()
    {
        drop();
    }

    lock acquire(std::string_view resource, const acquire_options &options = {}) const
    {
        result result;
        std::optional<lock> lock = acquire(resource, options, result);
        if (!lock)
            throw error("acquire", result);
        return std::move(*lock);
    }
    std::optional<lock> acquire(std::string_view resource, const acquire_options &options,
                                result &result) const noexcept
    {
        return detail::guarded(result,
                               [&] { return detail::acquire(connection_, resource, options, nullptr, result); });
    }

    /* Takes over a lock by its token, from a handle in this process or another. */
    lock adopt(std::string_view resource, const std::string &token, const acquire_options &options = {}) const
    {
        result result;
        std::optional<lock> lock = adopt(resource, token, options, result);
        if (!lock)
            throw error("adopt", result);
        return std::move(*lock);
    }
    std::optional<lock> adopt(std::string_view resource, const std::string &token, const acquire_options &options,
                              result &result) const noexcept
    {
        return detail::guarded(result, [&] {
            return detail::acquire(connection_, resource, options, detail::text(token, "token"), result);
        });
    }
    /* Releases a lock by its token, without a handle. */
    void release_token(std::string_view resource, const std::string &token, const call_options &options = {}) const
    {
        result result;
        if (!release_token(resource, token, result, options))
            throw error("release_token", result);
    }
    bool release_token(std::string_view resource, const std::string &token, result &result,
                       const call_options &options = {}) const noexcept
    {
        return detail::guarded(result, [&] {
            const detail::native_call_options how(native_handle(), options);
            return redlock_release_token(native_handle(), detail::bytes(resource), resource.size(),
                                         detail::text(token, "token"), &how.native, &result) == REDLOCK_OK;
        });
    }

    /* Waits until a majority of the nodes is usable. Optional before an acquire. */
    void ready(milliseconds time = forever) const
    {
        result result;
        if (!ready(time, result))
            throw error("ready", result);
    }
    bool ready(milliseconds time, result &result) const noexcept
    {
        return detail::guarded(
            result, [&] { return redlock_ready(native_handle(), detail::wait(time), &result) == REDLOCK_OK; });
    }

    /* The state on the nodes: a snapshot. */
    redlock::state query(std::string_view resource, const call_options &options = {}) const
    {
        result result;
        const std::optional<redlock::state> state = query(resource, result, options);
        if (!state)
            throw error("query", result);
        return *state;
    }
    std::optional<redlock::state> query(std::string_view resource, result &result,
                                        const call_options &options = {}) const noexcept
    {
        return detail::guarded(result, [&]() -> std::optional<redlock::state> {
            const detail::native_call_options how(native_handle(), options);
            redlock::state state;
            if (redlock_query(native_handle(), detail::bytes(resource), resource.size(), &how.native, &state,
                              &result) != REDLOCK_OK)
                return std::nullopt;
            return state;
        });
    }

    /* The locks on one node whose resources match a pattern: see redlock_scan(). found runs on the client's thread; an
     * exception that it throws is dropped. */
    void scan(std::uint32_t node, const std::string &pattern,
              const std::function<void(const redlock_found &)> &found) const
    {
        result result;
        if (!scan(node, pattern, found, result))
            throw error("scan", result);
    }
    bool scan(std::uint32_t node, const std::string &pattern, const std::function<void(const redlock_found &)> &found,
              result &result) const noexcept
    {
        const redlock_scan_callback call = [](const redlock_found *lock, void *arg) noexcept {
            try {
                (*static_cast<const std::function<void(const redlock_found &)> *>(arg))(*lock);
            } catch (...) {
            }
        };
        return redlock_scan(native_handle(), node, pattern.c_str(), call,
                            const_cast<std::function<void(const redlock_found &)> *>(&found), nullptr,
                            &result) == REDLOCK_OK;
    }

    /* Whether this client holds a valid lock on the resource. Sends no request. */
    bool held_by_me(std::string_view resource) const noexcept
    {
        return native_handle() && redlock_held_by_me(native_handle(), detail::bytes(resource), resource.size()) != 0;
    }

    /* A pointer of the caller's, null at first: see redlock_client_set_user_data(). */
    void set_user_data(void *data) noexcept
    {
        redlock_client_set_user_data(native_handle(), data);
    }
    void *user_data() const noexcept
    {
        return redlock_client_user_data(native_handle());
    }

    /* The client's current knowledge of each node. The names in it live as long as the client. */
    std::vector<redlock_node_status> nodes() const
    {
        std::vector<redlock_node_status> all(native_handle() ? redlock_nodes(native_handle()) : 0);
        for (std::size_t i = 0; i < all.size(); i++)
            redlock_node_status_get(native_handle(), static_cast<std::uint32_t>(i), &all[i]);
        return all;
    }

    /* Ends the quarantine of nodes that may have lost locks: the caller vouches that no client holds one. */
    void trust(const call_options &options = {}) const
    {
        result result;
        if (!trust(result, options))
            throw error("trust", result);
    }
    bool trust(result &result, const call_options &options = {}) const noexcept
    {
        return detail::guarded(result, [&] {
            const detail::native_call_options how(native_handle(), options);
            return redlock_trust(native_handle(), &how.native, &result) == REDLOCK_OK;
        });
    }

    /* Tries every command that the library uses, without any effect; nodes() then reports the missing permissions. */
    void inspect(std::string_view resource, const call_options &options = {}) const
    {
        result result;
        if (!inspect(resource, result, options))
            throw error("inspect", result);
    }
    bool inspect(std::string_view resource, result &result, const call_options &options = {}) const noexcept
    {
        return detail::guarded(result, [&] {
            const detail::native_call_options how(native_handle(), options);
            return redlock_inspect(native_handle(), detail::bytes(resource), resource.size(), &how.native, &result) ==
                   REDLOCK_OK;
        });
    }

    /* For an event loop: readable while callbacks of asynchronous functions wait for dispatch(). Those functions are the
     * C functions, on native_handle(). The client owns the descriptor: do not read or close it. */
    int descriptor() const
    {
        const int descriptor = redlock_descriptor(native_handle());
        if (descriptor < 0) {
            result result;
            detail::refuse(result, static_cast<redlock::status>(descriptor), redlock_status_text(descriptor));
            throw error("descriptor", result);
        }
        return descriptor;
    }
    /* Runs these callbacks on the calling thread: see redlock_dispatch(). false: status::invalid. */
    bool dispatch() const noexcept
    {
        return redlock_dispatch(native_handle()) == REDLOCK_OK;
    }

    /* A copy of the client's counters; all zero if the client is empty. */
    redlock_statistics statistics() const noexcept
    {
        redlock_statistics counted{};
        if (native_handle())
            redlock_statistics_get(native_handle(), &counted);
        return counted;
    }
    /* The same in the Prometheus exposition format. */
    std::string metrics() const
    {
        std::string text;
        std::size_t needed = 4096;
        for (bool done = !native_handle(); !done;) {
            text.resize(needed + needed / 8); /* it may have grown by the next call */
            const bool whole = redlock_metrics(native_handle(), text.data(), text.size(), &needed) == REDLOCK_OK;
            done = whole || needed <= text.size(); /* otherwise the text was cut */
            if (done)
                text.resize(whole ? needed - 1 : 0);
        }
        return text;
    }

    /* The client is empty afterwards. Throws with status::no_quorum if something is unconfirmed; it will expire. */
    void close(const call_options &options = {})
    {
        result result;
        if (!close(result, options))
            throw error("close", result);
    }
    bool close(result &result, const call_options &options = {}) noexcept
    {
        return detail::guarded(result, [&] {
            redlock_client *none = nullptr;
            const detail::native_call_options how(native_handle(), options);
            const int status = redlock_close(connection_ ? &connection_->handle : &none, &how.native, &result);
            connection_.reset();
            return status == REDLOCK_OK;
        });
    }

    /* Not empty. */
    explicit operator bool() const noexcept
    {
        return native_handle() != nullptr;
    }
    redlock_client *native_handle() const noexcept
    {
        return connection_ ? connection_->handle : nullptr;
    }

  protected:
    std::shared_ptr<detail::connection> connection() const noexcept
    {
        return connection_;
    }

  private:
    friend class mutex;

    bool open(std::string_view nodes, const options &options, result &result) noexcept
    {
        return detail::guarded(result, [&] {
            const std::shared_ptr<detail::connection> connection(new detail::connection, detail::closer());
            const std::string list(nodes);
            const redlock_options native = connection->native(options);
            if (redlock_connect(detail::text(list, "nodes"), &native, &connection->handle, &result) != REDLOCK_OK)
                return false;
            connection_ = connection;
            return true;
        });
    }

    void drop() noexcept
    {
        if (connection_)
            redlock_close(&connection_->handle, NULL, nullptr);
        connection_.reset();
    }

    std::shared_ptr<detail::connection> connection_;
};

inline cancellation::cancellation(const client &client)
{
    result result;
    const int status = redlock_cancellation_create(client.native_handle(), &handle_);
    if (status != REDLOCK_OK) {
        detail::refuse(result, static_cast<redlock::status>(status), redlock_status_text(status));
        throw error("cancellation", result);
    }
}

/* --------------------------------------------------------------------------------------------------------------
 * mutex */

/*
 * A resource as a std::timed_mutex: for std::unique_lock, std::scoped_lock, std::lock_guard. Like a std::timed_mutex it
 * is neither copied nor moved, threads may share it, the thread that locked it must unlock it, and it is not
 * re-entrant: in a thread that already holds it, lock() throws std::errc::resource_deadlock_would_occur and the other
 * functions return false. (Another mutex on the same resource counts as another holder.) For re-entrancy and the other
 * features of a lock use client::acquire().
 *
 * false means that another holder has the lock, or that the time was over before the nodes had answered. Any other
 * failure throws redlock::error.
 *
 * Unlike a std::mutex, a held lock can be lost: check held()->validity() before each effect that must not happen twice.
 */
class mutex
{
  public:
    /* options: wait, owner and reentry are not used. A cancellation in them must outlive the mutex. */
    mutex(const client &client, std::string_view resource, acquire_options options = {})
        : connection_(client.connection_), resource_(resource), options_(std::move(options))
    {
    }
    mutex(const mutex &) = delete;
    mutex &operator=(const mutex &) = delete;

    void lock()
    {
        if (held())
            throw std::system_error(std::make_error_code(std::errc::resource_deadlock_would_occur), resource_);
        result result;
        if (!acquire(forever, result))
            throw error("lock", result);
    }
    bool try_lock()
    {
        return attempt(milliseconds(0));
    }
    template <class Rep, class Period> bool try_lock_for(const std::chrono::duration<Rep, Period> &time)
    {
        return attempt(detail::ceiling(time));
    }
    template <class Clock, class Duration> bool try_lock_until(const std::chrono::time_point<Clock, Duration> &time)
    {
        return attempt(detail::ceiling(time - Clock::now()));
    }
    /* Waits like the destructor of a lock. Does nothing if the calling thread does not hold the mutex. */
    void unlock() noexcept
    {
        std::list<holding> mine;
        {
            const std::lock_guard<std::mutex> guard(mutex_);
            const auto found = find();
            if (found != holdings_.end())
                mine.splice(mine.begin(), holdings_, found);
        }
    }

    /* The calling thread's lock, valid until it unlocks the mutex; null if it holds none. */
    redlock::lock *held() noexcept
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        const auto found = find();
        return found == holdings_.end() ? nullptr : &found->lock;
    }
    const std::string &resource() const noexcept
    {
        return resource_;
    }

  private:
    /* After a loss, a thread that has not noticed it and the new holder can both have an entry. */
    struct holding {
        std::thread::id thread;
        redlock::lock lock;
    };

    std::list<holding>::iterator find() noexcept
    {
        const std::thread::id me = std::this_thread::get_id();
        auto at = holdings_.begin();
        while (at != holdings_.end() && at->thread != me)
            ++at;
        return at;
    }

    bool acquire(milliseconds wait, result &result)
    {
        std::list<holding> mine;
        mine.push_back({std::this_thread::get_id(), redlock::lock()});
        acquire_options options = options_;
        options.wait = wait;
        options.owner = nullptr;
        options.reentry = reentry::never;
        std::optional<redlock::lock> lock =
            detail::guarded(result, [&] { return detail::acquire(connection_, resource_, options, nullptr, result); });
        if (!lock)
            return false;
        mine.front().lock = std::move(*lock);
        const std::lock_guard<std::mutex> guard(mutex_);
        holdings_.splice(holdings_.begin(), mine);
        return true;
    }

    bool attempt(milliseconds time)
    {
        if (held())
            return false;
        result result;
        if (acquire(time < milliseconds(0) ? milliseconds(0) : time, result))
            return true;
        const bool is_held = result.status() == status::held ||
                             (result.status() == status::timed_out &&
                              (result.cause() == status::held || result.cause() == status::timed_out));
        if (!is_held)
            throw error("try_lock", result);
        return false;
    }

    const std::shared_ptr<detail::connection> connection_;
    const std::string resource_;
    const acquire_options options_;
    std::mutex mutex_;
    std::list<holding> holdings_;
};

/* --------------------------------------------------------------------------------------------------------------
 * Asio */

#if defined(BOOST_ASIO_VERSION) && (defined(REDLOCK_BOOST_ASIO) || !defined(ASIO_VERSION))
#define REDLOCK_ASIO_VERSION BOOST_ASIO_VERSION
#define REDLOCK_ON_ASIO      on_boost_asio
#elif defined(ASIO_VERSION)
#define REDLOCK_ASIO_VERSION ASIO_VERSION
#define REDLOCK_ON_ASIO      on_asio
#endif

#ifdef REDLOCK_ASIO_VERSION

/* A program may use both, in different translation units. */
inline namespace REDLOCK_ON_ASIO
{

#if defined(BOOST_ASIO_VERSION) && (defined(REDLOCK_BOOST_ASIO) || !defined(ASIO_VERSION))
namespace net = ::boost::asio;

#ifdef __GNUC__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wnon-virtual-dtor" /* of Boost's class, which is never deleted by it */
#endif
class boost_status_category final : public boost::system::error_category
{
  public:
    const char *name() const noexcept override
    {
        return "redlock";
    }
    std::string message(int value) const override
    {
        return redlock_status_text(value);
    }
    boost::system::error_condition default_error_condition(int value) const noexcept override
    {
        return {redlock_status_errno(value), boost::system::generic_category()};
    }
};
#ifdef __GNUC__
#pragma GCC diagnostic pop
#endif

inline boost::system::error_code make_net_error(status code) noexcept
{
    static const boost_status_category instance;
    return {static_cast<int>(code), instance};
}
inline bool operator==(const boost::system::error_code &code, status status) noexcept
{
    return code == make_net_error(status);
}
inline bool operator!=(const boost::system::error_code &code, status status) noexcept
{
    return !(code == status);
}
#else
namespace net = ::asio;

inline std::error_code make_net_error(status code) noexcept
{
    return make_error_code(code);
}
#endif

/* What handlers get first: std::error_code; of Boost.Asio boost::system::error_code. */
using net_error = decltype(make_net_error(status::ok));

} // namespace REDLOCK_ON_ASIO

namespace detail
{
inline namespace REDLOCK_ON_ASIO
{

/* Runs the callbacks of one client on an executor, while operations are in progress or a held lock has events. */
class dispatcher : public std::enable_shared_from_this<dispatcher>
{
  public:
    dispatcher(const net::any_io_executor &executor, redlock_client *client, int descriptor)
        : strand_(net::make_strand(executor)), descriptor_(executor, descriptor), client_(client)
    {
    }

    void begin()
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        users_++;
        wait();
    }
    void end() noexcept
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        if (--users_ == 0 && is_waiting_ && client_) {
            net_error ignored;
            descriptor_.cancel(ignored);
        }
    }
    /* Before the client is closed, which owns the descriptor. Waits for a dispatch in another thread. An asynchronous
     * close still needs the dispatcher. */
    void stop() noexcept
    {
        if (is_closing())
            return;
        const std::lock_guard<std::mutex> running(dispatching_);
        leave_descriptor();
    }
    /* The connection must outlive the dispatch that runs the last callback. Null: the close was not started. */
    void begin_close(std::shared_ptr<connection> closing) noexcept
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        closing_.swap(closing);
    }
    /* In that callback: the library closes the descriptor when it has returned. */
    void leave_descriptor() noexcept
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        if (client_)
            descriptor_.release();
        client_ = nullptr;
    }

  private:
    bool is_closing() noexcept
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        return closing_ != nullptr;
    }
    void wait()
    {
        if (is_waiting_ || users_ == 0 || !client_)
            return;
        is_waiting_ = true;
        descriptor_.async_wait(
            net::posix::stream_descriptor::wait_read,
            net::bind_executor(strand_, [self = shared_from_this()](net_error) { self->on_readable(); }));
    }
    void on_readable()
    {
        std::shared_ptr<connection> closed;
        const std::lock_guard<std::mutex> running(dispatching_);
        if (redlock_client *client = leave_wait())
            redlock_dispatch(client); /* also after a cancelled wait: then it runs nothing */
        const std::lock_guard<std::mutex> guard(mutex_);
        if (!client_)
            closed.swap(closing_);
        wait();
    }
    redlock_client *leave_wait()
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        is_waiting_ = false;
        return client_;
    }

    net::strand<net::any_io_executor> strand_;
    net::posix::stream_descriptor descriptor_;
    redlock_client *client_; /* null: stopped, or closed */
    std::shared_ptr<connection> closing_;
    std::mutex dispatching_;
    std::mutex mutex_;
    unsigned users_ = 0;
    bool is_waiting_ = false;
};

/* Keeps the dispatcher at work while an operation is in progress, or a lock with events is held. */
class dispatcher_use
{
  public:
    explicit dispatcher_use(std::shared_ptr<dispatcher> used) : used_(std::move(used))
    {
        used_->begin();
    }
    dispatcher_use(const dispatcher_use &) = delete;
    dispatcher_use &operator=(const dispatcher_use &) = delete;
    ~dispatcher_use()
    {
        used_->end();
    }
    dispatcher *operator->() const noexcept
    {
        return used_.get();
    }

  private:
    std::shared_ptr<dispatcher> used_;
};

/* One asynchronous operation with its completion handler. */
template <class Handler> class asynchronous
{
  public:
    asynchronous(Handler handler, result *details, std::shared_ptr<connection> connection,
                 const std::shared_ptr<dispatcher> &dispatcher, const net::any_io_executor &executor)
        : handler_(std::move(handler)), details_(details), connection_(std::move(connection)), use_(dispatcher),
          work_(net::make_work_guard(net::get_associated_executor(handler_, executor)))
    {
    }

    /* The library's callbacks. */
    static void on_acquired(redlock_client *, redlock_lock *handle, const redlock_result *result, void *arg)
    {
        std::unique_ptr<asynchronous> self(static_cast<asynchronous *>(arg));
        lock made;
        if (handle)
            made = lock_maker::make(std::move(self->connection_), std::move(self->watch), handle, false);
        self->complete(*result, std::move(made));
    }
    static void on_done(redlock_client *, const redlock_result *result, void *arg)
    {
        std::unique_ptr<asynchronous> self(static_cast<asynchronous *>(arg));
        self->complete(*result);
    }
    static void on_queried(redlock_client *, const redlock_state *state, const redlock_result *result, void *arg)
    {
        std::unique_ptr<asynchronous> self(static_cast<asynchronous *>(arg));
        redlock::state copy;
        if (result->status == REDLOCK_OK)
            static_cast<redlock_state &>(copy) = *state;
        self->complete(*result, copy);
    }
    static void on_closed(redlock_client *, const redlock_result *result, void *arg)
    {
        std::unique_ptr<asynchronous> self(static_cast<asynchronous *>(arg));
        self->use_->leave_descriptor();
        self->complete(*result);
    }

    /* Starts the operation: start(*self, why) returns whether it did, and then one of the callbacks frees it. Otherwise
     * the handler gets `why` and these values. */
    template <class Start, class... Values>
    static void run(std::unique_ptr<asynchronous> self, Start start, Values... values)
    {
        result why;
        if (guarded(why, [&] { return start(*self, why); }))
            self.release();
        else
            self->complete(why, std::move(values)...);
    }

    /* Keeps what ends the operation early; Asio's cancellation of the handler does, too. */
    redlock_cancellation *keep(std::shared_ptr<ending> end, redlock_client *client)
    {
        end_ = std::move(end);
#if REDLOCK_ASIO_VERSION >= 101900
        auto slot = net::get_associated_cancellation_slot(handler_);
        redlock_cancellation *own = slot.is_connected() ? end_->create(client) : nullptr;
        if (own)
            slot.assign([kept = end_, own](net::cancellation_type) { redlock_cancel(own); });
        has_slot_ = own != nullptr;
#else
        static_cast<void>(client);
#endif
        return end_->native_handle();
    }

    std::unique_ptr<watcher> watch;

  private:
    /* Posted: a handler may throw, or close the client, which is not allowed in redlock_dispatch(). */
    template <class... Values> void complete(const redlock_result &given, Values... values)
    {
        if (details_)
            static_cast<redlock_result &>(*details_) = given;
        const net_error why = given.status == REDLOCK_OK ? net_error() : make_net_error(redlock::status(given.status));
        const auto executor = work_.get_executor();
        net::post(executor, net::bind_executor(executor, [handler = std::move(handler_), why, end = std::move(end_),
                                                          has_slot = has_slot_,
                                                          arguments = std::make_tuple(std::move(values)...)]() mutable {
#if REDLOCK_ASIO_VERSION >= 101900
                      if (has_slot)
                          net::get_associated_cancellation_slot(handler).clear();
#endif
                      static_cast<void>(has_slot);
                      std::apply([&](auto &...each) { std::move(handler)(why, std::move(each)...); }, arguments);
                  }));
    }

    Handler handler_;
    result *details_;
    std::shared_ptr<connection> connection_;
    dispatcher_use use_;
    std::shared_ptr<ending> end_;
    bool has_slot_ = false;
    net::executor_work_guard<net::associated_executor_t<Handler, net::any_io_executor>> work_;
};

} // namespace REDLOCK_ON_ASIO
} // namespace detail

inline namespace REDLOCK_ON_ASIO
{

/*
 * A client for programs on Asio, standalone or Boost's, with completion tokens (handlers, use_future, use_awaitable, ...):
 *
 *     redlock::async_client client(context.get_executor(), nodes);
 *     redlock::lock lock = co_await client.async_acquire("reports/daily", 5s, asio::use_awaitable);
 *     ...
 *     co_await client.async_release(std::move(lock), asio::use_awaitable);
 *
 * A failure is an error code of Asio's type (net_error) that compares with redlock::status; tokens throw it as they
 * throw any other. The `details` of the options have the whole result.
 * The execution context has work until the operations have completed, and while a lock with on_event is held. These
 * events run on the executor, too (at a close, on the closing thread); they must not block, nor close the client. Close
 * the client before the context is destroyed. Several threads may run the context; then end a lock with on_event by
 * async_release() only. The functions of redlock::client block, and so does release() of a lock; its destructor does
 * not. Asio's cancellation slots (Asio 1.19, Boost 1.77), and so awaitable operators and cancel_after, end an operation,
 * unless its options have a cancellation.
 */
class async_client : public client
{
  public:
    explicit async_client(net::any_io_executor executor, std::string_view nodes, const options &options = {})
        : client(nodes, options), executor_(std::move(executor)),
          dispatcher_(std::make_shared<detail::dispatcher>(executor_, native_handle(), descriptor()))
    {
    }
    async_client(const async_client &) = delete;
    async_client &operator=(const async_client &) = delete;
    ~async_client()
    {
        dispatcher_->stop();
    }

    /* The handler's signature: void(net_error, redlock::lock). */
    template <class Token> auto async_acquire(std::string_view resource, const acquire_options &options, Token &&token)
    {
        return net::async_initiate<Token, void(net_error, lock)>(
            [this](auto handler, const std::string &name, const acquire_options &how) {
                this->start_acquire(std::move(handler), name, how);
            },
            token, std::string(resource), options);
    }
    /* void(net_error). The lock is empty at once. */
    template <class Token> auto async_release(lock released, const call_options &options, Token &&token)
    {
        return net::async_initiate<Token, void(net_error)>(
            [this](auto handler, lock given, const call_options &how) {
                this->start_release(std::move(handler), std::move(given), how);
            },
            token, std::move(released), options);
    }
    template <class Token> auto async_release(lock released, Token &&token)
    {
        return async_release(std::move(released), call_options(), std::forward<Token>(token));
    }
    /* void(net_error). The lock must stay until then. */
    template <class Token>
    auto async_extend(const lock &extended, milliseconds ttl, const call_options &options, Token &&token)
    {
        return net::async_initiate<Token, void(net_error)>(
            [this](auto handler, redlock_lock *handle, milliseconds time, const call_options &how) {
                this->start_extend(std::move(handler), handle, time, how);
            },
            token, extended.native_handle(), ttl, options);
    }
    template <class Token> auto async_extend(const lock &extended, milliseconds ttl, Token &&token)
    {
        return async_extend(extended, ttl, call_options(), std::forward<Token>(token));
    }
    /* void(net_error): lock::downgrade(). The lock must stay until then. */
    template <class Token> auto async_downgrade(const lock &downgraded, const call_options &options, Token &&token)
    {
        return net::async_initiate<Token, void(net_error)>(
            [this](auto handler, redlock_lock *handle, const call_options &how) {
                this->start_downgrade(std::move(handler), handle, how);
            },
            token, downgraded.native_handle(), options);
    }
    template <class Token> auto async_downgrade(const lock &downgraded, Token &&token)
    {
        return async_downgrade(downgraded, call_options(), std::forward<Token>(token));
    }
    /* void(net_error, redlock::state). */
    template <class Token> auto async_query(std::string_view resource, const call_options &options, Token &&token)
    {
        return net::async_initiate<Token, void(net_error, redlock::state)>(
            [this](auto handler, const std::string &name, const call_options &how) {
                this->start_query(std::move(handler), name, how);
            },
            token, std::string(resource), options);
    }
    template <class Token> auto async_query(std::string_view resource, Token &&token)
    {
        return async_query(resource, call_options(), std::forward<Token>(token));
    }
    /* void(net_error). The client is empty at once, and may be destroyed before the handler runs. */
    template <class Token> auto async_close(const call_options &options, Token &&token)
    {
        return net::async_initiate<Token, void(net_error)>(
            [this](auto handler, const call_options &how) { this->start_close(std::move(handler), how); }, token,
            options);
    }
    template <class Token> auto async_close(Token &&token)
    {
        return async_close(call_options(), std::forward<Token>(token));
    }

    void close()
    {
        dispatcher_->stop();
        client::close();
    }
    bool close(result &result) noexcept
    {
        dispatcher_->stop();
        return client::close(result);
    }

  private:
    template <class Handler> auto begin(Handler handler, result *details)
    {
        return std::make_unique<detail::asynchronous<Handler>>(std::move(handler), details, connection(), dispatcher_,
                                                               executor_);
    }

    template <class Handler>
    void start_acquire(Handler handler, const std::string &resource, const acquire_options &options)
    {
        using operation = detail::asynchronous<Handler>;
        operation::run(
            begin(std::move(handler), options.details),
            [&](operation &started, result &why) {
                detail::native_acquire_options how(native_handle(), resource, options);
                if (how.watch)
                    how.watch->use = std::make_shared<detail::dispatcher_use>(dispatcher_);
                started.watch = std::move(how.watch);
                how.native.cancellation = started.keep(how.end, native_handle());
                return accept(redlock_acquire_async(native_handle(), resource.c_str(), &how.native,
                                                    operation::on_acquired, &started),
                              why);
            },
            lock());
    }

    template <class Handler> void start_release(Handler handler, lock released, const call_options &options)
    {
        using operation = detail::asynchronous<Handler>;
        operation::run(begin(std::move(handler), options.details), [&](operation &started, result &why) {
            detail::native_call_options how(native_handle(), options);
            how.native.cancellation = started.keep(how.end, native_handle());
            redlock_lock *handle = detail::lock_maker::take(released, started.watch);
            if (accept(redlock_release_async(&handle, &how.native, operation::on_done, &started), why))
                return true;
            if (handle) /* its destructor tries again */
                detail::lock_maker::make(connection(), std::move(started.watch), handle, false);
            return false;
        });
    }

    template <class Handler>
    void start_extend(Handler handler, redlock_lock *handle, milliseconds ttl, const call_options &options)
    {
        using operation = detail::asynchronous<Handler>;
        operation::run(begin(std::move(handler), options.details), [&](operation &started, result &why) {
            detail::native_call_options how(native_handle(), options);
            how.native.cancellation = started.keep(how.end, native_handle());
            return accept(
                redlock_extend_async(handle, detail::count(ttl, "ttl"), &how.native, operation::on_done, &started),
                why);
        });
    }

    template <class Handler> void start_downgrade(Handler handler, redlock_lock *handle, const call_options &options)
    {
        using operation = detail::asynchronous<Handler>;
        operation::run(begin(std::move(handler), options.details), [&](operation &started, result &why) {
            detail::native_call_options how(native_handle(), options);
            how.native.cancellation = started.keep(how.end, native_handle());
            return accept(redlock_downgrade_async(handle, &how.native, operation::on_done, &started), why);
        });
    }

    template <class Handler> void start_query(Handler handler, const std::string &resource, const call_options &options)
    {
        using operation = detail::asynchronous<Handler>;
        operation::run(
            begin(std::move(handler), options.details),
            [&](operation &started, result &why) {
                detail::native_call_options how(native_handle(), options);
                how.native.cancellation = started.keep(how.end, native_handle());
                return accept(redlock_query_async(native_handle(), resource.c_str(), resource.size(), &how.native,
                                                  operation::on_queried, &started),
                              why);
            },
            redlock::state());
    }

    template <class Handler> void start_close(Handler handler, const call_options &options)
    {
        using operation = detail::asynchronous<Handler>;
        operation::run(begin(std::move(handler), options.details), [&](operation &started, result &why) {
            const std::shared_ptr<detail::connection> closing = connection();
            if (!native_handle())
                return accept(REDLOCK_INVALID, why);
            detail::native_call_options how(native_handle(), options);
            how.native.cancellation = started.keep(how.end, native_handle());
            closing->is_closing = true;
            dispatcher_->begin_close(closing);
            if (accept(redlock_close_async(&closing->handle, &how.native, operation::on_closed, &started), why))
                return true;
            dispatcher_->begin_close(nullptr);
            closing->is_closing = false;
            return false;
        });
    }

    static bool accept(int status, result &result) noexcept
    {
        if (status != REDLOCK_OK)
            detail::refuse(result, static_cast<redlock::status>(status), redlock_status_text(status));
        return status == REDLOCK_OK;
    }

    net::any_io_executor executor_;
    std::shared_ptr<detail::dispatcher> dispatcher_;
};

} // namespace REDLOCK_ON_ASIO

#else

/* Only to say what is missing. */
class async_client
{
  public:
    template <class... Arguments> explicit async_client(Arguments &&...)
    {
        static_assert(sizeof...(Arguments) > 1000,
                      "redlock::async_client needs Asio: include <asio.hpp> or <boost/asio.hpp> before "
                      "<redlock/redlock.hpp>");
    }
};

#endif

} // namespace redlock

#endif
