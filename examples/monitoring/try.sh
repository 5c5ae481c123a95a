#!/usr/bin/env bash
# Scrapes the example, and checks the rules and the dashboard against the metrics. Then a node is killed, and the metric
# of RedlockNodeOut shows it.
#
# Usage: try.sh PROGRAM DOCUMENT      needs REDLOCK_NODES and REDLOCK_NODE_CONTROL
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
program=
cleanup() {
  if [ -n "$program" ]; then
    kill -KILL "$program" 2>/dev/null || true
  fi
  rm -rf "$work"
}
trap cleanup EXIT

die() {
  echo "VERDICT: WRONG: $*"
  exit 1
}

"$1" 0 >"$work/address" &
program=$!
disown
for _ in $(seq 600); do
  if [ -s "$work/address" ]; then break; fi
  sleep 0.05
done
port=$(sed -nE 's|^http://127.0.0.1:([0-9]+)/metrics$|\1|p' "$work/address")
[ -n "$port" ] || die "the example does not listen"

scrape() {
  exec 3<>"/dev/tcp/127.0.0.1/$port"
  printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3
  sed '1,/^\r$/d' <&3
  exec 3>&-
}

for _ in $(seq 100); do
  scrape >"$work/metrics"
  if grep -q '^redlock_acquires_total{status="OK"} [1-9]' "$work/metrics"; then break; fi
  sleep 0.1
done
grep -q '^redlock_acquires_total{status="OK"} [1-9]' "$work/metrics" || die "the scrapes acquired no lock"
python3 "$here/check.py" "$work/metrics" "$here/rules.yml" "$here/dashboard.json" "$2"
if command -v promtool >/dev/null; then
  promtool check rules "$here/rules.yml"
  (cd "$here" && promtool test rules rules_test.yml)
  promtool check metrics <"$work/metrics"
else
  echo "promtool is not installed (Debian: prometheus): the rules' syntax is not checked"
fi

address=${REDLOCK_NODES%%,*}
# shellcheck disable=SC2086 # a command with its arguments
$REDLOCK_NODE_CONTROL kill 1
for _ in $(seq 300); do
  scrape >"$work/metrics"
  if grep -qF "redlock_node_usable{node=\"$address\"} 0" "$work/metrics"; then
    echo "VERDICT: the metrics show the killed node"
    exit 0
  fi
  sleep 0.1
done
die "redlock_node_usable of $address stays 1"
