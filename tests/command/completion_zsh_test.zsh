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
compset() { # -P '*='
  words[CURRENT]=${words[CURRENT]#*=}
}
_files() { offered+=(files) }
_users() { offered+=(users) }
_cmdstring() { offered+=(commands) }
_command_names() { offered+=(programs) }
_normal() { offered+=("normal:$words[CURRENT]/$CURRENT") }

expect() { # EXPECTED LINE [among]: among others
  local expected=$1 line=$2 name
  local -a words=("${(@s: :)line}") got=()
  integer CURRENT=$#words
  offered=()
  _redlock
  for name in $offered; do
    [[ $name == $words[-1]* || $name == normal* ]] && got+=($name)
  done
  [[ -z $3 || -z $got[(re)$expected] ]] || got=($expected)
  if [[ "${(j: :)${(@o)got}}" != "$expected" ]]; then
    print -r -- "'$line' completes '${(j: :)${(@o)got}}', not '$expected'"
    failed=1
  fi
}

words=(redlock) CURRENT=1
_redlock # the first call defines the functions
while IFS='|' read -r row line; do
  expect "$row" "$line"
done < <(grep -v '^#' ${0:h}/completions.txt)
expect '-n' 'redlock local -n'
expect files 'redlock --config f'
expect files 'redlock --config=f'
expect files 'redlock run --config=f'
expect users 'redlock --user=u'
expect '' 'redlock --wait=t'
expect users 'redlock --user u'
expect commands 'redlock run --on-lost c'
expect programs 'redlock local --server p'
expect $$ "redlock acquire --for $$" among
expect normal:tru/1 'redlock local -- tru'
expect normal:/etc/pa/2 'redlock run x -- cat /etc/pa'
for command in $(redlock --help | sed -n '/^commands/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
  expect $command "redlock $command"
  expect "${(j: :)${(@of)$(redlock $command --help | sed -nE 's/^ +(-., )?(--[a-z-]+).*/\2/p')}}" "redlock $command --"
done
exit $failed
