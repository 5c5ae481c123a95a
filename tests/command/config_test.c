/* The sources of redlock(1)'s settings: command line, environment, config file. Tests their precedence, and that a
 * message about a config file names the line. */
#include "scene.h"

#include "support/file.h"
#include "support/temp_dir.h"

#include <sys/stat.h>
#include <unistd.h>

#define NOWHERE "127.0.0.1:1"
#define RUN     "run -n " real_key("config") " -- true"

#define FIFTY   "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

/* --- Invalid files --- */

static const struct {
    const char *text;
    const char *says;
} wrong[] = {
    {"[redlock]\nnodes = a\nttl 10s\n", "file:3: neither 'key = value'"},
    {"fair = yes", "'fair' is no longer a key, because waiting is always fair: remove the line"},
    {"nodes = a\ncolour = red\n", "file:2: there is no key 'colour'"},
    {"nodes = a\n[other]\nttl = 1s\n", "file:3: there is no section [other]"},
    {"; first\n\nttl = 10x\n", "file:3: ttl: '10x' is not a duration"},
    {"ttl =\n", "file:1: ttl: '' is not a duration"},
    {"nodes =\n", "file:1: nodes: the list is empty"},
    {"guard = maybe\n", "file:1: guard: 'maybe' is neither yes nor no"},
    {"database = -1\n", "file:1: database: '-1' is not a number"},
    {"password-file = /nonexistent/password\n", "cannot read a password from /nonexistent/password"},
    {"nodes = 127.0.0.1:99999\n", "port '99999' is not a number"},
    {"nodes = a\n  sentinel://a,b/m\n", "node 2 of the list: it lists 2 of the Sentinels; list all that watch"},
    {"guard = no\nnodes = sentinel://a,\n  b,c/m\n",
     "m (sentinel a:26379): a failover loses locks, so a node behind Sentinel or in a cluster needs the guard"},
    {"nodes = a\nttl = 60s\n", "/file: a ttl of 60.0 s is above max-ttl, 30.0 s"},
    {"nodes = a\nttl = 0\n", "file:2: ttl: '0' is not from 1 ms to 24.0 h"},
    {"max-ttl = 99d\n", "file:1: max-ttl: '99d' is not from 1 ms to 24.0 h"},
    {"timeout = 0\n", "file:1: timeout: '0' is not from 1 ms to 60 min"},
    {"connect-timeout = 61m\n", "file:1: connect-timeout: '61m' is not from 1 ms to 60 min"},
    {"drift-ppm = 600000\n", "file:1: drift-ppm: '600000' is not a number from 0 to 500000"},
    {"[redlock]\n  prefix = jobs:\n  guard = no\n", "file:3: an indented line continues the key before it"},
    {"nodes = a\n  ttl = 5s\n", "file:2: an indented line continues the key before it"},
    {"ttl = 5s\nnodes = a\nttl = 6s\n", "file:3: ttl: line 1 has set ttl; keep one of the two"},
    {"password = a\npassword-file = /dev/null\n", "file:2: password-file: line 1 has set password"},
    {"nodes = ,\n", "file:1: nodes: the list is empty"},
    {"nodes = a;b\n", "node 1 of the list: separate nodes by commas, not by ';', '|' or spaces"},
    {"password-file = nonexistent\n", "/nonexistent: No such file"},
    {"ttl = 10s\nnodes = " FIFTY FIFTY FIFTY FIFTY FIFTY FIFTY FIFTY FIFTY, "file:2: this line is longer than"},
};

/* Also in the last line, which may have no end. */
TEST_ROWS(no_nodes, nul_byte_in_a_file_is_reported, 2)
{
    static const char text[] = "nodes = a\nprefix = a\0b\nguard = no\n";
    program_setting.config = scene_file("");
    file_write(program_setting.config, text, _i == 0 ? sizeof text - 1 : sizeof "nodes = a\nprefix = a\0b" - 1);
    program_refuses(program_run(RUN), MISCONFIGURED, "file:2: this line has a NUL byte");
}

TEST_ROWS(no_nodes, error_in_a_file_is_reported_with_its_line, ROWS(wrong))
{
    program_setting.config = scene_file(wrong[_i].text);
    struct program *program = program_exits(program_run(RUN), MISCONFIGURED);
    program_errors_have(program, wrong[_i].says);
}

static const struct {
    const char *line;
    const char *says;
} unreadable[] = {
    {"--config /nonexistent/file " RUN, "cannot read /nonexistent/file: No such file"},
    {"--config '' " RUN, "the name of the config file is empty"},
    {"--config /etc " RUN, "cannot read /etc: Is a directory"},
    {"--config /proc/self/mem " RUN, "cannot read /proc/self/mem: Input/output error"},
    {"REDLOCK_NODES=" NOWHERE " REDLOCK_PASSWORD_FILE=/dev/zero " RUN, "/dev/zero: its first line is longer than"},
    {"REDLOCK_PASSWORD=a REDLOCK_PASSWORD_FILE=/dev/null " RUN,
     "REDLOCK_PASSWORD and REDLOCK_PASSWORD_FILE are both set"},
};

TEST_ROWS(no_nodes, unreadable_file_is_reported, ROWS(unreadable))
{
    program_refuses(program_run("%s", unreadable[_i].line), MISCONFIGURED, unreadable[_i].says);
}

TEST(no_nodes, empty_line_is_no_password)
{
    const char *path = scene_file("\nsecret\n");
    program_refuses(program_run("REDLOCK_NODES=" NOWHERE " REDLOCK_PASSWORD_FILE=%s " RUN, path), MISCONFIGURED,
                    program_text("cannot read a password from %s: its first line is empty", path));
}

/* A file that only names a password file holds no secret. */
static const char *const readable[] = {"password = secret\n", "nodes = redis://me:sec/ret@127.0.0.1:2\n", NULL};

TEST_ROWS(no_nodes, password_that_every_user_can_read_causes_a_warning, ROWS(readable))
{
    const char *line =
        readable[_i] != NULL ? readable[_i] : program_text("password-file = %s\n", scene_file("secret\n"));
    program_setting.config = scene_file(program_text("nodes = " NOWHERE "\n%s", line));
    ck_assert_int_eq(chmod(program_setting.config, 0644), 0);
    struct program *program = program_exits(program_run(RUN), NO_QUORUM);
    ck_assert_int_eq(strstr(program_errors(program), "every user can read it") != NULL, readable[_i] != NULL);
    ck_assert_ptr_null(strstr(program_errors(program), "secret"));
}

/* --- Precedence --- */

static const struct {
    const char *before, *between, *after;
} lists[] = {
    {"# by hand\n[redlock]\n" SCENE_PATIENCE "nodes = ", ",", "   ; of this test\nttl = 8s\n"},
    {SCENE_PATIENCE "nodes = ", "\nnodes = ", "\n"},
    {"max-ttl = 5s\n" SCENE_PATIENCE "nodes = ", ",", "\n"}, /* below the usual ttl */
    {SCENE_PATIENCE "nodes = ", "\n   ", "\n"},
    {SCENE_PATIENCE "nodes = ", ",\n   ", ",\n"},
};

TEST_ROWS(shared_nodes, the_file_names_the_nodes_in_one_line_or_several, ROWS(lists))
{
    char *rest = program_text("%s", program_setting.nodes);
    const char *first = strsep(&rest, ",");
    program_setting.nodes = NULL;
    program_setting.config =
        scene_file(program_text("%s%s%s%s%s", lists[_i].before, first, lists[_i].between, rest, lists[_i].after));
    program_exits(program_run(RUN), 0);
}

TEST(shared_nodes, the_usual_file_is_found)
{
    const char *base = temp_dir_path(temp_dir_make()),
               *text = program_text(SCENE_PATIENCE "nodes = %s\n", program_setting.nodes);
    real_note_descriptors();
    ck_assert_int_eq(mkdir(program_text("%s/redlock", base), 0700), 0);
    file_write(program_text("%s/redlock/config", base), text, strlen(text));
    program_setting.nodes = NULL;
    program_exits(program_run("XDG_CONFIG_HOME=%s REDLOCK_CONFIG= " RUN, base), 0);
}

/* It may exist, with settings that count. To root the directory is closed without these capabilities. */
TEST(no_nodes, usual_file_that_cannot_be_looked_up_is_reported)
{
    const char *base = temp_dir_path(temp_dir_make());
    real_note_descriptors();
    ck_assert_int_eq(mkdir(program_text("%s/redlock", base), 0), 0);
    program_setting.nodes = NOWHERE;
    program_refuses(program_shell("XDG_CONFIG_HOME=%s REDLOCK_CONFIG= exec %s $R " RUN, base,
                                  geteuid() == 0 ? "setpriv --bounding-set=-dac_override,-dac_read_search" : "env"),
                    MISCONFIGURED,
                    program_text("cannot read %s/redlock/config: Permission denied; REDLOCK_CONFIG names", base));
}

/* As after `su -m`. The file is needed only if nothing else names the nodes. Another user may be unable to reach the
 * program, so it is the directory that is given away. */
TEST_ROWS(no_nodes, file_in_another_users_home_counts_only_if_it_is_needed, 2)
{
    const char *home = temp_dir_path(temp_dir_make());
    real_note_descriptors();
    if (geteuid() != 0)
        return; /* only root can give a directory away */
    ck_assert_int_eq(chown(home, 65534, 65534), 0);
    program_setting.nodes = _i == 0 ? NOWHERE : NULL;
    struct program *program = program_shell(
        "HOME=%s REDLOCK_CONFIG= exec setpriv --bounding-set=-dac_override,-dac_read_search $R " RUN, home);
    program_refuses(program, _i == 0 ? NO_QUORUM : MISCONFIGURED,
                    _i == 0 ? "cannot connect" : "HOME is another user's: set it, or name a file in REDLOCK_CONFIG");
}

/* What wins over the file, and over the environment. */
TEST(shared_nodes, the_environment_wins_over_the_file_and_the_command_line_over_all)
{
    const char *nodes = program_setting.nodes, *path = scene_file(SCENE_PATIENCE "nodes = " NOWHERE "\n");
    program_exits(program_run("--config %s " RUN, path), 0);
    program_setting.nodes = NULL;
    program_refuses(program_run("--config %s " RUN, path), NO_QUORUM, "; redlock doctor shows the remedy");
    program_setting.nodes = NOWHERE;
    program_exits(program_run("--config %s " RUN, path), NO_QUORUM);
    program_exits(program_run("--config %s --nodes %s " RUN, path, nodes), 0);
    program_exits(program_run("run --nodes %s test:config -- true", nodes), 0);
}

REAL_PROGRAM("cli_config")
