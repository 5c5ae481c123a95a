/* Tests how redlock(1) reports an invalid command line: one line that names the input and the remedy, and a documented
 * exit status, before it sends a request. */
#include "scene.h"

#define TOKEN "0123456789abcdef0123456789abcdef01234567"
#define BYTES "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" /* 95 */

/* The words of a line are split as in a shell. */
static const struct {
    const char *line;
    const char *says;
} bad_lines[] = {
    {"", "a command is needed"},
    {"loca", "there is no command 'loca'"},
    {"-x local", "'-x' is not an option"},
    {"--nodes", "'--nodes' needs a value"},
    {"--permits 3 run x", "'--permits' is an option of redlock run: write it after that"},
    {"'\x9b"
     "31m \xc2\x9b"
     "31m'",
     "there is no command '\\x9b31m \\xc2\\x9b31m'"},
    {"\xc3\xa4\xe6\x97\xa5\xc2\xa0", "there is no command '\xc3\xa4\xe6\x97\xa5\xc2\xa0'"},
    {"'\x1b[31m'", "there is no command '\\x1b[31m'"},

    {"POSIXLY_CORRECT=1 acquire x --ttl -1", "--ttl '-1' is not a duration"},
    {"POSIXLY_CORRECT=1 acquire x -n y -w 1 -- --ttl", "one resource only"},
    {"acquire -n x -- -w", "one resource only"},
    {"release x -w", "'-w' is not an option of redlock release"},

    {"local --frob", "'--frob' is not an option"},
    {"local -n", "'-n' needs a value"},
    {"local --verbose=3", "'--verbose=3': this option takes no value"},
    {"local -n 0", "--count '0' is not a number from 1 to 32"},
    {"local -n 33", "--count '33' is not a number from 1 to 32"},
    {"local true", "must follow --"},
    {"local --", "no command after --"},
    {"local --server '' -- true", "--server is empty"},

    {"run", "a resource is needed"},
    {"run x", "the command must follow --"},
    {"run x --", "there is no command after --"},
    {"run '' -- true", "has 0 bytes"},
    {"run " BYTES BYTES BYTES BYTES BYTES "12345678901234567890123456789012345678 -- true", "has 513 bytes"},
    {"run --shared -Zn x", "'-Z' is not an option"},
    {"run --fair x -- true", "'--fair' is no longer an option, because waiting is always fair: leave it out"},
    {"acquire --fair x", "waiting is always fair"},
    {"run --wait 5x x -- true", "--wait '5x' is not a duration"},
    {"REDLOCK_CONFIG=/nonexistent run --wait 1s -n x -- true", "contradict"},
    {"run -w 400d x",
     "--wait '400d' is not a duration: a number and ms, s, m, h or d (seconds without a unit), 366d at most"},
    {"run --ttl 500ms x -- true", "2 x grace + 1 s"},
    {"run --ttl 4001ms --grace 2s x -- true", "a ttl of 4.001 s is too short for this grace"},
    {"run --ttl 40s x -- true", "is above max-ttl, 30.0 s"},
    {"run --ttl 0 x -- true", "a ttl of 0 ms is not from 10 ms to 30.0 s"},
    {"run --cap 9s --ttl 10999ms x -- true", "at least the ttl, that is 10.999 s"},
    {"run --cap 0 x -- true", "--cap must be at least the ttl, that is 10.0 s, and at most 49 days"},
    {"run --cap 50d x -- true", "--cap must be at least the ttl, that is 10.0 s, and at most 49 days"},
    {"run -E 256 x -- true", "'256' is not a number from 0 to 255"},
    {"run --permits 2 --shared x -- true", ""},
    {"run --take 2 x -- true", "--take needs --permits"},
    {"run --permits 2 --take 3 x -- true", "--take 3 is more than --permits 2"},
    {"run --permits 2 --take 0 x -- true", "'0' is not a number from 1 to 32"},
    {"run --nodes redis://me:secret@127.0.0.1:1 x -- true", "--nodes contains a password"},
    {"run --nodes redis://me:sec/ret@127.0.0.1:1 x -- true", "--nodes contains a password"},

    {"acquire", "a resource is needed"},
    {"acquire x y", "one resource only: use redlock run for a lock on several"},
    {"acquire ''", "has 0 bytes"},
    {"acquire 'a\\x00b'", "has a NUL byte"},
    {"acquire --shared x", "'--shared' is not an option of redlock acquire, but of redlock run"},
    {"REDLOCK_CONFIG=/nonexistent acquire -n -w 1 x", "--wait and --no-wait contradict each other"},
    {"acquire x --wait soon", "--wait 'soon' is not a duration"},
    {"acquire x --for me", "--for 'me' is not a number"},
    {"run --at-least 30001ms x -- true", "--at-least must be from 0 to 30.0 s, the deployment's max-ttl"},
    {"run --at-least -1s x -- true", "--at-least '-1s'"},
    {"acquire x --at-least 1s", "it needs --for PID"},
    {"acquire --for 1 --at-least 1m x", "--at-least must be from 0 to 30.0 s"},
    {"acquire x --cap 0", "--cap limits the renewal"},
    {"acquire --for 1 --cap 3s x", "--cap must be at least the ttl, that is 10.0 s"},
    {"acquire x --loss-signal TERM", "--loss-signal needs --for PID, the process that gets the signal"},
    {"acquire x --loss-signal 9", "--loss-signal '9' is not one of HUP, INT, "},
    {"acquire x -E 256", "is not a number from 0 to 255"},
    {"acquire x --ttl 0", "a ttl of 0 ms is not from 10 ms to 30.0 s"},
    {"acquire x --ttl 30001ms", "a ttl of 30.001 s is above max-ttl, 30.0 s, the longest ttl in the deployment"},

    {"extend x", "a resource and a token are needed"},
    {"extend x '(shared)'", "'(shared)' is not a token"},
    {"extend x " TOKEN TOKEN TOKEN TOKEN,
     "is not a token: use the output of acquire, or a token from status, of up to 128 bytes"},
    {"extend x " TOKEN " --ttl x", "--ttl 'x' is not a duration"},
    {"extend x " TOKEN " --ttl 5ms", "a ttl of 5 ms is not from 10 ms to 30.0 s"},
    {"extend x " TOKEN " --ttl 1h", "is above max-ttl, 30.0 s"},
    {"extend redlock:marker " TOKEN, "marker, 'redlock:marker'; use another name, or another marker_key\n"},
    {"release x:redlock:queue " TOKEN,
     "redlock release: 'x:redlock:queue' not released: the resource's key, which is the prefix and the name, ends in"},
    {"release x -", "'' is not a token"},
    {"release '' " TOKEN, "has 0 bytes"},
    {"release -n x", "'-n' is not an option of redlock release, but of redlock run"},

    {"status", "at least one resource is needed"},
    {"status ''", "has 0 bytes"},
    {"status x --interval 1ms", "--interval must be at least 50 ms"},
    {"status x --interval often", "--interval 'often' is not a duration"},
    {"status x --timeout 0", "--timeout '0' is not from 1 ms to 1 h"},
    {"status x --timeout 2h", "--timeout '2h' is not from 1 ms to 1 h"},
    {"status x --timeout soon", "--timeout 'soon' is not a duration"},

    {"doctor a b", "at most one resource"},
    {"doctor ''", "has 0 bytes"},
    {"trust a", "it takes no arguments"},
    {"REDLOCK_CONFIG=/nonexistent trust a", "it takes no arguments"},

    {"bench -t 61s", "--time must be from 1 s to 1 min"},
    {"bench --time=900ms", "--time must be from 1 s to 1 min"},
    {"bench -p 0", "--parallel '0' is not a number from 1 to 256"},
    {"bench a b", "at most one resource"},
    {"bench ''", "has 0 bytes"},
};

/* The nodes cannot be reached. The message uses the names of the command line, not those of the library. */
TEST_ROWS(no_nodes, a_command_line_that_is_wrong_is_refused, ROWS(bad_lines))
{
    program_setting.nodes = "127.0.0.1:1";
    struct program *program = program_run("%s", bad_lines[_i].line);
    program_refuses(program, USAGE, bad_lines[_i].says);
    ck_assert_ptr_null(strstr(program_errors(program), "_ms"));
}

TEST(no_nodes, help_goes_to_standard_output)
{
    struct program *program = program_exits(program_run("--help"), 0);
    program_output_has(program, "usage: redlock");
    ck_assert_str_eq(program_errors(program), "");
    program = program_exits(program_run("local --help"), 0);
    program_output_has(program, "usage: redlock local");
    program = program_exits(program_run("status --help"), 0);
    program_output_has(program, "\n  -w, --watch              ");
    program_output_has(program, "\n      --interval TIME      ");
    program_output_has(program_exits(program_run("help"), 0), "usage: redlock [OPTION");
    program_output_has(program_exits(program_run("help help"), 0), "usage: redlock [OPTION");
    program_output_has(program_exits(program_run("help local"), 0), "usage: redlock local");
    program_refuses(program_run("help locals"), USAGE, "there is no command 'locals'");
    static const char *const versions[] = {"--version", "-V", "version", "status -V"};
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++)
        program_prints(program_run("%s", versions[i]), "redlock 1.0.0\n");
}

TEST(no_nodes, a_full_disk_is_noticed)
{
    program_refuses(program_shell("$R --help >/dev/full"), SYSTEM,
                    "cannot write to standard output: No space left on device");
}

TEST_ROWS(no_nodes, without_nodes_it_says_where_they_can_be_named, 2)
{
    static const char *const lines[] = {"run x -- true", "status x"};
    program_refuses(program_run("%s", lines[_i]), MISCONFIGURED,
                    "no nodes are listed; use --nodes LIST, REDLOCK_NODES, or");
}

REAL_PROGRAM("cli_usage")
