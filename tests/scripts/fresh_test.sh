#!/usr/bin/env bash
# scripts/fresh.sh explains why it cannot make a system, and leaves nothing behind. Fakes stand for the tools that need root; CI makes real
# systems.
. "$(dirname "$0")/../support/script.sh"

mkdir "$work/tools" "$work/tmp" "$work/cache"
git --version >/dev/null 2>&1 || skip "there is no git (Debian: apt-get install git)"
# A separate clone: the tests may run in an exported tree.
mkdir "$work/tree"
cp -r "$project/scripts" "$project/README.md" "$work/tree/"
cd "$work/tree"
# README's commands do nothing here.
printf '#!/bin/sh\n' | tee scripts/demo.sh >scripts/test.sh
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
git init -q .
git add .
git -c user.name=test -c user.email=test@example.invalid commit -qm test
failed=0

# tool NAME LINE...: a script that takes the place of a program
tool() {
  printf '#!/bin/sh\n' >"$work/tools/$1"
  printf '%s\n' "${@:2}" >>"$work/tools/$1"
  chmod +x "$work/tools/$1"
}
# As root, where namespaces can be made and debootstrap makes a system of one file.
tool id 'echo 0'
tool unshare 'while [ "${1#--}" != "$1" ]; do shift; done' 'exec "$@"'
# shellcheck disable=SC2016
tool debootstrap 'mkdir -p "$3/etc/apt/apt.conf.d" "$3/root" "$3/usr/local/share"' 'echo "$2" >"$3/etc/release"'
tool mount true
tool npm 'exit 1'
tool apt-get 'exit 1'
# shellcheck disable=SC2016
tool chroot 'cd "$1/root/redlock"' 'shift' 'while [ "$1" != --chdir=/root/redlock ]; do shift; done' 'shift' 'exec "$@"'

run_fresh() { # in a subshell
  exec env PATH="$work/tools:$PATH" TMPDIR="$work/tmp" XDG_CACHE_HOME="$work/cache" REDLOCK_SKIP_PACKAGES=1 bash scripts/fresh.sh "$@" </dev/null 2>&1
}

# fresh STATUS TEXT WORD...: fresh.sh with these words ends with STATUS and says TEXT; of the systems nothing is left.
fresh() {
  local expected=$1 text=$2 status=0 output
  shift 2
  output=$(run_fresh "$@") || status=$?
  if [ "$status" -ne "$expected" ] || [[ $output != *"$text"* ]]; then
    printf "fresh.sh %s: status %s and not %s, or without '%s':\n%s\n" "$*" "$status" "$expected" "$text" "$output" >&2
    failed=1
  fi
  if compgen -G "$work/tmp/*" >/dev/null; then
    printf 'fresh.sh %s: left behind: %s\n' "$*" "$(echo "$work/tmp/"*)" >&2
    failed=1
  fi
}

fresh 0 'Usage: scripts/fresh.sh' --help
fresh 2 "'sarge' is not a release that can be made here; there are: bookworm trixie noble" sarge
fresh 2 "'--trixie' is not a release" --trixie
fresh 2 "'now' is not understood" trixie now
fresh 2 "a command must follow --" trixie --

# README's two commands, without another.
fresh 0 'scripts/demo.sh          exit status 0' trixie
fresh 0 'scripts/test.sh          exit status 0' trixie
mv .git "$work/git"
fresh 0 'scripts/test.sh          exit status 0' trixie # a release's tree
mv "$work/git" .git
rm -r "$work/cache/"*
# The output and the exit status of COMMAND; the system made by debootstrap, then from the kept file.
fresh 0 'making a bare trixie' trixie -- true
fresh 7 'hello' trixie -- sh -c 'echo hello; exit 7'
tool debootstrap 'echo was called; exit 1'
fresh 0 '' trixie -- true
# An interrupt removes the system. (The processes in it end with their namespace, which is a fake here.)
mkfifo "$work/begun"
run_fresh trixie -- sh -c "echo \$\$ >'$work/begun'; exec sleep 1000" &
read -r command <"$work/begun"
kill -TERM $!
status=0
wait $! || status=$?
kill -KILL "$command"
if [ "$status" != 143 ] || compgen -G "$work/tmp/*"; then
  echo "fresh.sh, interrupted: status $status and not 143, or a system is left" >&2
  failed=1
fi
fresh 1 'debootstrap could not make bookworm' -- true
rm -r "$work/cache/"*
fresh 1 "was called" trixie
fresh 1 "does the mirror carry trixie" trixie
tool unshare 'echo "unshare failed: Operation not permitted" >&2; exit 1'
fresh 1 'does not let root make namespaces' trixie
tool id 'echo 1000'
fresh 1 'only be made as root' trixie

# It removes the system of a killed run, but not one in use.
tool id 'echo 0'
mkdir "$work/tmp/redlock-room.killed" "$work/tmp/redlock-room.killed/system"
fresh 1 'redlock-room.killed, which an interrupted run left' trixie
mkdir "$work/tmp/redlock-room.used"
exec 9<"$work/tmp/redlock-room.used"
flock 9
(run_fresh trixie) >/dev/null 9<&- || true
[ -d "$work/tmp/redlock-room.used" ] || { echo "fresh.sh removed a system in use" >&2; failed=1; }
exit "$failed"
