#!/usr/bin/env bash
# Is every process of CMD's tree dead when the lock ends? Each trial has its own servers, and several trials run at once. The nodes are stopped, so that no
# renewal succeeds, and one of redlock's two processes is killed or stopped. CMD starts processes that ignore every signal they can, in the command's process
# group or outside it. The end of the lock is computed from the nodes' replies, not from redlock's output.
#
# Usage: trial_test.sh REDLOCK
#
# REDLOCK_TRIALS is the number of trials (default: each shape of the tree once). The smallest margin is printed. After FATES * SHAPES trials each fate has been
# combined with each shape. REDLOCK_CROWD is the size of the large tree.
# shellcheck disable=SC2016,SC2086 # other shells expand the variables; $servers are several words
set -euo pipefail

at_once=6
fates=('' 'KILL front' 'KILL holder' 'STOP holder' 'STOP front')
# The ways to start the tree.
shapes=(
  'sh -c "$TREE"'
  'timeout 60 sh -c "$TREE"'
  'setsid --wait sh -c "$TREE"'
  'set -m; sh -c "$TREE" & wait'
  '(setsid sh -c "$TREE" &); sleep 60'
  '"$R" run --ttl 1500ms --grace 200ms --timeout 300ms test:inner -- sh -c "$TREE"'
)
# Each process writes its PID. In the small tree each of four is the child of the one before; half of the large one have their own sessions.
member='sh -c "echo \$\$; exec sleep 300"'
small="trap '' TERM INT HUP QUIT USR1 USR2; f() { [ \$1 = 0 ] || f \$((\$1 - 1)) & exec $member; }; f 3"
large="trap '' TERM; for i in \$(seq \$CROWD); do S=; [ \$((i % 2)) = 0 ] || S=setsid; \$S $member & done; sleep 300"

# --- One trial, under `redlock local` ---

now_us() { # VARIABLE
  printf -v "$1" %s "${EPOCHREALTIME/[.,]/}"
}

exec {nothing}<> <(:)
pause() { # for a millisecond; sets LATE to the longest delay
  local before after
  now_us before
  read -rt 0.001 -u "$nothing" || true
  now_us after
  late=$((after - before - 1000 > late ? after - before - 1000 : late))
}

state() { # PID: sets STATE as proc(5) has it; X: there is no such process
  local stat=''
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null || true
  stat=${stat##*) }
  state=${stat%% *}
  state=${state:-X}
}

has_ended() { # PID
  state "$1"
  [[ $state = [ZX] ]]
}

read_waited() { # PID: sets WAITED: how long it, and before it one of redlock's processes that run, has waited for a processor
  local process ns most=0
  for process in $running "$1"; do
    ns=0
    { read -r _ ns _ <"/proc/$process/schedstat"; } 2>/dev/null || true
    most=$((process != $1 && ns > most ? ns : most))
  done
  waited=$(((most + ns) / 1000))
}

read_ends() { # Sets LATEST and EARLIEST: when the lock ends by the nodes, of which one may be behind
  local node before reply end
  latest=0 earliest=0
  for node in "${nodes[@]}"; do
    now_us before
    printf 'PTTL test:x\r\n' >&"$node"
    read -r reply <&"$node"
    end=$((before + 1000 * ${reply//[^0-9]/}))
    latest=$((end > latest ? end : latest))
    earliest=$((earliest == 0 || end < earliest ? end : earliest))
  done
}

repeat() { # The machine was so late that the trial shows nothing
  kill -CONT $servers 2>/dev/null
  exit 3
}

is_lost() {
  grep -q 'is lost\|no longer held' "$errors"
}

trial() { # TTL_MS MEMBERS FATE OPTION...: prints the margin in microseconds
  local ttl=$(($1 * 1000)) count=$2 signal process fate=$3 front holder server node output errors members=() nodes=() servers=''
  local end now last there waited_before=() first=0 late=0 status=0 expected=75
  shift 3
  read -r signal process <<<"$fate" || true
  for server in ${REDLOCK_NODES//,/ }; do
    exec {node}<>"/dev/tcp/${server/:/\/}"
    nodes+=("$node")
  done
  servers=$(tr ' ' '\n' <"/proc/$PPID/task/$PPID/children" | grep -vx $$)
  errors=$(mktemp)
  # shellcheck disable=SC2064 # now
  trap "rm '$errors'" EXIT
  exec {output}< <(exec "$R" run "$@" 2>"$errors")
  front=$!
  while [ ${#members[@]} -lt "$count" ]; do
    read -rt 60 -u "$output" member || repeat
    members+=("$member")
  done
  read -r holder _ <"/proc/$front/task/$front/children" || true # there is no end of line
  running="$front $holder"
  [ -z "$process" ] || running=${running/"${!process}"/}

  # Right after a renewal on all nodes, so that no other one precedes the fault: it comes no earlier than 0.23 * ttl.
  until read_ends && now_us now && ((now < earliest - ttl + ttl / 10)); do
    ! is_lost || repeat
    pause
  done
  kill -STOP $servers
  [ -z "$signal" ] || kill -"$signal" "${!process}"
  for server in $servers; do
    until state "$server" && [ "$state" = T ]; do pause; done
  done
  now_us now
  if is_lost || ((now > earliest - ttl + ttl / 5)); then repeat; fi
  end=$((latest - ttl / 100 - 2000))

  # The kernel ends a process only when nobody looks into its directory in /proc, and redlock's other process waits for that.
  for member in "${members[@]}"; do
    read_waited "$member"
    waited_before+=("$waited")
  done
  now_us last
  for ((late = 0; ; )); do
    now_us now
    while ((first < count)) && has_ended "${members[first]}"; do first=$((first + 1)); done
    ((first < count)) || break
    last=$now
    read_waited "${members[first]}"
    late=$((waited - waited_before[first] > late ? waited - waited_before[first] : late))
    pause
  done
  there=$last
  for member in "${members[@]}"; do
    while [ -z "$fate" ] && [ -e "/proc/$member" ]; do
      now_us there
      pause
    done
  done
  if ((last > end + late)); then
    echo "alive $((last - end)) us after the end of the lock; the machine was late by $late us; $(cat "$errors")" >&2
    exit 1
  fi
  ((last <= end)) || repeat
  [ "$fate" != 'STOP front' ] || kill -CONT "$front" # as its shell would do
  [ "$fate" != 'KILL front' ] || expected=137
  kill -CONT $servers # otherwise the release waits for them
  wait "$front" || status=$?
  until has_ended "$holder"; do pause; done
  # The walk over a large tree takes long, so SIGKILL begins early.
  if [ $status != $expected ] || { [ "$count" -gt 4 ] && ((there < end - 50000 - late)) && ! grep -qx ended <&"$output"; }; then
    echo "status $status, gone $((end - there)) us before the end; the machine was late by $late us; $(cat "$errors")" >&2
    exit 1
  fi
  echo $((end - last))
}

if [ "${2-}" = trial ]; then
  trial "${@:3}"
  exit
fi

# --- All of them ---

export R=$1 TREE CROWD=${REDLOCK_CROWD:-300}
trials=${REDLOCK_TRIALS:-${#shapes[@]}}
for variable in "${!REDLOCK@}"; do [ "$variable" = REDLOCK_SERVER_PROGRAM ] || unset "$variable"; done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

until_it_shows() { # NAME ARGUMENT...
  local status=3
  while [ $status = 3 ]; do
    status=0
    "$R" local -n 3 -- bash "$0" "$R" trial "${@:2}" >"$work/$1" || status=$?
  done
  [ $status = 0 ] || echo "trial $1: ${*:4:1}; ${*: -1}"
  return $status
}

for ((done = 0; done < trials; done += at_once)); do
  pids=() TREE=$small
  for ((i = done; i < done + at_once && i < trials; i++)); do
    shape=${shapes[i % ${#shapes[@]}]} fate=${fates[(i + i / ${#shapes[@]}) % ${#fates[@]}]}
    until_it_shows "$i" 1500 4 "$fate" --ttl 1500ms --grace 200ms --timeout 300ms test:x -- bash -c "$shape" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid"; done
done
echo "$trials trials; the last process died $(sort -n "$work"/* | head -n 1) us before the end of the lock at the latest"
TREE=$large
until_it_shows crowd 5000 "$CROWD" '' --ttl 5s --grace 2s --timeout 500ms --on-lost 'echo $REDLOCK_LOSS' test:x -- sh -c 'eval "$TREE"'
echo "$CROWD processes: the last one died $(cat "$work/crowd") us before the end of the lock"
