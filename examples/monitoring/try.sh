#!/usr/bin/env bash
# Scrapes the example, and checks the rules and the dashboard against the metrics. Then a node is killed, and the metric
# of RedlockNodeOut shows it; then a majority is out, and the metric of RedlockAcquiresFail shows it.
#
# Usage: try.sh PROGRAM DOCUMENT      needs REDLOCK_NODES and REDLOCK_NODE_CONTROL
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../../tests/support/script.sh"

program=
clean_up() { [ -z "$program" ] || kill -KILL "$program" 2>/dev/null || true; }

"$1" 0 >"$work/address" &
program=$!
disown
wait_for "an address" test -s "$work/address"
port=$(sed -nE 's|^http://127.0.0.1:([0-9]+)/metrics$|\1|p' "$work/address")
[ -n "$port" ] || die "the example does not listen"

scrape() { # LINE: whether the metrics have it; a regular expression
  exec 3<>"/dev/tcp/127.0.0.1/$port"
  printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3
  sed '1,/^\r$/d' <&3 >"$work/metrics"
  exec 3>&-
  grep -q "^$1$" "$work/metrics"
}

wait_for "the scrapes acquire a lock" scrape 'redlock_acquires_total{status="OK"} [1-9].*'
python3 "$here/check.py" "$work/metrics" "$here/rules.yml" "$here/dashboard.json" "$2"
if command -v promtool >/dev/null; then
  promtool check rules "$here/rules.yml"
  (cd "$here" && promtool test rules rules_test.yml)
  promtool check metrics <"$work/metrics"
else
  echo "promtool is not installed (Debian: prometheus): the rules' syntax is not checked"
fi

node kill 1
wait_for "a node is unusable" scrape "redlock_node_usable{node=\"${REDLOCK_NODES%%,*}\"} 0"
node kill 2
wait_for "an acquire fails" scrape 'redlock_acquires_total{status="NO_QUORUM"} [1-9].*'
echo "VERDICT: the metrics show the killed node, and the outage"
