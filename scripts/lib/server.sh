# shellcheck shell=bash
# Which server the scripts start, and its command-line client.

# server_program - prints $REDLOCK_SERVER_PROGRAM, or redis-server, or valkey-server where only that is installed.
server_program() {
  if [ -n "${REDLOCK_SERVER_PROGRAM-}" ]; then
    printf '%s\n' "$REDLOCK_SERVER_PROGRAM"
  elif ! command -v redis-server >/dev/null && command -v valkey-server >/dev/null; then
    echo valkey-server
  else
    echo redis-server
  fi
}

# server_available - can it be run?
server_available() { command -v "$(server_program)" >/dev/null; }

# server_client - prints redis-cli, or valkey-cli where only that is installed, or fails: there is none.
server_client() {
  command -v redis-cli || command -v valkey-cli
}
