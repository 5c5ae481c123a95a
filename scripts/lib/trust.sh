# shellcheck shell=bash
# New nodes are in quarantine: nobody knows what they have forgotten. Whoever has just made them does, and says so here.

# shellcheck source=scripts/lib/server.sh
. "$(dirname "${BASH_SOURCE[0]}")/server.sh"

# trust_nodes HOST:PORT,HOST:PORT,... - writes the guard's marker, with the library's own script and defaults, on each node.
trust_nodes() {
  local list=$1 script node count client
  script=$(dirname "${BASH_SOURCE[0]}")/../../src/scripts/guard.lua
  client=$(server_client) || {
    printf 'trust: there is no redis-cli or valkey-cli: the nodes stay in quarantine for half a minute (Debian: apt-get install redis-tools)\n' >&2
    return
  }
  count=$(tr ',' '\n' <<<"$list" | wc -l)
  while read -r node; do
    "$client" -h "${node%:*}" -p "${node##*:}" EVAL "$(cat "$script")" 1 redlock:marker 30000 default "$count" trust >/dev/null ||
      return 1
  done < <(tr ',' '\n' <<<"$list")
}
