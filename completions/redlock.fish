# fish completion for redlock(1). It reads commands and options from the program's --help, as redlock.bash does.

# Prints the options of a command, one per line: "--name<TAB>VALUE<TAB>help"; VALUE is empty if it takes none.
function __redlock_options # PROGRAM [COMMAND]
    command $argv --help 2>/dev/null | string replace -rf -- \
        '^  (?:   |(-[a-zA-Z]),) (--[a-z-]+)(?: ([A-Z]+))? +(.*)' '$1\t$2\t$3\t$4'
end

# What the option takes: TIME, FILE, PID ...; nothing if it takes no value.
function __redlock_value_of # OPTION PROGRAM [COMMAND]
    for line in (__redlock_options $argv[2..])
        set -l parts (string split \t -- $line)
        if contains -- $argv[1] $parts[1..2]
            echo $parts[3]
            return
        end
    end
end

function __redlock_complete_value # KIND
    switch "$argv[1]"
        case FILE
            __fish_complete_path (commandline -ct)
        case PID
            printf '%s\n' '$fish_pid'
            command ls /proc | string match -r '^[0-9]+$'
        case SIGNAL
            printf '%s\n' HUP INT QUIT ABRT KILL USR1 USR2 ALRM TERM
        case NAME
            __fish_complete_users
        case PROGRAM
            complete -C (commandline -ct)
    end
end

function __redlock_complete
    set -l words (commandline -opc)
    set -l program $words[1]
    set -l name
    set -l kind
    for i in (seq 2 (count $words))
        if test -n "$kind" # this word is a value
            set kind
        else if test "$words[$i]" = -- # the user's own command follows
            set -l rest $words[(math $i + 1)..] (commandline -ct)
            complete -C (string join ' ' -- (string escape -- $rest[1..-2]) $rest[-1])
            return
        else if string match -q -- '-*' $words[$i]
            set kind (__redlock_value_of $words[$i] $program $name)
        else if test -z "$name"
            set name $words[$i]
        end
    end
    if test -n "$kind"
        __redlock_complete_value $kind
    else if string match -q -- '-*' (commandline -ct)
        for line in (__redlock_options $program $name)
            set -l parts (string split \t -- $line)
            test -n "$parts[1]"; and printf '%s\t%s\n' $parts[1] $parts[4]
            printf '%s\t%s\n' $parts[2] $parts[4]
        end
    else if test -z "$name"
        command $program --help 2>/dev/null | string replace -rf '^  ([a-z]+) +([A-Z].*)' '$1\t$2'
    end
end

complete -c redlock -f -a '(__redlock_complete)'
