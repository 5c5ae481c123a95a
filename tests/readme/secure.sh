#!/usr/bin/env bash
# The example of docs/operations.md with users, TLS and client certificates works as written, except for addresses, ports
# and directories. A client without a certificate, or with another password, is refused. Without TLS in redlock, only the
# users are tested.
#
# Usage: secure.sh DIRECTORY_OF_REDLOCK yes|no      yes: redlock is built with TLS
. "$(dirname "$0")/../support/script.sh"

document=$project/docs/operations.md
redlock=$1/redlock
tls=$2
needs_server
server=$(server_program)
servers=()
clean_up() {
  [ $? = 0 ] || tail -n 3 "$work"/*.log 2>/dev/null || true
  for pid in "${servers[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
}
cd "$work"

block() { # LANGUAGE NUMBER: a block of the section
  awk -v language="\`\`\`$1" -v number="$2" '
    /^## / { section = $0 ~ /^## Users, TLS/ }
    section && $0 == language && ++count == number { inside = 1; next } /^```$/ { inside = 0 } inside' "$document"
}

# Addresses and directories of this test.
ports=()
here() {
  sed -E "s#/etc/redis/#$work/#g; s#/etc/redlock/#$work/#g; s#10[.]0[.]0[.]([1-5]|[$]n)#127.0.0.1#g"
}

block sh 1 | here >certificates.sh
if [ "$tls" = yes ]; then
  bash -e certificates.sh >openssl.log 2>&1 || die "the certificates cannot be made: $(cat openssl.log)"
fi
block acl 1 >users.acl
[ "$(wc -l <users.acl)" = 3 ] || die "users.acl has not three lines"
# The rights are those of redlock(7), which other tests use.
rights=$(sed -n '/^ACL SETUSER lock /,/^[.]/p' "$project/man/redlock.7" | grep -v '^[.]' | tr -s ' \n' ' ' | sed 's/.*>password //; s/ $//')
grep -qF -- ">choose-a-password $rights" users.acl || die "the rights differ from those of redlock(7): $rights"
"$server" --version | grep -qE 'v=([7-9]|[1-9][0-9])' || skip "$server is too old for the example's users"

start() { # NUMBER; on a port that scripts/nodes.sh does not choose
  local number=$1 port=$((30000 + RANDOM % 2000))
  mkdir -p "data$number"
  block conf 1 | here | sed "s|node1|node$number|; s|6379|$port|" >"node$number.conf"
  if [ "$tls" = no ]; then
    sed -i "/^tls-[cka]/d; /^port 0/d; s/^tls-port/port/" "node$number.conf"
  fi
  printf 'dir %s\n' "$work/data$number" >>"node$number.conf"
  setpriv --pdeathsig KILL "$server" "node$number.conf" >"node$number.log" 2>&1 &
  servers+=($!)
  disown
  ports[number]=$port
  for _ in $(seq 200); do
    if grep -qi 'ready to accept connections' "node$number.log"; then return 0; fi
    kill -0 "${servers[-1]}" 2>/dev/null || break
    sleep 0.05
  done
  grep -q 'Address already in use' "node$number.log" || die "node $number does not start"
  start "$number"
}

for number in 1 2 3 4 5; do start "$number"; done
block ini 1 | here >redlock.conf
for number in 1 2 3 4 5; do sed -i "s|127.0.0.1:6379|127.0.0.1:${ports[number]}|" redlock.conf; done
if [ "$tls" = no ]; then sed -i 's|rediss://||g; /^tls-/d' redlock.conf; fi
printf 'timeout = 5s\nconnect-timeout = 10s\n' >>redlock.conf # for a busy machine
echo choose-a-password >password
export REDLOCK_CONFIG=$work/redlock.conf
unset REDLOCK_NODES REDLOCK_PASSWORD REDLOCK_USER

redlock() { "$redlock" "$@"; }
eval "$(block sh 2)" >commands.log 2>&1 || die "the commands fail: $(cat commands.log)"
grep -qx mine commands.log || die "no lock was acquired: $(cat commands.log)"
grep -q '^ok: 5 of 5 nodes' commands.log || die "doctor finds problems: $(cat commands.log)"

refused() { # TEXT: doctor shows it, and no lock can be acquired
  local status=0
  redlock doctor >doctor.log 2>&1 || status=$?
  [ "$status" = 2 ] && grep -q -- "$1" doctor.log || die "not refused with '$1' (status $status): $(cat doctor.log)"
}

echo wrong >password
refused 'WRONGPASS\|invalid username-password'
echo choose-a-password >password
if [ "$tls" = yes ]; then
  sed -i '/^tls-certificate-file/d; /^tls-key-file/d' redlock.conf
  refused 'set tls_certificate_file\|certificate'
fi
echo "the example works (TLS: $tls)"
