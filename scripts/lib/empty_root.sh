#!/usr/bin/env bash
# Runs a static redlock in a root without any other file, except those that it names. The nodes are real servers outside of it.
#
# Usage: empty_root.sh BINARY          as root
set -euo pipefail

if [ -z "${REDLOCK_NODES-}" ]; then
  [ "$(id -u)" = 0 ] || { echo "empty_root.sh: an empty root can only be entered as root: try sudo" >&2; exit 1; }
  directory=$(mktemp -d)
  trap 'rm -rf "$directory"' EXIT
  mkdir "$directory/root"
  cp "$1" "$directory/root/redlock"
  cp "${BASH_SOURCE[0]}" "$directory/inside"

  # Each server listens for TLS, too, on a port below the range that the kernel gives out. 'local' passes --port N first.
  printf '#!/bin/sh\nexec "%s" "$@" --tls-port $(($2 - 20000)) --tls-auth-clients no --tls-cert-file "%s/node.pem" --tls-key-file "%s/node.key" %s\n' \
    "$(command -v redis-server)" "$directory" "$directory" "--tls-ca-cert-file '$directory/ca.pem'" >"$directory/server"
  chmod +x "$directory/server"
  cd "$directory"
  {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.pem
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=node -keyout node.key -out node.csr
    openssl x509 -req -in node.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -out node.pem \
      -extfile <(echo 'subjectAltName = DNS:a.example, DNS:b.example, DNS:c.example')
  } >openssl.log 2>&1 || { cat openssl.log >&2; exit 1; }
  status=0
  "$directory/root/redlock" local -n 3 --server "$directory/server" -- bash "$directory/inside" "$1" || status=$?
  exit "$status"
fi

root=$PWD/root
mapfile -t ports < <(tr , '\n' <<<"$REDLOCK_NODES" | sed 's/.*://')
plain=a.example:${ports[0]},b.example:${ports[1]},c.example:${ports[2]}
secure=rediss://a.example:$((ports[0] - 20000)),rediss://b.example:$((ports[1] - 20000)),rediss://c.example:$((ports[2] - 20000))

# inside WORD...: runs redlock in the root, in a namespace of processes of its own.
inside() {
  # shellcheck disable=SC2016
  env -i REDLOCK_NODES="$nodes" unshare --mount --pid --fork /bin/sh -c '
    root=$1 proc=$2
    shift 2
    [ "$proc" = no ] || mount -t proc proc "$root/proc" || exit 99
    exec chroot "$root" /redlock "$@"' sh "$root" "$proc" "$@"
}

# expect STATUS TEXT WORD...: redlock exits with STATUS and says TEXT.
expect() {
  local expected=$1 text=$2 status=0 said
  shift 2
  said=$(inside "$@" <<<"${input-}" 2>&1) || status=$?
  if [ "$status" -ne "$expected" ] || [[ $said != *"$text"* ]]; then
    printf "in the empty root (proc: %s, nodes %s): 'redlock %s': status %s and not %s, or without '%s':\n%s\n" \
      "$proc" "$nodes" "$*" "$status" "$expected" "$text" "$said" >&2
    exit 1
  fi
}

locks() {
  local token
  expect 0 '3 of 3 nodes grant locks' --timeout 2s doctor # a busy machine is not a finding
  expect 0 '"held"' run --fence --ttl 5s empty -- /redlock status --json empty
  expect 7 '' run --ttl 5s empty -- /redlock run -n -E 7 empty -- /redlock --version
  token=$(inside acquire --ttl 5s empty) || token=
  expect 0 held status empty
  input=$token expect 0 '' extend empty -
  input=$token expect 0 '' release empty -
  expect 0 free status empty
}

for proc in no yes; do
  [ "$proc" = no ] || mkdir "$root/proc"
  echo "== an empty root, /proc: $proc"
  nodes=$REDLOCK_NODES
  expect 0 'redlock ' --version
  locks
  nodes=$plain
  expect 2 'the resolver of this machine' doctor # without /etc no name has an address
  mkdir "$root/etc"
  echo '127.0.0.1 a.example b.example c.example' >"$root/etc/hosts"
  locks
  nodes=$secure
  echo "== with TLS"
  expect 2 'not trusted' doctor
  cp ca.pem "$root/ca.pem"
  printf 'tls-ca-file = /ca.pem\n' >"$root/etc/redlock.conf"
  locks
  rm "$root/ca.pem" "$root/etc/redlock.conf"
  mkdir -p "$root/etc/ssl"
  cp ca.pem "$root/etc/ssl/cert.pem"
  locks
  rm -r "$root/etc"
done
echo "all is well"
