# shellcheck shell=bash
# New nodes are in quarantine, because no client knows which locks they have lost. The script that has just created them knows: none.

# shellcheck source=scripts/lib/server.sh
. "$(dirname "${BASH_SOURCE[0]}")/server.sh"

# trust_nodes HOST:PORT,HOST:PORT,... - writes the guard's marker, with the library's own script and defaults, on each node.
trust_nodes() {
  local list=$1 scripts script node count client
  scripts=$(dirname "${BASH_SOURCE[0]}")/../../src/node/scripts
  # As cmake/RedlockScripts.cmake does: inserts the script's includes, and the numbers of limits.h.
  script=$(sed "/^-- include evidence\$/r $scripts/include/evidence.lua" "$scripts/guard.lua" |
    sed -f <(sed -nE 's/^#define (RL_[A-Z_]+) ([0-9]+)$/s,\1,\2,g/p' "$scripts/../limits.h"))
  client=$(server_client) || {
    printf 'trust: there is no redis-cli or valkey-cli: the nodes stay in quarantine for half a minute (Debian: apt-get install redis-tools)\n' >&2
    return
  }
  count=$(tr ',' '\n' <<<"$list" | wc -l)
  while read -r node; do
    "$client" -h "${node%:*}" -p "${node##*:}" EVAL "$script" 1 redlock:marker 30000 default "$count" trust \
      "$(od -An -N8 -tx8 /dev/urandom | tr -d ' ')" '' 0 | grep -qx trusted || return 1
  done < <(tr ',' '\n' <<<"$list")
}
