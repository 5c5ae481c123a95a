#!/usr/bin/env bash
# Runs one fuzzer for a while. What it finds on its way stays beside the program; an input that breaks something is kept and named.
#
# Usage: fuzz_one.sh PROGRAM CORPUS_DIRECTORY SECONDS
set -euo pipefail

program=$1
corpus=$2
seconds=$3
name=${program##*/fuzz_}
found=${program%/*}/found/$name
mkdir -p "$found"

# A single input may take seconds under a loaded machine, and none may take more memory than a client ever should.
options=(-max_total_time="$seconds" -timeout=60 -rss_limit_mb=1024 -malloc_limit_mb=64 -print_final_stats=1 -verbosity=1
  -artifact_prefix="${program%/*}/found/$name-" -max_len=4096)
dictionary=$corpus.dict
[ ! -f "$dictionary" ] || options+=(-dict="$dictionary")

log=${program%/*}/found/$name.log
if "$program" "${options[@]}" "$found" "$corpus" >"$log" 2>&1; then
  awk -v name="$name" '
    /stat::number_of_executed_units/ { runs = $2 }
    /stat::average_exec_per_sec/ { rate = $2 }
    /cov: / { for (i = 1; i < NF; i++) { if ($i == "cov:") edges = $(i + 1); if ($i == "corp:") kept = $(i + 1) } }
    END { printf "%-12s %10d inputs  %7d a second  %6d edges  corpus %s\n", name, runs, rate, edges, kept }' "$log"
  exit 0
fi
tail -n 60 "$log"
echo "fuzz_$name: an input broke it. Again: $program $(ls -t "${program%/*}/found/$name"-* 2>/dev/null | head -n 1)"
exit 1
