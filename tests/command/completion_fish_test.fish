# The fish completion offers everything that redlock accepts.
#
# Usage: fish --no-config completion_fish_test.fish COMPLETIONS DIRECTORY_OF_REDLOCK
set -g failed 0
set -x PATH $argv[2] $PATH
source $argv[1]/redlock.fish

function names # LINE: sorted completions of its last word, without their descriptions
    complete -C "$argv[1]" | string replace -r '\t.*' '' | sort | string join ' '
end

function expect # EXPECTED LINE
    set -l got (names $argv[2])
    if test "$got" != "$argv[1]"
        echo "'$argv[2]' completes '$got', not '$argv[1]'"
        set -g failed 1
    end
end

function expect_among # EXPECTED LINE
    set -l got (names $argv[2])
    if not contains -- $argv[1] (string split ' ' -- $got)
        echo "'$argv[2]' completes '$got', without '$argv[1]'"
        set -g failed 1
    end
end

for row in (grep -v '^#' (dirname (status filename))/completions.txt)
    expect (string split '|' -- $row)
end
expect_among /etc/passwd 'redlock --config /etc/passw'
expect_among root 'redlock --user roo'
expect_among $fish_pid "redlock acquire --for $fish_pid"
expect_among true 'redlock local -- tru'
expect_among true 'redlock local --server tru'
expect_among /etc/passwd 'redlock local -n 3 -- cat /etc/passw'
for name in (redlock --help | sed -n '/^commands/,/^$/s/^  \([a-z]*\) .*/\1/p')
    expect_among $name "redlock $name"
    expect (redlock $name --help | sed -nE 's/^ +(-., )?(--[a-z-]+).*/\2/p' | sort | string join ' ') "redlock $name --"
end
exit $failed
