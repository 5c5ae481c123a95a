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

expect release 'redlock rel'
expect doctor 'redlock -v --nodes a:1 d'
expect acquire 'redlock --nodes acquire a' # the first `acquire` is a value
expect '--no-wait --nodes' 'redlock run --no'
expect '--fair --fence --for' 'redlock acquire --f'
expect TERM 'redlock acquire --loss-signal TE'
expect 'USR1 USR2' 'redlock acquire --for 1 --loss-signal U'
expect --watch 'redlock status x --w'
expect '' 'redlock acquire --wait '
expect '' 'redlock status '
expect --yes 'redlock trust --y'
expect_among /etc/passwd 'redlock --config /etc/passw'
expect_among root 'redlock --user roo'
expect_among $fish_pid "redlock acquire --for $fish_pid"
expect_among true 'redlock local -- tru'
expect_among /etc/passwd 'redlock local -n 3 -- cat /etc/passw'
for name in (redlock --help | sed -n '/^commands/,/^$/s/^  \([a-z]*\) .*/\1/p')
    expect_among $name "redlock $name"
    expect --help "redlock $name --he"
    for option in (redlock $name --help | grep -oE '^ +(-., )?--[a-z-]+' | grep -oE -- '--[a-z-]+')
        expect_among $option "redlock $name $option"
    end
end
exit $failed
