# shellcheck shell=bash
# Reads the options of a script from its head comment, so that each is described once: for --help, for the reader, and for the person who opens the file.
# Source it in the project's directory.
#
#   #   --seconds S     for each of them        has a value
#   #   --server P...   one more server         may be given again
#   #   --quick         the first build only    has none

options_help() {
  sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "scripts/${0##*/}"
}

# options_refuse TEXT...: ends the script with status 2.
options_refuse() {
  echo "scripts/${0##*/}: $*" >&2
  exit 2
}

# options_read WORD ...: sets a variable of each option's name, with _ for -, to its value, or to yes; an array, if it may be given again. Words that are
# no options go into the array `words`. Ends the script after --help, and with status 2 for what is no option of it.
options_read() {
  local _word _name _value _form _list # with _, because an option sets the global variable of its name
  _list=$(sed -nE '2,/^set /s/^#   --([a-z-]+( [A-Z]+(\.\.\.)?)?)(  .*)?$/\1/p' "scripts/${0##*/}")
  words=()
  while [ $# -gt 0 ]; do
    _word=$1
    shift
    _name=${_word#--}
    _name=${_name%%=*}
    case $_word in
      -h | --help)
        options_help
        exit 0
        ;;
      --?*) _form=$(grep -E "^$_name( |$)" <<<"$_list") || options_refuse "'$_word' is not understood; --help lists the options." ;;
      -*) options_refuse "'$_word' is not understood; --help lists the options." ;;
      *)
        words+=("$_word")
        continue
        ;;
    esac
    if [ "$_form" = "$_name" ]; then
      [ "$_word" = "--$_name" ] || options_refuse "--$_name takes no value."
      _value=yes
    elif [[ $_word == *=* ]]; then
      _value=${_word#*=}
    else
      [ $# -gt 0 ] || options_refuse "'$_word' needs a value; see --help."
      _value=$1
      shift
    fi
    _name=${_name//-/_}
    if [[ $_form == *... ]]; then
      eval "$_name+=(\"\$_value\")"
    else
      printf -v "$_name" %s "$_value"
    fi
  done
}

# options_only WORD ...: the same for a script that takes no other words.
options_only() {
  options_read "$@"
  [ ${#words[@]} -eq 0 ] || options_refuse "'${words[0]}' is not understood; --help lists the options."
}
