#!/usr/bin/env bash
# systemd-analyze(1) accepts the units. Skipped (77) without it.
#
# Usage: units.sh DIRECTORY_OF_REDLOCK
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../../tests/support/script.sh"

command -v systemd-analyze >/dev/null || skip "there is no systemd-analyze; install systemd"
sed "s|/usr/bin/redlock|$1/redlock|" "$here/singleton-job.service" >"$work/singleton-job.service"
cp "$here/singleton-job.timer" "$work"

verify() { (cd "$work" && systemd-analyze verify --man=no ./singleton-job.service ./singleton-job.timer 2>&1) || true; }
faults() { verify | grep singleton-job || true; } # the lines on these units: some faults have no exit status

if verify | grep -qE '^Failed to (initialize|set up|setup|start) manager'; then
  skip "systemd-analyze cannot verify units on this system: $(verify)"
fi

no_faults faults
sed -i 's/^Type=/Typ=/' "$work/singleton-job.service"
sed -i 's/^OnCalendar=.*/OnCalendar=soon/' "$work/singleton-job.timer"
[ "$(faults | grep -cE "Unknown key|calendar")" -ge 2 ] || die "planted faults were not found: $(faults)"
echo "the units are accepted"
