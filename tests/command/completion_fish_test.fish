# The fish completion offers everything that redlock accepts.
#
# Usage: fish --no-config completion_fish_test.fish COMPLETIONS DIRECTORY_OF_REDLOCK
set -g failed 0
set -x PATH $argv[2] $PATH
source $argv[1]/redlock.fish

function names # LINE: sorted completions of its last word, without their descriptions
    complete -C "$argv[1]" | string replace -r '\t.*' '' | sort | string join ' '
end

function expect # EXPECTED LINE [among]: they are all that are offered, or among them
    set -l got (names $argv[2])
    test "$got" = "$argv[1]"; and return
    set -q argv[3]; and contains -- $argv[1] (string split ' ' -- $got); and return
    echo "'$argv[2]' completes '$got', not '$argv[1]'"
    set -g failed 1
end

for row in (grep -v '^#' (dirname (status filename))/completions.txt)
    expect (string split '|' -- $row)
end
expect /etc/passwd 'redlock --config /etc/passw' among
expect root 'redlock --user roo' among
expect $fish_pid "redlock acquire --for $fish_pid" among
expect true 'redlock local -- tru' among
expect true 'redlock local --server tru' among
expect /etc/passwd 'redlock local -n 3 -- cat /etc/passw' among
for name in (redlock --help | sed -n '/^commands/,/^$/s/^  \([a-z]*\) .*/\1/p')
    expect $name "redlock $name" among
    expect (redlock $name --help | sed -nE 's/^ +(-., )?(--[a-z-]+).*/\2/p' | sort | string join ' ') "redlock $name --"
end
exit $failed
