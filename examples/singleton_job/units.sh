#!/usr/bin/env bash
# systemd-analyze(1) accepts the units. Skipped (77) without it.
#
# Usage: units.sh DIRECTORY_OF_REDLOCK
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
command -v systemd-analyze >/dev/null || {
  echo "skipped: there is no systemd-analyze; install systemd" >&2
  exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed "s|/usr/bin/redlock|$1/redlock|" "$here/singleton-job.service" >"$work/singleton-job.service"
cp "$here/singleton-job.timer" "$work"

verify() { (cd "$work" && systemd-analyze verify --man=no ./singleton-job.service ./singleton-job.timer 2>&1) || true; }
faults() { verify | grep singleton-job || true; } # the lines on these units: some faults have no exit status

if verify | grep -qE '^Failed to (initialize|set up|setup|start) manager'; then
  echo "skipped: systemd-analyze cannot verify units on this system: $(verify)" >&2
  exit 77
fi

[ -z "$(faults)" ] || { faults; exit 1; }
sed -i 's/^Type=/Typ=/' "$work/singleton-job.service"
sed -i 's/^OnCalendar=.*/OnCalendar=soon/' "$work/singleton-job.timer"
[ "$(faults | grep -cE "Unknown key|calendar")" -ge 2 ] || {
  echo "units.sh: planted faults were not found:"
  faults
  exit 1
}
echo "the units are accepted"
