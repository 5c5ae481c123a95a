#!/usr/bin/env bash
# Fetches the packages of package-lock.json, and no others, into a directory of the build. Skipped (77) where there is no npm, or where
# npm cannot reach a registry.
#
# Usage: install.sh DIRECTORY
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
directory=$1
if ! command -v npm >/dev/null; then
  echo "skipped: there is no npm (Debian: apt-get install nodejs npm)"
  exit 77
fi

mkdir -p "$directory"
cd "$directory"
if cmp -s "$here/package-lock.json" installed.json; then
  exit 0
fi
rm -rf node_modules installed.json
cp "$here/package.json" "$here/package-lock.json" .
# 'npm ci' takes exactly what the lock file names, and refuses what differs from its hashes. Nothing of the packages is run here.
if ! npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier --cache "$PWD/cache" \
  --fetch-retries=1 --fetch-retry-mintimeout=1000 --fetch-timeout=20000 >log 2>&1; then
  cat log
  if grep -qE 'code (ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|EHOSTUNREACH|ENETUNREACH|ETIMEDOUT|ERR_SOCKET_TIMEOUT|E40[137]|E5[0-9][0-9])' log; then
    echo "skipped: npm cannot reach a registry"
    exit 77
  fi
  exit 1
fi
cp "$here/package-lock.json" installed.json
