#!/usr/bin/env bash
# Circles of calls between the files of src: none between folders; inside a folder no more files than the limit.
#
# Usage: circles.sh NM LIMIT OBJECT...          LIMIT: the most files in one circle
set -euo pipefail

nm=$1
limit=$2
shift 2

# Which file defines each function, then who calls whom, then everything that each file reaches.
"$nm" -A "$@" | awk -v limit="$limit" '
  function name_of(object) {
    sub(/.*\.dir\//, "", object)
    sub(/\.o:.*/, "", object)
    return object
  }
  { file = name_of($0); symbol = $NF; type = $(NF - 1) }
  type == "T" { definer[symbol] = file; files[file] }
  type == "U" { calls[file, ++count[file]] = symbol; files[file] }
  END {
    for (file in files)
      for (i = 1; i <= count[file]; i++)
        if (calls[file, i] in definer && definer[calls[file, i]] != file) reaches[file, definer[calls[file, i]]]
    for (middle in files)
      for (from in files)
        if ((from, middle) in reaches)
          for (to in files)
            if ((middle, to) in reaches) reaches[from, to]
    for (file in files) {
      if (file in listed) continue
      size = 0; members = ""; crosses = 0
      for (other in files)
        if (other == file || (file, other) in reaches && (other, file) in reaches) {
          listed[other]; size++; members = members " " other
          folder = other; sub(/\/[^\/]*$/, "", folder)
          if (size > 1 && folder != last) crosses = 1
          last = folder
        }
      if (crosses) { print "files of several folders call each other in a circle:" members; bad = 1 }
      else if (size > limit) { print size " files call each other in a circle, and not " limit " at most:" members; bad = 1 }
    }
    exit bad
  }'
