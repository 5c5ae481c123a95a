# shellcheck shell=bash
# A bare Debian or Ubuntu system (a room) in a temporary directory, and commands run in it. Source it after packages.sh, then e.g.:
#
#   room_make trixie && room_inside apt-get -q update
#
# Each command runs in separate mount and process namespaces. When the command ends or is killed, the kernel ends all its descendants and
# removes its mounts, so that no interruption leaves one behind. The directory is removed when the sourcing script exits; the next run
# removes a directory that a killed script left. The network is this machine's.
#
# room_make sets: room, the directory of the system's files

room_releases="bookworm trixie noble" # what the scripts were tried on; packages.sh names their packages
room_arch=$(dpkg --print-architecture 2>/dev/null || true)
room_parent=${TMPDIR:-/var/tmp}
room_cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/redlock
room=
room_home=
room_child=

room_say() { echo "${0##*/}: $*" >&2; }

room_known() { # RELEASE
  case " $room_releases " in
    *" $1 "*) return 0 ;;
  esac
  room_say "'$1' is not a release that can be made here; there are: $room_releases"
  return 2
}

# room_isolated COMMAND...: with the signals of a foreground command, although bash runs it in the background so that traps run at once.
room_isolated() {
  local status=0
  env --default-signal=INT,QUIT setpriv --pdeathsig KILL \
    unshare --mount --pid --fork --kill-child=KILL --mount-proc "$@" <&0 &
  room_child=$!
  wait "$room_child" || status=$?
  room_child=
  return "$status"
}

room_leave() {
  if [ -n "$room_child" ]; then
    kill -KILL "$room_child" 2>/dev/null || true
    wait "$room_child" 2>/dev/null || true
  fi
  [ -z "$room_home" ] || rm -rf --one-file-system "$room_home"
}

# A system whose maker lives is locked. What is left of an earlier boot or of a killed script is not, and nothing is mounted in it.
room_remove_abandoned() {
  local directory descriptor
  for directory in "$room_parent"/redlock-room.*; do
    [ -d "$directory" ] && [ ! -L "$directory" ] && [ -O "$directory" ] || continue
    exec {descriptor}<"$directory"
    if flock --nonblock "$descriptor"; then
      room_say "removing $directory, which an interrupted run left"
      rm -rf --one-file-system "$directory"
    fi
    exec {descriptor}<&-
  done
}

room_origin() { # RELEASE
  case $1 in
    noble) echo Ubuntu ;;
    *) echo Debian ;;
  esac
}

# The mirror of the release's distribution that apt uses here. Empty where apt uses none: debootstrap then takes Debian's own.
room_mirror() { # RELEASE
  local origin mirror
  origin=$(room_origin "$1")
  # shellcheck disable=SC2016
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Origin: $origin" "Label: $origin" 2>/dev/null | sort -u | head -n 1 || true)
  [ -n "$mirror" ] || [ "$origin" != Ubuntu ] || mirror=http://archive.ubuntu.com/ubuntu
  echo "$mirror"
}

# room_debootstrap RELEASE MIRROR: Debian 12's debootstrap knows no noble, which is made as jammy is. Where Ubuntu's keyring is not
# installed, debootstrap cannot check who signed its packages: enough for a system that lives for one test.
room_debootstrap() {
  local script=/usr/share/debootstrap/scripts/$1
  case $(room_origin "$1") in
    Ubuntu)
      [ -e "$script" ] || script=${script%/*}/jammy
      room_isolated debootstrap --variant=minbase --components=main,universe "$1" "$room" "$2" "$script"
      ;;
    *) room_isolated debootstrap --variant=minbase "$1" "$room" ${2:+"$2"} ;;
  esac
}

# Files of the base system, made by debootstrap or today: packages change.
room_unpack_base() { # RELEASE
  local mirror key tarball log=$room_home/log
  mirror=$(room_mirror "$1")
  key=$(printf '%s' "$mirror" | cksum | cut -d ' ' -f 1)
  tarball=$room_cache/room-$1-$room_arch-$key-$(date -u +%Y%m%d).tar
  if [ -f "$tarball" ] && [ -O "$tarball" ] && tar -x --numeric-owner -f "$tarball" -C "$room"; then
    return 0
  fi
  rm -rf --one-file-system "$room"
  mkdir "$room"
  room_say "making a bare $1 with debootstrap${mirror:+ from $mirror} ..."
  if ! room_debootstrap "$1" "$mirror" >"$log" 2>&1 </dev/null; then
    tail -n 20 "$log" >&2
    room_say "debootstrap could not make $1 (its last words are above). Does 'apt-get update' work here, and does the mirror carry $1?"
    return 1
  fi
  # An unwritable cache only costs time.
  if mkdir -p "$room_cache" 2>/dev/null && tar -c --numeric-owner -f "$tarball.$$" -C "$room" . 2>/dev/null; then
    rm -f "$room_cache/room-$1-$room_arch-"*.tar
    mv "$tarball.$$" "$tarball"
  else
    rm -f "$tarball.$$"
  fi
}

# room_copy FILE...: to the same path in the room; a symbolic link becomes the file behind it.
room_copy() {
  local file
  for file in "$@"; do
    [ -f "$file" ] || continue
    mkdir -p "$room/$(dirname "$file")"
    cp -pL "$file" "$room/$file"
  done
}

# Prints the variables by which programs reach the network, as NAME=VALUE.
room_network_environment() {
  env -0 | while IFS= read -r -d '' word; do
    case $word in
      *$'\n'*) ;;
      http_proxy=* | https_proxy=* | ftp_proxy=* | all_proxy=* | no_proxy=*) echo "$word" ;;
      HTTP_PROXY=* | HTTPS_PROXY=* | FTP_PROXY=* | ALL_PROXY=* | NO_PROXY=*) echo "$word" ;;
      SSL_CERT_FILE=* | SSL_CERT_DIR=* | CURL_CA_BUNDLE=* | GIT_SSL_CAINFO=* | NODE_EXTRA_CA_CERTS=*) echo "$word" ;;
      npm_config_* | NPM_CONFIG_*) echo "$word" ;;
    esac
  done
}

# Programs in the room must reach the mirror and the registry as they do here: names, certificates, proxies, the settings of apt and npm.
room_copy_settings() {
  local word words certificates=/usr/local/share/ca-certificates
  room_copy /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt
  [ ! -d "$certificates" ] || cp -rL "$certificates" "$room/usr/local/share/"
  apt-config dump | grep -E '^Acquire::(https?|ftp|Check-|Retries|ForceIP)' >"$room/etc/apt/apt.conf.d/99room" || true
  room_copy /etc/apt/auth.conf /etc/apt/auth.conf.d/*
  # The path of npm's system-wide file differs between distributions; root's own file is read everywhere.
  for word in "$(npm config get globalconfig 2>/dev/null)" "${HOME:-/root}/.npmrc"; do
    [ ! -f "$word" ] || (umask 077 && cat "$word" && echo) >>"$room/root/.npmrc"
  done
  mapfile -t room_environment < <(room_network_environment)
  # The files that these settings name, e.g. cafile=/etc/ssl/our-ca.pem
  words=$(printf '%s\n' "${room_environment[@]}"; cat "$room/etc/apt/apt.conf.d/99room" "$room/root/.npmrc" 2>/dev/null || true)
  while read -r word; do
    room_copy "$word"
  done < <(grep -oE '/[A-Za-z0-9_./+-]+' <<<"$words")
}

# room_make RELEASE: status 1 with the reason when no system can be made, 2 for an unknown release.
room_make() {
  room_known "$1" || return
  if [ "$(id -u)" != 0 ]; then
    room_say "a system of its own can only be made as root: try sudo"
    return 1
  fi
  room_remove_abandoned
  packages_install room || return 1
  if ! unshare --mount --pid --fork --mount-proc true; then
    room_say "this system does not let root make namespaces (a container?): run it on the host, or in a container with CAP_SYS_ADMIN"
    return 1
  fi
  trap room_leave EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  trap 'exit 129' HUP
  room_home=$(mktemp -d "$room_parent/redlock-room.XXXXXX") || return 1
  exec {room_lock}<"$room_home"
  flock --nonblock "$room_lock" || return 1
  room=$room_home/system
  mkdir "$room"
  room_unpack_base "$1" && room_copy_settings
}

# room_inside COMMAND...: as root, with a login's environment.
room_inside() {
  # 'ip netns' wants / to be a mount point. bash stays as process 1, to reap orphans. The terminals are separate from this machine's.
  # shellcheck disable=SC2016
  room_isolated bash -ec '
    room=$1
    shift
    mount --bind "$room" "$room"
    cd "$room"
    mount -t proc proc proc
    mount -t sysfs sysfs sys
    mount -t tmpfs -o mode=1777 shm dev/shm
    mount -t devpts -o newinstance,ptmxmode=0666,mode=0620,gid=5 devpts dev/pts
    status=0
    chroot . "$@" || status=$?
    exit "$status"' room "$room" /usr/bin/env -i \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root USER=root LOGNAME=root SHELL=/bin/bash \
    TERM="${TERM:-dumb}" ${CI:+CI="$CI"} DEBIAN_FRONTEND=noninteractive "${room_environment[@]}" "$@"
}
