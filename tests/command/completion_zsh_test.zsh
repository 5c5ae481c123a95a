# The zsh completion offers everything that redlock accepts, and zsh finds it. compadd and the helpers of zsh's own
# completions are replaced: outside of the line editor they do not run.
#
# Usage: zsh -f completion_zsh_test.zsh COMPLETIONS DIRECTORY_OF_REDLOCK
emulate -R zsh
path=($2 $path)
fpath=($1 $fpath)
autoload -Uz compinit
compinit -u -D
[[ $_comps[redlock] == _redlock ]] || { print "compinit does not find _redlock"; exit 1 }
autoload +X -Uz _redlock
typeset -a offered
typeset -i failed=0

compadd() {
  while [[ $1 != -- ]]; do shift; done
  shift
  offered+=("$@")
}
_files() { offered+=(files) }
_users() { offered+=(users) }
_cmdstring() { offered+=(commands) }
_normal() { offered+=("normal:$words[CURRENT]/$CURRENT") }

expect() { # EXPECTED WORD ...: the last word is the current one
  local expected=$1 name
  shift
  local -a words=("$@") got=()
  integer CURRENT=$#
  offered=()
  _redlock
  for name in $offered; do
    [[ $name == $words[-1]* || $name == normal* ]] && got+=($name)
  done
  if [[ "${(j: :)${(@o)got}}" != "$expected" ]]; then
    print -r -- "'$*' completes '${(j: :)${(@o)got}}', not '$expected'"
    failed=1
  fi
}

words=(redlock) CURRENT=1
_redlock # the first call defines the functions
expect 'release' redlock rel
expect 'doctor' redlock -v --nodes a:1 d
expect 'acquire' redlock --nodes acquire a # the first `acquire` is a value
expect '--no-wait --nodes' redlock run --no
expect '--fair --fence --for' redlock acquire --f
expect 'TERM' redlock acquire --loss-signal TE
expect 'USR1 USR2' redlock acquire --for 1 --loss-signal U
expect '--watch' redlock status x --w
expect '' redlock acquire --wait ''
expect '' redlock status ''
expect '--yes' redlock trust --y
expect '-n' redlock local -n
expect 'files' redlock --config f
expect 'users' redlock --user u
expect 'commands' redlock run --on-lost c
expect $$ redlock acquire --for $$
expect 'normal:tru/1' redlock local -- tru
expect 'normal:/etc/pa/2' redlock run x -- cat /etc/pa
for command in $(redlock --help | sed -n '/^commands/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
  expect $command redlock $command
  expect '--help' redlock $command --he
  for option in $(redlock $command --help | grep -oE '^ +(-., )?--[a-z-]+' | grep -oE -- '--[a-z-]+'); do
    expect "$(redlock $command --help | grep -oE '^ +(-., )?--[a-z-]+' | grep -oE -- "--[a-z-]+" | grep -E -- "^$option" | sort -u | paste -sd ' ')" \
      redlock $command $option
  done
done
exit $failed
