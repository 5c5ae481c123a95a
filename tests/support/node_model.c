#include "node_model.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>

#include "src/node/script.h"

unsigned sim_script_errors;
char sim_script_error[256];

/* ---------------------------------------------------------------------------------------------------------- scripts */

static lua_State *lua; /* one for all servers: the caller lets one thread at a time execute commands */
static int compiled[RL_SCRIPTS];
static int declared; /* a table of the running script's KEYS */

/* The command that the running script executes. */
static struct {
    struct sim_server *server;
    int64_t microseconds;
    const char *name; /* of the script */
} running;

static void execute_key_command(struct sim_server *server, size_t count, const struct resp_argument *words,
                                int64_t microseconds, struct bytes *reply);

static const char *push_reply(const char *at);

static const char *push_array(const char *at, size_t count)
{
    lua_createtable(lua, (int)count, 0);
    for (size_t i = 1; i <= count; i++) {
        at = push_reply(at);
        lua_rawseti(lua, -2, (int)i);
    }
    return at;
}

static void push_line(const char *field, const char *line, size_t size)
{
    lua_createtable(lua, 0, 1);
    lua_pushlstring(lua, line, size);
    lua_setfield(lua, -2, field);
}

/* Converts RESP to the value that a script sees. Returns the rest of the reply. */
static const char *push_reply(const char *at)
{
    const char *line = at + 1, *stop;
    unsigned long long digits = 0;
    bool negative = *line == '-';
    for (stop = line + negative; *stop >= '0' && *stop <= '9'; stop++)
        digits = 10 * digits + (unsigned)(*stop - '0');
    long long number = (long long)(negative ? 0 - digits : digits);
    while (*stop != '\r')
        stop++;
    switch (*at) {
    case ':':
        lua_pushnumber(lua, (lua_Number)number);
        return stop + 2;
    case '+':
    case '-':
        push_line(*at == '+' ? "ok" : "err", line, (size_t)(stop - line));
        return stop + 2;
    case '$':
        if (number < 0) {
            lua_pushboolean(lua, 0);
            return stop + 2;
        }
        lua_pushlstring(lua, stop + 2, (size_t)number);
        return stop + 2 + number + 2;
    default:
        return push_array(stop + 2, (size_t)number);
    }
}

static bool read_words(struct resp_argument *words, size_t count)
{
    static char numbers[16][40];
    unsigned used = 0;
    for (size_t i = 0; i < count; i++) {
        if (lua_type(lua, (int)i + 1) == LUA_TNUMBER) {
            char *number = numbers[used++ % 16];
            words[i] = (struct resp_argument){
                number, resp_format_number(number, sizeof numbers[0], lua_tonumber(lua, (int)i + 1))};
        } else {
            words[i].data = lua_tolstring(lua, (int)i + 1, &words[i].length);
            if (!words[i].data)
                return false;
        }
    }
    return true;
}

static void script_fails(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void script_fails(const char *format, ...)
{
    va_list arguments;
    sim_script_errors++;
    va_start(arguments, format);
    vsnprintf(sim_script_error, sizeof sim_script_error, format, arguments);
    va_end(arguments);
    for (char *at = sim_script_error; *at; at++)
        *at = *at == '\r' || *at == '\n' ? ' ' : *at; /* a reply's error is one line */
}

/* A script must name every key that it uses in KEYS, as some servers demand. Publishing uses none. */
static void check_keys(size_t count, const struct resp_argument *words)
{
    bool all = sim_text_is(words[0], "MGET") || sim_text_is(words[0], "DEL") || sim_text_is(words[0], "EXISTS");
    if (sim_text_is(words[0], "TIME") || sim_text_is(words[0], "INFO") || sim_text_is(words[0], "PUBLISH"))
        return;
    lua_rawgeti(lua, LUA_REGISTRYINDEX, declared);
    for (size_t i = 1; i < (all || count < 2 ? count : 2); i++) {
        lua_pushlstring(lua, words[i].data, words[i].length);
        lua_rawget(lua, -2);
        if (!lua_toboolean(lua, -1))
            script_fails("%s.lua: the script has not declared the key '%.*s'", running.name, (int)words[i].length,
                         words[i].data);
        lua_pop(lua, 1);
    }
    lua_pop(lua, 1);
}

static bool call_server(void)
{
    static const char bad[] = "ERR Lua redis lib command arguments must be strings or integers";
    struct resp_argument words[128];
    static struct bytes reply;
    size_t count = (size_t)lua_gettop(lua);
    if (count == 0 || count > sizeof words / sizeof *words)
        luaL_error(lua, "redis.call() with %d arguments", (int)count);
    if (!read_words(words, count)) {
        push_line("err", bad, sizeof bad - 1);
        return false;
    }
    check_keys(count, words);
    reply.length = 0;
    execute_key_command(running.server, count, words, running.microseconds, &reply);
    bytes_append(&reply, "", 1);
    push_reply(reply.data);
    return reply.data[0] != '-';
}

static int redis_call(lua_State *state)
{
    (void)state;
    return call_server() ? 1 : lua_error(lua);
}

static int redis_pcall(lua_State *state)
{
    (void)state;
    call_server();
    return 1;
}

static int redis_error_reply(lua_State *state)
{
    lua_createtable(state, 0, 1);
    lua_pushvalue(state, 1);
    lua_setfield(state, -2, "err");
    return 1;
}

static void open_interpreter(void)
{
    static const luaL_Reg functions[] = {
        {"call", redis_call}, {"pcall", redis_pcall}, {"error_reply", redis_error_reply}, {NULL, NULL}};
    lua = luaL_newstate();
    if (!lua)
        abort();
    lua_gc(lua, LUA_GCSETPAUSE, 400); /* few objects live and most die, so garbage collection can run less often */
    luaL_openlibs(lua);
    luaL_register(lua, "redis", functions);
    lua_settop(lua, 0);
    for (int i = 0; i < RL_SCRIPTS; i++) {
        const struct rl_script *script = &rl_scripts[i];
        if (luaL_loadbuffer(lua, script->text, strlen(script->text), script->name) != 0) {
            fprintf(stderr, "%s.lua: %s\n", script->name, lua_tostring(lua, -1));
            abort();
        }
        compiled[i] = luaL_ref(lua, LUA_REGISTRYINDEX);
    }
    lua_newtable(lua);
    declared = luaL_ref(lua, LUA_REGISTRYINDEX);
}

void sim_scripts_close(void)
{
    if (lua)
        lua_close(lua);
    lua = NULL;
}

static void set_words(const char *name, size_t count, const struct resp_argument *words)
{
    lua_createtable(lua, (int)count, 0);
    for (size_t i = 0; i < count; i++) {
        lua_pushlstring(lua, words[i].data, words[i].length);
        lua_rawseti(lua, -2, (int)i + 1);
    }
    lua_setglobal(lua, name);
}

static void declare_keys(size_t count, const struct resp_argument *words)
{
    lua_createtable(lua, 0, (int)count);
    for (size_t i = 0; i < count; i++) {
        lua_pushlstring(lua, words[i].data, words[i].length);
        lua_pushboolean(lua, 1);
        lua_rawset(lua, -3);
    }
    lua_rawseti(lua, LUA_REGISTRYINDEX, declared);
}

/* Converts the script's return value, at the top of the stack, to RESP. */
static void write_value(struct bytes *reply)
{
    size_t size;
    const char *text;
    lua_Number number;
    switch (lua_type(lua, -1)) {
    case LUA_TSTRING:
        text = lua_tolstring(lua, -1, &size);
        resp_write_bulk(reply, text, size);
        return;
    case LUA_TNUMBER:
        number = lua_tonumber(lua, -1);
        resp_write_integer(reply, (long long)number);
        return;
    case LUA_TBOOLEAN:
        bytes_print(reply, "%s\r\n", lua_toboolean(lua, -1) ? ":1" : "$-1");
        return;
    case LUA_TTABLE:
        break;
    default:
        bytes_print(reply, "$-1\r\n");
        return;
    }
    for (unsigned i = 0; i < 2; i++) {
        lua_getfield(lua, -1, i ? "ok" : "err");
        if (lua_type(lua, -1) == LUA_TSTRING) {
            bytes_print(reply, "%c%s\r\n", i ? '+' : '-', lua_tostring(lua, -1));
            lua_pop(lua, 1);
            return;
        }
        lua_pop(lua, 1);
    }
    int count = 0;
    for (bool end = false; !end; count += !end) {
        lua_rawgeti(lua, -1, count + 1);
        end = lua_isnil(lua, -1);
        lua_pop(lua, 1);
    }
    resp_write_array(reply, (size_t)count);
    for (int i = 1; i <= count; i++) {
        lua_rawgeti(lua, -1, i);
        write_value(reply);
        lua_pop(lua, 1);
    }
}

/* Passes on the error of a command. Any other error is a bug of the script or of the model. */
static void write_error(struct bytes *reply, const char *name)
{
    if (lua_type(lua, -1) == LUA_TTABLE) {
        lua_getfield(lua, -1, "err");
        bytes_print(reply, "-%s script: %s, on @user_script:1.\r\n", lua_tostring(lua, -1), name);
        lua_pop(lua, 1);
        return;
    }
    const char *text = lua_tostring(lua, -1);
    script_fails("%s.lua: %s", name, text ? text : "an error without a text");
    bytes_print(reply, "-ERR %s\r\n", sim_script_error);
}

#define HASH_SIZE 40

static int find_script(struct resp_argument word, bool whole)
{
    for (int i = 0; i < RL_SCRIPTS; i++) {
        const char *name = whole ? rl_scripts[i].text : rl_scripts[i].sha1;
        if (memcmp(name, word.data, word.length < HASH_SIZE ? word.length : HASH_SIZE) == 0 &&
            strlen(name) == word.length && memcmp(name, word.data, word.length) == 0)
            return i;
    }
    return -1;
}

struct resp_argument sim_script_name(struct resp_argument word)
{
    int script = find_script(word, word.length != 40);
    return script < 0 ? word : (struct resp_argument){rl_scripts[script].name, strlen(rl_scripts[script].name)};
}

/* Reads the number of keys among the words. Returns false after it has written an error reply. */
static bool read_keys(size_t count, const struct resp_argument *words, size_t *keys, struct bytes *reply)
{
    long long number = 0;
    bool is_number = resp_argument_integer(words[2], &number);
    *keys = number > 0 ? (size_t)number : 0;
    if (is_number && number >= 0 && *keys <= count - 3)
        return true;
    bytes_print(reply, "-ERR %s\r\n",
                !is_number   ? "value is not an integer or out of range"
                : number < 0 ? "Number of keys can't be negative"
                             : "Number of keys can't be greater than number of args");
    return false;
}

static void run_script(struct sim_server *server, int script, struct resp_argument text, size_t keys, size_t count,
                       const struct resp_argument *words, int64_t microseconds, struct bytes *reply)
{
    const char *name = script < 0 ? "script" : rl_scripts[script].name;
    if (!lua)
        open_interpreter();
    running.server = server;
    running.microseconds = microseconds;
    if (script >= 0)
        lua_rawgeti(lua, LUA_REGISTRYINDEX, compiled[script]);
    else if (luaL_loadbuffer(lua, text.data, text.length, name) != 0)
        abort();
    running.name = name;
    set_words("KEYS", keys, words);
    declare_keys(keys, words);
    set_words("ARGV", count - keys, words + keys);
    if (lua_pcall(lua, 0, 1, 0) == 0)
        write_value(reply);
    else
        write_error(reply, name);
    running.name = NULL;
    lua_settop(lua, 0);
}

/* The server remembers the library's scripts only. */
static void evaluate(struct sim_server *server, size_t count, const struct resp_argument *words, int64_t microseconds,
                     struct bytes *reply)
{
    bool whole = sim_text_is(words[0], "EVAL");
    size_t keys;
    if (count < 3) {
        bytes_print(reply, "-ERR wrong number of arguments for '%s' command\r\n", whole ? "eval" : "evalsha");
        return;
    }
    int script = find_script(words[1], whole);
    if (!read_keys(count, words, &keys, reply))
        return;
    if (!whole && (script < 0 || !(server->scripts & 1u << script))) {
        bytes_print(reply, "-NOSCRIPT No matching script. Please use EVAL.\r\n");
        return;
    }
    if (script >= 0)
        server->scripts |= 1u << script;
    run_script(server, script, words[1], keys, count - 3, words + 3, microseconds, reply);
}

static void load_script(struct sim_server *server, size_t count, const struct resp_argument *words, struct bytes *reply)
{
    int script = count == 3 ? find_script(words[2], true) : -1;
    if (count != 3 || !sim_text_is(words[1], "LOAD")) {
        bytes_print(reply, "-ERR unknown subcommand or wrong number of arguments for 'script' command\r\n");
        return;
    }
    if (script >= 0)
        server->scripts |= 1u << script;
    bytes_print(reply, "$40\r\n%s\r\n",
                script < 0 ? "0000000000000000000000000000000000000000" : rl_scripts[script].sha1);
}

/* --------------------------------------------------------------------------------------------------------- commands */

static void info(struct sim_server *server, size_t count, const struct resp_argument *words, struct bytes *reply)
{
    char text[512];
    if (server->hooks && server->hooks->info) {
        server->hooks->info(server, count, words, reply);
        return;
    }
    struct resp_argument section = count > 1 ? words[1] : (struct resp_argument){"", 0};
    int size = 0;
    if (sim_text_is(section, "server"))
        size = snprintf(text, sizeof text, "# Server\r\nredis_version:7.0.15\r\nrun_id:%s\r\n", server->run_id);
    else if (sim_text_is(section, "cluster"))
        size = snprintf(text, sizeof text, "# Cluster\r\ncluster_enabled:0\r\n");
    else if (sim_text_is(section, "replication"))
        size = snprintf(text, sizeof text, "# Replication\r\nrole:%s\r\nmaster_replid:%s\r\nmaster_replid2:%s\r\n",
                        server->replica ? "slave" : "master", server->replid,
                        server->history[0] ? server->history : "0000000000000000000000000000000000000000");
    else if (sim_text_is(section, "memory"))
        size = snprintf(text, sizeof text, "# Memory\r\nmaxmemory_policy:%s\r\n",
                        server->evicts ? "allkeys-lru" : "noeviction");
    else if (sim_text_is(section, "stats"))
        size = snprintf(text, sizeof text, "# Stats\r\nevicted_keys:%llu\r\n", (unsigned long long)server->evicted);
    else if (sim_text_is(section, "commandstats"))
        size = snprintf(text, sizeof text, "# Commandstats\r\ncmdstat_swapdb:calls=%llu,usec=9\r\n",
                        (unsigned long long)server->swaps);
    else if (sim_text_is(section, "persistence"))
        size = snprintf(text, sizeof text, "# Persistence\r\naof_enabled:0\r\n");
    bytes_print(reply, "$%d\r\n", size);
    bytes_append(reply, text, (size_t)size);
    bytes_append(reply, "\r\n", 2);
}

/* Executes a command that scripts may call too. */
static void execute_key_command(struct sim_server *server, size_t count, const struct resp_argument *words,
                                int64_t microseconds, struct bytes *reply)
{
    if (sim_keyspace_execute(&server->keys, count, words, microseconds, reply))
        return;
    if (sim_text_is(words[0], "INFO"))
        info(server, count, words, reply);
    else if (sim_text_is(words[0], "PUBLISH") && count == 3)
        bytes_print(reply, ":%lld\r\n", server->hooks ? server->hooks->publish(server, words[1], words[2]) : 0);
    else {
        bytes_print(reply, "-ERR unknown command '%.*s'\r\n", (int)words[0].length, words[0].data);
        if (running.name)
            script_fails("%s.lua: the model does not know the command '%.*s'", running.name, (int)words[0].length,
                         words[0].data);
    }
}

static bool is_printable(struct resp_argument name)
{
    for (size_t i = 0; i < name.length; i++)
        if (name.data[i] < '!' || name.data[i] > '~')
            return false;
    return true;
}

static void client_command(struct sim_server *server, const struct sim_session *session, size_t count,
                           const struct resp_argument *words, struct bytes *reply)
{
    long long id;
    if (count == 2 && sim_text_is(words[1], "ID"))
        bytes_print(reply, ":%lld\r\n", (long long)session->id);
    else if (count == 3 && sim_text_is(words[1], "SETNAME"))
        bytes_print(reply, "%s\r\n", is_printable(words[2]) ? "+OK" : "-ERR Client names cannot contain spaces");
    else if (count != 4 || !sim_text_is(words[1], "KILL") || !sim_text_is(words[2], "ID"))
        bytes_print(reply, "-ERR unknown subcommand or wrong number of arguments for '%.*s'\r\n", (int)words[1].length,
                    words[1].data);
    else if (!resp_argument_integer(words[3], &id) || id <= 0)
        bytes_print(reply, "-ERR client-id should be greater than 0\r\n");
    else
        bytes_print(reply, ":%d\r\n", server->hooks && server->hooks->kill(server, id));
}

static void subscribe(struct sim_session *session, struct resp_argument channel, struct bytes *reply)
{
    snprintf(session->channel, sizeof session->channel, "%.*s", (int)channel.length, channel.data);
    bytes_print(reply, "*3\r\n$9\r\nsubscribe\r\n$%zu\r\n%.*s\r\n:1\r\n", channel.length, (int)channel.length,
                channel.data);
}

/* Commands about the connection alone; the server executes them in any state. */
static bool execute_session_command(struct sim_server *server, struct sim_session *session, size_t count,
                                    const struct resp_argument *words, struct bytes *reply)
{
    if (sim_text_is(words[0], "CLIENT") && count > 1)
        client_command(server, session, count, words, reply);
    else if (sim_text_is(words[0], "SUBSCRIBE") && count == 2)
        subscribe(session, words[1], reply);
    else if (sim_text_is(words[0], "AUTH") || (sim_text_is(words[0], "SELECT") && count == 2))
        bytes_print(reply, "+OK\r\n");
    else if (sim_text_is(words[0], "INFO"))
        info(server, count, words, reply);
    else
        return false;
    return true;
}

/* True for commands that write nothing. The library's other scripts, and SET, write always or normally. */
static bool may_run_on_replica(size_t count, const struct resp_argument *words)
{
    struct resp_argument script = sim_script_name(count > 1 ? words[1] : words[0]);
    if (!sim_text_is(words[0], "EVALSHA") && !sim_text_is(words[0], "EVAL"))
        return !sim_text_is(words[0], "SET");
    return sim_text_is(script, "query");
}

void sim_server_execute(struct sim_server *server, struct sim_session *session, size_t count,
                        const struct resp_argument *words, int64_t microseconds, struct bytes *reply)
{
    if (execute_session_command(server, session, count, words, reply))
        return;
    if (server->refusal)
        bytes_print(reply, "-%s\r\n", server->refusal);
    else if (server->replica && !may_run_on_replica(count, words))
        bytes_print(reply, "-READONLY You can't write against a read only replica.\r\n");
    else if (sim_text_is(words[0], "EVALSHA") || sim_text_is(words[0], "EVAL"))
        evaluate(server, count, words, microseconds, reply);
    else if (sim_text_is(words[0], "SCRIPT") && count > 1)
        load_script(server, count, words, reply);
    else
        execute_key_command(server, count, words, microseconds, reply);
}
