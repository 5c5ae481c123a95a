#define _GNU_SOURCE
#include "fake_server_internal.h"

#include "fixture.h"

#include <stdlib.h>

static const char *copy(struct fake_rule_entry *entry, size_t index, const char *data, size_t length)
{
    if (!data)
        return NULL;
    entry->copies[index] = fixture_allocate(length + 1);
    return memcpy(entry->copies[index], data, length);
}

static const char *copy_text(struct fake_rule_entry *entry, size_t index, const char *text)
{
    return copy(entry, index, text, text ? strlen(text) : 0);
}

static struct fake_rule_entry *make_entry(const struct fake_rule *rule)
{
    struct fake_rule_entry *entry = fixture_allocate(sizeof *entry);
    entry->rule = *rule;
    if (rule->reply && rule->reply_length == 0)
        entry->rule.reply_length = strlen(rule->reply);
    entry->rule.command = copy_text(entry, 0, rule->command);
    entry->rule.argument = copy_text(entry, 1, rule->argument);
    entry->rule.reply = copy(entry, 2, rule->reply, entry->rule.reply_length);
    entry->rule.extra = copy_text(entry, 3, rule->extra);
    return entry;
}

void fake_rules_free(struct fake_server *server)
{
    while (server->rules) {
        struct fake_rule_entry *entry = server->rules;
        server->rules = entry->next;
        for (size_t i = 0; i < sizeof entry->copies / sizeof *entry->copies; i++)
            free(entry->copies[i]);
        free(entry);
    }
}

unsigned fake_server_add_rule(struct fake_server *server, const struct fake_rule *rule)
{
    struct fake_rule_entry *entry = make_entry(rule);
    pthread_mutex_lock(&server->poller.lock);
    struct fake_rule_entry **link = &server->rules;
    while (*link)
        link = &(*link)->next;
    unsigned number = entry->number = ++server->last_rule;
    *link = entry;
    pthread_mutex_unlock(&server->poller.lock);
    return number;
}

static struct fake_rule_entry *find_entry(struct fake_server *server, unsigned number)
{
    struct fake_rule_entry *entry = server->rules;
    while (entry && entry->number != number)
        entry = entry->next;
    if (!entry)
        fixture_fail("the fake server has no rule %u", number);
    return entry;
}

void fake_server_clear_rules(struct fake_server *server)
{
    pthread_mutex_lock(&server->poller.lock);
    for (struct fake_rule_entry *entry = server->rules; entry; entry = entry->next)
        entry->removed = true;
    pthread_mutex_unlock(&server->poller.lock);
}

unsigned fake_server_rule_used(struct fake_server *server, unsigned number)
{
    pthread_mutex_lock(&server->poller.lock);
    unsigned used = find_entry(server, number)->used;
    pthread_mutex_unlock(&server->poller.lock);
    return used;
}

unsigned fake_server_refuse(struct fake_server *server, const char *command, unsigned count, const char *error)
{
    return fake_server_add_rule(server,
                                &(struct fake_rule){.command = command, .count = count, .skip = true, .reply = error});
}

static bool has_argument(const struct resp_command *command, const char *argument)
{
    for (size_t i = 1; i < command->argc; i++)
        if (resp_argument_is(&command->argv[i], argument))
            return true;
    return false;
}

static bool matches(const struct fake_rule *rule, const struct fake_connection *connection,
                    const struct resp_command *command)
{
    bool is_of_connections = rule->command && strcmp(rule->command, FAKE_ACCEPT) == 0;
    if (is_of_connections == (command != NULL) || (rule->connection != 0 && rule->connection != connection->session.id))
        return false;
    return !command ||
           (resp_command_is(command, rule->command) && (!rule->argument || has_argument(command, rule->argument)));
}

static bool applies_now(const struct fake_rule_entry *entry)
{
    unsigned first = entry->rule.first > 0 ? entry->rule.first : 1;
    return entry->seen >= first && (entry->rule.count == 0 || entry->seen - first < entry->rule.count);
}

/* Every rule counts the command, even if another one is applied, so that "the third SET" does not depend on other
 * rules. */
const struct fake_rule *fake_rules_apply(struct fake_server *server, const struct fake_connection *connection,
                                         const struct resp_command *command)
{
    static const struct fake_rule healthy = {0};
    struct fake_rule_entry *chosen = NULL;
    for (struct fake_rule_entry *entry = server->rules; entry; entry = entry->next) {
        if (entry->removed || !matches(&entry->rule, connection, command))
            continue;
        entry->seen++;
        if (!chosen && applies_now(entry))
            chosen = entry;
    }
    if (!chosen)
        return &healthy;
    chosen->used++;
    return &chosen->rule;
}
