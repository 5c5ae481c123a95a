#include "node_model.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>

#include "src/node/script.h"
#include "support/fixture.h"

unsigned sim_script_errors;
char sim_script_error[256];

/* ------------------------------------------------------------------------------------------------------ interpreter */

static lua_State *lua; /* one for all servers: the caller lets one thread at a time work with them */
static int compiled[RL_SCRIPTS];
static int served;                 /* the functions of keyspace.lua */
static struct sim_server *running; /* executes a command now */

static struct resp_argument word_at(int index)
{
    struct resp_argument word;
    word.data = lua_tolstring(lua, index, &word.length);
    return word;
}

static void push_word(struct resp_argument word)
{
    lua_pushlstring(lua, word.data, word.length);
}

/* The functions that keyspace.lua is given. */

static int read_integer(lua_State *state)
{
    long long number;
    if (!resp_argument_integer(word_at(1), &number))
        return 0;
    lua_pushnumber(state, (lua_Number)number);
    return 1;
}

/* Returns the text in one line, as an error's reply must be. */
static int note_failure(lua_State *state)
{
    sim_script_errors++;
    snprintf(sim_script_error, sizeof sim_script_error, "%s", lua_tostring(state, 1));
    for (char *at = sim_script_error; *at; at++)
        *at = *at == '\r' || *at == '\n' ? ' ' : *at;
    lua_pushstring(state, sim_script_error);
    return 1;
}

static int publish(lua_State *state)
{
    long long receivers = running->hooks ? running->hooks->publish(running, word_at(1), word_at(2)) : 0;
    lua_pushnumber(state, (lua_Number)receivers);
    return 1;
}

static void write_info(const struct sim_server *server, struct resp_argument section, struct bytes *text);

static int info(lua_State *state)
{
    struct bytes text = {0};
    lua_rawgeti(state, 1, 2);
    write_info(running, word_at(-1), &text); /* without a word the length is 0 */
    lua_pushlstring(state, text.data, text.length);
    bytes_free(&text);
    return 1;
}

static void expect_no_error(int status)
{
    if (status != 0)
        fixture_fail("%s", lua_tostring(lua, -1));
}

static void open_interpreter(void)
{
    static const lua_CFunction given[] = {read_integer, note_failure, publish, info};
    lua = luaL_newstate();
    if (!lua)
        abort();
    lua_gc(lua, LUA_GCSETPAUSE, 400); /* few objects live and most die, so garbage collection can run less often */
    luaL_openlibs(lua);
    expect_no_error(luaL_loadfile(lua, KEYSPACE_FILE));
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        lua_pushcfunction(lua, given[i]);
    expect_no_error(lua_pcall(lua, sizeof given / sizeof *given, 1, 0));
    served = luaL_ref(lua, LUA_REGISTRYINDEX);
    for (int i = 0; i < RL_SCRIPTS; i++) {
        const struct rl_script *script = &rl_scripts[i];
        expect_no_error(luaL_loadbuffer(lua, script->text, strlen(script->text), script->name));
        compiled[i] = luaL_ref(lua, LUA_REGISTRYINDEX);
    }
}

void sim_scripts_close(void)
{
    if (lua)
        lua_close(lua);
    lua = NULL;
}

/* Pushes a function of keyspace.lua and its first argument, the keys. */
static void push_function(const char *name, struct sim_keyspace *space)
{
    if (!lua)
        open_interpreter();
    lua_settop(lua, 0);
    lua_rawgeti(lua, LUA_REGISTRYINDEX, served);
    lua_getfield(lua, -1, name);
    if (space->keys == 0) {
        lua_newtable(lua);
        space->keys = luaL_ref(lua, LUA_REGISTRYINDEX);
    }
    lua_rawgeti(lua, LUA_REGISTRYINDEX, space->keys);
}

static void push_words(size_t count, const struct resp_argument *words)
{
    luaL_checkstack(lua, (int)count + 1, "words of a command");
    for (size_t i = 0; i < count; i++)
        push_word(words[i]);
}

/* Calls the function that was pushed with so many arguments behind the keys, and leaves its value. */
static void call_function(size_t arguments)
{
    expect_no_error(lua_pcall(lua, (int)arguments + 1, 1, 0));
}

/* Appends the string at the top of the stack. */
static void write_top(struct bytes *reply)
{
    const struct resp_argument text = word_at(-1);
    bytes_append(reply, text.data, text.length);
}

/* -------------------------------------------------------------------------------------------------------- key space */

void sim_keyspace_clear(struct sim_keyspace *space)
{
    if (lua)
        luaL_unref(lua, LUA_REGISTRYINDEX, space->keys ? space->keys : LUA_NOREF);
    space->keys = 0;
}

void sim_keyspace_copy(struct sim_keyspace *to, struct sim_keyspace *from, bool revived)
{
    push_function("copy", from);
    lua_pushboolean(lua, revived);
    call_function(1);
    sim_keyspace_clear(to);
    to->keys = luaL_ref(lua, LUA_REGISTRYINDEX);
}

static int draw_bit(lua_State *state)
{
    uint64_t *seed = lua_touserdata(state, lua_upvalueindex(1));
    lua_pushboolean(state, *seed & 1);
    *seed = *seed >> 1 | *seed << 63;
    return 1;
}

unsigned sim_keyspace_evict(struct sim_keyspace *space, uint64_t seed)
{
    push_function("evict", space);
    lua_pushlightuserdata(lua, &seed);
    lua_pushcclosure(lua, draw_bit, 1);
    call_function(1);
    return (unsigned)lua_tointeger(lua, -1);
}

struct viewer {
    void (*see)(const struct sim_key *key, void *arg);
    void *arg;
};

static int see_key(lua_State *state)
{
    const struct viewer *viewer = lua_touserdata(state, lua_upvalueindex(1));
    lua_Number ends = lua_tonumber(state, 3);
    const struct sim_key key = {.name = word_at(1),
                                .value = word_at(2),
                                .ends = ends < (lua_Number)SIM_NO_EXPIRY ? (int64_t)ends : SIM_NO_EXPIRY,
                                .revived = lua_toboolean(state, 4)};
    viewer->see(&key, viewer->arg);
    return 0;
}

void sim_keyspace_each(struct sim_keyspace *space, void (*see)(const struct sim_key *key, void *arg), void *arg)
{
    struct viewer viewer = {see, arg};
    push_function("each", space);
    lua_pushlightuserdata(lua, &viewer);
    lua_pushcclosure(lua, see_key, 1);
    call_function(1);
}

static void call_with_words(const char *name, struct sim_keyspace *space, size_t count,
                            const struct resp_argument *words, int64_t microseconds)
{
    push_function(name, space);
    lua_pushnumber(lua, (lua_Number)microseconds);
    push_words(count, words);
    call_function(1 + count);
}

void sim_keyspace_execute(struct sim_keyspace *space, size_t count, const struct resp_argument *words,
                          int64_t microseconds, struct bytes *reply)
{
    call_with_words("command", space, count, words, microseconds);
    write_top(reply);
}

bool sim_keyspace_get(struct sim_keyspace *space, const char *name, int64_t microseconds, struct resp_argument *value)
{
    const struct resp_argument word = resp_argument_of(name);
    call_with_words("get", space, 1, &word, microseconds);
    *value = lua_type(lua, -1) == LUA_TSTRING ? word_at(-1) : (struct resp_argument){0};
    return value->data;
}

/* ---------------------------------------------------------------------------------------------------------- scripts */

static int find_script(struct resp_argument word, bool whole)
{
    for (int i = 0; i < RL_SCRIPTS; i++)
        if (resp_argument_is(&word, whole ? rl_scripts[i].text : rl_scripts[i].sha1))
            return i;
    return -1;
}

struct resp_argument sim_script_name(struct resp_argument word)
{
    int script = find_script(word, word.length != 40);
    return script < 0 ? word : (struct resp_argument){rl_scripts[script].name, strlen(rl_scripts[script].name)};
}

static void run_script(struct sim_server *server, int script, struct resp_argument text, size_t keys, size_t count,
                       const struct resp_argument *words, int64_t microseconds, struct bytes *reply)
{
    push_function("script", &server->keys);
    lua_pushnumber(lua, (lua_Number)microseconds);
    lua_pushstring(lua, script < 0 ? "script" : rl_scripts[script].name);
    if (script >= 0)
        lua_rawgeti(lua, LUA_REGISTRYINDEX, compiled[script]);
    else
        expect_no_error(luaL_loadbuffer(lua, text.data, text.length, "script"));
    lua_pushnumber(lua, (lua_Number)keys);
    push_words(count, words);
    call_function(4 + count);
    write_top(reply);
}

/* The server remembers the library's scripts only. */
static void evaluate(struct sim_server *server, size_t count, const struct resp_argument *words, int64_t microseconds,
                     struct bytes *reply)
{
    bool whole = sim_text_is(words[0], "EVAL");
    long long keys = -1;
    if (count < 3 || !resp_argument_integer(words[2], &keys) || keys < 0 || (size_t)keys > count - 3) {
        bytes_print(reply, "-ERR wrong number of arguments, or of keys among them\r\n");
        return;
    }
    int script = find_script(words[1], whole);
    if (!whole && (script < 0 || !(server->scripts & 1u << script))) {
        bytes_print(reply, "-NOSCRIPT No matching script. Please use EVAL.\r\n");
        return;
    }
    if (script >= 0)
        server->scripts |= 1u << script;
    run_script(server, script, words[1], (size_t)keys, count - 3, words + 3, microseconds, reply);
}

/* --------------------------------------------------------------------------------------------------------- commands */

static const char *find_lie(const struct sim_server *server, const char *name)
{
    const struct sim_field *field = server->lies;
    while (field && field->name && strcmp(field->name, name) != 0)
        field++;
    return field && field->name ? field->value : NULL;
}

/* The lines that the library reads. Redis does not have those without a value. */
static void write_info(const struct sim_server *server, struct resp_argument section, struct bytes *text)
{
    char evicted[24], swaps[48];
    snprintf(evicted, sizeof evicted, "%llu", (unsigned long long)server->evicted);
    snprintf(swaps, sizeof swaps, "calls=%llu,usec=9", (unsigned long long)server->swaps);
    const char *history = server->history[0] ? server->history : "0000000000000000000000000000000000000000";
    const struct {
        const char *section, *name, *value;
    } own[] = {{"server", "redis_version", "7.0.15"},
               {"server", "redis_mode", "standalone"},
               {"server", "run_id", server->run_id},
               {"server", "valkey_version", NULL},
               {"server", "redict_version", NULL},
               {"server", "server_name", NULL},
               {"server", "server_mode", NULL},
               {"server", "redict_mode", NULL},
               {"cluster", "cluster_enabled", "0"},
               {"replication", "role", server->replica ? "slave" : "master"},
               {"replication", "master_replid", server->replid},
               {"replication", "master_replid2", history},
               {"memory", "maxmemory_policy", server->evicts ? "allkeys-lru" : "noeviction"},
               {"stats", "evicted_keys", evicted},
               {"commandstats", "cmdstat_swapdb", swaps},
               {"persistence", "aof_enabled", "0"}};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        const char *lie = find_lie(server, own[i].name), *value = lie ? lie : own[i].value;
        if (value && (section.length == 0 || sim_text_is(section, own[i].section)))
            bytes_print(text, "%s:%s\r\n", own[i].name, value);
    }
}

static void client_command(struct sim_server *server, const struct sim_session *session, size_t count,
                           const struct resp_argument *words, struct bytes *reply)
{
    long long id;
    if (count == 2 && sim_text_is(words[1], "ID"))
        bytes_print(reply, ":%lld\r\n", (long long)session->id);
    else if (count == 3 && sim_text_is(words[1], "SETNAME"))
        bytes_print(reply, "+OK\r\n");
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
        sim_keyspace_execute(&server->keys, count, words, 0, reply);
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
    running = server;
    if (execute_session_command(server, session, count, words, reply))
        return;
    if (server->refusal)
        bytes_print(reply, "-%s\r\n", server->refusal);
    else if (server->replica && !may_run_on_replica(count, words))
        bytes_print(reply, "-READONLY You can't write against a read only replica.\r\n");
    else if (sim_text_is(words[0], "EVALSHA") || sim_text_is(words[0], "EVAL"))
        evaluate(server, count, words, microseconds, reply);
    else
        sim_keyspace_execute(&server->keys, count, words, microseconds, reply);
}
