#!/usr/bin/env bash
# Installs exactly the packages of package-lock.json into a directory of the build. Exits with 77 (skipped) if
# there is no npm, or if npm cannot reach a registry.
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
# 'npm ci' installs exactly the packages of the lock file and rejects any with another hash. No script of a package is
# executed here.
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
