# shellcheck shell=bash
# Which Debian packages each purpose needs, and their installation. Source it, then e.g.: packages_install build test
#
# Installs only missing packages and never asks. REDLOCK_SKIP_PACKAGES=1 turns it off, for systems that have all of them.

packages_for() {
  case $1 in
    build) echo gcc libc6-dev cmake ninja-build libhiredis-dev libssl-dev libev-dev libinih-dev ;;
    test) echo git g++ clang libclang-rt-dev check liblua5.1-0-dev libsqlite3-dev sqlite3 libsubunit-dev valgrind binutils abigail-tools dpkg-dev file pkg-config mandoc redis-server redis-tools jq iproute2 iptables libuv1-dev libevent-dev libglib2.0-dev libasio-dev libboost-dev openssl python3-yaml systemd zsh fish ;;
    neighbour) echo nodejs npm ;;
    valkey) echo valkey-server valkey-tools ;; # Debian 13 and later
    package) echo build-essential debhelper dpkg-dev lintian blhc pkgconf ;;
    static) echo gcc make cmake ninja-build musl-tools dpkg-dev debian-archive-keyring ;;
    static-test) echo g++ ;;
    static-try) echo redis-server redis-tools openssl ;;
    room) echo debootstrap debian-archive-keyring git ;;
    coverage) echo gcovr ;;
    model) echo gcc libc6-dev spin ;;
    judge) echo golang-go ;;
    demo) echo redis-server redis-tools ;;
    walk) echo binutils redis-server redis-tools ;;
    bench) echo redis-server redis-tools gnuplot-nox strace valgrind ;;
    compose) echo docker.io docker-compose debootstrap ;;
    *)
      echo "packages_for: no purpose '$1'; there are build, test, neighbour, valkey, package, static, static-test, static-try, room, coverage, model, judge, demo, walk, bench and compose" >&2
      return 2
      ;;
  esac
}

packages_missing() {
  local purpose package list
  for purpose in "$@"; do
    list=$(packages_for "$purpose") || return
    for package in $list; do
      dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || echo "$package"
    done
  done | sort -u
}

# Prints how to become root without a question, or nothing when we are root.
packages_sudo() {
  if [ "$(id -u)" = 0 ]; then
    return 0
  fi
  if ! command -v sudo >/dev/null; then
    return 1
  fi
  # On a terminal a person can type the password; elsewhere a question would hang.
  if [ -t 0 ]; then echo sudo; else echo sudo -n; fi
}

packages_explain_other_system() {
  local purpose
  echo "This script installs packages with apt-get, which is not here. Install these by your system's means" >&2
  echo "(names as in Debian 12; elsewhere e.g. hiredis-devel, libev-devel, check-devel), then run it again with" >&2
  echo "REDLOCK_SKIP_PACKAGES=1:" >&2
  for purpose in "$@"; do
    echo "  $purpose: $(packages_for "$purpose")" >&2
  done
}

packages_install() {
  local missing sudo
  if [ "${REDLOCK_SKIP_PACKAGES:-0}" = 1 ]; then
    return 0
  fi
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    packages_explain_other_system "$@"
    return 1
  fi
  missing=$(packages_missing "$@") || return
  if [ -z "$missing" ]; then
    return 0
  fi
  # One name per word from here on.
  missing=$(echo "$missing" | tr '\n' ' ')
  if ! sudo=$(packages_sudo); then
    echo "Missing packages, and neither root nor sudo to install them. As root: apt-get install $missing" >&2
    return 1
  fi
  echo "Installing: $missing"
  case $missing in *redis-server*) echo "(Debian starts a Redis on port 6379 with that package; nothing here uses it.)" ;; esac
  # shellcheck disable=SC2086
  if ! $sudo apt-get -q update </dev/null ||
    ! $sudo env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install $missing </dev/null; then
    echo "Installing failed (see above). By hand, as root: apt-get update && apt-get install $missing" >&2
    return 1
  fi
}
