# bash completion for redlock(1). What there is to complete it asks the program itself, so that the two cannot differ.

# Names of the commands: the indented words of --help before the first table of options.
_redlock_commands() {
  "$1" --help 2>/dev/null | sed -n '/^commands/,/^$/s/^  \([a-z]*\) .*/\1/p'
}

# The options of a command, one a line; those that take a value with a space and its kind behind.
_redlock_options() {
  "$1" ${2:+"$2"} --help 2>/dev/null |
    sed -n -e 's/^  \(-[a-zA-Z]\), \(--[a-z-]*\)\( [A-Z]*\)\{0,1\} .*/\1\3\n\2\3/p' -e 's/^      \(--[a-z-]*\)\( [A-Z]*\)\{0,1\} .*/\1\2/p'
}

# What the option takes: TIME, FILE, PID ...; nothing when it takes none.
_redlock_value_of() { # PROGRAM COMMAND OPTION
  _redlock_options "$1" "$2" | sed -n "s/^$3 //p"
}

# The word at this index continues the one before: readline splits at ':' and '=' (COMP_WORDBREAKS).
_redlock_is_joined() { # INDEX
  [[ ${COMP_WORDS[$1]-} == [:=]* ]]
}

# Sets `command` to the command on the line, if there is one before the cursor, and `followed` when a -- is.
_redlock_look() {
  local i word
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [[ $word == -- ]]; then
      followed=$i
      return
    elif [[ $word == -* ]]; then
      if ! _redlock_is_joined $((i + 1)) && [[ -n $(_redlock_value_of "$program" "$command" "$word") ]]; then
        ((i++))
      fi
    elif [[ -z $command ]]; then
      command=$word
    fi
    while _redlock_is_joined $((i + 1)); do
      ((i += 2))
    done
  done
}

_redlock_complete_value() {
  case $1 in
    FILE) mapfile -t COMPREPLY < <(compgen -f -- "$2") ;;
    PID) mapfile -t COMPREPLY < <(compgen -W "\$\$ $(cd /proc && echo [0-9]*)" -- "$2") ;;
    SIGNAL) mapfile -t COMPREPLY < <(compgen -W "HUP INT QUIT ABRT KILL USR1 USR2 ALRM TERM" -- "$2") ;;
    NAME) mapfile -t COMPREPLY < <(compgen -u -- "$2") ;;
    PROGRAM) mapfile -t COMPREPLY < <(compgen -c -- "$2") ;;
    *) COMPREPLY=() ;;
  esac
}

_redlock() {
  local program=${COMP_WORDS[0]} current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local command='' followed='' value=''
  COMPREPLY=()
  if [[ $current == '=' ]]; then
    current=''
  elif [[ $previous == '=' ]]; then
    previous=${COMP_WORDS[COMP_CWORD - 2]}
  elif _redlock_is_joined COMP_CWORD || _redlock_is_joined COMP_CWORD-1; then
    return # within a list of nodes or a resource
  fi
  _redlock_look
  if [[ -n $followed ]]; then # a command line of the user's
    if declare -F _command_offset >/dev/null; then
      _command_offset $((followed + 1))
    elif ((COMP_CWORD == followed + 1)); then
      mapfile -t COMPREPLY < <(compgen -c -- "$current")
    else
      mapfile -t COMPREPLY < <(compgen -f -- "$current")
    fi
    return
  fi
  if [[ $previous == -* ]]; then
    value=$(_redlock_value_of "$program" "$command" "$previous")
  fi
  if [[ -n $value ]]; then
    _redlock_complete_value "$value" "$current"
  elif [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_redlock_options "$program" "$command" | cut -d ' ' -f 1)" -- "$current")
  elif [[ -z $command ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_redlock_commands "$program")" -- "$current")
  fi
}

complete -F _redlock redlock
