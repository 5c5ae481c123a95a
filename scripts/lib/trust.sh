# shellcheck shell=bash
# New nodes are in quarantine: nobody knows what they have forgotten. Whoever has just made them does, and says so here.

# trust_nodes HOST:PORT,HOST:PORT,... - writes the guard's marker, with the library's own script and defaults, on each node.
trust_nodes() {
  local list=$1 script node count
  script=$(dirname "${BASH_SOURCE[0]}")/../../src/scripts/guard.lua
  if ! command -v redis-cli >/dev/null; then
    printf 'trust: there is no redis-cli: the nodes stay in quarantine for half a minute (Debian: apt-get install redis-tools)\n' >&2
    return
  fi
  count=$(tr ',' '\n' <<<"$list" | wc -l)
  while read -r node; do
    redis-cli -h "${node%:*}" -p "${node##*:}" EVAL "$(cat "$script")" 1 redlock:marker 30000 default "$count" trust >/dev/null ||
      return 1
  done < <(tr ',' '\n' <<<"$list")
}
