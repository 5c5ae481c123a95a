# shellcheck shell=bash
# New nodes are in quarantine, because no client knows which locks they have lost. The script that has just created them knows: none.

# shellcheck source=scripts/lib/server.sh
. "$(dirname "${BASH_SOURCE[0]}")/server.sh"

# trust_facts COMMAND_OF_THE_CLIENT... - prints the facts of the marker that the server's INFO shows; quorum/marker.h names them.
trust_facts() {
  "$@" INFO all | tr -d '\r' | awk -F: '
    { value[$1] = $2 }
    END {
      history = value["master_replid2"]
      if (history ~ /^0+$/) history = "0"
      evicts = value["maxmemory_policy"] != "noeviction" ? "e" : ""
      swaps = value["cmdstat_swapdb"]
      if (!sub(/^calls=/, "", swaps)) swaps = 0
      sub(/,.*/, "", swaps)
      print value["run_id"], history, evicts value["evicted_keys"], swaps
    }'
}

# trust_epoch COMMAND_OF_THE_CLIENT... - the config epoch of the server in its cluster; 0: it is in none.
trust_epoch() {
  "$@" CLUSTER NODES 2>/dev/null | awk '$3 ~ /myself/ { epoch = $7 } END { print epoch + 0 }'
}

# trust_nodes HOST:PORT,HOST:PORT,... [MARKER_KEY] - writes the guard's marker, with the library's own script and defaults, on each node.
trust_nodes() {
  local list=$1 marker=${2:-redlock:marker} scripts script node count client command facts epoch
  scripts=$(dirname "${BASH_SOURCE[0]}")/../../src/node/scripts
  # As cmake/RedlockScripts.cmake does: inserts the numbers of limits.h.
  script=$(sed -f <(sed -nE 's/^#define (RL_[A-Z_]+) ([0-9]+)$/s,\1,\2,g/p' "$scripts/../limits.h") "$scripts/guard.lua")
  client=$(server_client) || {
    printf 'trust: there is no redis-cli or valkey-cli: the nodes stay in quarantine for half a minute (Debian: apt-get install redis-tools)\n' >&2
    return
  }
  count=$(tr ',' '\n' <<<"$list" | wc -l)
  while read -r node; do
    command=("$client" -h "${node%:*}" -p "${node##*:}")
    facts=$(trust_facts "${command[@]}")
    # Without a fact, e.g. of a server that is not there, the words would be too few.
    [ "$(wc -w <<<"$facts")" -eq 4 ] || return 1
    epoch=$(trust_epoch "${command[@]}")
    # In front of the number of SWAPDB calls: see quorum/marker.h.
    [ "$epoch" = 0 ] || facts=${facts% *}\ $epoch$(printf '%09d' "${facts##* }")
    "${command[@]}" EVAL "$script" 1 "$marker" '*' "$facts" 0 30000 "$count" trusted \
      "$(od -An -N8 -tx8 /dev/urandom | tr -d ' ')" default | grep -q '^2 ' || return 1
  done < <(tr ',' '\n' <<<"$list")
}
