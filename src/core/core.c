#include "src/core/core.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "src/core/escape.h"

bool rl_logs(const struct rl_core *core, int level)
{
    return core->options.log && level <= (int)core->options.log_level && !core->forked;
}

void rl_log(const struct rl_core *core, int level, const char *format, ...)
{
    char line[256];
    if (!rl_logs(core, level))
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    /* A node may send any bytes; control characters must not reach the terminal that shows the log. */
    rl_text_tame(line, strlen(line));
    core->options.log(level, line, core->options.log_arg);
}
