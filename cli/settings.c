#include "settings.h"

#include "command.h"
#include "config.h"
#include "message.h"
#include "times.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char system_config[] = "/etc/redlock.conf";

struct cli_overrides cli_overrides;
struct cli_settings cli_settings;

static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && *value != '\0' ? value : NULL;
}

/* --- The file --- */

/* $XDG_CONFIG_HOME/redlock/config, by default in ~/.config; false without a home directory. */
static bool user_config(char path[CLI_SOURCE_SIZE])
{
    const char *base = variable("XDG_CONFIG_HOME");
    const char *home = variable("HOME");
    int length = -1;

    if (base != NULL && base[0] == '/') /* the specification says to ignore relative paths */
        length = snprintf(path, CLI_SOURCE_SIZE, "%s/redlock/config", base);
    else if (home != NULL)
        length = snprintf(path, CLI_SOURCE_SIZE, "%s/.config/redlock/config", home);
    return length > 0 && length < CLI_SOURCE_SIZE;
}

/* As after `su -m`, and in a container with another user: the file is not ours. */
static bool home_is_anothers(void)
{
    const char *base = variable("XDG_CONFIG_HOME") != NULL ? variable("XDG_CONFIG_HOME") : variable("HOME");
    struct stat status;

    return base != NULL && (stat(base, &status) == 0 ? status.st_uid != geteuid() : errno == EACCES);
}

/* False, after a message: it cannot be read, so it may have settings that count. In another user's home it does not
 * count if the nodes are known without it. */
static bool look_up(const char *path, bool of_user, bool *exists)
{
    *exists = access(path, R_OK) == 0;
    if (*exists || errno == ENOENT || errno == ENOTDIR)
        return true;
    int error = errno;
    bool anothers = of_user && home_is_anothers();
    if (anothers && (cli_overrides.nodes != NULL || variable("REDLOCK_NODES") != NULL)) {
        cli_explain("%s is not read: HOME is another user's", path);
        return true;
    }
    cli_say("cannot read %s: %s%s", path, strerror(error),
            anothers ? "; HOME is another user's: set it, or name a file in REDLOCK_CONFIG (/dev/null: none)"
                     : "; REDLOCK_CONFIG names another file (/dev/null: none)");
    return false;
}

/* A file that is named must exist; otherwise the first default file that exists. "": none. */
static bool find_config(char path[CLI_SOURCE_SIZE])
{
    const char *named = cli_overrides.config != NULL ? cli_overrides.config : variable("REDLOCK_CONFIG");
    bool exists = false;

    if (named != NULL && *named == '\0') {
        cli_say("the name of the config file is empty: --config names a file");
        return false;
    }
    if (named != NULL) {
        if (snprintf(path, CLI_SOURCE_SIZE, "%s", named) < CLI_SOURCE_SIZE)
            return true;
        cli_say("the name of the config file is longer than %d bytes", CLI_SOURCE_SIZE - 1);
        return false;
    }
    if (user_config(path) && !look_up(path, true, &exists))
        return false;
    if (exists)
        return true;
    snprintf(path, CLI_SOURCE_SIZE, "%s", system_config);
    if (!look_up(path, false, &exists))
        return false;
    if (!exists)
        *path = '\0';
    return true;
}

/* --- The environment --- */

static bool take_environment(struct cli_settings *settings)
{
    const char *nodes = variable("REDLOCK_NODES");
    const char *user = variable("REDLOCK_USER");
    const char *password = variable("REDLOCK_PASSWORD");
    const char *password_file = variable("REDLOCK_PASSWORD_FILE");

    if (nodes != NULL) {
        settings->nodes = nodes;
        snprintf(settings->nodes_source, CLI_SOURCE_SIZE, "REDLOCK_NODES");
    }
    if (user != NULL)
        settings->options.user = user;
    if (password != NULL && password_file != NULL) {
        cli_say("REDLOCK_PASSWORD and REDLOCK_PASSWORD_FILE are both set: unset one of them");
        return false;
    }
    if (password_file != NULL)
        password = cli_password_read(password_file);
    if (password != NULL)
        settings->options.password = password;
    return password != NULL || password_file == NULL;
}

/* --- The command line --- */

/* A password may contain '/', which has no meaning before the last '@'. */
bool cli_nodes_hold_password(const char *nodes)
{
    const char *scheme;

    while ((scheme = strstr(nodes, "://")) != NULL) {
        size_t length = strcspn(scheme + 3, ",");
        const char *at = memrchr(scheme + 3, '@', length);
        if (at != NULL && memchr(scheme + 3, ':', (size_t)(at - scheme - 3)) != NULL)
            return true;
        nodes = scheme + 3;
    }
    return false;
}

static bool take_timeout(struct cli_settings *settings)
{
    char quoted[CLI_QUOTED_SIZE];
    int64_t milliseconds;

    if (cli_overrides.timeout == NULL)
        return true;
    if (!cli_take_duration("timeout", cli_overrides.timeout, &milliseconds))
        return false;
    if (milliseconds < 1 || milliseconds > CLI_TIMEOUT_MOST_MS) {
        cli_say("--timeout %s is not from 1 ms to 1 h", cli_quote(cli_overrides.timeout, quoted));
        return false;
    }
    settings->options.node_timeout_ms = (uint32_t)milliseconds;
    return true;
}

static bool take_command_line(struct cli_settings *settings)
{
    if (cli_overrides.nodes != NULL) {
        settings->nodes = cli_overrides.nodes;
        snprintf(settings->nodes_source, CLI_SOURCE_SIZE, "--nodes");
        if (cli_nodes_hold_password(cli_overrides.nodes)) {
            cli_say(
                "--nodes contains a password, which every user can read in the process list; put it in REDLOCK_PASSWORD, "
                "REDLOCK_NODES or the config file");
            return false;
        }
    }
    if (cli_overrides.user != NULL)
        settings->options.user = cli_overrides.user;
    if (cli_overrides.label != NULL)
        settings->options.label = cli_overrides.label;
    return take_timeout(settings);
}

/* --- The label --- */

static pid_t labelled;
static const char *label_command;

void cli_settings_label(pid_t process, const char *command)
{
    labelled = process;
    label_command = command;
}

/* "deploy@web-3:4711:backup.sh". The user's name comes from the environment: a directory service may be slow. */
static const char *default_label(void)
{
    static char label[REDLOCK_LABEL_SIZE];
    char host[64] = "";
    char user[24];
    const char *name = variable("LOGNAME") != NULL ? variable("LOGNAME") : variable("USER");
    const char *slash = label_command != NULL ? strrchr(label_command, '/') : NULL;
    const char *command = slash != NULL ? slash + 1 : label_command;

    if (gethostname(host, sizeof(host) - 1) != 0 || *host == '\0')
        snprintf(host, sizeof(host), "unknown");
    if (geteuid() == 0)
        snprintf(user, sizeof(user), "root");
    else
        snprintf(user, sizeof(user), "%u", (unsigned)geteuid());
    snprintf(label, sizeof(label), "%.16s@%.28s:%d%s%s", name != NULL ? name : user, host,
             (int)(labelled > 0 ? labelled : getpid()), command != NULL ? ":" : "", command != NULL ? command : "");
    for (char *c = label; *c != '\0'; c++) /* what a label may not have */
        if (*c <= ' ' || *c > '~' || *c == '\\')
            *c = '?';
    return label;
}

/* --- Checks --- */

bool cli_ttl_fits(int64_t ttl_ms, const char *file)
{
    const char *colon = *file != '\0' ? ": " : "";
    bool guarded = cli_settings.options.guard != 0;
    int64_t most = guarded ? cli_settings.options.max_ttl_ms : CLI_TTL_MOST_MS;
    char given[CLI_DURATION_SIZE];
    char bound[CLI_DURATION_SIZE];

    if (ttl_ms >= CLI_TTL_LEAST_MS && ttl_ms <= most)
        return true;
    if (ttl_ms > most && guarded)
        cli_say("%s%sa ttl of %s is above max-ttl, %s, the longest ttl in the deployment; "
                "raise max-ttl in the config file of every machine",
                file, colon, cli_duration_exact(ttl_ms, given), cli_duration_exact(most, bound));
    else
        cli_say("%s%sa ttl of %s is not from %d ms to %s", file, colon, cli_duration_exact(ttl_ms, given),
                CLI_TTL_LEAST_MS, cli_duration_exact(most, bound));
    return false;
}

/* --- All of them --- */

static int load(struct cli_settings *settings)
{
    settings->options = (redlock_options)REDLOCK_OPTIONS_INIT;
    const uint32_t default_ttl_ms = settings->options.ttl_ms;
    settings->options.ttl_ms = 0;
    if (!find_config(settings->config_path))
        return CLI_MISCONFIGURED;
    if (*settings->config_path != '\0' && !cli_config_read(settings->config_path, settings))
        return CLI_MISCONFIGURED;
    if (settings->options.ttl_ms == 0) /* not in the file */
        settings->options.ttl_ms =
            default_ttl_ms < settings->options.max_ttl_ms ? default_ttl_ms : settings->options.max_ttl_ms;
    if (!cli_ttl_fits(settings->options.ttl_ms, settings->config_path)) /* the ttl is not from the command line */
        return CLI_MISCONFIGURED;
    snprintf(settings->nodes_source, CLI_SOURCE_SIZE, "%s", settings->config_path);
    if (!take_environment(settings))
        return CLI_MISCONFIGURED;
    if (!take_command_line(settings))
        return CLI_USAGE;
    if (settings->options.label == NULL)
        settings->options.label = default_label();
    return CLI_OK;
}

int cli_settings_load(void)
{
    static bool loaded;
    int status = loaded ? CLI_OK : load(&cli_settings);

    loaded = status == CLI_OK;
    return status;
}
