# shellcheck shell=bash
# What a script hands on to the program that it builds is looked at before the build. Source it.

# options_check "OPTION_WITH_VALUE ..." "FLAG ..." WORD ...: are these words options of these names, without the --? Other words are left alone.
# Says which one is not; status 2 then.
options_check() {
  local with_value=" $1 " flags=" $2 " word name
  shift 2
  while [ $# -gt 0 ]; do
    word=$1
    shift
    name=${word#--}
    case $word in
      -*) ;;
      *) continue ;;
    esac
    if [[ $word == --*=* && $with_value == *" ${name%%=*} "* ]] || [[ $word == --* && $flags == *" $name "* ]]; then
      continue
    elif [[ $word == --* && $with_value == *" $name "* ]]; then
      if [ $# -eq 0 ]; then
        echo "$0: '$word' needs a value; see --help." >&2
        return 2
      fi
      shift
    else
      echo "$0: '$word' is not understood; --help lists the options." >&2
      return 2
    fi
  done
}
