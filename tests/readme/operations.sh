#!/usr/bin/env bash
# docs/operations.md explains every finding of redlock doctor, and no other. Its example of several groups compiles, and
# spreads resources over all groups.
#
# Usage: operations.sh CC LIBRARY_OPTION...
. "$(dirname "$0")/../support/script.sh"

cc=$1
shift
document=$project/docs/operations.md

reported() { # LIBRARY_SOURCE COMMAND_SOURCE: the names in the code
  sed -nE 's/.*\{REDLOCK_FINDING_[A-Z_]+,[^"]*"([a-z-]+)".*/\1/p' "$1"
  tr -d '\n' <"$2" | grep -oE 'find\([^;"]*"[a-z-]+"' | sed -E 's/.*"([a-z-]+)"/\1/'
}

explained() { # DOCUMENT: the headings of the section
  awk '/^## / { inside = $0 == "## Findings of doctor" } inside && sub(/^### /, "")' "$1"
}

faults() { # LIBRARY_SOURCE COMMAND_SOURCE DOCUMENT
  diff <(reported "$1" "$2" | sort -u) <(explained "$3" | sort) |
    sed -n 's/^< /the document does not explain the finding: /p; s/^> /the document explains, but doctor does not report: /p' || true
}

printf '    {REDLOCK_FINDING_PLANTED, "planted-one", "text"},\n' >"$work/library.c"
printf '    find(&node->findings,\n  "planted-two", "remedy", "text"); find(findings, "planted-three", x, "text");\n' >"$work/command.c"
printf '## Findings of doctor\n\n### gone\n' >"$work/document.md"
planted 4 faults "$work/library.c" "$work/command.c" "$work/document.md"
[ "$(reported "$project/src/core/result.c" "$project/cli/diagnosis.c" | sort -u | wc -l)" -ge 18 ] || die "findings are missing in the code"
no_faults faults "$project/src/core/result.c" "$project/cli/diagnosis.c" "$document"

{
  c_block "$document"
  cat <<'C'
#include <stdio.h>
int main(void)
{
    char name[16];
    int seen[GROUPS] = {0};
    redlock_result result;
    if (connect_all(&result) != REDLOCK_OK)
        return puts(redlock_result_text(&result)), 1;
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "stock/%d", i);
        for (int group = 0; group < GROUPS; group++)
            seen[group] += client_for(name) == client[group] && client_for(name) == client[group];
    }
    for (int group = 0; group < GROUPS; group++) {
        printf("group %d has %d of 1000 resources\n", group, seen[group]);
        redlock_close(&client[group], NULL, NULL);
        if (seen[group] < 800 / GROUPS)
            return 1;
    }
    return 0;
}
C
} >"$work/program.c"
"$cc" -std=c11 -Wall -Wextra -Wpedantic -Werror -I"$project/include" "$work/program.c" "$@" -o "$work/program"
"$work/program" || die "the example's groups are not even"
